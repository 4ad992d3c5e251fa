//! The offsets at which tables begin in a message, to find tables that occur again. Used by `write`.
//!
//! Most messages have few tables, so the first 16 tables are searched one by one, and the other tables in a hash map.

use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

const FEW_TABLES: usize = 16;

#[derive(Default)]
pub(super) struct TableOffsets {
    few: [(usize, usize); FEW_TABLES],
    count: usize,
    many: FxHashMap<usize, usize>,
}

impl TableOffsets {
    pub(super) fn clear(&mut self) {
        if self.count > FEW_TABLES {
            // Clearing costs time proportional to the capacity, so a large map is replaced.
            match self.many.capacity() {
                0..=1024 => self.many.clear(),
                _ => self.many = FxHashMap::default(),
            }
        }
        self.count = 0;
    }

    /// If the table `identity` was entered before, returns its offset. Otherwise enters it with `offset` and returns
    /// `None`.
    #[inline]
    pub(super) fn enter(&mut self, identity: usize, offset: usize) -> Option<usize> {
        let few = &mut self.few[..self.count.min(FEW_TABLES)];
        if let Some((_, first)) = few.iter().find(|(known, _)| *known == identity) {
            return Some(*first);
        }
        if self.count < FEW_TABLES {
            self.few[self.count] = (identity, offset);
        } else {
            match self.many.entry(identity) {
                Entry::Occupied(entry) => return Some(*entry.get()),
                Entry::Vacant(entry) => entry.insert(offset),
            };
        }
        self.count += 1;
        None
    }
}
