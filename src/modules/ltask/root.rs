//! Module `ltask.root`: what root alone may do.

use super::{raise_top, service, service_id};
use crate::ltask::life;
use crate::ltask::mailbox::Place;
use crate::ltask::message::ROOT;
use crate::ltask::service::Service;
use crate::lua::Chunk;
use crate::raw::{Function, Text, args, functions, module, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::sync::atomic::Ordering;

const FUNCTIONS: &[(&CStr, Function)] = functions![
    (c"init_service", init_service),
    (c"close_service", close_service),
    (c"set_exit_code", set_exit_code),
];

unsafe fn root<'a>(state: *mut lua_State) -> &'a mut Service {
    // SAFETY: the caller's promise.
    unsafe {
        let service = service(state);
        if service.id != ROOT {
            raise(state, Text::new("only root may do this"));
        }
        service
    }
}

/// What `new_service` and `init_service` have in common: label, source [, chunkname] and worker from
/// argument `index` on.
pub(super) struct Order {
    pub(super) source: Chunk<'static>,
    pub(super) label: &'static str,
    pub(super) place: Place,
}

/// Text, or `@file` when `file` is set; the strings live as long as the arguments.
pub(super) unsafe fn source(
    state: *mut lua_State,
    index: c_int,
    name: Option<&'static CStr>,
) -> Chunk<'static> {
    // SAFETY: the caller's promise.
    unsafe {
        let text: &'static [u8] = args::bytes(state, index);
        if name.is_none() && text.first() == Some(&b'@') {
            // The string ends with a zero byte.
            return Chunk::File(Some(CStr::from_ptr(text.as_ptr().add(1).cast())));
        }
        Chunk::Text(text, name.unwrap_or(c"=service"))
    }
}

/// A worker's number at `index`, or any.
pub(super) unsafe fn place(state: *mut lua_State, index: c_int, workers: usize) -> Place {
    // SAFETY: the caller's promise.
    unsafe {
        if args::is_none(state, index) {
            return Place::Any;
        }
        let number = args::integer_in(state, index, 0, workers as i64 - 1, "worker");
        Place::Worker(number as usize)
    }
}

/// `root.init_service(id, label, source [, chunkname [, worker]])` → true, or false and a message; with
/// three arguments (G1) it raises instead, and a source `@file` is a file.
unsafe extern "C-unwind" fn init_service(state: *mut lua_State) -> c_int {
    // SAFETY: strings are arguments; what needs `Drop` is gone when an error is raised.
    unsafe {
        let root = root(state);
        let id = service_id(state, 1);
        let label = args::utf8(state, 2);
        let old = args::is_none(state, 4);
        let name =
            (!old).then(|| CStr::from_ptr(ffi::luaL_checklstring(state, 4, std::ptr::null_mut())));
        let order = Order {
            source: source(state, 3, name),
            label,
            place: place(state, 5, root.system().config.worker),
        };
        if make(state, root, id, order) {
            ffi::lua_pushboolean(state, 1);
            return 1;
        }
        if old {
            raise_top(state);
        }
        ffi::lua_pushboolean(state, 0);
        ffi::lua_rotate(state, -2, 1);
        2
    }
}

/// Makes the service; false leaves a message on the stack.
unsafe fn make(state: *mut lua_State, root: &mut Service, id: u32, order: Order) -> bool {
    let system = root.system();
    let slot = system.slots().get(id);
    let made = match slot.is_some_and(|slot| slot.mailbox.is_building(id)) {
        true => life::make(system, id, order.label, order.source),
        false => Err(format!("init_service: {id} is no new service")),
    };
    match made {
        Ok(service) => {
            life::install(root.system(), service, order.place);
            true
        }
        Err(message) => {
            // SAFETY: as for `push_owned`.
            unsafe { super::push_owned(state, message) };
            false
        }
    }
}

/// `root.close_service(id)` → list `{ from, session, from, session, … }` of the requests that died with
/// the service. Its number is free after the schedule message DEL.
unsafe extern "C-unwind" fn close_service(state: *mut lua_State) -> c_int {
    // SAFETY: a memory error while the list is pushed leaks it, and skips no destructor.
    unsafe {
        let root = root(state);
        let id = service_id(state, 1);
        if id == ROOT {
            args::argument_error(state, 1, Text::new("root cannot close itself"));
        }
        let remains = Box::into_raw(life::close(root.system(), id).into_boxed_slice());
        let list: &[(u32, i64)] = &*remains;
        ffi::lua_createtable(state, 2 * list.len() as c_int, 0);
        for (index, (from, session)) in list.iter().enumerate() {
            ffi::lua_pushinteger(state, (*from).into());
            ffi::lua_rawseti(state, -2, 2 * index as i64 + 1);
            ffi::lua_pushinteger(state, *session);
            ffi::lua_rawseti(state, -2, 2 * index as i64 + 2);
        }
        drop(Box::from_raw(remains));
        1
    }
}

/// `root.set_exit_code(n)`: what the process's run call returns.
unsafe extern "C-unwind" fn set_exit_code(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let code = args::integer_in(state, 1, i32::MIN.into(), i32::MAX.into(), "exit code");
        let system = root(state).system();
        system.exit_code.store(code as i32, Ordering::SeqCst);
        0
    }
}

/// Opens `ltask.root`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        root(state);
        module::push(state, FUNCTIONS);
        1
    }
}
