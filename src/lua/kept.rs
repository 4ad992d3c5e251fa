//! Values that a VM keeps for the library's functions, and code in Lua.

use super::fault::Fault;
use super::pusher::Pusher;
use super::returns::Push;
use super::stack::Stack;
use super::state::{Key, Kind, State};
use std::ffi::{CStr, c_int};

/// The name of a kept value. A script can change the value by the debug library, so its users check its type.
pub(crate) struct Kept(Key);

impl Kept {
    pub(crate) const fn new() -> Kept {
        Kept(Key::new(0))
    }

    /// Pushes the value; nil if there is none.
    pub(super) fn push(&'static self, to: &mut State) -> Kind {
        to.push_registered(self.0.pointer())
    }
}

impl Stack {
    /// Pushes the value that the VM keeps as `name`; nil if there is none. Returns its index.
    pub(crate) fn kept(&mut self, name: &'static Kept) -> Result<c_int, Fault> {
        self.reserve(1)?;
        name.push(self);
        Ok(self.count())
    }

    /// Returns the identity of the table or function that the VM keeps as `name`; 0 if there is none.
    pub(crate) fn kept_identity(&mut self, name: &'static Kept) -> usize {
        // A step has a spare slot.
        name.push(self);
        self.pop_identity()
    }

    /// Pushes a field of the metatable of the value at `index`: the field whose name the VM keeps as `name`. Pushes nil
    /// if there is none. Returns its index.
    pub(crate) fn metafield(&mut self, index: c_int, name: &'static Kept) -> Result<c_int, Fault> {
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

/// A value that the VM keeps from now on.
pub(crate) struct Keep<V>(pub(crate) &'static Kept, pub(crate) V);

impl<V: Push> Push for Keep<V> {
    const REFERS: bool = V::REFERS;
    fn push(&mut self, mut to: Pusher<'_>) {
        self.1.push(to.again());
        let value = to.count();
        to.push_copy(value);
        to.register(self.0.0.pointer());
    }
}

/// Lua code as a function; messages show its name. A syntax error is raised.
pub(crate) struct Code {
    pub(crate) name: &'static CStr,
    pub(crate) text: &'static str,
}

impl Push for Code {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_code(self.text.as_bytes(), self.name, Some(c"t"));
    }
}
