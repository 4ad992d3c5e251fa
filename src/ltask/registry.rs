//! Finds a service's mailbox by its id.
//!
//! An id consists of a slot number (low bits) and a generation (high bits). The memory of slots is not freed while the
//! system exists. So a sender with an old id finds a valid slot, which has another id: the message is refused and
//! cannot reach a new service. A freed slot waits in a queue behind many other slots before it is used again. An id is
//! used again only after all generations of its slot have been used.

use super::event::Event;
use super::mailbox::Mailbox;
use super::message::{Message, ServiceId};
use super::statistics::Statistics;
use super::sync::lock;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};

const CHUNK: usize = 64;
/// The number of freed slots that wait before the first of them is used again.
const REUSE_DELAY: usize = 1024;

/// The slots of all services.
pub(crate) struct Registry<V> {
    chunks: Box<[OnceLock<Chunk<V>>]>,
    /// The number of slots (a power of two) minus one.
    mask: u32,
    /// The number of bits of the slot number in an id.
    bits: u32,
    max_services: usize,
    /// The capacity of each mailbox.
    queue: usize,
    free_slots: Mutex<FreeSlots>,
}

impl<V> Registry<V> {
    /// Creates slots for `max_services` services, each with a mailbox of capacity `queue`.
    pub(crate) fn new(max_services: usize, queue: usize) -> Registry<V> {
        // One more slot for id 0, and the slots that wait before they are used again.
        let count = (max_services + 1 + REUSE_DELAY).next_power_of_two().max(CHUNK);
        Registry {
            chunks: (0..count / CHUNK).map(|_| OnceLock::new()).collect(),
            mask: count as u32 - 1,
            bits: count.trailing_zeros(),
            max_services,
            queue,
            free_slots: Mutex::new(FreeSlots { freed: VecDeque::new(), next_unused: 1, reserved: Vec::new(), used: 0 }),
        }
    }

    #[inline]
    fn index(&self, id: ServiceId) -> usize {
        (id & self.mask) as usize
    }

    /// Returns the slot of `id`; None if the memory of the slot was never allocated. The slot may belong to another id
    /// by now; its mailbox checks the id.
    #[inline]
    pub(crate) fn get(&self, id: ServiceId) -> Option<&Slot<V>> {
        let index = self.index(id);
        let chunk = self.chunks[index / CHUNK].get()?;
        Some(&chunk[index % CHUNK])
    }

    /// Returns a reference to the slot of `id` that the caller can keep.
    pub(crate) fn slot_ref(&self, id: ServiceId) -> Option<SlotRef<V>> {
        let index = self.index(id);
        let chunk = self.chunks[index / CHUNK].get()?.clone();
        Some(SlotRef { chunk, index })
    }

    fn get_or_create(&self, id: ServiceId) -> &Slot<V> {
        let index = self.index(id);
        let chunk = self.chunks[index / CHUNK].get_or_init(|| {
            let create = |_| Slot { mailbox: Mailbox::new(self.queue), statistics: Mutex::new(None) };
            Arc::new(std::array::from_fn(create))
        });
        &chunk[index % CHUNK]
    }

    /// Assigns a slot to a new service. Returns the service's id, which is `wanted` unless `wanted` is 0. Returns None
    /// if there are too many services, or if `wanted` is taken or too high.
    pub(crate) fn open(&self, wanted: ServiceId) -> Option<ServiceId> {
        let id = {
            let mut free_slots = lock(&self.free_slots);
            if free_slots.used >= self.max_services {
                return None;
            }
            let id = match wanted {
                0 => free_slots.next(self.bits)?,
                _ => free_slots.reserve(wanted, self.bits)?,
            };
            free_slots.used += 1;
            id
        };
        let slot = self.get_or_create(id);
        slot.mailbox.open(id);
        Some(id)
    }

    /// Sets the statistics of a service.
    pub(crate) fn set_statistics(&self, id: ServiceId, statistics: Arc<Statistics>) {
        if id != 0
            && let Some(slot) = self.get(id)
        {
            *lock(&slot.statistics) = Some(statistics);
        }
    }

    /// Frees the slot of a dead service. Returns false if the service is not dead.
    pub(crate) fn free(&self, id: ServiceId) -> bool {
        let Some(slot) = self.get(id) else { return false };
        if !slot.mailbox.free(id) {
            return false;
        }
        *lock(&slot.statistics) = None;
        let mut free_slots = lock(&self.free_slots);
        free_slots.used -= 1;
        let generation = (id.wrapping_add(1 << self.bits)) >> self.bits;
        let index = self.index(id) as u32;
        free_slots.freed.push_back((index, generation));
        true
    }

    /// Returns all allocated slots, used or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Slot<V>> {
        self.chunks.iter().filter_map(|chunk| chunk.get()).flat_map(|chunk| chunk.iter())
    }
}

/// One slot. `V` is the VM of a service.
pub(crate) struct Slot<V> {
    pub(crate) mailbox: Mailbox<Message, V, Arc<Event>>,
    statistics: Mutex<Option<Arc<Statistics>>>,
}

impl<V> Slot<V> {
    /// Returns the statistics of the slot's service, if any. Any thread may read them.
    pub(crate) fn statistics(&self) -> Option<Arc<Statistics>> {
        lock(&self.statistics).clone()
    }
}

type Chunk<V> = Arc<[Slot<V>; CHUNK]>;

/// A reference to a slot, which saves the lookup.
pub(crate) struct SlotRef<V> {
    chunk: Chunk<V>,
    index: usize,
}

impl<V> Deref for SlotRef<V> {
    type Target = Slot<V>;
    #[inline]
    fn deref(&self) -> &Slot<V> {
        &self.chunk[self.index % CHUNK]
    }
}

/// The slots that new services can get.
struct FreeSlots {
    /// The numbers of freed slots, each with the slot's next generation.
    freed: VecDeque<(u32, u32)>,
    /// The number of the first slot that was never used.
    next_unused: u32,
    /// The numbers of slots after `next_unused` that were assigned because `open` was called with their id.
    reserved: Vec<u32>,
    /// The number of slots in use.
    used: usize,
}

impl FreeSlots {
    fn next(&mut self, bits: u32) -> Option<ServiceId> {
        while self.reserved.contains(&self.next_unused) {
            self.next_unused += 1;
        }
        if self.freed.len() >= REUSE_DELAY || self.next_unused >> bits != 0 {
            let (index, generation) = self.freed.pop_front()?;
            return Some(generation << bits | index);
        }
        self.next_unused += 1;
        Some(self.next_unused - 1)
    }

    fn reserve(&mut self, wanted: ServiceId, bits: u32) -> Option<ServiceId> {
        if let Some(at) = self.freed.iter().position(|&(index, _)| index == wanted) {
            self.freed.remove(at);
            return Some(wanted);
        }
        if wanted >> bits != 0 || wanted < self.next_unused || self.reserved.contains(&wanted) {
            return None;
        }
        if wanted == self.next_unused {
            self.next_unused += 1;
        } else {
            self.reserved.push(wanted);
        }
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_begin_at_one_and_skip_those_that_were_assigned_explicitly() {
        let registry = Registry::<()>::new(100, 4);
        assert_eq!(registry.open(1), Some(1));
        assert_eq!(registry.open(3), Some(3));
        assert_eq!(registry.open(3), None);
        assert_eq!(registry.open(1), None);
        assert_eq!(registry.open(0), Some(2));
        assert_eq!(registry.open(0), Some(4));
        registry.get(3).unwrap().mailbox.kill(3, &mut Vec::new());
        assert!(registry.free(3));
        assert_eq!(registry.open(3), Some(3));
    }

    #[test]
    fn an_id_is_not_reused_soon() {
        let registry = Registry::<()>::new(10, 4);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..200_000 {
            let id = registry.open(0).unwrap();
            assert!(id != 0 && seen.insert(id));
            registry.get(id).unwrap().mailbox.kill(id, &mut Vec::new());
            assert!(registry.free(id));
            assert!(!registry.free(id));
        }
    }

    #[test]
    fn the_number_of_services_is_limited() {
        let registry = Registry::<()>::new(2, 4);
        assert!(registry.open(0).is_some() && registry.open(0).is_some());
        assert_eq!(registry.open(0), None);
    }
}
