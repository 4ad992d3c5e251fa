//! The entries that the core creates in the registry of every VM.

use super::block::shared_key;
use super::call::Call;
use super::fault::Fault;
use super::function::{FunctionTable, functions};
use super::object::{self, Object};
use super::pusher::Pusher;
use super::standard_file::FILE_NAME;
use super::store::Store;
use super::vm_context::{StoreHandle, store_of};

/// Creates the VM's store if it has none, and registers the name of the standard library's file type.
pub(crate) fn ensure_store(to: &mut Pusher<'_>) {
    to.need(8, None);
    // A VM that the core created has its store in its context, but needs the name as well.
    to.push_string(b"FILE*");
    to.register(FILE_NAME.pointer());
    if store_of(to).is_some() {
        return;
    }
    // The store is created after Lua has allocated a block for its handle.
    object::push(to, || Some(StoreHandle(Box::leak(Box::default()))));
    match store_of(to) {
        // A finalizer has created a store in the meantime.
        Some(_) => to.drop_top(),
        None => to.register(shared_key::<Store>()),
    }
}

impl Object for StoreHandle {
    const NAME: &'static str = "lio.store";
    const META: FunctionTable = functions! { __gc = close };
}

/// The finalizer of a store. Closes the store. If the VM is closing, also drops the values that a memory error has left
/// in the store.
fn close(call: &mut Call<'_>) -> Result<(), Fault> {
    let Ok(&StoreHandle(store)) = call.object::<StoreHandle>(1) else { return Ok(()) };
    store.close();
    if call.has_no_caller()? {
        store.release(0);
    }
    Ok(())
}
