//! Gives the answer when a handler has ended: native where it returned a body and set no more than status, fields
//! and type before; else by `conclude` of lualib/lio/web/connection.lua. Works on the stack of [`super::serve`].

use super::answer;
use super::connection::{Connection, GONE};
use super::serve::{at, concluded, push_response, push_tool, restore};
use super::tools as tool;
use crate::http::router::routes::RouteId;
use crate::raw::{Text, raise};
use crate::raw::{continuation, function};
use mlua::ffi::{self, lua_State};

/// Whether the handler's first result is a body by itself: a string, or a table that is not the response.
unsafe fn is_body(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work.
    unsafe {
        match ffi::lua_type(state, at::RESULT) {
            ffi::LUA_TSTRING => true,
            ffi::LUA_TTABLE => ffi::lua_rawequal(state, at::RESULT, at::RESPONSE) == 0,
            _ => false,
        }
    }
}

/// Answers with a body that the handler returned, and with the status, fields and type that it has set before.
/// False, with nothing queued, when that needs a closer look, or fails.
unsafe fn answer_touched(state: *mut lua_State) -> bool {
    // SAFETY: plain stack work; what may raise runs protected.
    unsafe {
        let top = ffi::lua_gettop(state);
        if ffi::lua_type(state, at::RESPONSE) == ffi::LUA_TNIL {
            return false;
        }
        function!(answer::touched).push(state, 0);
        for value in [at::CONNECTION, at::RESPONSE, at::RESULT] {
            ffi::lua_pushvalue(state, value);
        }
        let answered = ffi::lua_pcall(state, 3, 1, 0) == ffi::LUA_OK;
        let whole = answered && ffi::lua_toboolean(state, -1) != 0;
        ffi::lua_settop(state, top);
        whole
    }
}

/// Answers. → true when that is done; false when `conclude` did it, and its result is on top.
pub(super) unsafe fn finish(state: *mut lua_State, connection: *mut Connection, ok: bool) -> bool {
    // SAFETY: the body stays on the stack while it is copied.
    unsafe {
        if ok && (*connection).concluded {
            return true;
        }
        if ok
            && !(*connection).special
            && ffi::lua_type(state, at::RESULT + 1) == ffi::LUA_TNIL
            && ffi::lua_type(state, at::RESULT + 2) == ffi::LUA_TNIL
            && is_body(state)
            && match (*connection).touched {
                false => answer::returned(state, connection, at::RESULT),
                true => answer_touched(state),
            }
        {
            // A status or a field that is a number was made a string, which may have run a finalizer.
            if !(*connection).is_whole() {
                raise(state, Text::new(GONE));
            }
            let (exchange, stream) = (*connection).parts();
            exchange.drop_head(stream);
            return true;
        }
        if (*connection).exchange.has_head() {
            restore(state, connection);
            if ok {
                // A long answer, say: its route will need one again.
                if let Some(route) = RouteId::from_number((*connection).route) {
                    (*connection).routes().needs_request(route);
                }
            }
        }
        if ffi::lua_type(state, at::RESPONSE) == ffi::LUA_TNIL {
            push_response(state);
            ffi::lua_replace(state, at::RESPONSE);
        }
        let values = ffi::lua_gettop(state) - at::RESPONSE;
        push_tool(state, tool::CONCLUDE);
        ffi::lua_pushvalue(state, at::REQUEST);
        ffi::lua_pushvalue(state, at::RESPONSE);
        ffi::lua_pushboolean(state, ok.into());
        for value in at::RESULT..at::RESULT + values {
            ffi::lua_pushvalue(state, value);
        }
        ffi::lua_callk(state, 4 + values, 1, 0, Some(continuation!(concluded)));
        false
    }
}
