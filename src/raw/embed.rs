//! What is built in, for raw code. // bridge

use crate::lua::library::{self, Place};
use crate::modules::Builtin;
use mlua::ffi::lua_State;

pub(crate) use library::{compiled, push_compiled};

/// An embedded Lua file: its text and its chunk's name.
pub(crate) fn text(module: &[u8]) -> Option<(&'static [u8], &'static str)> {
    let file = library::embedded(module)?;
    Some((file.text, file.chunk.to_str().unwrap_or("=lio")))
}

/// Whether a service finds this module without a look at files.
pub(crate) fn is_for_services(name: &[u8]) -> bool {
    library::is_for_services::<Builtin>(name)
}

/// Makes what is built in loadable: right behind `package.path` when there is a position, or behind all else.
///
/// # Safety
/// As for [`library::install`].
pub(crate) unsafe fn install(state: *mut lua_State, position: Option<i64>) {
    let place = match position {
        Some(_) => Place::BehindPath,
        None => Place::Last,
    };
    // SAFETY: the caller keeps what the library asks for.
    unsafe { library::install::<Builtin>(state, place) }
}

/// In the VM of a service: what each service needs is found without a look at files.
///
/// # Safety
/// As for [`install`].
pub(crate) unsafe fn install_first(state: *mut lua_State) {
    // SAFETY: the VM is prepared like that of a program.
    unsafe { library::install_for_service::<Builtin>(state) }
}
