//! What the task core tells the service library: how the tasks of requests end. Results are packed from the
//! task's own stack and posted; nothing here raises.

use super::library::push_hook;
use crate::ltask::fast::Name;
use crate::ltask::message::{Message, Payload, ROOT, kind};
use crate::ltask::pack::{self, Value};
use crate::ltask::service::Service;
use crate::raw::function;
use crate::task::{Errand, Host, Slot, Tag};
use mlua::ffi::{self, lua_State};
use std::os::raw::{c_int, c_void};

/// What the task core tells the service library.
pub(super) fn host(service: &mut Service) -> Host {
    let data: *mut Service = service;
    Host {
        data: data.cast(),
        finished,
        failed,
        killed,
        cancelled,
        closed,
        set_limit,
    }
}

/// A wait is off: its timer is not needed. An answer that still comes is dropped.
unsafe fn cancelled(data: *mut c_void, errand: Errand) {
    if let Errand::Timer(id) = errand {
        // SAFETY: the host's contract.
        let service = unsafe { &mut *data.cast::<Service>() };
        service.system().keeper.timers.cancel(service.id, id);
    }
}

/// Sets how much memory the VM may have, 0 for any; returns the limit before.
unsafe fn set_limit(data: *mut c_void, limit: usize) -> usize {
    // SAFETY: the host's contract.
    unsafe { (*(*data.cast::<Service>()).fast.memory).set_limit(limit) }
}

/// The core is gone: finalizers that still run must not find it.
unsafe fn closed(data: *mut c_void) {
    // SAFETY: the host's contract.
    unsafe { (*data.cast::<Service>()).fast.core = std::ptr::null_mut() }
}

fn post(service: &mut Service, tag: Tag, kind: u8, payload: Payload) {
    let message = Message {
        from: service.id,
        to: tag.from,
        session: tag.session,
        kind,
        payload,
    };
    // Who asked may have died; nothing is lost that anybody waits for.
    drop(super::ltask::post(service, message));
}

fn text_payload(text: &[u8]) -> Payload {
    Payload::of(&[Value::String(text)])
}

/// A request's task returned: its results are the answer.
unsafe fn finished(
    data: *mut c_void,
    state: *mut lua_State,
    co: *mut lua_State,
    results: c_int,
    tag: Tag,
) {
    // SAFETY: the host's contract; nothing here raises.
    unsafe {
        let service = &mut *data.cast::<Service>();
        let top = ffi::lua_gettop(state);
        if ffi::lua_checkstack(state, results + 4) == 0 {
            post(service, tag, kind::ERROR, text_payload(b"too many results"));
            return;
        }
        ffi::lua_xmove(co, state, results);
        let packed = pack::try_pack(state, top + 1);
        let service = &mut *data.cast::<Service>();
        match packed {
            Ok(payload) => {
                post(service, tag, kind::RESPONSE, payload);
            }
            Err(text) => {
                post(service, tag, kind::ERROR, text_payload(text.as_bytes()));
            }
        }
        ffi::lua_settop(state, top);
    }
}

/// A task raised: the library describes the error, which goes to who waits, or into the log.
unsafe fn failed(data: *mut c_void, state: *mut lua_State, co: *mut lua_State, tag: Tag) {
    // SAFETY: the host's contract: the hook runs protected, nothing here raises.
    unsafe {
        let service = &mut *data.cast::<Service>();
        let top = ffi::lua_gettop(state);
        if ffi::lua_checkstack(state, 8) == 0 {
            post(service, tag, kind::ERROR, text_payload(b"stack overflow"));
            return;
        }
        if service.fast.starting && service.id == ROOT {
            // Without root there is nobody to end the system.
            service
                .system()
                .fail_boot("root has failed; the log says why");
            service.fast.ended = true;
        }
        // The description needs memory, also of a service that has used up its own.
        let limit = (*service.fast.memory).set_limit(0);
        function!(describe).push(state, 0);
        ffi::lua_pushlightuserdata(state, co.cast());
        ffi::lua_pushinteger(state, tag.from.into());
        ffi::lua_pushinteger(state, tag.session);
        let described = ffi::lua_pcall(state, 3, 1, 0);
        let service = &mut *data.cast::<Service>();
        (*service.fast.memory).set_limit(limit);
        if described != ffi::LUA_OK {
            let mut length = 0;
            let text = ffi::lua_tolstring(state, -1, &mut length);
            let bytes: &[u8] = match text.is_null() {
                true => b"error while an error was described",
                false => std::slice::from_raw_parts(text.cast(), length),
            };
            if tag.session != 0 {
                post(service, tag, kind::ERROR, text_payload(bytes));
            } else {
                let text = String::from_utf8_lossy(bytes);
                service.system().log_text(service.id, &text);
            }
        } else if tag.session != 0 {
            let payload = match pack::try_pack(state, top + 1) {
                Ok(payload) => payload,
                Err(text) => text_payload(text.as_bytes()),
            };
            post(service, tag, kind::ERROR, payload);
        }
        ffi::lua_settop(state, top);
    }
}

/// Protected part of `failed`: co, from, session → error object.
unsafe extern "C-unwind" fn describe(state: *mut lua_State) -> c_int {
    // SAFETY: the coroutine is anchored by the task core, its error lies on top.
    unsafe {
        let co: *mut lua_State = ffi::lua_touserdata(state, 1).cast();
        push_hook(state, c"failed");
        // The stack of a dead coroutine ends with its error, and after an overflow it cannot grow. Without the error
        // it has room for one value: for the coroutine itself, then for the error again.
        ffi::lua_xmove(co, state, 1);
        let error = ffi::lua_gettop(state);
        ffi::lua_pushthread(co);
        ffi::lua_xmove(co, state, 1);
        ffi::lua_pushvalue(state, error);
        ffi::lua_xmove(state, co, 1);
        ffi::lua_rotate(state, error, 1);
        ffi::lua_pushvalue(state, 2);
        ffi::lua_pushvalue(state, 3);
        ffi::lua_call(state, 4, 1);
        1
    }
}

/// A request's task was closed before it answered: who waits is told, and the log.
unsafe fn killed(data: *mut c_void, state: *mut lua_State, slot: Slot, tag: Tag) {
    // SAFETY: the host's contract: the hook runs protected, nothing here raises.
    unsafe {
        let service = &mut *data.cast::<Service>();
        if service.dead || ffi::lua_checkstack(state, 6) == 0 {
            return;
        }
        let text = b"the request's coroutine was closed before it answered";
        post(service, tag, kind::ERROR, text_payload(text));
        let mut name = service.fast.name(slot);
        let top = ffi::lua_gettop(state);
        function!(forgotten).push(state, 0);
        ffi::lua_pushlightuserdata(state, (&raw mut name).cast());
        ffi::lua_pushinteger(state, tag.from.into());
        ffi::lua_pcall(state, 2, 0, 0);
        ffi::lua_settop(state, top);
    }
}

/// Protected part of `killed`: name, from.
unsafe extern "C-unwind" fn forgotten(state: *mut lua_State) -> c_int {
    // SAFETY: the name is on the stack of `killed`.
    unsafe {
        let name: *const Name = ffi::lua_touserdata(state, 1).cast();
        push_hook(state, c"forgotten");
        crate::raw::push_bytes(state, (*name).bytes());
        ffi::lua_pushvalue(state, 2);
        ffi::lua_call(state, 2, 0);
        0
    }
}
