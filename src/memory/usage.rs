//! The memory statistics and the memory limit of a VM.

use std::cell::Cell;

/// The number of object kinds that are counted.
pub(crate) const KINDS: usize = 8;

/// The names of the counts in [`Usage::counts`], in the same order.
pub(crate) const KIND_NAMES: [&str; KINDS] =
    ["other", "string", "table", "function", "userdata", "thread", "upvalue", "prototype"];

/// Lua's type tag for strings, the first kind of object. The other kinds follow.
const FIRST_TAG: usize = 4;

/// The VM's memory has shrunk if at least this number of bytes was in use, and at most a quarter of it still is. Between
/// two cycles of the collector, a VM's memory about doubles, and that memory will be used again.
const LARGE: usize = 8 << 20;

/// The statistics and the limit of a VM's memory.
#[derive(Default)]
pub(crate) struct Usage {
    used: Cell<usize>,
    peak: Cell<usize>,
    /// The highest number of bytes in use since [`Usage::forget_shrinking`] was called.
    recent_peak: Cell<usize>,
    limit: Cell<usize>,
    counts: [Cell<u64>; KINDS],
}

impl Usage {
    /// Returns the number of bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Returns the highest number of bytes that were ever in use at the same time.
    pub(crate) fn peak(&self) -> usize {
        self.peak.get()
    }

    /// Whether much less memory is in use than before.
    #[inline]
    pub(crate) fn has_shrunk(&self) -> bool {
        self.was_large() && self.used.get() <= self.recent_peak.get() / 4
    }

    /// Whether much memory was in use.
    pub(crate) fn was_large(&self) -> bool {
        self.recent_peak.get() >= LARGE
    }

    /// Compares the memory in use with the present amount from now on.
    pub(super) fn forget_shrinking(&self) {
        self.recent_peak.set(self.used.get());
    }

    /// Returns the limit in bytes; 0 means no limit.
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Sets the limit, in bytes (0: none), and returns the previous limit. Memory that is already in use beyond the
    /// limit stays allocated. Only growing fails, with the error `not enough memory`.
    pub(crate) fn set_limit(&self, limit: usize) -> usize {
        self.limit.replace(limit)
    }

    /// Returns how many objects of each kind Lua has ever created, in the order of [`KIND_NAMES`]. "other" counts parts
    /// of objects, such as arrays and stacks. Lua does not report the kind of objects that it frees, so these numbers
    /// only grow.
    pub(crate) fn counts(&self) -> [u64; KINDS] {
        std::array::from_fn(|kind| self.counts[kind].get())
    }

    /// Whether the limit allows `more` bytes beyond those in use.
    #[inline]
    pub(super) fn allows(&self, more: usize) -> bool {
        let limit = self.limit.get();
        limit == 0 || self.used.get().saturating_add(more) <= limit
    }

    /// Records that a block of `old` bytes now has `new` bytes.
    #[inline]
    pub(super) fn account(&self, old: usize, new: usize) {
        let used = self.used.get().wrapping_sub(old).wrapping_add(new);
        self.used.set(used);
        if used > self.recent_peak.get() {
            self.recent_peak.set(used);
            self.peak.set(self.peak.get().max(used));
        }
    }

    /// Records a new object of `size` bytes with Lua's type tag `tag`.
    #[inline]
    pub(super) fn count(&self, tag: usize, size: usize) {
        self.account(0, size);
        let kind = tag.wrapping_sub(FIRST_TAG - 1);
        let count = &self.counts[if kind < KINDS { kind } else { 0 }];
        count.set(count.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_shrunk_if_a_quarter_of_a_large_amount_remains() {
        let usage = Usage::default();
        usage.account(0, LARGE - 1);
        usage.account(LARGE - 1, 1);
        assert!(!usage.has_shrunk(), "too little");
        usage.account(1, 4 * LARGE);
        usage.account(4 * LARGE, LARGE + 1);
        assert!(!usage.has_shrunk(), "more than a quarter remains");
        usage.account(LARGE + 1, LARGE);
        assert!(usage.has_shrunk());
        usage.forget_shrinking();
        assert!(!usage.has_shrunk());
        usage.account(LARGE, 2);
        assert!(usage.has_shrunk());
        assert_eq!((usage.used(), usage.peak()), (2, 4 * LARGE));
    }
}
