//! The life of a connection between its requests: it waits, its time is over, it leaves. What is rare is done by
//! tools of lualib/lio/web/connection.lua, which get the connection's table; that is made when it is first asked for.
//!
//! Invariant: a connection that waits has a timer set to its end or earlier; one that has left has none.

use super::connection::{Connection, KEEPER, SELF, STREAM, Wait, check, check_at, push_served};
use super::keeper::{self, ADOPT, KIND, LIVE, TIMERS};
use super::step::push_refusal;
use super::tools as tool;
use crate::codec::http1::status::Reject;
use crate::event::clock::monotonic;
use crate::raw::timer;
use crate::raw::{guard, settle};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// The connection at the absolute index `at` has no request: it waits for the loop's events, and not for ever. `clock`
/// is about what time it is.
///
/// # Safety
/// `state` has 8 free stack slots; no reference into the connection is held, as Lua code may run.
pub(super) unsafe fn rest(
    state: *mut lua_State,
    at: c_int,
    connection: *mut Connection,
    what: Wait,
    clock: f64,
) {
    // SAFETY: the connection stays on the stack, and keeps its keeper.
    unsafe {
        let keeper = (*connection).keeper;
        let watched = (*connection).parts().1.transport.is_watched();
        // The system may refuse to tell of its events: nobody would ever hear of it.
        if !watched || what == Wait::Idle && (*keeper).settled {
            return end(state, at, connection);
        }
        let due = match what {
            Wait::Idle => clock + (*keeper).keep_alive_time,
            Wait::Partial => (*connection).waits_since(clock) + (*keeper).header_time,
            Wait::Unread => (*connection).waits_since(clock) + (*keeper).body_time,
            Wait::Blocked => clock + (*keeper).write_time,
        };
        ((*connection).busy, (*connection).waits) = (false, what);
        act_by(state, at, connection, due);
    }
}

/// Acts at `due` at the latest. The timer is moved only when it would fire too late; one that fires too early is set
/// again then, so a connection that goes from request to request costs no timer call.
unsafe fn act_by(state: *mut lua_State, at: c_int, connection: *mut Connection, due: f64) {
    // SAFETY: as for `rest`.
    unsafe {
        (*connection).due = due;
        if due >= (*connection).timer_due {
            return;
        }
        ffi::lua_getiuservalue(state, at, KEEPER);
        ffi::lua_getiuservalue(state, -1, TIMERS);
        if (*connection).timer == 0 {
            (*connection).timer = timer::create_timer(state, -1, at);
        }
        (*connection).timer_due = due;
        timer::set_timer_at(state, -1, (*connection).timer, due);
        ffi::lua_pop(state, 2);
    }
}

/// `x:on_timer()`: its timer has fired.
pub(super) unsafe extern "C-unwind" fn on_timer(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_settop(state, 1);
        let connection: *mut Connection = check(state);
        if (*connection).place == 0 {
            return 0;
        }
        (*connection).timer_due = f64::INFINITY;
        let now = monotonic();
        if (*connection).busy {
            let later = now + (*(*connection).keeper).keep_alive_time;
            act_by(state, 1, connection, later);
        } else if now < (*connection).due {
            act_by(state, 1, connection, (*connection).due);
        } else if (*connection).waits == Wait::Partial {
            (*connection).busy = true;
            push_tool(state, 1, tool::OVER);
            let reject = Reject::new(408, "the request comes in too slowly");
            let values = push_refusal(state, reject);
            ffi::lua_call(state, 1 + values, 0);
        } else {
            end(state, 1, connection);
        }
        0
    }
}

/// Takes the connection at the absolute index `at` out of the books of its keeper. Idempotent.
///
/// # Safety
/// As for [`rest`].
pub(super) unsafe fn leave(state: *mut lua_State, at: c_int, connection: *mut Connection) {
    // SAFETY: assigning nil to a place that exists does not raise.
    unsafe {
        let place = std::mem::take(&mut (*connection).place);
        if place == 0 {
            return;
        }
        let top = ffi::lua_gettop(state);
        let keeper = (*connection).keeper;
        ffi::lua_getiuservalue(state, at, KEEPER);
        ffi::lua_getiuservalue(state, top + 1, LIVE);
        ffi::lua_pushnil(state);
        ffi::lua_rawseti(state, -2, i64::from(place));
        settle(state, guard(|| Ok((*keeper).leave(place))));
        let timer = std::mem::take(&mut (*connection).timer);
        if timer != 0 {
            ffi::lua_getiuservalue(state, top + 1, TIMERS);
            timer::free_timer(state, top + 3, timer);
        }
        if std::mem::take(&mut (*keeper).awaited) {
            ffi::lua_settop(state, top + 1);
            keeper::call_tool(state, top + 1, tool::LEFT, 0);
        }
        ffi::lua_settop(state, top);
    }
}

/// `x:leave()`: the keeper forgets it.
pub(super) unsafe extern "C-unwind" fn leave_keeper(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_settop(state, 1);
        let connection: *mut Connection = check(state);
        leave(state, 1, connection);
        0
    }
}

/// Ends the connection at the absolute index `at`, which has no more than its bytes: no request is worked on.
///
/// # Safety
/// As for [`rest`].
pub(super) unsafe fn end(state: *mut lua_State, at: c_int, connection: *mut Connection) {
    // SAFETY: as for `rest`.
    unsafe {
        // Whatever comes now is nobody's.
        (*connection).busy = true;
        let served = (*connection).place != 0;
        leave(state, at, connection);
        // Lua code has run, maybe.
        if !(*connection).is_whole() {
            return;
        }
        let (_, stream) = (*connection).parts();
        if !stream.turns.has_books() {
            settle(state, guard(|| Ok(stream.close())));
            // Only once, whoever ends it twice.
            if served {
                keeper::keep_spare(state, at, (*connection).keeper);
            }
            return;
        }
        ffi::lua_getiuservalue(state, at, KEEPER);
        let keeper = ffi::lua_gettop(state);
        ffi::lua_getiuservalue(state, at, STREAM);
        keeper::call_tool(state, keeper, tool::CLOSE, 1);
        ffi::lua_settop(state, keeper - 1);
    }
}

/// Pushes a tool, and as its first argument the table of the connection at the absolute index `at`.
///
/// # Safety
/// `state` has 8 free stack slots; Lua code may run, and may raise.
unsafe fn push_tool(state: *mut lua_State, at: c_int, index: i64) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_getiuservalue(state, at, KEEPER);
        ffi::lua_getiuservalue(state, -1, keeper::TOOLS);
        ffi::lua_rawgeti(state, -1, index);
        ffi::lua_rotate(state, -3, 1);
        ffi::lua_pop(state, 2);
        push_table(state, at);
    }
}

/// Pushes the table of the connection at the absolute index `at`: `{ request, c = stream, x = exchange }`, where
/// the request is that of the last response that was made.
///
/// # Safety
/// As for [`push_tool`].
pub(super) unsafe fn push_table(state: *mut lua_State, at: c_int) {
    // SAFETY: plain stack work.
    unsafe {
        if ffi::lua_getiuservalue(state, at, SELF) == ffi::LUA_TTABLE {
            return;
        }
        ffi::lua_pop(state, 1);
        let top = ffi::lua_gettop(state);
        ffi::lua_createtable(state, 1, 4);
        ffi::lua_getiuservalue(state, at, STREAM);
        ffi::lua_pushvalue(state, -1);
        ffi::lua_setfield(state, top + 1, c"c".as_ptr());
        ffi::lua_pushvalue(state, at);
        ffi::lua_setfield(state, top + 1, c"x".as_ptr());
        ffi::lua_getiuservalue(state, at, KEEPER);
        if ffi::lua_getiuservalue(state, -1, ADOPT) == ffi::LUA_TFUNCTION {
            ffi::lua_pushvalue(state, top + 2);
            ffi::lua_call(state, 1, 0);
            ffi::lua_pushnil(state);
        }
        ffi::lua_getiuservalue(state, top + 3, KIND);
        ffi::lua_setmetatable(state, top + 1);
        ffi::lua_settop(state, top + 1);
        ffi::lua_pushvalue(state, -1);
        ffi::lua_setiuservalue(state, at, SELF);
    }
}

/// Pushes the table for a request of the connection at the absolute index `at` that was made in the `life` of it: that of
/// a closed connection when it stands for another one by now.
///
/// # Safety
/// As for [`push_tool`].
pub(super) unsafe fn push_table_of(state: *mut lua_State, at: c_int, life: u32) {
    // SAFETY: plain stack work.
    unsafe {
        let connection = check_at(state, at);
        // One that waits to be used again stands for none.
        if connection.stands_for(life) {
            return push_table(state, at);
        }
        if ffi::lua_getiuservalue(state, at, SELF) == ffi::LUA_TTABLE && connection.life == life {
            return;
        }
        let top = ffi::lua_gettop(state) - 1;
        ffi::lua_getiuservalue(state, at, KEEPER);
        if ffi::lua_getiuservalue(state, top + 2, keeper::GONE) != ffi::LUA_TTABLE {
            let stream = crate::raw::stream::push_closed(state, connection.stream);
            push_served(state, top + 4, stream, top + 2);
            push_table(state, top + 5);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_setiuservalue(state, top + 2, keeper::GONE);
        }
        ffi::lua_replace(state, top + 1);
        ffi::lua_settop(state, top + 1);
    }
}

/// `x:table()` → its table, as Lua's functions know the connection; nil when it has left without one.
pub(super) unsafe extern "C-unwind" fn table(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_settop(state, 1);
        let connection = check_at(state, 1);
        match connection.is_attached() && connection.place != 0 {
            true => push_table(state, 1),
            false => {
                ffi::lua_getiuservalue(state, 1, SELF);
            }
        }
        1
    }
}

/// `x:known()` → its table when one was made, else nil.
pub(super) unsafe extern "C-unwind" fn known(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        check(state);
        ffi::lua_getiuservalue(state, 1, SELF);
        1
    }
}
