//! What the core keeps in a VM's registry from the start.

use super::block::shared_key;
use super::call::Call;
use super::fault::Fault;
use super::function::{FunctionTable, functions};
use super::home::{Place, store_of};
use super::object::{self, Object};
use super::pusher::Pusher;
use super::standard_file::FILE_NAME;
use super::store::Store;

impl Object for Place {
    const NAME: &'static str = "lio.store";
    const META: FunctionTable = functions! { __gc = close };
}

/// The store's finalizer. When the VM closes, nobody else drops what a memory error has left here.
fn close(call: &mut Call<'_>) -> Result<(), Fault> {
    let Ok(&Place(store)) = call.object::<Place>(1) else { return Ok(()) };
    store.close();
    if call.is_called_by_nobody()? {
        store.leave(0);
    }
    Ok(())
}

/// Gives the VM a store, unless it has one, and the name by which files are known.
pub(crate) fn ensure(to: &mut Pusher<'_>) {
    to.need(8, None);
    // Also a VM of our own, which has its store elsewhere, needs the name.
    to.push_string(b"FILE*");
    to.register(FILE_NAME.pointer());
    if store_of(to).is_some() {
        return;
    }
    // Made once Lua has a block for it.
    object::push(to, || Some(Place(Box::leak(Box::default()))));
    match store_of(to) {
        // A finalizer was faster.
        Some(_) => to.drop_top(),
        None => to.register(shared_key::<Store>()),
    }
}
