//! Why a wait is refused, in words: what stands between it and the scheduler, and where.

use super::chain::Obstacle;
use super::core::Core;
use super::coroutine;
use crate::raw::{Text, push_bytes, raise};
use mlua::ffi::{self, lua_Debug, lua_State};
use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

/// Raises `call: cannot wait here: …`.
///
/// # Safety
/// `state` is the running state; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn raise_cannot_wait(core: *mut Core, state: *mut lua_State, call: &str) -> ! {
    // SAFETY: the texts are plain data.
    unsafe {
        ffi::luaL_checkstack(state, 16, std::ptr::null());
        let why = match Core::check_way(core, state) {
            Err(Obstacle::Rigid(at)) => describe(core, state, at),
            Err(Obstacle::Foreign) => Text::new(
                "inside a coroutine that the plain coroutine library resumed; use require \"lio.coroutine\"",
            ),
            Err(Obstacle::Deep) => Text::new("more than 10000 coroutines are resuming each other"),
            // Nothing else is left.
            Err(Obstacle::Outside) | Ok(()) => {
                Text::new("outside a task; use lio.loop.run(function() … end), or a service")
            }
        };
        raise_in_program(
            state,
            Text::format(format_args!("{call}: cannot wait here: {why}")),
        )
    }
}

/// Raises `message` at the line of the program: by `lio.misuse`, where it is loaded, which looks for that line behind the
/// library's own files. Never returns.
///
/// # Safety
/// As for [`raise`], with a few free stack slots.
unsafe fn raise_in_program(state: *mut lua_State, message: Text) -> ! {
    // SAFETY: `message` is plain data; the caller has made room on the stack and vouches for the frames.
    unsafe {
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        ffi::lua_pushstring(state, c"lio.misuse".as_ptr());
        if ffi::lua_rawget(state, -2) == ffi::LUA_TTABLE {
            ffi::lua_pushstring(state, c"raise".as_ptr());
            if ffi::lua_rawget(state, -2) == ffi::LUA_TFUNCTION {
                push_bytes(state, message.as_bytes());
                ffi::lua_call(state, 1, 0);
            }
        }
        raise(state, message)
    }
}

/// The C function that `at` is inside of, its name, and where it was called.
unsafe fn describe(core: *mut Core, state: *mut lua_State, at: *mut lua_State) -> Text {
    // SAFETY: `lua_getstack` and `lua_getinfo` fill the record; the names in it are live strings.
    unsafe {
        let mut record = MaybeUninit::<lua_Debug>::zeroed();
        let frame = record.as_mut_ptr();
        let mut level = 1;
        while ffi::lua_getstack(at, level, frame) != 0 {
            ffi::lua_getinfo(at, c"Sn".as_ptr(), frame);
            let name = text((*frame).name);
            if name == c"__gc" {
                return Text::new("inside a finalizer (__gc)");
            }
            if text((*frame).namewhat) == c"hook" {
                return Text::new("inside a debug hook");
            }
            if text((*frame).what) == c"C" && !can_yield(core, state, at, frame) {
                let mut name = Text::new(name.to_str().unwrap_or_default());
                if name.as_bytes().is_empty() {
                    name = library_name(state, at, frame);
                }
                return place(at, name, level + 1);
            }
            level += 1;
        }
        match at == state {
            true => Text::new(
                "inside a function that Lua calls where it cannot yield, as '__close' by coroutine.close or a kill",
            ),
            false => Text::new("a coroutine outwards is inside a function that cannot yield"),
        }
    }
}

/// The same with the line of the Lua function that called it.
unsafe fn place(at: *mut lua_State, name: Text, mut level: c_int) -> Text {
    // SAFETY: as for `describe`.
    unsafe {
        let name = match name.as_bytes().is_empty() {
            true => Text::new("a C function"),
            false => Text::format(format_args!("'{name}'")),
        };
        let mut record = MaybeUninit::<lua_Debug>::zeroed();
        let frame = record.as_mut_ptr();
        while ffi::lua_getstack(at, level, frame) != 0 {
            ffi::lua_getinfo(at, c"Sl".as_ptr(), frame);
            if (*frame).currentline > 0 {
                let file = CStr::from_ptr((*frame).short_src.as_ptr()).to_string_lossy();
                let line = (*frame).currentline;
                let text = Text::format(format_args!(
                    "inside {name}, which cannot yield, called at {file}:{line}"
                ));
                drop(file);
                return text;
            }
            level += 1;
        }
        Text::format(format_args!("inside {name}, which cannot yield"))
    }
}

unsafe fn text<'a>(pointer: *const c_char) -> &'a CStr {
    match pointer.is_null() {
        true => c"",
        // SAFETY: a string of Lua's that lives as long as the frame.
        false => unsafe { CStr::from_ptr(pointer) },
    }
}

/// Whether the frame is of a function that Lua code can yield across.
unsafe fn can_yield(
    core: *mut Core,
    state: *mut lua_State,
    at: *mut lua_State,
    frame: *mut lua_Debug,
) -> bool {
    // SAFETY: the function is moved to the running state, where values may be pushed.
    unsafe {
        let top = ffi::lua_gettop(state);
        if !push_function(state, at, frame) {
            return false;
        }
        let function = top + 1;
        let address = ffi::lua_tocfunction(state, function).map(|function| function as usize);
        let mut known = coroutine::nests(address) || (*core).is_permeable(address);
        ffi::lua_rawgeti(state, ffi::LUA_REGISTRYINDEX, ffi::LUA_RIDX_GLOBALS);
        for name in [c"pcall", c"xpcall", c"dofile"] {
            ffi::lua_pushstring(state, name.as_ptr());
            ffi::lua_rawget(state, function + 1);
            known |= ffi::lua_rawequal(state, function, -1) != 0;
        }
        ffi::lua_settop(state, top);
        known
    }
}

/// The name by which a library has the function of the frame, `table.sort` for instance; empty when none has.
unsafe fn library_name(state: *mut lua_State, at: *mut lua_State, frame: *mut lua_Debug) -> Text {
    // SAFETY: plain stack work; `lua_next` gets the keys that it gave.
    unsafe {
        let top = ffi::lua_gettop(state);
        if !push_function(state, at, frame) {
            return Text::new("");
        }
        let mut found = Text::new("");
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        ffi::lua_pushnil(state);
        while found.as_bytes().is_empty() && ffi::lua_next(state, top + 2) != 0 {
            if ffi::lua_type(state, -1) == ffi::LUA_TTABLE
                && let Some(field) = field_of(state, top + 1)
            {
                let library = name_at(state, top + 3);
                found = match library.as_bytes() {
                    b"_G" => field,
                    _ => Text::format(format_args!("{library}.{field}")),
                };
            }
            ffi::lua_settop(state, top + 3);
        }
        ffi::lua_settop(state, top);
        found
    }
}

/// The name of the field of the table on top that holds the value at `index`.
unsafe fn field_of(state: *mut lua_State, index: c_int) -> Option<Text> {
    // SAFETY: as for `library_name`.
    unsafe {
        let table = ffi::lua_gettop(state);
        ffi::lua_pushnil(state);
        while ffi::lua_next(state, table) != 0 {
            if ffi::lua_rawequal(state, -1, index) != 0 {
                return Some(name_at(state, table + 1));
            }
            ffi::lua_pop(state, 1);
        }
        None
    }
}

unsafe fn name_at(state: *mut lua_State, index: c_int) -> Text {
    // SAFETY: a string is not converted, other keys are passed over.
    unsafe {
        match ffi::lua_type(state, index) {
            ffi::LUA_TSTRING => Text::new(
                text(ffi::lua_tostring(state, index))
                    .to_str()
                    .unwrap_or_default(),
            ),
            _ => Text::new("?"),
        }
    }
}

/// Pushes the function of a frame of `at`; false when there is no room.
unsafe fn push_function(state: *mut lua_State, at: *mut lua_State, frame: *mut lua_Debug) -> bool {
    // SAFETY: the value is moved to the running state at once.
    unsafe {
        if ffi::lua_checkstack(at, 1) == 0 {
            return false;
        }
        ffi::lua_getinfo(at, c"f".as_ptr(), frame);
        ffi::lua_xmove(at, state, 1);
        true
    }
}
