//! Values that a VM keeps in its registry for the library's functions.

use super::fault::Fault;
use super::pusher::Pusher;
use super::returns::Push;
use super::stack::Stack;
use super::state::{Key, Kind, State};
use std::ffi::c_int;

/// The name of a value that a VM keeps. A script can change the value with the debug library, so code that uses the
/// value checks its type.
pub(crate) struct RegistryName(Key);

impl RegistryName {
    pub(crate) const fn new() -> RegistryName {
        RegistryName(Key::new(0))
    }

    /// Pushes the value; nil if there is none.
    pub(super) fn push(&'static self, to: &mut State) -> Kind {
        to.push_registered(self.0.pointer())
    }
}

impl Stack {
    /// Pushes the value that the VM keeps as `name`; nil if there is none. Returns the index of the pushed value.
    pub(crate) fn registered(&mut self, name: &'static RegistryName) -> Result<c_int, Fault> {
        self.reserve(1)?;
        name.push(self);
        Ok(self.count())
    }

    /// Returns the identity of the table or function that the VM keeps as `name`; 0 if there is none.
    pub(crate) fn registered_identity(&mut self, name: &'static RegistryName) -> usize {
        // A step has a spare slot.
        name.push(self);
        self.pop_identity()
    }

    /// Pushes a field of the metatable that the value at `index` has, or nil if there is no such field. The VM keeps
    /// the field's key as `name`. Returns the index of the pushed value.
    pub(crate) fn metafield(&mut self, index: c_int, name: &'static RegistryName) -> Result<c_int, Fault> {
        self.reserve(3)?;
        let found = self.count() + 1;
        match self.push_metatable(index) {
            false => self.push_nil(),
            true => {
                name.push(self);
                self.get_top(found);
                self.replace_with_top(found);
            }
        }
        self.room += 2;
        Ok(found)
    }
}

/// A value that the VM also keeps under a name.
pub(crate) struct Register<V>(pub(crate) &'static RegistryName, pub(crate) V);

impl<V: Push> Push for Register<V> {
    const REFERS_TO_STACK: bool = V::REFERS_TO_STACK;
    fn push(&mut self, mut to: Pusher<'_>) {
        self.1.push(to.reborrow());
        let value = to.count();
        to.push_copy(value);
        to.register(self.0.0.pointer());
    }
}
