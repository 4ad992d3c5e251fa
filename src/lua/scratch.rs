//! The receive buffer of a thread. Received bytes stay in the buffer until they are copied to a Lua string. This string
//! must be the first value that is pushed, so that no other code of the thread runs in between.

use super::returns::{Push, Pusher};
use std::cell::RefCell;

/// The size of the buffer, in bytes.
pub(crate) const SCRATCH_SIZE: usize = 64 * 1024;

thread_local!(static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

/// The first `n` bytes of the thread's buffer, as a string. If a step returns several values, this must be the first
/// value.
pub(crate) struct ScratchBytes(pub(crate) usize);

/// Calls `f` with the first `size` bytes of the thread's buffer, or with the whole buffer if `size` is larger.
pub(crate) fn scratch<R>(size: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
    BYTES.with_borrow_mut(|bytes| {
        if bytes.is_empty() {
            bytes.resize(SCRATCH_SIZE, 0);
        }
        f(&mut bytes[..size.min(SCRATCH_SIZE)])
    })
}

impl Push for ScratchBytes {
    #[inline]
    fn push(&mut self, mut to: Pusher<'_>) {
        let found = BYTES.with_borrow(|bytes| bytes.get(..self.0).map(|found| &raw const *found));
        match found {
            // SAFETY: the buffer is allocated once and never moves. Lua copies its bytes before other code of the
            // thread can run. No borrow is held when this raises.
            Some(found) => to.push_string(unsafe { &*found }),
            None => to.push_nil(),
        }
    }
}
