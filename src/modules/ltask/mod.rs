//! The scheduler as Lua sees it.
//!
//! - `ltask.rs`, `time.rs`, `event.rs`: module `ltask`, inside a service
//! - `bootstrap.rs`, `config.rs`: module `ltask.bootstrap`, in the VM that starts the system
//! - `exclusive.rs`: module `ltask.exclusive` (G1); `root.rs`: module `ltask.root`
//! - our service library, as far as it is in Rust: `calls.rs` what posts and waits, `dispatch.rs` the main
//!   loop, `host.rs` how requests end, `outbox.rs` what waits for room, `init.rs` a service's start,
//!   `library.rs` the rest; `core.rs`: module `ltask.core`, what its Lua part needs

pub(crate) mod bootstrap;
mod calls;
mod config;
pub(crate) mod core;
mod dispatch;
mod event;
pub(crate) mod exclusive;
mod host;
mod init;
mod library;
pub(crate) mod messages;
pub(crate) mod root;
mod time;

use crate::ltask::message::{Message, Payload, ServiceId};
use crate::ltask::service::Service;
use crate::raw::{Text, args, push_bytes, raise};
use mlua::ffi::{self, lua_State};
use std::os::raw::{c_int, c_void};

/// The service that calls; raises outside of one.
///
/// # Safety
/// As for [`raise`]. The reference must not be held across calls that run Lua code.
unsafe fn service<'a>(state: *mut lua_State) -> &'a mut Service {
    // SAFETY: the caller's promise.
    unsafe {
        match Service::of(state) {
            Some(service) => service,
            None => raise(state, Text::new("this works inside a service only")),
        }
    }
}

/// A service's number at `index`.
///
/// # Safety
/// As for [`raise`].
unsafe fn service_id(state: *mut lua_State, index: c_int) -> ServiceId {
    // SAFETY: the caller's promise.
    unsafe { args::integer_in(state, index, 0, u32::MAX.into(), "service id") as ServiceId }
}

/// Pointer and size at `index` and after; nil is nothing. The block still belongs to the caller.
///
/// # Safety
/// As for [`raise`].
unsafe fn block(state: *mut lua_State, index: c_int) -> (*mut c_void, usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if args::is_none(state, index) {
            return (std::ptr::null_mut(), 0);
        }
        if ffi::lua_type(state, index) != ffi::LUA_TLIGHTUSERDATA {
            args::type_error(state, index, c"pointer");
        }
        let size = args::integer_in(state, index + 1, 0, i64::MAX, "size");
        (ffi::lua_touserdata(state, index), size as usize)
    }
}

/// Reads `to, session, type [, pointer, size]` from `index` on; `from` is the sender. The payload belongs
/// to the message from here on.
///
/// # Safety
/// As for [`raise`]; nothing may raise while the message is alive.
unsafe fn message(state: *mut lua_State, index: c_int, from: ServiceId) -> Message {
    // SAFETY: what may raise comes first.
    unsafe {
        let to = service_id(state, index);
        let session = ffi::luaL_checkinteger(state, index + 1);
        let kind = args::integer_in(state, index + 2, 0, 254, "message type") as u8;
        let (pointer, size) = block(state, index + 3);
        Message {
            from,
            to,
            session,
            kind,
            payload: Payload::from_raw(pointer, size),
        }
    }
}

/// Pushes a payload's pointer and size, which then belong to Lua; nothing when there is none.
///
/// # Safety
/// `state` is valid, with 2 free stack slots.
unsafe fn push_payload(state: *mut lua_State, payload: Payload) -> c_int {
    let (pointer, size) = payload.into_raw();
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: neither push allocates.
    unsafe {
        ffi::lua_pushlightuserdata(state, pointer);
        ffi::lua_pushinteger(state, size as i64);
    }
    2
}

/// Pushes an entry of the log: time, id, pointer, size.
///
/// # Safety
/// `state` is valid, with 4 free stack slots.
unsafe fn push_entry(state: *mut lua_State, entry: crate::ltask::log::Entry) -> c_int {
    // SAFETY: no push here allocates.
    unsafe {
        ffi::lua_pushinteger(state, entry.time as i64);
        ffi::lua_pushinteger(state, entry.service.into());
        2 + push_payload(state, entry.payload)
    }
}

/// The same with the label of who said it behind its number.
///
/// # Safety
/// As for [`push_owned`].
unsafe fn push_labelled(state: *mut lua_State, entry: crate::ltask::log::Entry) -> c_int {
    let label = entry.card.as_ref().map(|card| card.label());
    let entry = Box::into_raw(Box::new(entry));
    // SAFETY: a memory error leaks the entry, and skips no destructor.
    unsafe {
        match label {
            Some(label) => push_owned(state, label),
            None => ffi::lua_pushnil(state),
        }
        let count = push_entry(state, *Box::from_raw(entry));
        // label, time, id, … → time, id, label, …
        ffi::lua_rotate(state, -count - 1, -1);
        ffi::lua_rotate(state, 2 - count - 1, 1);
        count + 1
    }
}

/// Raises the message on top of the stack, with the position of the caller before it.
///
/// # Safety
/// The message lies on top of the stack; as for [`raise`].
unsafe fn raise_top(state: *mut lua_State) -> ! {
    // SAFETY: the caller's promise.
    unsafe {
        ffi::luaL_where(state, 1);
        ffi::lua_rotate(state, -2, 1);
        ffi::lua_concat(state, 2);
        ffi::lua_error(state)
    }
}

/// Pushes an owned string and frees it. A memory error leaks it, and skips no destructor.
///
/// # Safety
/// As for [`push_bytes`].
unsafe fn push_owned(state: *mut lua_State, text: String) {
    let raw = Box::into_raw(text.into_boxed_str());
    // SAFETY: the string is there until it is freed below.
    unsafe {
        push_bytes(state, (*raw).as_bytes());
        drop(Box::from_raw(raw));
    }
}
