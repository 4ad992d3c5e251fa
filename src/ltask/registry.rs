//! Finds a service's mailbox by its id.
//!
//! An id is a slot (low bits) and a generation (high bits). Slots are not freed while the system exists. So a sender
//! with an old id finds valid memory, and under its lock another id: the message is refused and cannot reach a new
//! service. A freed slot waits in a queue behind many others before it is used again, so an id returns only after all
//! generations of its slot.

use super::event::Event;
use super::mailbox::Mailbox;
use super::message::{Message, ServiceId};
use super::statistics::Statistics;
use super::sync::lock;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};

/// One slot. `B` is the VM of a service.
pub(crate) struct Slot<B> {
    pub(crate) mailbox: Mailbox<Message, B, Arc<Event>>,
    statistics: Mutex<Option<Arc<Statistics>>>,
}

impl<B> Slot<B> {
    /// The statistics of the service, which other threads may read.
    pub(crate) fn statistics(&self) -> Option<Arc<Statistics>> {
        lock(&self.statistics).clone()
    }
}

type Chunk<B> = Arc<[Slot<B>; CHUNK]>;

/// A reference to a slot, which saves the lookup.
pub(crate) struct SlotRef<B> {
    chunk: Chunk<B>,
    place: usize,
}

impl<B> Deref for SlotRef<B> {
    type Target = Slot<B>;
    #[inline]
    fn deref(&self) -> &Slot<B> {
        &self.chunk[self.place % CHUNK]
    }
}

const CHUNK: usize = 64;
/// Freed slots that wait before the first of them is used again.
const REST: usize = 1024;

struct Places {
    /// Freed slots: the slot and its next generation.
    freed: VecDeque<(u32, u32)>,
    /// The first slot that was never used.
    fresh: u32,
    /// Slots beyond `fresh` that were assigned by an explicit id.
    taken: Vec<u32>,
    living: usize,
}

/// The slots of all services.
pub(crate) struct Registry<B> {
    chunks: Box<[OnceLock<Chunk<B>>]>,
    /// The number of slots, a power of two, minus one.
    mask: u32,
    /// The bits of an id that are its slot.
    bits: u32,
    most: usize,
    queue: usize,
    places: Mutex<Places>,
}

impl<B> Registry<B> {
    /// Slots for `most` services whose mailboxes have room for `queue` messages.
    pub(crate) fn new(most: usize, queue: usize) -> Registry<B> {
        // One more for id 0, and those that wait before they are used again.
        let places = (most + 1 + REST).next_power_of_two().max(CHUNK);
        Registry {
            chunks: (0..places / CHUNK).map(|_| OnceLock::new()).collect(),
            mask: places as u32 - 1,
            bits: places.trailing_zeros(),
            most,
            queue,
            places: Mutex::new(Places { freed: VecDeque::new(), fresh: 1, taken: Vec::new(), living: 0 }),
        }
    }

    #[inline]
    fn place(&self, id: ServiceId) -> usize {
        (id & self.mask) as usize
    }

    /// The slot of `id`, if it was ever used. Its mailbox checks whether it belongs to `id` now.
    #[inline]
    pub(crate) fn get(&self, id: ServiceId) -> Option<&Slot<B>> {
        let place = self.place(id);
        let chunk = self.chunks[place / CHUNK].get()?;
        Some(&chunk[place % CHUNK])
    }

    /// A reference to the slot of `id`, to be kept.
    pub(crate) fn slot_ref(&self, id: ServiceId) -> Option<SlotRef<B>> {
        let place = self.place(id);
        let chunk = self.chunks[place / CHUNK].get()?.clone();
        Some(SlotRef { chunk, place })
    }

    fn make(&self, id: ServiceId) -> &Slot<B> {
        let place = self.place(id);
        let chunk = self.chunks[place / CHUNK].get_or_init(|| {
            let fresh = |_| Slot { mailbox: Mailbox::new(self.queue), statistics: Mutex::new(None) };
            Arc::new(std::array::from_fn(fresh))
        });
        &chunk[place % CHUNK]
    }

    /// Assigns a slot to a new service, with the id `wanted` unless that is 0. Returns None if there are too many
    /// services, or `wanted` is taken.
    pub(crate) fn open(&self, wanted: ServiceId) -> Option<ServiceId> {
        let id = {
            let mut places = lock(&self.places);
            if places.living >= self.most {
                return None;
            }
            let id = match wanted {
                0 => places.next(self.bits)?,
                _ => places.reserve(wanted, self.bits)?,
            };
            places.living += 1;
            id
        };
        let slot = self.make(id);
        slot.mailbox.open(id);
        Some(id)
    }

    /// Sets the statistics of a service.
    pub(crate) fn describe(&self, id: ServiceId, statistics: Arc<Statistics>) {
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
        let mut places = lock(&self.places);
        places.living -= 1;
        let generation = (id.wrapping_add(1 << self.bits)) >> self.bits;
        let place = self.place(id) as u32;
        places.freed.push_back((place, generation));
        true
    }

    /// All slots that were ever used.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Slot<B>> {
        self.chunks.iter().filter_map(|chunk| chunk.get()).flat_map(|chunk| chunk.iter())
    }
}

impl Places {
    fn next(&mut self, bits: u32) -> Option<ServiceId> {
        while self.taken.contains(&self.fresh) {
            self.fresh += 1;
        }
        if self.freed.len() >= REST || self.fresh >> bits != 0 {
            let (place, generation) = self.freed.pop_front()?;
            return Some(generation << bits | place);
        }
        self.fresh += 1;
        Some(self.fresh - 1)
    }

    fn reserve(&mut self, wanted: ServiceId, bits: u32) -> Option<ServiceId> {
        if let Some(at) = self.freed.iter().position(|&(place, _)| place == wanted) {
            self.freed.remove(at);
            return Some(wanted);
        }
        if wanted >> bits != 0 || wanted < self.fresh || self.taken.contains(&wanted) {
            return None;
        }
        if wanted == self.fresh {
            self.fresh += 1;
        } else {
            self.taken.push(wanted);
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
