//! `send` of a connection, and `try_send`, which does not wait.

use super::connection::{self, Connection};
use super::failure::{Code, Failed};
use super::queued::{queue, returned};
use super::tls::failure_of;
use crate::lua::{Argument, Call, Fault, Function, Next, Stack, results, then, upvalue};
use crate::stream::Stream;

/// Upvalue 3 of `send`: the Lua function that sends the rest. Upvalues 1 and 2: the tasks object, and the function that
/// queues a call.
const REST: i32 = upvalue(3);

/// The maximum number of strings of one `try_send` that are gathered on the stack.
const MAX_GATHERED: usize = 8;

/// `s:try_send(sent, data, …)`: sends the queue and the strings, of which `sent` bytes were sent before. Returns `true`
/// if the system has accepted everything; the new `sent` if it would block or other tasks must run first, with the
/// stream armed; or `nil, message, sent, code`.
pub(super) const TRY_SEND: Function = Function::new(try_send);

/// `c:send(data, …)`, as `net.send`: returns `true`, or `nil, message, sent, code`.
pub(super) const SEND: Function = Function::new(send);

results! {
    /// The result of a `send`.
    pub(super) enum SendReply {
        Done(bool),
        /// The number of bytes sent so far; the stream is armed.
        Part(i64),
        Failed(Failed<i64>),
    }
}

fn try_send(call: &mut Call<'_>) -> Result<SendReply, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let sent = stack.integer_in(2, 0..=i64::MAX, "sent")? as usize;
    send_strings(stream, stack, 3, sent).map_err(|fault| fault.shifted(-1))
}

fn send(call: &mut Call<'_>) -> Result<Next<SendReply>, Fault> {
    let (stream, stack) = connection::of_call(call, "send")?;
    if stream.holders.has_writer {
        return queue(call);
    }
    match send_strings(stream, stack, 2, 0).map_err(|fault| fault.in_call("send", 0))? {
        SendReply::Part(sent) => {
            let count = call.count();
            call.push(Argument(REST))?;
            call.push(Argument(1))?;
            call.push(sent)?;
            for index in 2..=count {
                call.push(Argument(index))?;
            }
            Ok(Next::call(count + 1, then(returned), 0))
        }
        sent => Ok(Next::returns(sent)),
    }
}

/// Sends the queue and the strings from argument `first` on, of which `sent` bytes were sent before. Argument numbers
/// in errors are those of `net.send`, where the first string is argument 2.
#[inline]
fn send_strings(stream: &mut Stream, stack: &Stack, first: i32, mut sent: usize) -> Result<SendReply, Fault> {
    let last = stack.count();
    let count = (last + 1 - first).max(0) as usize;
    let one: [&[u8]; 1];
    let mut few: [&[u8]; MAX_GATHERED];
    let many: Vec<&[u8]>;
    let pieces = if count == 1 {
        one = [stack.bytes(last)?];
        &one[..]
    } else if count <= MAX_GATHERED {
        few = [&[]; MAX_GATHERED];
        for (piece, index) in few.iter_mut().zip(first..=last) {
            *piece = stack.bytes(index)?;
        }
        &few[..count]
    } else {
        many = (first..=last).map(|index| stack.bytes(index)).collect::<Result<_, _>>()?;
        &many[..]
    };
    if stream.is_closed() {
        return Ok(SendReply::Failed(Failed::code(Code::Closed, sent as i64)));
    }
    // Without strings, the call only flushes the queue, and the caller does not necessarily call again.
    let begun = if sent == 0 && count > 0 { stream.begin_message() } else { Ok(true) };
    let done = match begun {
        Ok(true) => stream.send(pieces, &mut sent),
        other => other,
    };
    Ok(match done {
        Ok(true) => SendReply::Done(true),
        Ok(false) => SendReply::Part(sent as i64),
        Err(error) => SendReply::Failed(Failed::system(failure_of("send", &error), sent as i64)),
    })
}
