//! The first inputs of the fuzzer.

/// The steps of `super::step`.
fn request(client: u8, kind: u8, size: u8) -> Vec<u8> {
    vec![1 | client << 4, kind, size]
}
fn requests(client: u8, kind: u8, size: u8, count: u8) -> Vec<u8> {
    vec![2 | client << 4, kind, size, count]
}
fn bytes(client: u8, bytes: &[u8]) -> Vec<u8> {
    [&[client << 4, bytes.len() as u8][..], bytes].concat()
}
fn room(client: u8, count: u8) -> Vec<u8> {
    vec![3 | client << 4, count]
}
fn action(plan: u8, size: u8) -> Vec<u8> {
    vec![9, 0, plan | size << 4]
}
fn time(index: u8) -> Vec<u8> {
    vec![8, index]
}
const END: &[u8] = &[6];

/// The plans of `super::handlers::Plan`.
const RESPOND: u8 = 0;
const LATER: u8 = 1;
const LONG: u8 = 2;
const PIECES: u8 = 3;
const FILE: u8 = 4;
const WHOLE: u8 = 5;
const PIECE: u8 = 6;
const DETACH: u8 = 7;
const KILL: u8 = 8;
const CUT: u8 = 9;
const AWAIT_END: u8 = 10;
const FIELDS: u8 = 11;
const SHARED: u8 = 12;

fn input(flags: u8, plans: &[u8], steps: &[Vec<u8>]) -> Vec<u8> {
    [vec![flags, plans.len() as u8], plans.to_vec(), steps.concat()].concat()
}

/// Returns inputs to begin with.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let all_kinds = |first: u8, last: u8| -> Vec<Vec<u8>> {
        (first..=last).flat_map(|kind| [request(kind & 3, kind, 9), vec![15 | (kind & 3) << 4]]).collect()
    };
    vec![
        // One request; two clients by turns; many requests at once, to which the client listens late.
        input(0, &[RESPOND], &[request(0, 0, 0)]),
        input(0, &[LATER, RESPOND], &[request(0, 0, 0), request(1, 2, 0), action(RESPOND, 3), request(1, 7, 0)]),
        input(0, &[6 << 4, SHARED | 3 << 4], &[room(0, 0), requests(0, 0, 0, 100), room(0, 99), room(0, 255)]),
        // All kinds of requests, and all malformed ones.
        input(0, &[RESPOND], &all_kinds(0, 16)),
        input(0, &[RESPOND], &all_kinds(17, 23)),
        // Bodies: read as a whole, in pieces, discarded, too long, with `100 Continue`, refused.
        input(0, &[WHOLE], &[request(0, 15, 1), vec![14, 14], vec![14, 2], action(WHOLE, 0), action(RESPOND, 0)]),
        input(0, &[PIECE], &[request(0, 5, 40), action(PIECE, 0), action(PIECE, 0), action(RESPOND, 0)]),
        input(0, &[RESPOND], &[requests(0, 3, 200, 5), requests(0, 4, 30, 5), request(0, 15, 200), vec![14, 255]]),
        input(0, &[WHOLE], &[request(0, 9, 4), bytes(0, b"abcde"), action(RESPOND, 0), request(0, 9, 200)]),
        input(0, &[WHOLE | 4 << 4], &[request(0, 3, 200), action(RESPOND, 0), request(1, 20, 0), action(PIECE, 0)]),
        // Chunked bodies that exceed a first limit, or are incomplete, and are then read in another way.
        input(0, &[WHOLE | 4 << 4], &[request(0, 4, 40), action(WHOLE, 0), action(RESPOND, 0)]),
        input(
            0,
            &[WHOLE],
            &[
                bytes(0, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
                action(WHOLE, 0),
                bytes(0, b"2\r\nde\r\n"),
                action(PIECE, 0),
                action(PIECE, 0),
                bytes(0, b"0\r\n\r\n"),
                action(RESPOND, 0),
            ],
        ),
        // A body that a connection returns in more portions than it may read in one turn.
        input(8, &[WHOLE], &[request(0, 3, 200), action(RESPOND, 0), requests(0, 0, 0, 9)]),
        // Pieces, with and without a length; the client does not receive; the connection is cut.
        input(
            0,
            &[PIECES],
            &[request(0, 0, 0), room(0, 0), action(LONG, 6), action(LONG, 6), room(0, 255), action(RESPOND, 1)],
        ),
        input(
            0,
            &[PIECES],
            &[request(0, 0, 0), room(0, 0), action(LONG, 6), action(LATER, 8), room(0, 255), action(RESPOND, 1)],
        ),
        input(0, &[PIECES], &[request(0, 6, 0), action(LONG, 3), action(CUT, 0), request(1, 0, 0), action(RESPOND, 0)]),
        input(0, &[FIELDS | 1 << 4], &[request(0, 0, 0), action(PIECES, 0), action(LONG, 0), action(LONG, 0)]),
        // A long body, a file, a short file.
        input(0, &[LONG | 7 << 4], &[room(0, 0), request(0, 0, 0), vec![4, 255], room(0, 255), request(0, 0, 0)]),
        input(0, &[FILE | 7 << 4, FILE | 11 << 4], &[room(0, 1), request(0, 0, 0), room(0, 255), request(0, 0, 0)]),
        // Connections that are taken over, killed, ended; calls for requests that have ended.
        input(0, &[DETACH], &[bytes(0, b"GET / HTTP/1.1\r\nHost: a\r\n\r\nmore"), vec![12, 0]]),
        input(
            0,
            &[KILL, LATER, CUT],
            &[request(0, 0, 0), request(1, 0, 0), request(2, 0, 0), vec![12, 1], action(KILL, 0)],
        ),
        // Deadlines: of a head, of a body, of a client that does not receive, of an idle connection.
        input(0, &[RESPOND], &[bytes(0, b"GET / HT"), time(5)]),
        input(0, &[WHOLE], &[request(0, 15, 3), time(5)]),
        input(0, &[LONG | 7 << 4], &[room(0, 0), request(0, 0, 0), time(6)]),
        input(0, &[6 << 4], &[room(0, 0), request(0, 0, 0), time(6)]),
        input(0, &[RESPOND], &[request(0, 0, 0), time(7), vec![15], request(0, 0, 0), time(4), vec![11, 3]]),
        // The end of a client, a reset, a transport without events.
        input(0, &[AWAIT_END], &[request(0, 0, 0), END.to_vec(), action(RESPOND, 0)]),
        input(0, &[LATER], &[request(0, 0, 0), vec![7], action(RESPOND, 0), request(1, 0, 0), vec![13 | 16]]),
        // Stopping, draining and closing; limits.
        input(
            0,
            &[RESPOND, LATER],
            &[request(0, 0, 0), request(1, 0, 0), vec![11, 4], vec![11, 0], request(0, 0, 0), vec![11, 1]],
        ),
        input(0, &[AWAIT_END], &[request(0, 0, 0), vec![11, 4], vec![11, 2]]),
        input(7, &[RESPOND], &[requests(0, 0, 0, 5), request(1, 1, 0), bytes(2, &[b'a'; 90]), vec![11, 5]]),
        // Calls that would block.
        input(0, &[6 << 4], &[vec![5, 3], vec![4, 1], requests(0, 0, 0, 3)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{Reached, machine};
    use super::*;

    #[test]
    fn the_seeds_reach_requests_responses_and_refusals() {
        let all: Vec<Reached> = seeds().iter().map(|seed| machine(seed)).collect();
        let shown = |one: &Reached| {
            [one.requests, one.responses, one.refusals, one.resumed, one.detached]
                .map(|count| count.to_string())
                .join(" ")
        };
        let all: Vec<String> = all.iter().map(shown).collect();
        assert_eq!(
            all,
            [
                "1 1 0 0 0",
                "3 3 0 0 0",
                "100 100 0 0 0",
                "17 17 0 0 0",
                "1 1 6 0 0",
                "1 1 1 1 0",
                "1 1 0 0 0",
                "11 11 0 0 0",
                "2 2 0 1 0",
                "2 2 0 0 0",
                "1 1 0 0 0",
                "1 1 0 1 0",
                "10 10 0 0 0",
                "1 1 0 1 0",
                "1 1 0 0 0",
                "2 1 0 0 0",
                "1 1 0 0 0",
                "2 2 0 295 0",
                "2 2 0 0 0",
                "1 0 0 0 1",
                "3 0 0 0 0",
                "0 0 1 0 0",
                "1 1 0 1 0",
                "1 0 0 1 0",
                "1 1 0 0 0",
                "2 2 0 0 0",
                "1 1 0 1 0",
                "2 2 0 0 0",
                "3 3 0 0 0",
                "1 0 0 1 0",
                "4 4 1 0 0",
                "3 3 0 0 0",
            ]
        );
    }
}
