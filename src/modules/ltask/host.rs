//! What the task core tells the service library: how the tasks of requests end. Results are packed from the
//! task's own stack and posted; nothing here raises.

use super::library::push_hook;
use crate::ltask::fast::Name;
use crate::ltask::message::{Message, Payload, ROOT, kind};
use crate::ltask::pack::{self, Value};
use crate::ltask::service::Service;
use crate::lua::{Call, Full};
use crate::raw;
use crate::raw::function;
use crate::task::{Host, Reason, Tag, TaskId};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// The service that is told of its tasks.
struct Owner(*mut Service);

/// What the tasks tell the service library.
pub(super) fn host(service: &mut Service) -> Box<dyn Host> {
    Box::new(Owner(service))
}

impl Host for Owner {
    fn finished(&self, call: &mut Call<'_>, results: Result<(c_int, c_int), Full>, tag: Tag) {
        // SAFETY: the service outlives its VM's tasks.
        unsafe { finished(self.0, raw::bridge(call), results, tag) }
    }

    fn failed(&self, call: &mut Call<'_>, co: c_int, error: c_int, tag: Tag) {
        // SAFETY: as for `finished`.
        unsafe { failed(self.0, raw::bridge(call), co, error, tag) }
    }

    fn killed(&self, call: &mut Call<'_>, id: TaskId, tag: Tag) {
        // SAFETY: as for `finished`.
        unsafe { killed(self.0, raw::bridge(call), id, tag) }
    }

    /// A wait is off: its timer is not needed. An answer that still comes is dropped.
    fn cancelled(&self, reason: Reason) {
        if let Reason::Timer(id) = reason {
            // SAFETY: as for `finished`.
            let service = unsafe { &mut *self.0 };
            service.system().keeper.timers.cancel(service.id, id);
        }
    }

    fn set_limit(&self, limit: usize) -> usize {
        // SAFETY: as for `finished`.
        unsafe { (*(*self.0).fast.memory).set_limit(limit) }
    }
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
    drop(super::messages::post(service, message));
}

fn text_payload(text: &[u8]) -> Payload {
    Payload::of(&[Value::String(text)])
}

/// A request's task returned: its results are the answer.
unsafe fn finished(
    me: *mut Service,
    state: *mut lua_State,
    results: Result<(c_int, c_int), Full>,
    tag: Tag,
) {
    // SAFETY: the host's contract; nothing here raises.
    unsafe {
        let Ok((first, _)) = results else {
            let text = text_payload(b"too many results");
            return post(&mut *me, tag, kind::ERROR, text);
        };
        let packed = pack::try_pack(state, first);
        let service = &mut *me;
        match packed {
            Ok(payload) => {
                post(service, tag, kind::RESPONSE, payload);
            }
            Err(text) => {
                post(service, tag, kind::ERROR, text_payload(text.as_bytes()));
            }
        }
    }
}

/// A task raised: the library describes the error, which goes to who waits, or into the log.
unsafe fn failed(me: *mut Service, state: *mut lua_State, co: c_int, error: c_int, tag: Tag) {
    // SAFETY: the host's contract: the hook runs protected, nothing here raises.
    unsafe {
        let service = &mut *me;
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
        ffi::lua_pushvalue(state, co);
        ffi::lua_pushvalue(state, error);
        ffi::lua_pushinteger(state, tag.from.into());
        ffi::lua_pushinteger(state, tag.session);
        let described = ffi::lua_pcall(state, 4, 1, 0);
        let service = &mut *me;
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

/// Protected part of `failed`: co, error, from, session → error object.
unsafe extern "C-unwind" fn describe(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        push_hook(state, c"failed");
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_call(state, 4, 1);
        1
    }
}

/// A request's task was closed before it answered: who waits is told, and the log.
unsafe fn killed(me: *mut Service, state: *mut lua_State, id: TaskId, tag: Tag) {
    // SAFETY: the host's contract: the hook runs protected, nothing here raises.
    unsafe {
        let service = &mut *me;
        if service.dead || ffi::lua_checkstack(state, 6) == 0 {
            return;
        }
        let text = b"the request's coroutine was closed before it answered";
        post(service, tag, kind::ERROR, text_payload(text));
        let mut name = service.fast.name(id);
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
