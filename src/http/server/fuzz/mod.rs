//! The target of a fuzzer: the server as a whole. The input decides what clients send and receive, what handlers do and
//! what time it is; `world` checks the invariants after each step, and `audit` at the end.
//!
//! | file | topic |
//! |---|---|
//! | `world` | the server, its clients and its handlers |
//! | `handlers` | what handlers do |
//! | `audit` | the invariants |
//! | `pipe` | the transport |
//! | `naive` | a reader of requests and a reader of responses, which share no code with the server |
//! | `requests` | requests that clients send |
//! | `seeds` | inputs to begin with |

mod audit;
mod handlers;
mod naive;
mod pipe;
mod requests;
mod seeds;
mod world;

pub(crate) use seeds::seeds;

use super::*;
use crate::codec::fuzz_input::Input;
use crate::codec::http1::head::Limits;
use world::World;

const SECOND: u64 = 1_000_000_000;

/// The maximum number of steps of one input, and of bytes that clients send.
const MAX_STEPS: usize = 400;
const MAX_SENT: usize = 1 << 20;

/// The result of an input, for the tests of the seeds.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Reached {
    /// The number of dispatched requests, of complete responses of handlers, and of refusals by the server.
    pub(crate) requests: usize,
    pub(crate) responses: usize,
    pub(crate) refusals: usize,
    /// The number of resumed waits, and of connections that were detached.
    pub(crate) resumed: usize,
    pub(crate) detached: usize,
}

/// Runs the server with an input: its settings, the plans of its handlers, then steps.
pub(crate) fn machine(data: &[u8]) -> Reached {
    let mut input = Input(data);
    let flags = input.byte();
    let mut settings = Settings::default();
    if flags & 1 != 0 {
        settings.head = Limits { request_line: 60, headers: 200, fields: 6 };
    }
    if flags & 2 != 0 {
        settings.requests = Some(3);
    }
    if flags & 4 != 0 {
        settings.connections = 2;
    }
    // Connections keep bytes that were read, like TLS, and return a few at a time.
    let portion = if flags & 8 != 0 { 1 + usize::from(flags >> 4) * 20 } else { 0 };
    let plans = input.sizes().iter().map(|plan| *plan as u8).collect();
    let mut world = World::new(settings, plans, portion);
    for _ in 0..MAX_STEPS {
        if input.0.is_empty() {
            break;
        }
        step(&mut world, &mut input);
        world.check_budget();
    }
    world.finish();
    world.reached
}

/// Does one step. Its first byte: the kind, the client, and whether the server gets no turn after it.
fn step(world: &mut World, input: &mut Input<'_>) {
    let head = input.byte();
    let number = usize::from(head >> 4 & 3);
    let client = world.client(number);
    match head & 15 {
        0 => {
            let count = usize::from(input.byte());
            world.deliver(client, input.bytes(count), false);
        }
        1 | 2 => {
            let (kind, size) = (input.byte(), usize::from(input.byte()));
            let (bytes, is_valid) = requests::of(kind, size);
            let repeats = if head & 15 == 2 { usize::from(input.byte()) } else { 1 };
            for _ in 0..repeats {
                world.deliver(client, &bytes, is_valid);
            }
        }
        3 => world.take(client, input.byte()),
        4 => world.clients[client].wire.set_piece(usize::from(input.byte()) * 8),
        5 => world.clients[client].wire.stall(usize::from(input.byte() % 8)),
        6 => world.end(client),
        7 => world.reset(client),
        8 => {
            let times = [1, SECOND / 2, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, 61 * SECOND];
            world.advance(times[usize::from(input.byte() % 8)]);
        }
        9 | 10 => {
            let (which, action) = (input.byte(), input.byte());
            world.act(which.into(), action);
        }
        11 => world.control(input.byte()),
        12 => world.use_ended(input.byte()),
        13 => world.unwatch(client),
        14 => {
            let count = usize::from(input.byte()) * 256;
            world.deliver(client, &vec![b'a'; count], false);
        }
        _ => world.reconnect(number),
    }
    if head & 0x40 == 0 {
        world.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..60 {
            for first in [0, 0xff, 0x80, 0x55] {
                machine(&vec![first; length]);
            }
        }
    }

    #[test]
    fn a_handler_may_take_over_a_connection_after_it_has_read_the_body() {
        let reached = machine(b"\x00\x01\x05\x01\x09\x04\x00\x05\x04\x00\x05abc(ef:\x00abc(ef:\x00GT\x01\x09\xc8");
        assert_eq!((reached.detached, reached.refusals), (1, 0));
    }
}
