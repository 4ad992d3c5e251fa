//! The holders of connections, set by `lualib/lio/net/`: `stream.set_holder` and similar functions record which tasks
//! hold a connection; `stream.native_calls` creates the native `recv` and `send`. Values that are not connections are
//! ignored: datagram sockets and listeners have holders as well, but only in the wait queues of
//! `lualib/lio/net/wait_queue.lua`.

use super::connection::Connection;
use super::recv::RECV;
use super::send::SEND;
use crate::lua::{Argument, Call, Closure, Fault};
use crate::modules::task::push_tasks_object;
use crate::modules::timer::nanos;
use crate::stream::holders::{Holders, ReadTimeout, Reader};
use crate::task::Tasks;

type NativeCall = Closure<(Argument, Argument, Argument, Argument)>;

/// `stream.native_calls(timers, calls)`: returns `recv` and `send`. `timers` is a `lio.timer` queue; see
/// `stream.set_recv_timeout`. `calls` is a table of Lua functions. `recv_queued` and `send_queued` get the arguments of
/// a call that is made while another task holds the connection. `send_rest` gets the number of sent bytes as its second
/// argument. `release(c)` ends the hold for reading.
pub(super) fn native_calls(call: &mut Call<'_>) -> Result<(NativeCall, NativeCall), Fault> {
    let tasks = Tasks::of(call)?;
    tasks.allow_yield_across(RECV);
    tasks.allow_yield_across(SEND);
    let recv_queued = call.raw_field(2, "recv_queued")?;
    let release = call.raw_field(2, "release")?;
    let send_queued = call.raw_field(2, "send_queued")?;
    let send_rest = call.raw_field(2, "send_rest")?;
    let tasks = Argument(push_tasks_object(call)?);
    let with = |function, one, two| {
        let (one, two) = (Argument(one), Argument(two));
        Closure(function, (tasks, one, two, Argument(1)))
    };
    Ok((with(RECV, recv_queued, release), with(SEND, send_queued, send_rest)))
}

/// `stream.set_holder(x, is_writing, is_held)`: records whether a task in the wait queues of
/// `lualib/lio/net/wait_queue.lua` holds `x`, for writing or for reading.
pub(super) fn set_holder(call: &mut Call<'_>) -> Result<(), Fault> {
    let (is_writing, is_held) = (call.is_true(2), call.is_true(3));
    change(call, |holders| match (is_writing, is_held) {
        (true, is_held) => holders.has_writer = is_held,
        (false, true) => holders.reader = Reader::Lua,
        (false, false) => holders.reader = Reader::None,
    });
    Ok(())
}

/// `stream.has_native_reader(x)`: returns whether a native `recv` holds `x` for reading.
pub(super) fn has_native_reader(call: &mut Call<'_>) -> Result<bool, Fault> {
    let stream = call.as_object::<Connection>(1);
    Ok(stream.is_some_and(|stream| stream.holders.has_native_reader()))
}

/// `stream.set_reader_queued(x)`: records that other tasks queue behind the task that holds `x` for reading. Does
/// nothing unless the holder is in a native `recv`.
pub(super) fn set_reader_queued(call: &mut Call<'_>) -> Result<(), Fault> {
    if has_native_reader(call)? {
        change(call, |holders| holders.reader = Reader::NativeQueued);
    }
    Ok(())
}

/// `stream.set_recv_timeout(x, seconds, timer)`: sets the time limit of a wait in `recv` (nil: no limit), and the timer
/// that ends the wait. The value of the timer must be `x`.
pub(super) fn set_recv_timeout(call: &mut Call<'_>) -> Result<(), Fault> {
    let limit = match call.is_none(2) {
        true => None,
        false => Some(ReadTimeout { nanos: nanos(call, 2)?, timer: call.integer(3)? as u64 }),
    };
    change(call, |holders| holders.recv_timeout = limit);
    Ok(())
}

/// Changes the holders of the value at index 1 if the value is a connection.
fn change(call: &mut Call<'_>, change: impl FnOnce(&mut Holders)) {
    if call.as_object::<Connection>(1).is_some()
        && let Ok(stream) = call.object_mut::<Connection>(1)
    {
        change(&mut stream.holders);
    }
}
