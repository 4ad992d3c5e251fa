//! What the core keeps in a VM's registry from the start.

use super::block::shared_key;
use super::call::Call;
use super::fault::Fault;
use super::function::Function;
use super::home::{Place, store_of};
use super::object::{self, Object};
use super::standard_file::FILE_NAME;
use super::store::Store;
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;

impl Object for Place {
    const NAME: &'static CStr = c"lio.store";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
    const META: &'static [(&'static CStr, Function)] = &[(c"__gc", Function::new(close))];
}

/// The store's finalizer. When the VM closes, nobody else drops what a memory error has left here.
fn close(call: &mut Call<'_>) -> Result<(), Fault> {
    let Ok(&Place(store)) = call.object::<Place>(1) else {
        return Ok(());
    };
    store.close();
    if call.is_called_by_nobody()? {
        store.leave(0);
    }
    Ok(())
}

/// Gives the VM a store, unless it has one, and the name by which files are known.
///
/// # Safety
/// `state` is valid, with 8 free stack slots; may raise, so no frame between here and Lua owns anything.
pub(crate) unsafe fn ensure(state: *mut lua_State) {
    // SAFETY: the caller's promise; made once Lua has a block for it.
    unsafe {
        // Also a VM of our own, which has its store elsewhere, needs the name.
        ffi::lua_pushstring(state, c"FILE*".as_ptr());
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, FILE_NAME.pointer());
        if store_of(state).is_some() {
            return;
        }
        let made = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(Place(Box::leak(Box::default())))
        });
        let Ok(_) = made;
        match store_of(state) {
            // A finalizer was faster.
            Some(_) => ffi::lua_pop(state, 1),
            None => ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, shared_key::<Store>()),
        }
    }
}
