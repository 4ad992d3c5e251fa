//! Where in the message each table begins, to find a table that comes a second time. Used by `encode`.
//!
//! Most messages have a handful of tables: those are searched one by one, the rest by a hash.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::hash_map::Entry;

const FEW: usize = 16;

pub(super) struct Seen {
    few: [(usize, usize); FEW],
    count: usize,
    many: FxHashMap<usize, usize>,
}

impl Seen {
    pub(super) const fn new() -> Self {
        Seen {
            few: [(0, 0); FEW],
            count: 0,
            many: FxHashMap::with_hasher(FxBuildHasher),
        }
    }

    pub(super) fn clear(&mut self) {
        if self.count <= FEW {
            self.count = 0;
            return;
        }
        self.count = 0;
        // Clearing costs as much as the map is large, so a large one does not stay.
        if self.many.capacity() > 1024 {
            self.many = FxHashMap::default();
        }
        self.many.clear();
    }

    /// The offset that the table at `address` was entered with, or nothing: then it enters with this one.
    #[inline]
    pub(super) fn enter(&mut self, address: usize, offset: usize) -> Option<usize> {
        let few = &self.few[..self.count.min(FEW)];
        if let Some((_, first)) = few.iter().find(|(known, _)| *known == address) {
            return Some(*first);
        }
        if self.count < FEW {
            self.few[self.count] = (address, offset);
            self.count += 1;
            return None;
        }
        match self.many.entry(address) {
            Entry::Occupied(entry) => Some(*entry.get()),
            Entry::Vacant(entry) => {
                entry.insert(offset);
                self.count += 1;
                None
            }
        }
    }
}
