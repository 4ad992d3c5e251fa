//! Runs what a command asks for in a VM of its own. Called by `main`.
//!
//! Whatever goes wrong in Lua is reported on standard error, with a traceback, and is a `false`; nothing
//! raises beyond [`run`].

use crate::command::{Command, Program};
use crate::complain;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_char, c_int};

/// Runs the command in a new VM; false after an error, which was reported.
pub(crate) fn run(command: &mut Command) -> bool {
    // SAFETY: everything that may raise runs inside `lua_pcall`; `command` outlives the state.
    unsafe {
        let state = crate::vm::new();
        if state.is_null() {
            complain(format_args!("lio: not enough memory for a Lua state\n"));
            return false;
        }
        lio::function!(protected).push(state, 0);
        ffi::lua_pushlightuserdata(state, std::ptr::from_mut(command).cast());
        let status = ffi::lua_pcall(state, 1, 1, 0);
        if status != ffi::LUA_OK {
            report(state);
        }
        let done = status == ffi::LUA_OK && ffi::lua_toboolean(state, -1) != 0;
        ffi::lua_close(state);
        done
    }
}

/// Opens the libraries, sets `arg`, runs chunks and script. Returns whether all went well.
unsafe extern "C-unwind" fn protected(state: *mut lua_State) -> c_int {
    // SAFETY: the argument is the `Command` of `run`; nothing here owns a value that needs `Drop`.
    unsafe {
        let command = &*ffi::lua_touserdata(state, 1).cast::<Command>();
        // What is made here stays.
        ffi::lua_gc(state, ffi::LUA_GCSTOP);
        ffi::luaL_openlibs(state);
        lio::private::install(state);
        push_arguments(state, command);
        ffi::lua_setglobal(state, c"arg".as_ptr());
        crate::vm::start_collector(state);
        let mut done = true;
        for chunk in &command.chunks {
            let name = c"=(command line)".as_ptr();
            let data = chunk.as_ptr().cast::<c_char>();
            let loaded = ffi::luaL_loadbufferx(state, data, chunk.len(), name, std::ptr::null());
            done = done && finish(state, loaded, 0);
        }
        let piped = command.script.is_none() && command.chunks.is_empty();
        if done && (piped || command.script.is_some()) {
            done = run_script(state, command);
        }
        ffi::lua_pushboolean(state, done.into());
        1
    }
}

unsafe fn run_script(state: *mut lua_State, command: &Command) -> bool {
    // SAFETY: as for `protected`.
    unsafe {
        let script = command
            .script
            .map(|index| command.arguments[index].as_c_str());
        let name = match script {
            Some(name) if name != c"-" => name.as_ptr(),
            _ => std::ptr::null(),
        };
        let loaded = match command.program.module() {
            Some(module) => load_embedded(state, module),
            None => ffi::luaL_loadfilex(state, name, std::ptr::null()),
        };
        let first = command.script.map_or(command.arguments.len(), |index| {
            // The scheduler's first argument is the script itself.
            index + usize::from(command.program != Program::Service)
        });
        let rest = &command.arguments[first..];
        if loaded != ffi::LUA_OK {
            return finish(state, loaded, 0);
        }
        ffi::luaL_checkstack(
            state,
            rest.len() as c_int + 8,
            c"too many arguments".as_ptr(),
        );
        for argument in rest {
            ffi::lua_pushstring(state, argument.as_ptr());
        }
        finish(state, loaded, rest.len() as c_int)
    }
}

/// Loads a chunk that runs an embedded file with the arguments that it is given itself.
unsafe fn load_embedded(state: *mut lua_State, module: &CStr) -> c_int {
    let chunk = c"local name = ... return require('ltask.core').chunk(name)";
    let name = c"=lio".as_ptr();
    // SAFETY: as for `protected`.
    unsafe {
        let length = chunk.count_bytes();
        let loaded = ffi::luaL_loadbufferx(state, chunk.as_ptr(), length, name, std::ptr::null());
        if loaded != ffi::LUA_OK {
            return loaded;
        }
        ffi::lua_pushstring(state, module.as_ptr());
        ffi::lua_pcall(state, 1, 1, 0)
    }
}

/// Pushes `arg`: the script at 0, its arguments from 1, what stands before it at negative indices.
unsafe fn push_arguments(state: *mut lua_State, command: &Command) {
    // SAFETY: as for `protected`.
    unsafe {
        let script = command.script.unwrap_or(0) as i64;
        ffi::lua_createtable(state, command.arguments.len() as c_int, 1);
        for (index, argument) in command.arguments.iter().enumerate() {
            ffi::lua_pushstring(state, argument.as_ptr());
            ffi::lua_rawseti(state, -2, index as i64 - script);
        }
    }
}

/// Calls the chunk below its `arguments`, or reports why it did not load. True when all went well.
unsafe fn finish(state: *mut lua_State, loaded: c_int, arguments: c_int) -> bool {
    // SAFETY: as for `protected`.
    unsafe {
        if loaded != ffi::LUA_OK {
            report(state);
            return false;
        }
        let function = ffi::lua_gettop(state) - arguments;
        lio::function!(with_traceback).push(state, 0);
        ffi::lua_insert(state, function);
        let status = ffi::lua_pcall(state, arguments, 0, function);
        if status != ffi::LUA_OK {
            report(state);
        }
        ffi::lua_settop(state, function - 1);
        status == ffi::LUA_OK
    }
}

/// Message handler: text gets a traceback, an object with `__tostring` speaks for itself.
unsafe extern "C-unwind" fn with_traceback(state: *mut lua_State) -> c_int {
    // SAFETY: as for `protected`.
    unsafe {
        let mut message = ffi::lua_tostring(state, 1);
        if message.is_null() {
            if ffi::luaL_callmeta(state, 1, c"__tostring".as_ptr()) != 0
                && ffi::lua_type(state, -1) == ffi::LUA_TSTRING
            {
                return 1;
            }
            let name = ffi::luaL_typename(state, 1);
            let format = c"(error object is a %s value)".as_ptr();
            message = ffi::lua_pushfstring(state, format, name);
        }
        ffi::luaL_traceback(state, state, message, 1);
        1
    }
}

/// Writes the message on top of the stack to standard error and pops it.
unsafe fn report(state: *mut lua_State) {
    // SAFETY: reads the string on top.
    unsafe {
        let mut length = 0;
        let message = ffi::lua_tolstring(state, -1, &mut length);
        let text = match message.is_null() {
            true => "(error object is not a string)".into(),
            false => {
                let bytes = std::slice::from_raw_parts(message.cast::<u8>(), length);
                String::from_utf8_lossy(bytes)
            }
        };
        complain(format_args!("lio: {text}\n"));
        drop(text);
        ffi::lua_pop(state, 1);
    }
}
