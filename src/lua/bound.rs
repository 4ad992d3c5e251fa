//! Tables of functions that share an upvalue.

use super::function::{Function, FunctionTable};
use super::pusher::Pusher;
use super::returns::Push;
use std::ffi::c_int;

/// A table of functions that share an upvalue: the value at the index `upvalue`. The functions are added to the table
/// at the index `table`, or to a new table if `table` is `None`. If `copied` is given, the fields of the table at that
/// index are added first. All indexes are stack indexes of the calling function.
pub(crate) struct BoundFunctions {
    pub(crate) list: FunctionTable,
    pub(crate) upvalue: c_int,
    pub(crate) table: Option<c_int>,
    pub(crate) copied: Option<c_int>,
}

impl Push for BoundFunctions {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        to.need(8, None);
        match self.table {
            Some(index) => to.push_copy(index),
            None => to.push_table(0, 4),
        }
        if let Some(copied) = self.copied {
            to.push_copy(copied);
            to.push_nil();
            let key = to.count();
            while to.next() {
                to.push_copy(key - 2);
                to.push_copy(key);
                to.push_copy(key + 1);
                to.set_pair();
                to.drop_to(key);
            }
            to.drop_to(key - 2);
        }
        for (name, function) in self.list {
            to.push_string(name.to_bytes());
            to.push_copy(self.upvalue);
            to.push_closure(function.0, 1);
            to.set_pair();
        }
    }
}

/// A new table whose `__index` metamethod is the given function. If a stack index of the calling function is given, the
/// value at this index becomes the upvalue of the `__index` function.
pub(crate) struct LazyTable(pub(crate) Function, pub(crate) Option<c_int>);

impl Push for LazyTable {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_table(0, 0);
        to.push_table(0, 1);
        if let Some(index) = self.1 {
            to.push_copy(index);
        }
        to.push_closure(self.0.0, self.1.is_some().into());
        to.set_field(c"__index");
        to.set_top_metatable();
    }
}
