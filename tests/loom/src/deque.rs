//! Replacements for crossbeam's deques, which loom cannot instrument. They implement the part of the interface that
//! src/ltask/ready_queues.rs uses, with the weakest memory order that is allowed for a deque. As in crossbeam, a batch
//! that is being stolen is temporarily in neither queue, and a thief may miss an item that was just pushed.

use loom::sync::atomic::{AtomicU32, Ordering};
use std::collections::VecDeque;
// Loom runs one thread at a time and does not preempt a thread that has this lock, so the models observe only the
// count.
use std::sync::{Arc, Mutex};

struct Pile<T> {
    items: Mutex<VecDeque<T>>,
    /// The number of items that can be taken.
    count: AtomicU32,
}

impl<T> Pile<T> {
    fn new() -> Pile<T> {
        Pile { items: Mutex::new(VecDeque::new()), count: AtomicU32::new(0) }
    }

    fn push(&self, items: impl IntoIterator<Item = T>) {
        let count = {
            let mut queue = self.items.lock().unwrap();
            let before = queue.len();
            queue.extend(items);
            (queue.len() - before) as u32
        };
        if count > 0 {
            self.count.fetch_add(count, Ordering::Release);
        }
    }

    /// Takes `of(count)` items from the front. Returns None if another thread pushed or took items at the same time.
    fn take(&self, of: impl Fn(u32) -> u32) -> Option<Vec<T>> {
        let seen = self.count.load(Ordering::Relaxed);
        let most = of(seen);
        if most == 0 {
            return Some(Vec::new());
        }
        self.count.compare_exchange(seen, seen - most, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(self.items.lock().unwrap().drain(..most as usize).collect())
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Takes half of the items, rounded up. Returns the first item, and moves the other items to `to`.
    fn steal(&self, to: &Pile<T>) -> Steal<T> {
        let Some(taken) = self.take(|count| count.div_ceil(2)) else {
            return Steal::Retry;
        };
        let mut taken = taken.into_iter();
        let Some(first) = taken.next() else {
            return Steal::Empty;
        };
        to.push(taken);
        Steal::Success(first)
    }
}

pub(crate) enum Steal<T> {
    Empty,
    Success(T),
    Retry,
}

pub(crate) struct Injector<T>(Pile<T>);

impl<T> Injector<T> {
    pub(crate) fn new() -> Injector<T> {
        Injector(Pile::new())
    }

    pub(crate) fn push(&self, item: T) {
        self.0.push([item]);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn steal_batch_and_pop(&self, to: &Deque<T>) -> Steal<T> {
        self.0.steal(&to.0)
    }
}

pub(crate) struct Stealer<T>(Arc<Pile<T>>);

impl<T> Stealer<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn steal_batch_and_pop(&self, to: &Deque<T>) -> Steal<T> {
        self.0.steal(&to.0)
    }
}

pub(crate) struct Deque<T>(Arc<Pile<T>>);

impl<T> Deque<T> {
    pub(crate) fn new_fifo() -> Deque<T> {
        Deque(Arc::new(Pile::new()))
    }

    pub(crate) fn stealer(&self) -> Stealer<T> {
        Stealer(self.0.clone())
    }

    pub(crate) fn push(&self, item: T) {
        self.0.push([item]);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        loop {
            if let Some(taken) = self.0.take(|count| count.min(1)) {
                return taken.into_iter().next();
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
