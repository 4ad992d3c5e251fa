//! Bytes of the thread, where what is received lies until it is a string of Lua's: nothing else of the thread runs in
//! between, when that string is pushed first.

use super::returns::{Push, Pusher};
use std::cell::RefCell;

/// How many there are.
pub(crate) const SCRATCH: usize = 64 * 1024;

thread_local!(static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

/// The first `n` bytes of the thread's, as a string. To be the first of several values.
pub(crate) struct Scratched(pub(crate) usize);

/// Calls `f` with the thread's bytes, of which there are [`SCRATCH`], or as many as `size` when that is less.
pub(crate) fn scratch<R>(size: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
    BYTES.with_borrow_mut(|bytes| {
        if bytes.is_empty() {
            bytes.resize(SCRATCH, 0);
        }
        f(&mut bytes[..size.min(SCRATCH)])
    })
}

impl Push for Scratched {
    #[inline]
    fn push(&mut self, mut to: Pusher<'_>) {
        let found = BYTES.with_borrow(|bytes| bytes.get(..self.0).map(|found| &raw const *found));
        match found {
            // SAFETY: the thread's bytes are never moved once they are there, and Lua has copied them before anything else
            // of the thread can run. No borrow is held when this raises.
            Some(found) => to.push_string(unsafe { &*found }),
            None => to.push_nil(),
        }
    }
}
