//! A service: the messages that it has received but not read, and the messages that it must still deliver. The
//! service's VM owns this data; see `service_vm.rs`.
//!
//! Other threads share only the service's `Statistics`.

use super::event::Event;
use super::library_state::{LibraryState, WaitingMessage};
use super::mailbox::{Affinity, Refusal};
use super::message::{Message, ROOT, SYSTEM, ServiceId, kind, receipt, schedule};
use super::registry::SlotRef;
use super::statistics::Statistics;
use super::system;
use super::unanswered::Unanswered;
use crate::event::clock::monotonic_nanos;
use crate::lua::Vm;
use crate::task::Token;
use std::collections::VecDeque;
use std::sync::Arc;

/// A service with its VM, which moves between threads.
pub(crate) type ServiceVm = Vm<Service>;

/// A system of services.
pub(crate) type System = system::System<ServiceVm>;

/// The result of a send, until the service reads it.
pub(crate) enum Receipt {
    Done,
    /// The id of the new service.
    New(ServiceId),
    /// The message was refused and is returned. The number is the reason: `receipt::ERROR` or `receipt::BLOCK`.
    Returned(i64, Message),
}

/// The result of posting a message that may wait for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Posted {
    Done,
    /// The message waits for room in the receiver's mailbox.
    Queued,
    Missing,
    Full,
}

/// A centisecond, in nanoseconds.
const TICK: u64 = 10_000_000;

/// The first overload report is logged when the number of unread messages exceeds this number.
pub(crate) const OVERLOAD_THRESHOLD: usize = 1024;

/// A service.
pub(crate) struct Service {
    pub(crate) id: ServiceId,
    /// The service's slot in the registry; None if the VM is not a service yet.
    slot: Option<SlotRef<ServiceVm>>,
    system: Arc<System>,
    pub(crate) statistics: Arc<Statistics>,
    /// Messages that have been received but not yet read.
    pub(crate) batch: VecDeque<Message>,
    pub(crate) receipt: Option<Receipt>,
    /// Requests that have been read but not yet answered.
    pub(crate) unanswered: Unanswered,
    pub(crate) affinity: Affinity,
    /// The affinity with which the current slice runs.
    pub(crate) slice_affinity: Affinity,
    /// Wakes the service's own thread, if it has one or is about to get one.
    pub(crate) event: Option<Arc<Event>>,
    /// Whether the service moves to its own thread after this slice.
    pub(crate) needs_own_thread: bool,
    /// Messages that `exclusive.send` has accepted but that have not been delivered yet.
    pub(crate) send_queue: VecDeque<Message>,
    /// Whether the service has died. If so, responses from its finalizers are dropped.
    pub(crate) is_dead: bool,
    /// Whether the service's main function has raised an error.
    pub(crate) has_failed: bool,
    /// Whether the service has an event descriptor.
    pub(crate) has_descriptor: bool,
    /// The number of unread messages above which the next overload report is logged; 0 if overload is not reported. See
    /// `check_overload`.
    pub(crate) overload_threshold: usize,
    /// Whether the service gets another slice even if no message arrives.
    pub(crate) wants_slice: bool,
    /// The time at which the current slice began, in nanoseconds of the monotonic clock.
    pub(crate) slice_began: u64,
    /// The state of lio's service library.
    pub(crate) library: LibraryState,
}

impl Service {
    /// Creates a service that has received no messages.
    pub(crate) fn new(system: Arc<System>, id: ServiceId, statistics: Arc<Statistics>) -> Service {
        Service {
            id,
            slot: system.registry.slot_ref(id),
            system,
            statistics,
            batch: VecDeque::new(),
            receipt: None,
            unanswered: Unanswered::default(),
            affinity: Affinity::Any,
            slice_affinity: Affinity::Any,
            event: None,
            needs_own_thread: false,
            send_queue: VecDeque::new(),
            is_dead: false,
            has_failed: false,
            has_descriptor: false,
            overload_threshold: 0,
            wants_slice: false,
            slice_began: 0,
            library: LibraryState::default(),
        }
    }

    /// Turns this VM, which is not a service yet, into service `id`.
    pub(crate) fn become_service(&mut self, id: ServiceId) {
        self.id = id;
        self.slot = self.system.registry.slot_ref(id);
    }

    /// Returns the system that the service belongs to.
    pub(crate) fn system(&self) -> &Arc<System> {
        &self.system
    }

    /// Returns the next message, from the batch or from the mailbox; None if there is none.
    #[inline(always)]
    pub(crate) fn receive(&mut self) -> Option<Message> {
        loop {
            if self.batch.is_empty() && !(self.should_refill() && self.refill_or_notify()) {
                return None;
            }
            let message = self.batch.pop_front()?;
            if self.record_read(&message) {
                return Some(message);
            }
        }
    }

    /// Records that a message was read. Returns whether the service library must handle the message.
    #[inline(always)]
    fn record_read(&mut self, message: &Message) -> bool {
        if let Some(slot) = &self.slot
            && slot.mailbox.record_read(message.is_bounded())
        {
            self.system.notify_room(self.id);
        }
        match message.kind {
            kind::ROOM => return self.deliver_waiting(message.from),
            kind::IO => {
                if let Some(io) = &mut self.library.io {
                    io.record_message(message.session);
                }
                return false;
            }
            _ if message.wants_response() => self.unanswered.add(message.from, message.session),
            _ if message.is_external() => self.system.record_external_read(),
            _ => {}
        }
        true
    }

    /// Keeps a request that was read until `release_held` is called. The request counts as unread, so the mailbox's
    /// capacity limits the number of held requests; if the service dies, the request is answered with an error.
    pub(crate) fn hold(&mut self, message: Message) {
        if message.is_bounded()
            && let Some(slot) = &self.slot
        {
            slot.mailbox.record_held();
        }
        self.library.held.push(message);
    }

    /// Makes the held requests the next messages, in the order in which they arrived.
    pub(crate) fn release_held(&mut self) {
        for message in std::mem::take(&mut self.library.held).into_iter().rev() {
            if message.wants_response() {
                // The request is added again when it is read.
                self.unanswered.remove(message.from, message.session);
            }
            self.batch.push_front(message);
        }
    }

    /// Called when the mailbox of `to`, which was full, has room again. Delivers waiting messages. Returns whether a
    /// task is ready.
    #[cold]
    fn deliver_waiting(&mut self, to: ServiceId) -> bool {
        self.flush_send_queue();
        self.flush_outbox(to);
        self.library.has_ready()
    }

    /// Whether the service must check its mailbox for more messages within the slice. The mailbox is always checked
    /// between slices: a worker checks it under the lock, and on the service's own thread the next message wakes the
    /// service.
    #[inline(always)]
    fn should_refill(&self) -> bool {
        let has_arrived = self.slot.as_ref().is_some_and(|slot| slot.mailbox.has_arrived());
        has_arrived || self.overload_threshold != 0 || self.event.is_some() && self.may_block_in_slice()
    }

    /// Whether the service may block on its event after the last message of a slice. This is possible if the service
    /// does not use lio's service library, or has its own loop.
    fn may_block_in_slice(&self) -> bool {
        self.library.has_own_loop || self.library.tasks().is_none()
    }

    /// Moves the messages that have arrived to the batch. Returns whether the batch has a message. If the batch is
    /// empty, notifies refused senders that there is room.
    pub(super) fn refill_or_notify(&mut self) -> bool {
        let has_more = self.refill();
        if !has_more {
            self.system.notify_if_refused(self.id);
        }
        has_more
    }

    /// Posts a message from the service.
    pub(crate) fn post(&mut self, message: Message) -> Receipt {
        if message.to == SYSTEM {
            return self.schedule(message);
        }
        if matches!(message.kind, kind::RESPONSE | kind::ERROR) {
            if self.is_dead {
                return Receipt::Done;
            }
            self.unanswered.remove(message.to, message.session);
        }
        match self.system.post(message, 0) {
            Ok(()) => Receipt::Done,
            Err((message, Refusal::Missing)) => Receipt::Returned(receipt::ERROR, message),
            Err((message, Refusal::Full)) => Receipt::Returned(receipt::BLOCK, message),
        }
    }

    /// Posts a response. If the receiver has died, the response is dropped, because no task waits for it.
    #[inline]
    pub(crate) fn answer(&mut self, message: Message) {
        if !self.is_dead {
            self.unanswered.remove(message.to, message.session);
            let _ = self.system.post(message, 0);
        }
    }

    /// Handles a message to the system. Root creates and removes services with such messages.
    fn schedule(&self, message: Message) -> Receipt {
        let registry = &self.system.registry;
        let done = match message.kind {
            _ if self.id != ROOT => None,
            schedule::NEW => registry.open(0).map(Receipt::New),
            schedule::DEL => {
                let id = u32::try_from(message.session).unwrap_or(SYSTEM);
                registry.free(id).then_some(Receipt::Done)
            }
            _ => None,
        };
        done.unwrap_or(Receipt::Returned(receipt::ERROR, message))
    }

    /// Sets a timer: a RESPONSE with `session` reaches the service after `ticks` centiseconds. If `ticks` is 0 or less,
    /// does not set a timer: the response is posted immediately, behind the messages that are in the mailbox. Returns
    /// the timer's id; None if no timer was set.
    pub(crate) fn set_timer(&self, session: i64, ticks: i64) -> Option<u64> {
        if ticks <= 0 {
            let message = Message::without_payload(SYSTEM, self.id, session, kind::RESPONSE);
            // The service's own mailbox exists and always has room for responses.
            let _ = self.system.post(message, 0);
            return None;
        }
        let deadline = monotonic_nanos().saturating_add((ticks as u64).saturating_mul(TICK));
        Some(self.system.monitor.add_timer(self.id, session, deadline))
    }

    /// Moves the messages that have arrived to the batch. Returns whether the batch has a message.
    pub(crate) fn refill(&mut self) -> bool {
        let Some(slot) = &self.slot else { return false };
        let unread = slot.mailbox.refill(&mut self.batch);
        self.check_overload();
        unread > 0
    }

    /// Called after messages were taken from the mailbox. If `core.report_overload` was called, logs the number of
    /// unread messages when it first exceeds 1024, 2048, 4096, and so on. When no message is unread, the reports begin
    /// at 1024 again.
    #[inline]
    pub(crate) fn check_overload(&mut self) {
        if self.overload_threshold != 0 {
            self.report_overload();
        }
    }

    fn report_overload(&mut self) {
        let unread = self.batch.len();
        if unread == 0 {
            self.overload_threshold = OVERLOAD_THRESHOLD;
        }
        if unread <= self.overload_threshold {
            return;
        }
        while unread > self.overload_threshold {
            self.overload_threshold *= 2;
        }
        let text = format!("May overload, message queue length = {unread}");
        self.system().log_text(self.id, &text);
    }

    /// Whether there is no message to read and no task to run.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.batch.is_empty() && !self.refill() && !self.library.has_ready() && !self.library.wants_round()
    }

    /// Blocks until the service's event is signalled. If the service has no event, returns immediately.
    pub(crate) fn wait(&self) {
        if let Some(event) = &self.event {
            event.wait();
        }
    }

    /// Returns the amount of work for the next slice: the number of unread messages, plus 1 if the service requests a
    /// slice or has an unread receipt. Called when that slice is queued.
    pub(crate) fn take_work_count(&mut self) -> usize {
        let wants_slice = std::mem::take(&mut self.wants_slice) || self.receipt.is_some();
        self.batch.len() + usize::from(wants_slice)
    }

    /// Delivers the messages of `exclusive.send` whose receivers have room in their mailboxes. Messages to one receiver
    /// keep their order.
    pub(crate) fn flush_send_queue(&mut self) {
        let mut full: Vec<ServiceId> = Vec::new();
        for _ in 0..self.send_queue.len() {
            let Some(message) = self.send_queue.pop_front() else { return };
            if full.contains(&message.to) {
                self.send_queue.push_back(message);
                continue;
            }
            let to = message.to;
            if let Err(message) = self.deliver(message) {
                full.push(to);
                self.send_queue.push_back(message);
            }
        }
    }

    /// Posts a message from the service library. If the mailbox is full and `wait` is true, queues the message behind
    /// the messages that wait for room in the same mailbox.
    #[inline]
    pub(crate) fn deliver_or_queue(&mut self, message: Message, send_session: i64, wait: bool) -> Posted {
        if self.library.has_waiting(message.to) {
            if !wait {
                return Posted::Full;
            }
            self.library.push_waiting(message, send_session);
            return Posted::Queued;
        }
        let sender = if wait { self.id } else { 0 };
        match self.system.post(message, sender) {
            Ok(()) => Posted::Done,
            Err((_, Refusal::Missing)) => Posted::Missing,
            Err((message, Refusal::Full)) if wait => {
                self.library.push_waiting(message, send_session);
                Posted::Queued
            }
            Err(_) => Posted::Full,
        }
    }

    /// Delivers the messages that wait for room in the mailbox of `to` (`full = "wait"`), in order, until the mailbox
    /// is full again. Wakes the tasks that wait for the delivery.
    fn flush_outbox(&mut self, to: ServiceId) {
        let Some(mut queue) = self.library.outbox.remove(&to) else { return };
        while let Some(waiting) = queue.pop_front() {
            let (send_session, session) = (waiting.send_session, waiting.message.session);
            match self.system.post(waiting.message, self.id) {
                Ok(()) => self.wake_sender(send_session, true),
                Err((message, Refusal::Full)) => {
                    queue.push_front(WaitingMessage { message, send_session });
                    self.library.outbox.insert(to, queue);
                    return;
                }
                Err((_, Refusal::Missing)) => {
                    self.wake_sender(send_session, false);
                    if session != 0 {
                        self.system.answer_dead(to, self.id, session);
                    }
                }
            }
        }
    }

    /// Wakes the task that waits in `send` on the session `send_session`. `delivered` is the result of the wait.
    fn wake_sender(&self, send_session: i64, delivered: bool) {
        if send_session != 0
            && let Some(tasks) = self.library.tasks()
        {
            tasks.wakeup_with(Token::Session(send_session), delivered);
        }
    }

    /// Delivers a message of `exclusive.send`. If the mailbox is full, returns the message. If the receiver is missing,
    /// answers a request with an error.
    pub(crate) fn deliver(&mut self, message: Message) -> Result<(), Message> {
        match self.system().post(message, self.id) {
            Ok(()) => Ok(()),
            Err((message, Refusal::Full)) => Err(message),
            Err((message, Refusal::Missing)) => {
                self.system().answer_undelivered(&message);
                Ok(())
            }
        }
    }
}
