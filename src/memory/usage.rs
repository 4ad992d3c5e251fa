//! How much memory a VM has taken, how much it may take, and for what.

use std::cell::Cell;

/// How many kinds of objects are told apart.
pub(crate) const KINDS: usize = 8;

/// What [`Usage::counts`] counts, in its order.
pub(crate) const KIND_NAMES: [&str; KINDS] =
    ["other", "string", "table", "function", "userdata", "thread", "upvalue", "prototype"];

/// The type tag of the first kind of object, string: the others follow.
const FIRST_TAG: usize = 4;

/// Figures of a memory, and its limit.
#[derive(Default)]
pub(crate) struct Usage {
    used: Cell<usize>,
    peak: Cell<usize>,
    limit: Cell<usize>,
    counts: [Cell<u64>; KINDS],
}

impl Usage {
    /// Bytes that Lua holds.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// The most bytes that Lua ever held.
    pub(crate) fn peak(&self) -> usize {
        self.peak.get()
    }

    /// Bytes that Lua may hold; 0 is no limit.
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Sets the limit and returns the previous one. What Lua holds beyond it stays: only growing is
    /// refused, with `not enough memory`.
    pub(crate) fn set_limit(&self, limit: usize) -> usize {
        self.limit.replace(limit)
    }

    /// How many objects of each kind Lua has ever made, in the order of [`KIND_NAMES`]; "other" are
    /// the parts of objects: arrays, stacks and such. Lua does not say what it frees, so these only grow.
    pub(crate) fn counts(&self) -> [u64; KINDS] {
        std::array::from_fn(|kind| self.counts[kind].get())
    }

    /// Whether Lua may hold `more` bytes beyond what it does.
    #[inline]
    pub(super) fn allows(&self, more: usize) -> bool {
        let limit = self.limit.get();
        limit == 0 || self.used.get().saturating_add(more) <= limit
    }

    /// Notes that `old` bytes became `new` ones.
    #[inline]
    pub(super) fn account(&self, old: usize, new: usize) {
        let used = self.used.get().wrapping_sub(old).wrapping_add(new);
        self.used.set(used);
        if used > self.peak.get() {
            self.peak.set(used);
        }
    }

    /// Notes a new object of `size` bytes, by Lua's type tag.
    #[inline]
    pub(super) fn count(&self, tag: usize, size: usize) {
        self.account(0, size);
        let kind = tag.wrapping_sub(FIRST_TAG - 1);
        let count = &self.counts[if kind < KINDS { kind } else { 0 }];
        count.set(count.get() + 1);
    }
}
