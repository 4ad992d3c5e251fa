//! What `lualib/lio/net/` says of turns: `stream.set_turn` and its like change what `stream/turns.rs` has of a connection;
//! `stream.waiting` makes the `recv` and `send` of `transfer.rs`. A value that is no connection is ignored: datagram sockets
//! and listeners have turns as well, in Lua's books alone.

use super::connection::Connection;
use super::transfer::{RECV, SEND};
use crate::lua::{Argument, Call, Closure, Fault};
use crate::modules::task::push_handle;
use crate::modules::timer::nanos;
use crate::stream::turns::{Alarm, Reading, Turns};
use crate::task::Tasks;

type Waiting = Closure<(Argument, Argument, Argument, Argument)>;

/// `stream.waiting(timers, calls)` returns `recv` and `send`. `timers`: a `lio.timer` queue, see `stream.limit`. `calls`
/// has Lua functions: `recv_queued` and `send_queued` are called with the arguments of a call while another task has the
/// turn, `send_rest` with the number of bytes that are sent as the second argument; `release(c)` ends a turn to read.
pub(super) fn waiting(call: &mut Call<'_>) -> Result<(Waiting, Waiting), Fault> {
    let tasks = Tasks::of(call)?;
    tasks.let_through(RECV);
    tasks.let_through(SEND);
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

/// Changes the turns of the value at 1, of which Lua's books have, or had, an entry.
fn change(call: &mut Call<'_>, change: impl FnOnce(&mut Turns)) {
    if call.as_object::<Connection>(1).is_some()
        && let Ok(stream) = call.object_mut::<Connection>(1)
    {
        stream.turns.booked = true;
        change(&mut stream.turns);
    }
}

/// `stream.book(x)`: Lua's books have an entry for it.
pub(super) fn book(call: &mut Call<'_>) -> Result<(), Fault> {
    change(call, |_| {});
    Ok(())
}

/// `stream.set_turn(x, writing, taken)`: somebody has the turn by Lua's books, or nobody has it.
pub(super) fn set_turn(call: &mut Call<'_>) -> Result<(), Fault> {
    let (writing, taken) = (call.is_true(2), call.is_true(3));
    change(call, |turns| match (writing, taken) {
        (true, taken) => turns.writes = taken,
        (false, true) => turns.reading = Reading::Booked,
        (false, false) => turns.reading = Reading::Free,
    });
    Ok(())
}

/// `stream.has_turn(x)` → whether a `recv` of `transfer.rs` has the turn to read.
pub(super) fn has_turn(call: &mut Call<'_>) -> Result<bool, Fault> {
    let stream = call.as_object::<Connection>(1);
    Ok(stream.is_some_and(|stream| stream.turns.is_here()))
}

/// `stream.queue_up(x)`: others queue for the turn to read. No effect unless a `recv` of `transfer.rs` has it.
pub(super) fn queue_up(call: &mut Call<'_>) -> Result<(), Fault> {
    if has_turn(call)? {
        change(call, |turns| turns.reading = Reading::HereQueued);
    }
    Ok(())
}

/// `stream.limit(x, seconds, timer)`: how long a wait for reading may last from now on, and the timer for that, whose
/// value is `x`; nil: for ever.
pub(super) fn limit(call: &mut Call<'_>) -> Result<(), Fault> {
    let limit = match call.is_none(2) {
        true => None,
        false => Some(Alarm { nanos: nanos(call, 2)?, timer: call.integer(3)? as u64 }),
    };
    change(call, |turns| turns.limit = limit);
    Ok(())
}
