//! A service's mailbox together with the service's state. Only the thread that holds the lock changes them, so an idle
//! service never has an unread message.
//!
//! Any number of threads push messages. One thread at a time runs the service and takes whole batches: it swaps the
//! queue for its own empty queue, so that reading a message takes no lock. The capacity applies to the queue and the
//! batch together, so senders read from `unread` how many messages of the batch are unread. Only bounded messages count
//! against the capacity; responses and ROOM messages, for example, do not. The models in `tests/loom` check the
//! mailbox.

use super::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use std::collections::VecDeque;

/// Wakes a thread that blocks outside the scheduler.
pub(crate) trait Waker: Clone {
    /// Returns true to the first caller since the last `arm`. That caller must wake the thread.
    fn claim(&self) -> bool;

    /// Called when the receiver has found no message. The sender of the next message must wake the receiver.
    fn arm(&self);
}

/// Where a service runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Affinity {
    /// On any worker.
    Any,
    /// On this worker only.
    Worker(usize),
    /// On the process's main thread.
    Main,
}

/// The state of a slot and its service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No service has this slot.
    Free,
    /// The VM is being created; messages are queued.
    Building,
    /// The service has nothing to do. The mailbox owns the VM.
    Idle,
    /// The service is in exactly one ready queue. The mailbox owns the VM.
    Ready,
    /// A thread runs the service and owns the VM.
    Running,
    /// The service's own thread owns the VM until the service ends.
    OwnThread,
    /// The service has died and accepts no messages. Root must still answer its unanswered requests and free the slot.
    Dead,
}

/// The action that the sender must take after a push.
#[derive(Debug)]
pub(crate) enum Wake<W> {
    /// Nothing: the receiver needs no wakeup.
    None,
    /// Put the service into a ready queue.
    Schedule(Affinity),
    /// Wake the receiver with this waker, which the sender has claimed.
    Waker(W),
}

/// Why a push was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// There is no such service.
    Missing,
    /// The mailbox is full.
    Full,
}

/// The data that the lock guards.
struct Inner<M, V, W> {
    id: u32,
    state: State,
    affinity: Affinity,
    queue: VecDeque<M>,
    /// The number of bounded messages in the queue.
    bounded: usize,
    vm: Option<V>,
    waker: Option<W>,
    /// The services that wait for room, because a message from them was refused. Each gets a ROOM message.
    refused: Vec<u32>,
    received: u64,
    peak: usize,
}

/// The mailbox of a service. `M` is a message, `V` the service's VM, `W` its waker.
pub(crate) struct Mailbox<M, V, W> {
    capacity: usize,
    inner: Mutex<Inner<M, V, W>>,
    /// The numbers of unread messages in the batch: the low half counts the bounded messages, the high half counts all
    /// messages. Only the thread that runs the service writes this field; it holds the lock when it takes a batch.
    unread: AtomicU64,
    /// Whether `refused` has entries.
    has_refused: AtomicBool,
    /// Whether `queue` has entries. Written under the lock.
    has_arrived: AtomicBool,
}

/// The statistics of a mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueStatistics {
    /// The number of messages that have arrived since the service was created.
    pub(crate) received: u64,
    /// The number of unread messages.
    pub(crate) queued: usize,
    /// The largest number of unread messages so far.
    pub(crate) peak: usize,
}

impl<M, V, W: Waker> Mailbox<M, V, W> {
    /// Creates the mailbox of a free slot, with a capacity of `capacity` bounded messages.
    pub(crate) fn new(capacity: usize) -> Self {
        Mailbox {
            capacity,
            inner: Mutex::new(Inner {
                id: 0,
                state: State::Free,
                affinity: Affinity::Any,
                queue: VecDeque::new(),
                bounded: 0,
                vm: None,
                waker: None,
                refused: Vec::new(),
                received: 0,
                peak: 0,
            }),
            unread: AtomicU64::new(0),
            has_refused: AtomicBool::new(false),
            has_arrived: AtomicBool::new(false),
        }
    }

    /// Changes the state from Free to Building, for service `id`.
    pub(crate) fn open(&self, id: u32) {
        let mut inner = lock(&self.inner);
        debug_assert_eq!(inner.state, State::Free);
        inner.id = id;
        inner.state = State::Building;
        inner.affinity = Affinity::Any;
        inner.received = 0;
        inner.peak = 0;
        inner.bounded = 0;
        self.unread.store(0, Ordering::Relaxed);
    }

    /// Stores the VM, and changes the state from Building to Idle, or to Ready if messages have arrived meanwhile. In
    /// the latter case, returns `Wake::Schedule`, and the caller must schedule the service.
    pub(crate) fn install(&self, vm: V, affinity: Affinity) -> Wake<W> {
        let mut inner = lock(&self.inner);
        debug_assert_eq!(inner.state, State::Building);
        inner.vm = Some(vm);
        inner.affinity = affinity;
        if inner.queue.is_empty() {
            inner.state = State::Idle;
            return Wake::None;
        }
        inner.state = State::Ready;
        Wake::Schedule(affinity)
    }

    /// Changes the state from Idle or Ready to OwnThread. Returns the VM for the service's own thread, which `waker`
    /// wakes; None in any other state. If a ready queue contains the service, its entry there is skipped later.
    pub(crate) fn detach(&self, id: u32, waker: W) -> Option<V> {
        let mut inner = lock(&self.inner);
        if inner.id != id || !matches!(inner.state, State::Idle | State::Ready) {
            return None;
        }
        inner.state = State::OwnThread;
        inner.waker = Some(waker);
        inner.vm.take()
    }

    /// Changes the state from Running to OwnThread, and sets the waker. Called by the thread that runs the service.
    pub(crate) fn detach_running(&self, waker: W) {
        let mut inner = lock(&self.inner);
        if matches!(inner.state, State::Running | State::OwnThread) {
            inner.state = State::OwnThread;
            inner.waker = Some(waker);
        }
    }

    /// Replaces the waker of a service with its own thread.
    pub(crate) fn replace_waker(&self, id: u32, waker: W) {
        let mut inner = lock(&self.inner);
        if inner.id == id && inner.state == State::OwnThread {
            inner.waker = Some(waker);
        }
    }

    /// Posts a message for service `id`. If the service is missing, or if `bounded` is true and the mailbox is full,
    /// returns the message and the reason. In the latter case, records `sender` (unless it is 0), which will get a ROOM
    /// message.
    #[inline]
    pub(crate) fn push(&self, id: u32, message: M, bounded: bool, sender: u32) -> Result<Wake<W>, (M, Refusal)> {
        let mut guard = lock(&self.inner);
        let inner = &mut *guard;
        if inner.id != id || matches!(inner.state, State::Free | State::Dead) {
            return Err((message, Refusal::Missing));
        }
        let (unread, unread_all) = self.unread_counts();
        if bounded && inner.bounded + unread >= self.capacity {
            if sender != 0 && !inner.refused.contains(&sender) {
                inner.refused.push(sender);
                self.has_refused.store(true, Ordering::Release);
            }
            return Err((message, Refusal::Full));
        }
        inner.queue.push_back(message);
        self.has_arrived.store(true, Ordering::Relaxed);
        inner.bounded += usize::from(bounded);
        inner.received += 1;
        inner.peak = inner.peak.max(inner.queue.len() + unread_all);
        Ok(match inner.state {
            State::Idle => {
                inner.state = State::Ready;
                Wake::Schedule(inner.affinity)
            }
            State::OwnThread => match &inner.waker {
                Some(waker) if waker.claim() => Wake::Waker(waker.clone()),
                _ => Wake::None,
            },
            _ => Wake::None,
        })
    }

    /// Changes the state from Ready to Running. Adds the messages that have arrived to the end of the VM's batch, and
    /// returns the VM. Returns None if the entry in the ready queue is stale.
    #[inline]
    pub(crate) fn begin_slice(&self, id: u32, batch_of: impl FnOnce(&mut V) -> &mut VecDeque<M>) -> Option<V> {
        let mut inner = lock(&self.inner);
        if inner.id != id || inner.state != State::Ready {
            return None;
        }
        inner.state = State::Running;
        let mut vm = inner.vm.take();
        if let Some(vm) = &mut vm {
            self.transfer(&mut inner, batch_of(vm));
        }
        vm
    }

    /// Whether messages have arrived. Called by the thread that runs the service. Takes no lock, so it can miss a
    /// message that has just arrived, but [`Mailbox::end_slice`] finds every message.
    pub(crate) fn has_arrived(&self) -> bool {
        self.has_arrived.load(Ordering::Relaxed)
    }

    /// Adds the messages that have arrived to `batch`. Returns the number of unread messages. If the number is 0, the
    /// sender of the next message claims the waker.
    pub(crate) fn refill(&self, batch: &mut VecDeque<M>) -> usize {
        let mut inner = lock(&self.inner);
        self.transfer(&mut inner, batch);
        if batch.is_empty()
            && let Some(waker) = &inner.waker
        {
            waker.arm();
        }
        batch.len()
    }

    #[inline(always)]
    fn transfer(&self, inner: &mut Inner<M, V, W>, batch: &mut VecDeque<M>) {
        if batch.is_empty() {
            std::mem::swap(&mut inner.queue, batch);
        } else {
            batch.extend(inner.queue.drain(..));
        }
        self.has_arrived.store(false, Ordering::Relaxed);
        let unread = self.unread_counts().0 + inner.bounded;
        inner.bounded = 0;
        self.set_unread(unread, batch.len());
    }

    fn unread_counts(&self) -> (usize, usize) {
        let both = self.unread.load(Ordering::Relaxed);
        ((both & 0xffff_ffff) as usize, (both >> 32) as usize)
    }

    fn set_unread(&self, bounded: usize, all: usize) {
        let both = (all as u64) << 32 | bounded as u64;
        self.unread.store(both, Ordering::Relaxed);
    }

    /// Records that the thread that runs the service has read a message of its batch. Returns true if senders wait for
    /// room and there may be room. If so, the caller must call [`Mailbox::take_refused`].
    pub(crate) fn record_read(&self, bounded: bool) -> bool {
        let (unread, all) = self.unread_counts();
        let unread = unread.saturating_sub(usize::from(bounded));
        self.set_unread(unread, all.saturating_sub(1));
        unread <= self.capacity / 2 && self.has_refused.load(Ordering::Acquire)
    }

    /// Undoes [`Mailbox::record_read`] for a bounded message that the service keeps and will read again.
    pub(crate) fn record_held(&self) {
        let (unread, all) = self.unread_counts();
        self.set_unread(unread + 1, all + 1);
    }

    /// Whether senders wait for room. The receiver calls this function whenever it has found the mailbox empty under
    /// the lock: only then does the result include every earlier refusal.
    pub(crate) fn has_refused(&self) -> bool {
        self.has_refused.load(Ordering::Acquire)
    }

    /// Takes the services that wait for room, if at least half of the mailbox is free.
    pub(crate) fn take_refused(&self) -> Vec<u32> {
        let mut inner = lock(&self.inner);
        let unread = inner.bounded + self.unread_counts().0;
        if unread > self.capacity / 2 {
            return Vec::new();
        }
        self.has_refused.store(false, Ordering::Relaxed);
        std::mem::take(&mut inner.refused)
    }

    /// Stores the VM, and changes the state from Running to Idle, or to Ready if messages have arrived or `unread`, the
    /// amount of work that is left, is not 0. In the latter case, returns the affinity with which the caller must
    /// schedule the service.
    pub(crate) fn end_slice(&self, vm: V, unread: usize, affinity: Affinity) -> Option<Affinity> {
        let mut inner = lock(&self.inner);
        inner.vm = Some(vm);
        inner.affinity = affinity;
        if inner.queue.is_empty() && unread == 0 {
            inner.state = State::Idle;
            return None;
        }
        inner.state = State::Ready;
        Some(affinity)
    }

    /// Changes the state to Dead. Called by the thread that owns the VM. Appends the messages of the queue to
    /// `messages`. Returns the senders that wait for room; when they are notified, they find that the service is
    /// missing.
    pub(crate) fn close(&self, messages: &mut Vec<M>) -> Vec<u32> {
        let mut inner = lock(&self.inner);
        inner.state = State::Dead;
        inner.waker = None;
        messages.extend(std::mem::take(&mut inner.queue));
        self.has_arrived.store(false, Ordering::Relaxed);
        inner.bounded = 0;
        self.unread.store(0, Ordering::Relaxed);
        self.has_refused.store(false, Ordering::Relaxed);
        std::mem::take(&mut inner.refused)
    }

    /// Changes the state from Idle, Ready or Building to Dead. Any thread may call this function. Appends the messages
    /// of the queue to `messages`. Returns the VM, if it was created, and the senders that wait for room. Returns None
    /// if a thread runs the service, or if there is no such service.
    pub(crate) fn kill(&self, id: u32, messages: &mut Vec<M>) -> Option<(Option<V>, Vec<u32>)> {
        let mut inner = lock(&self.inner);
        let is_stopped = matches!(inner.state, State::Idle | State::Ready | State::Building);
        if inner.id != id || !is_stopped {
            return None;
        }
        inner.state = State::Dead;
        messages.extend(std::mem::take(&mut inner.queue));
        self.has_arrived.store(false, Ordering::Relaxed);
        self.has_refused.store(false, Ordering::Relaxed);
        Some((inner.vm.take(), std::mem::take(&mut inner.refused)))
    }

    /// Changes the state from Dead to Free. Returns false if service `id` is not dead.
    pub(crate) fn free(&self, id: u32) -> bool {
        let mut inner = lock(&self.inner);
        if inner.id != id || inner.state != State::Dead {
            return false;
        }
        inner.state = State::Free;
        true
    }

    /// Returns the id of the service that has this mailbox; None if there is no service or the service is dead.
    pub(crate) fn service(&self) -> Option<u32> {
        let inner = lock(&self.inner);
        (!matches!(inner.state, State::Free | State::Dead)).then_some(inner.id)
    }

    /// Whether the VM of service `id` is being created.
    pub(crate) fn is_building(&self, id: u32) -> bool {
        let inner = lock(&self.inner);
        inner.id == id && inner.state == State::Building
    }

    /// Whether service `id` has this mailbox and is not dead.
    pub(crate) fn is_alive(&self, id: u32) -> bool {
        let inner = lock(&self.inner);
        inner.id == id && !matches!(inner.state, State::Free | State::Dead)
    }

    /// Whether service `id` is dead and root has not yet removed it.
    pub(crate) fn is_dead(&self, id: u32) -> bool {
        let inner = lock(&self.inner);
        inner.id == id && inner.state == State::Dead
    }

    /// Returns the waker of service `id`, if it has its own thread.
    pub(crate) fn waker(&self, id: u32) -> Option<W> {
        let inner = lock(&self.inner);
        inner.waker.clone().filter(|_| inner.id == id)
    }

    /// Returns the waker of the service that has this mailbox, if it has its own thread.
    pub(crate) fn any_waker(&self) -> Option<W> {
        lock(&self.inner).waker.clone()
    }

    /// Takes the VM in any state, after every thread has ended.
    pub(crate) fn take_vm(&self) -> Option<V> {
        lock(&self.inner).vm.take()
    }

    /// Takes the messages, after every thread has ended.
    pub(crate) fn take_messages(&self) -> VecDeque<M> {
        std::mem::take(&mut lock(&self.inner).queue)
    }

    /// Returns the statistics of the mailbox.
    pub(crate) fn statistics(&self) -> QueueStatistics {
        let inner = lock(&self.inner);
        QueueStatistics {
            received: inner.received,
            queued: inner.queue.len() + self.unread_counts().1,
            peak: inner.peak,
        }
    }
}
