//! `lio.watch`, the module `lio.watched` that `lio.net` calls when it listens, and what makes a watched VM
//! tell which files it loads.

use super::wire;
use crate::raw::object;
use crate::raw::selector as descriptor;
use crate::raw::{Fault, Function, Text, args, embed, function, functions, guard, module, settle};
use crate::socket::Socket;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_char};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::raw::c_int;
use std::time::Duration;

/// How long a program rests before it tries again to bind an address that is becoming free.
const REST: Duration = Duration::from_millis(10);

/// `lio.watch(path)` → whether `lio --watch` runs this program; then it restarts when that file changes,
/// appears or is replaced. For files that are not Lua code, such as templates.
pub(crate) unsafe extern "C-unwind" fn watch(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the string stays on the stack.
    unsafe {
        let path = args::bytes(state, 1);
        if path.is_empty() {
            args::argument_error(state, 1, Text::new("path expected, got an empty string"));
        }
        settle(state, guard(|| Ok(super::loads(path))));
        ffi::lua_pushboolean(state, super::is_watched().into());
        1
    }
}

/// `lio.watch`. // bridge
pub(crate) const WATCH: Function = function!(watch);

/// `misses(path)`: `require` has looked for a module in this file, and it is not there.
unsafe extern "C-unwind" fn misses(state: *mut lua_State) -> c_int {
    // SAFETY: the string stays on the stack for the whole call, and nothing is pushed meanwhile.
    unsafe {
        let path = args::bytes(state, 1);
        settle(state, guard(|| Ok(super::misses(path))));
        0
    }
}

/// A function of Lua is about to load this file.
///
/// # Safety
/// A path that ends with a zero byte, or null for standard input.
pub(crate) unsafe fn loads(path: *const c_char) {
    if super::is_watched() && !path.is_null() {
        // SAFETY: the caller's promise.
        super::loads(unsafe { CStr::from_ptr(path) }.to_bytes());
    }
}

/// Makes `require`, `loadfile` and `dofile` of a watched VM tell what they load.
///
/// # Safety
/// `state` is valid, with its standard library open and 10 free stack slots; may raise.
pub(crate) unsafe fn install(state: *mut lua_State) {
    if !super::is_watched() {
        return;
    }
    // SAFETY: plain stack work.
    unsafe {
        embed::push_compiled(state, "lio.loads");
        function!(watch).push(state, 0);
        function!(misses).push(state, 0);
        ffi::lua_call(state, 2, 0);
    }
}

/// `watched.wants(key)` → a `lio.socket` that the program before this one has used by this key, or nil.
unsafe extern "C-unwind" fn wants(state: *mut lua_State) -> c_int {
    // SAFETY: the socket is owned by Lua before anything can raise.
    unsafe {
        let key = args::bytes(state, 1);
        let owned = &*descriptor::table(state);
        let made = object::push_new(state, || {
            let found = super::wants(key).ok_or(io::ErrorKind::NotFound)?;
            Socket::from_own(found, owned)
        });
        if made.is_err() {
            ffi::lua_pushnil(state);
        }
        1
    }
}

/// `watched.made(key, socket)`: the supervisor keeps it open for the program after this one.
unsafe extern "C-unwind" fn made(state: *mut lua_State) -> c_int {
    // SAFETY: the socket stays open meanwhile, as it is on the stack of its own VM.
    unsafe {
        let key = args::bytes(state, 1);
        let socket = object::check::<Socket>(state, 2);
        if (*socket).is_closed() {
            return Fault::word("made", "closed", "closed").push(state);
        }
        let number = BorrowedFd::borrow_raw((*socket).number());
        settle(state, guard(|| Ok(super::made(key, number))));
        0
    }
}

/// `watched.closed(key)`: a socket of this key was closed.
unsafe extern "C-unwind" fn closed(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let key = args::bytes(state, 1);
        settle(state, guard(|| Ok(super::closed(key))));
        0
    }
}

/// `watched.is_taken(key)` → whether to try again: the program before this one has the address, and is
/// made to leave it. Blocks for a moment.
unsafe extern "C-unwind" fn is_taken(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let key = args::bytes(state, 1);
        let again = guard(|| {
            let again = super::is_yes(wire::TAKEN, key);
            if again {
                std::thread::sleep(REST);
            }
            Ok(again)
        });
        let again = settle(state, again);
        ffi::lua_pushboolean(state, again.into());
        1
    }
}

/// `watched.is_replaced()` → whether another process has taken this one's place: there is time to end.
unsafe extern "C-unwind" fn is_replaced(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let replaced = settle(state, guard(|| Ok(super::is_yes(wire::REPLACED, b""))));
        ffi::lua_pushboolean(state, replaced.into());
        1
    }
}

const FUNCTIONS: &[(&CStr, Function)] = functions![
    (c"wants", wants),
    (c"made", made),
    (c"closed", closed),
    (c"is_taken", is_taken),
    (c"is_replaced", is_replaced),
];

/// Opens `lio.watched`: a table of functions, or false when nobody watches.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        match super::is_watched() {
            true => module::push(state, FUNCTIONS),
            false => ffi::lua_pushboolean(state, 0),
        }
        1
    }
}
