//! What the Lua side gives `serve` once per VM: a table of functions, `http.tools{…}`.

use crate::raw::{Text, raise};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Tables: the connections that are due, the metatable of responses.
pub(super) const DUE: i64 = 1;
pub(super) const RESPONSE: i64 = 2;
/// `schedule(serving)`: have `serve` called in this round of the loop. What `serving` is see `http.keeper`.
pub(super) const SCHEDULE: i64 = 3;
/// The message handler of what may fail.
pub(super) const CAUGHT: i64 = 4;
/// `choose(connection, req, res, route)` → the handler, when the route alone does not tell.
pub(super) const CHOOSE: i64 = 5;
/// `flush_later(connection)`: what is queued goes out before the loop waits.
pub(super) const FLUSH: i64 = 6;
/// `conclude(connection, req, res, ok, a, b, c)` → whether the connection goes on.
pub(super) const CONCLUDE: i64 = 7;
/// `over(connection, _, status, reason)`: no request is to come, or this refusal is the last answer.
pub(super) const OVER: i64 = 8;
/// `close(serving, stream)`: closes a stream that Lua's books know.
pub(super) const CLOSE: i64 = 9;
/// `left(serving)`: a connection has left, for which somebody waits.
pub(super) const LEFT: i64 = 10;

/// `http.tools { … }` → the table, to be given to each keeper: what `serve` needs of the Lua side.
pub(super) unsafe extern "C-unwind" fn check(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_settop(state, 1);
        for index in DUE..=LEFT {
            let kind = ffi::lua_rawgeti(state, 1, index);
            let wanted = match index {
                DUE | RESPONSE => ffi::LUA_TTABLE,
                _ => ffi::LUA_TFUNCTION,
            };
            if kind != wanted {
                raise(
                    state,
                    Text::format(format_args!("tools: value {index} is missing")),
                );
            }
            ffi::lua_pop(state, 1);
        }
        1
    }
}
