//! A service's mailbox together with the service's state. Only the thread that holds the lock changes them, so that "a
//! message has arrived" and "the service is in a ready queue" always agree.
//!
//! Many senders push. One thread at a time runs the service and takes whole batches: it swaps the queue for its empty
//! one, so that reading a message takes no lock. `unread` shows senders how much of the batch is unread, since the
//! capacity applies to queue and batch together. Only bounded messages count: responses on their way do not make a
//! service busy, and ROOM messages take no room. The models in `tests/loom` check this.

use super::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use std::collections::VecDeque;

/// Wakes a thread that blocks outside the scheduler.
pub(crate) trait Waker: Clone {
    /// True for the first caller since the last `arm`: that caller must wake the thread.
    fn claim(&self) -> bool;

    /// The receiver has found no message: the next one wakes it.
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
    /// The service has nothing to do. The mailbox has the VM.
    Idle,
    /// The service is in exactly one ready queue. The mailbox has the VM.
    Ready,
    /// A thread runs the service and has the VM.
    Running,
    /// The service's own thread has the VM, until the service ends.
    OwnThread,
    /// The service takes no messages. Its remaining messages are kept for root.
    Dead,
}

/// The next action of the sender after a push.
#[derive(Debug)]
pub(crate) enum Wake<W> {
    /// Nothing: the receiver is running or in a ready queue.
    None,
    /// Put the service into a ready queue.
    Schedule(Affinity),
    /// Use this waker, which the sender has claimed.
    Waker(W),
}

/// Why a push was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// There is no such service.
    Missing,
    /// The mailbox has no room.
    Full,
}

/// The data that the lock guards.
struct Inner<M, V, W> {
    id: u32,
    state: State,
    affinity: Affinity,
    queue: VecDeque<M>,
    /// How many messages of the queue are bounded.
    bounded: usize,
    vm: Option<V>,
    waker: Option<W>,
    /// Services whose message was refused, and which get a ROOM message.
    refused: Vec<u32>,
    received: u64,
    peak: usize,
}

/// The mailbox of a service. `M` is a message, `V` the service's VM, `W` its waker.
pub(crate) struct Mailbox<M, V, W> {
    capacity: usize,
    inner: Mutex<Inner<M, V, W>>,
    /// Unread messages of the batch that was taken: bounded ones in the low half, all of them in the high half. Written
    /// by the thread that runs the service, and under the lock when a batch is taken.
    unread: AtomicU64,
    /// Whether `refused` has entries.
    has_refused: AtomicBool,
    /// Whether `queue` has entries. Written under the lock.
    has_arrived: AtomicBool,
}

/// How full a mailbox is, for statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueStatistics {
    /// Messages that have arrived since the service started.
    pub(crate) received: u64,
    /// Unread messages.
    pub(crate) queued: usize,
    /// The largest number of unread messages so far.
    pub(crate) peak: usize,
}

impl<M, V, W: Waker> Mailbox<M, V, W> {
    /// Creates the mailbox of a free slot, with room for `capacity` messages.
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

    /// From Free to Building, for service `id`.
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

    /// From Building to Idle, or to Ready if messages have arrived meanwhile: then the caller schedules the service.
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

    /// From Idle or Ready to OwnThread: takes the VM for the service's own thread, which `waker` wakes. If a ready
    /// queue has an entry of the service, that entry is skipped.
    pub(crate) fn detach(&self, id: u32, waker: W) -> Option<V> {
        let mut inner = lock(&self.inner);
        if inner.id != id || !matches!(inner.state, State::Idle | State::Ready) {
            return None;
        }
        inner.state = State::OwnThread;
        inner.waker = Some(waker);
        inner.vm.take()
    }

    /// From Running to OwnThread, by the thread that runs the service.
    pub(crate) fn detach_running(&self, waker: W) {
        let mut inner = lock(&self.inner);
        if matches!(inner.state, State::Running | State::OwnThread) {
            inner.state = State::OwnThread;
            inner.waker = Some(waker);
        }
    }

    /// Sets another waker for a service with its own thread.
    pub(crate) fn replace_waker(&self, id: u32, waker: W) {
        let mut inner = lock(&self.inner);
        if inner.id == id && inner.state == State::OwnThread {
            inner.waker = Some(waker);
        }
    }

    /// Posts a message for service `id`. The capacity applies if it is `bounded`. A refused message is returned. If
    /// there was no room, `sender` (unless it is 0) is recorded and will get a ROOM message.
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

    /// From Ready to Running: returns the VM, and adds the messages that have arrived to its batch, which may have
    /// unread ones. Returns None if the entry in the ready queue is outdated.
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

    /// Whether messages may have arrived. For the thread that runs the service and calls [`Mailbox::end_slice`], which
    /// finds all of them.
    pub(crate) fn has_arrived(&self) -> bool {
        self.has_arrived.load(Ordering::Relaxed)
    }

    /// Adds the messages that have arrived to `batch`. Returns how many are unread now; if there are none, the next one
    /// uses the waker.
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
    /// room and there may be some: then the caller calls [`Mailbox::take_refused`].
    pub(crate) fn record_read(&self, bounded: bool) -> bool {
        let (unread, all) = self.unread_counts();
        let unread = unread.saturating_sub(usize::from(bounded));
        self.set_unread(unread, all.saturating_sub(1));
        unread <= self.capacity / 2 && self.has_refused.load(Ordering::Acquire)
    }

    /// Whether senders wait for room. The receiver checks this each time after it has found the mailbox empty under the
    /// lock: only then is it sure to see every earlier refusal.
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

    /// From Running to Idle, or to Ready if there are messages, `unread` of them in the batch: then the caller
    /// schedules the service with the affinity that is returned.
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

    /// From any state but Free to Dead, by the thread that has the VM. Unread messages are appended to `messages`.
    /// Returns the senders that wait for room: when they are notified, they find the service missing.
    pub(crate) fn close(&self, messages: &mut Vec<M>) -> Vec<u32> {
        let mut inner = lock(&self.inner);
        inner.state = State::Dead;
        inner.waker = None;
        messages.extend(std::mem::take(&mut inner.queue));
        inner.bounded = 0;
        self.unread.store(0, Ordering::Relaxed);
        self.has_refused.store(false, Ordering::Relaxed);
        std::mem::take(&mut inner.refused)
    }

    /// From Idle, Ready or Building to Dead, by any thread: returns the VM, if it was created, and the senders that
    /// wait for room. Returns None if a thread runs the service, or there is no such service.
    pub(crate) fn kill(&self, id: u32, messages: &mut Vec<M>) -> Option<(Option<V>, Vec<u32>)> {
        let mut inner = lock(&self.inner);
        let is_stopped = matches!(inner.state, State::Idle | State::Ready | State::Building);
        if inner.id != id || !is_stopped {
            return None;
        }
        inner.state = State::Dead;
        messages.extend(std::mem::take(&mut inner.queue));
        self.has_refused.store(false, Ordering::Relaxed);
        Some((inner.vm.take(), std::mem::take(&mut inner.refused)))
    }

    /// From Dead to Free. Returns false if service `id` is not dead.
    pub(crate) fn free(&self, id: u32) -> bool {
        let mut inner = lock(&self.inner);
        if inner.id != id || inner.state != State::Dead {
            return false;
        }
        inner.state = State::Free;
        true
    }

    /// The service that has this mailbox.
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

    /// The waker of service `id`.
    pub(crate) fn waker(&self, id: u32) -> Option<W> {
        let inner = lock(&self.inner);
        inner.waker.clone().filter(|_| inner.id == id)
    }

    /// The waker of the service with its own thread that has this mailbox, if any.
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

    /// How full the mailbox is.
    pub(crate) fn statistics(&self) -> QueueStatistics {
        let inner = lock(&self.inner);
        QueueStatistics {
            received: inner.received,
            queued: inner.queue.len() + self.unread_counts().1,
            peak: inner.peak,
        }
    }
}
