//! The turns of tasks, set by `lualib/lio/net/`: `stream.set_turn` and similar functions change the turns of a
//! connection; `stream.waiting` makes the native `recv` and `send`. Values that are not connections are ignored:
//! datagram sockets and listeners have turns as well, but only in Lua's tables.

use super::connection::Connection;
use super::recv::RECV;
use super::send::SEND;
use crate::lua::{Argument, Call, Closure, Fault};
use crate::modules::task::push_handle;
use crate::modules::timer::nanos;
use crate::stream::turns::{ReadTimeout, ReadTurn, Turns};
use crate::task::Tasks;

type Waiting = Closure<(Argument, Argument, Argument, Argument)>;

/// `stream.waiting(timers, calls)` returns `recv` and `send`. `timers`: a `lio.timer` queue, see `stream.limit`.
/// `calls` has Lua functions: `recv_queued` and `send_queued` are called with the arguments of a call while another
/// task has the turn, `send_rest` with the number of bytes that are sent as the second argument; `release(c)` ends a
/// turn to read.
pub(super) fn waiting(call: &mut Call<'_>) -> Result<(Waiting, Waiting), Fault> {
    let tasks = Tasks::of(call)?;
    tasks.allow_yield_across(RECV);
    tasks.allow_yield_across(SEND);
    let recv_queued = call.raw_field(2, "recv_queued")?;
    let release = call.raw_field(2, "release")?;
    let send_queued = call.raw_field(2, "send_queued")?;
    let send_rest = call.raw_field(2, "send_rest")?;
    let tasks = Argument(push_handle(call)?);
    let with = |function, one, two| {
        let (one, two) = (Argument(one), Argument(two));
        Closure(function, (tasks, one, two, Argument(1)))
    };
    Ok((with(RECV, recv_queued, release), with(SEND, send_queued, send_rest)))
}

/// `stream.book(x)`: records that Lua's tables have an entry for `x`.
pub(super) fn book(call: &mut Call<'_>) -> Result<(), Fault> {
    change(call, |_| {});
    Ok(())
}

/// `stream.set_turn(x, writing, taken)`: records whether a task in Lua's tables has the turn.
pub(super) fn set_turn(call: &mut Call<'_>) -> Result<(), Fault> {
    let (writing, taken) = (call.is_true(2), call.is_true(3));
    change(call, |turns| match (writing, taken) {
        (true, taken) => turns.is_writing = taken,
        (false, true) => turns.read_turn = ReadTurn::Lua,
        (false, false) => turns.read_turn = ReadTurn::Free,
    });
    Ok(())
}

/// `stream.has_turn(x)`: returns whether a native `recv` has the turn to read.
pub(super) fn has_turn(call: &mut Call<'_>) -> Result<bool, Fault> {
    let stream = call.as_object::<Connection>(1);
    Ok(stream.is_some_and(|stream| stream.turns.is_native()))
}

/// `stream.queue_up(x)`: records that other tasks queue for the turn to read. No effect unless a native `recv` has it.
pub(super) fn queue_up(call: &mut Call<'_>) -> Result<(), Fault> {
    if has_turn(call)? {
        change(call, |turns| turns.read_turn = ReadTurn::NativeQueued);
    }
    Ok(())
}

/// `stream.limit(x, seconds, timer)`: sets the longest wait for reading, and the timer for it, whose value is `x`; nil:
/// no limit.
pub(super) fn limit(call: &mut Call<'_>) -> Result<(), Fault> {
    let limit = match call.is_none(2) {
        true => None,
        false => Some(ReadTimeout { nanos: nanos(call, 2)?, timer: call.integer(3)? as u64 }),
    };
    change(call, |turns| turns.recv_timeout = limit);
    Ok(())
}

/// Changes the turns of the value at 1, for which Lua's tables have, or had, an entry.
fn change(call: &mut Call<'_>, change: impl FnOnce(&mut Turns)) {
    if call.as_object::<Connection>(1).is_some()
        && let Ok(stream) = call.object_mut::<Connection>(1)
    {
        stream.turns.in_lua = true;
        change(&mut stream.turns);
    }
}
