//! The modules that are built in: native ones, and the Lua files of `lualib/`.
//!
//! Both hosts reach them by a searcher. It stands behind the one for `package.path`, so that a file the
//! user put there takes precedence.

use super::{Function, Text, args, function, functions, push_bytes, raise};
use mlua::ffi::{self, lua_State};
use std::collections::HashMap;
use std::ffi::CString;
use std::os::raw::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

const NATIVE: &[(&str, Function)] = functions![
    ("lio", crate::selector::lua::open_module),
    ("lio.socket", |state| crate::modules::socket::OPEN
        .run(state)),
    ("lio.signal", crate::selector::signal::open_module),
    ("lio.stream", crate::stream::lua::open_module),
    ("lio.file", |state| crate::modules::file::OPEN.run(state)),
    ("lio.http", crate::http::lua::open_module),
    ("lio.compress", |state| crate::modules::compress::OPEN
        .run(state)),
    ("lio.json", crate::http::json::open_module),
    ("lio.outlet", |state| crate::modules::outlet::OPEN
        .run(state)),
    ("lio.resolver", |state| crate::modules::resolver::OPEN
        .run(state)),
    ("ltask", crate::ltask::lua::ltask::open_module),
    ("ltask.bootstrap", crate::ltask::lua::bootstrap::open_module),
    ("ltask.exclusive", crate::ltask::lua::exclusive::open_module),
    ("ltask.root", crate::ltask::lua::root::open_module),
    ("ltask.core", crate::ltask::lua::core::open_module),
    ("lio.task.core", crate::task::lua::open_module),
    ("lio.coroutine", crate::task::coroutine::open_module),
    ("lio.timer", |state| crate::modules::timer::OPEN.run(state)),
    ("lio.watched", crate::watched::lua::open_module),
];

/// Pushes the loader of a built-in module, and its name for error messages; false when there is none.
unsafe fn push_loader(state: *mut lua_State, name: &[u8]) -> bool {
    // SAFETY: plain stack work; the sources are static.
    unsafe {
        if let Some((_, open)) = NATIVE.iter().find(|(module, _)| module.as_bytes() == name) {
            open.push(state, 0);
            push_bytes(state, b":built-in:");
            return true;
        }
        let found = SOURCES
            .iter()
            .find(|(module, _, _)| module.as_bytes() == name);
        let Some((_, path, source)) = found else {
            return false;
        };
        let mut chunk = [0u8; 128];
        let length = path.len().min(chunk.len() - 1);
        chunk[..length].copy_from_slice(&path.as_bytes()[..length]);
        let loaded = ffi::luaL_loadbufferx(
            state,
            source.as_ptr().cast(),
            source.len(),
            chunk.as_ptr().cast(),
            c"t".as_ptr(),
        );
        if loaded != ffi::LUA_OK {
            ffi::lua_error(state);
        }
        push_bytes(state, &path.as_bytes()[1..]);
        true
    }
}

unsafe extern "C-unwind" fn searcher(state: *mut lua_State) -> c_int {
    // SAFETY: called by `require` with the module's name.
    unsafe {
        let name = args::bytes(state, 1);
        if push_loader(state, name) {
            return 2;
        }
        if name.starts_with(b"lio") {
            ffi::lua_pushfstring(state, c"no built-in module '%s'".as_ptr(), name.as_ptr());
            return 1;
        }
        0
    }
}

/// Loads and runs an embedded Lua file; returns its value.
///
/// # Safety
/// Called by Lua's `require` through an entry point.
pub(crate) unsafe fn open_embedded(state: *mut lua_State, module: &str) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        install(state, None);
        if !push_loader(state, module.as_bytes()) {
            raise(state, Text::new("the module is not built in"));
        }
        push_bytes(state, module.as_bytes());
        ffi::lua_rotate(state, -2, 1);
        ffi::lua_call(state, 2, 1);
        1
    }
}

/// Precompiled library files, with the lines and names that tracebacks show, by module: made at first use, kept for good.
static COMPILED: Mutex<Option<HashMap<&'static str, &'static [u8]>>> = Mutex::new(None);

/// An embedded Lua file: its text and its chunk's name.
pub(crate) fn text(module: &[u8]) -> Option<(&'static [u8], &'static str)> {
    SOURCES
        .iter()
        .find(|(name, _, _)| name.as_bytes() == module)
        .map(|(_, path, source)| (*source, *path))
}

/// An embedded Lua file as a precompiled chunk, for VMs that are made by the thousand.
pub(crate) fn compiled(module: &str) -> Option<&'static [u8]> {
    let mut guard = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = guard.get_or_insert_with(HashMap::new);
    if let Some(&chunk) = known.get(module) {
        return Some(chunk);
    }
    let (name, path, source) = SOURCES.iter().find(|(name, _, _)| *name == module)?;
    let chunk: &'static [u8] = compile(source, path)?.leak();
    known.insert(name, chunk);
    Some(chunk)
}

fn compile(source: &[u8], path: &str) -> Option<Vec<u8>> {
    let mut chunk = Vec::new();
    let chunk_name = CString::new(path).ok()?;
    // SAFETY: a state of its own; loading and dumping report failures by their results.
    unsafe {
        let state = ffi::luaL_newstate();
        if state.is_null() {
            return None;
        }
        let data = source.as_ptr().cast();
        let loaded = ffi::luaL_loadbufferx(
            state,
            data,
            source.len(),
            chunk_name.as_ptr(),
            c"t".as_ptr(),
        );
        let dumped =
            loaded == ffi::LUA_OK && ffi::lua_dump(state, append, (&raw mut chunk).cast(), 0) == 0;
        ffi::lua_close(state);
        dumped.then_some(chunk)
    }
}

unsafe extern "C-unwind" fn append(
    _: *mut lua_State,
    data: *const c_void,
    size: usize,
    chunk: *mut c_void,
) -> c_int {
    if size > 0 {
        // SAFETY: `lua_dump` passes the vector of `compile`, and a block of that size.
        unsafe {
            let chunk = &mut *chunk.cast::<Vec<u8>>();
            chunk.extend_from_slice(std::slice::from_raw_parts(data.cast(), size));
        }
    }
    0
}

/// What each service needs: native modules, and library files that are loaded precompiled.
const SERVICE: &[(&str, Function)] = functions![
    ("ltask", crate::ltask::lua::ltask::open_module),
    ("ltask.core", crate::ltask::lua::core::open_module),
    ("ltask.root", crate::ltask::lua::root::open_module),
    ("ltask.exclusive", crate::ltask::lua::exclusive::open_module),
    ("lio.task", crate::task::lua::open_lazy),
    ("ltask.more", open_compiled),
    ("ltask.request", open_compiled),
    ("ltask.loader", open_compiled),
    ("skynet.debug", open_compiled),
    ("skynet.errors", open_compiled),
    ("skynet.inspect", open_compiled),
    ("skynet.launch", open_compiled),
    ("skynet.message", open_compiled),
    ("skynet.names", open_compiled),
    ("skynet.packing", open_compiled),
    ("skynet.protocol", open_compiled),
    ("skynet.request", open_compiled),
    ("skynet.response", open_compiled),
    ("skynet.services", open_compiled),
    ("skynet.task", open_compiled),
    ("skynet.time", open_compiled),
    ("skynet.trace", open_compiled),
];

/// In the VM of a service: what each service needs is found without a look at files.
///
/// # Safety
/// As for [`install`].
pub(crate) unsafe fn install_first(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe { insert(state, function!(service_searcher), Some(1)) }
}

/// Whether a service finds this module without a look at files.
pub(crate) fn is_for_services(name: &[u8]) -> bool {
    SERVICE.iter().any(|(module, _)| module.as_bytes() == name)
}

unsafe extern "C-unwind" fn service_searcher(state: *mut lua_State) -> c_int {
    // SAFETY: called by `require` with the module's name.
    unsafe {
        let name = args::bytes(state, 1);
        let found = SERVICE.iter().find(|(module, _)| module.as_bytes() == name);
        let Some((_, open)) = found else { return 0 };
        open.push(state, 0);
        push_bytes(state, b":built-in:");
        2
    }
}

/// Pushes an embedded Lua file as a function; raises when there is none.
///
/// # Safety
/// As for [`install`].
pub(crate) unsafe fn push_compiled(state: *mut lua_State, module: &str) {
    // SAFETY: plain stack work.
    unsafe {
        let Some(chunk) = compiled(module) else {
            raise(state, Text::new("the module is not built in"));
        };
        let data = chunk.as_ptr().cast();
        let loaded =
            ffi::luaL_loadbufferx(state, data, chunk.len(), c"=lio".as_ptr(), c"b".as_ptr());
        if loaded != ffi::LUA_OK {
            ffi::lua_error(state);
        }
    }
}

unsafe extern "C-unwind" fn open_compiled(state: *mut lua_State) -> c_int {
    // SAFETY: called by `require` with the module's name.
    unsafe {
        push_compiled(state, args::utf8(state, 1));
        ffi::lua_pushvalue(state, 1);
        ffi::lua_call(state, 1, 1);
        1
    }
}

static INSTALLED: super::object::Key = super::object::Key::new(3);

/// Adds the searcher to `package.searchers`, once per VM: at `position`, or at the end.
///
/// # Safety
/// `state` is valid, with its standard library open and 6 free stack slots.
pub(crate) unsafe fn install(state: *mut lua_State, position: Option<i64>) {
    // SAFETY: plain stack work.
    unsafe {
        let top = ffi::lua_gettop(state);
        let mark = INSTALLED.pointer();
        if ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, mark) == ffi::LUA_TBOOLEAN {
            ffi::lua_settop(state, top);
            return;
        }
        ffi::lua_pushboolean(state, 1);
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, mark);
        ffi::lua_settop(state, top);
        crate::lua::store::ensure(state);
        insert(state, function!(searcher), position);
    }
}

/// Puts a searcher into `package.searchers`: at `position`, or at the end.
unsafe fn insert(state: *mut lua_State, function: Function, position: Option<i64>) {
    // SAFETY: plain stack work.
    unsafe {
        let top = ffi::lua_gettop(state);
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        let package = ffi::lua_getfield(state, -1, c"package".as_ptr()) == ffi::LUA_TTABLE;
        if !package || ffi::lua_getfield(state, -1, c"searchers".as_ptr()) != ffi::LUA_TTABLE {
            // A host without `package`: its own loader must know us.
            ffi::lua_settop(state, top);
            return;
        }
        let count = ffi::lua_rawlen(state, -1) as i64;
        let position = position.unwrap_or(count + 1).clamp(1, count + 1);
        for index in (position..=count).rev() {
            ffi::lua_rawgeti(state, -1, index);
            ffi::lua_rawseti(state, -2, index + 1);
        }
        function.push(state, 0);
        ffi::lua_rawseti(state, -2, position);
        ffi::lua_settop(state, top);
    }
}
