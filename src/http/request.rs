//! Requests of the server that the machine in [`super::server`] replaces, for its raw code. // bridge

use super::connection::Connection;
use super::life;
use crate::codec::http1::head::Head;
use crate::codec::http1::request::RequestHead;
use crate::http::router::routes::RouteId;
use crate::lua::{Call, Function};
use crate::modules::http::request::{self, BODY, Request, SERVER};
use crate::raw::object;
use crate::raw::{Text, function, raise};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// `head:connection()` → the table of its connection; nil before it is served.
pub(crate) const CONNECTION: Function = function!(connection);

/// Pushes the head that was parsed at the start of the stream's buffer. Making the userdata may run finalizers, that is any
/// Lua code: `bytes` is asked afterwards where the head's bytes are. False, with nothing pushed, when they are gone. The
/// metatable of heads is at `metatable`.
///
/// # Safety
/// As for [`object::push_new`]; what `bytes` gives has `head_len` bytes.
pub(super) unsafe fn push(
    state: *mut lua_State,
    head: Head,
    route: i64,
    metatable: c_int,
    bytes: impl FnOnce() -> Option<*const u8>,
) -> bool {
    // SAFETY: the tail has room for the bytes, which are written before anybody reads them.
    unsafe {
        let length = head.head_len;
        let value = Request::new(head, RouteId::from_number(route));
        let made = object::push_with_tail(state, metatable, value, length);
        let Some(bytes) = bytes() else {
            ffi::lua_pop(state, 1);
            return false;
        };
        std::ptr::copy_nonoverlapping(bytes, object::tail(made), length);
        true
    }
}

/// The head of the request at `index`.
///
/// # Safety
/// A request stays there while the head is in use.
pub(super) unsafe fn head<'h>(state: *mut lua_State, index: c_int) -> RequestHead<'h> {
    // SAFETY: the bytes behind a request do not change, and stay where they are.
    unsafe {
        let made = object::check::<Request>(state, index);
        let head = (*made).head();
        let bytes = std::slice::from_raw_parts(object::tail(made), head.head_len);
        RequestHead { head, bytes }
    }
}

/// Whether something is known of the request at `index` by name.
///
/// # Safety
/// As for [`push`].
pub(super) unsafe fn is_known(state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: the state is that of the function that runs; what is pushed is dropped.
    unsafe {
        let top = ffi::lua_gettop(state);
        let known = Call::bridge(state, |call| request::is_known(call, index));
        ffi::lua_settop(state, top);
        known.unwrap_or(true)
    }
}

unsafe extern "C-unwind" fn connection(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        let life = (*object::check::<Request>(state, 1)).id as u32;
        ffi::lua_settop(state, 1);
        ffi::lua_getiuservalue(state, 1, SERVER.number());
        match object::test::<Connection>(state, 2) {
            Some(found) if (*found).is_attached() => life::push_table_of(state, 2, life),
            _ => ffi::lua_pushnil(state),
        }
        1
    }
}

/// Pushes the body that was kept with the request at `index`, or nil. → whether there is one.
///
/// # Safety
/// A request is at `index`, and there is a free stack slot.
pub(super) unsafe fn push_body(state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ffi::lua_getiuservalue(state, index, BODY.number()) == ffi::LUA_TSTRING }
}

/// Keeps the body that is on top (popped) with the request at `index`.
///
/// # Safety
/// As for [`push_body`].
pub(super) unsafe fn keep_body(state: *mut lua_State, index: c_int) {
    // SAFETY: the caller's promise.
    unsafe { ffi::lua_setiuservalue(state, index, BODY.number()) };
}

/// Pushes the exchange that the request at `index` came by, which is at the new top then; raises before it is served.
///
/// # Safety
/// As for [`push_body`].
pub(super) unsafe fn push_exchange(state: *mut lua_State, index: c_int) -> *mut Connection {
    // SAFETY: the caller's promise.
    unsafe {
        let life = (*object::check::<Request>(state, index)).id as u32;
        ffi::lua_getiuservalue(state, index, SERVER.number());
        let at = ffi::lua_gettop(state);
        match object::test::<Connection>(state, at) {
            Some(found) if (*found).is_attached() => {
                if (*found).stands_for(life) {
                    return found;
                }
                life::push_table_of(state, at, life);
                ffi::lua_getfield(state, -1, c"x".as_ptr());
                ffi::lua_replace(state, at);
                ffi::lua_settop(state, at);
                object::check::<Connection>(state, at)
            }
            _ => raise(state, Text::new("the request is not served")),
        }
    }
}

/// Tells the request at `index` whose it is; the exchange, in its `life`, is on top (popped).
///
/// # Safety
/// A request is at `index`.
pub(super) unsafe fn belongs(state: *mut lua_State, index: c_int, life: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        (*object::check::<Request>(state, index)).id = life.into();
        ffi::lua_setiuservalue(state, index, SERVER.number());
    }
}
