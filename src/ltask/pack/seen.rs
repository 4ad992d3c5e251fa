//! Where in the message each table begins, to find a table that comes a second time. Used by `encode`.
//!
//! Most messages have a handful of tables: those are searched one by one, the rest by a hash.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

const FEW: usize = 16;

/// Spreads an address: a table is aligned, and its neighbours are tables as well.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(*byte as usize);
        }
    }

    fn write_usize(&mut self, value: usize) {
        let mixed = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

pub(super) struct Seen {
    few: [(usize, usize); FEW],
    count: usize,
    many: HashMap<usize, usize, BuildHasherDefault<AddressHasher>>,
}

impl Seen {
    pub(super) const fn new() -> Self {
        Seen {
            few: [(0, 0); FEW],
            count: 0,
            many: HashMap::with_hasher(BuildHasherDefault::new()),
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
            self.many = HashMap::default();
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
