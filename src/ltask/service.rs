//! A service: what it has received and not yet read, and what it owes to others. Its VM owns it, see `body.rs`.
//!
//! Nothing in it is shared but the `Statistics`.

use super::event::Event;
use super::library::{Library, Waiting};
use super::mailbox::{Affinity, Refusal};
use super::message::{Message, ROOT, SYSTEM, ServiceId, kind, receipt, schedule};
use super::registry::Seat;
use super::statistics::Statistics;
use super::system;
use super::unanswered::Unanswered;
use crate::event::clock::monotonic_nanos;
use crate::lua::Vm;
use crate::task::Token;
use std::collections::VecDeque;
use std::sync::Arc;

/// A service with its VM, as it moves between threads.
pub(crate) type Body = Vm<Service>;

/// A system of services.
pub(crate) type System = system::System<Body>;

/// What a send came to, until the service reads it.
pub(crate) enum Receipt {
    Done,
    /// The number of the new service.
    New(ServiceId),
    /// The message came back, and why: `receipt::ERROR` or `receipt::BLOCK`.
    Returned(i64, Message),
}

/// What became of a message that may wait for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Posted {
    Done,
    /// It waits.
    Queued,
    Missing,
    Full,
}

/// A centisecond.
const TICK: u64 = 10_000_000;

/// So many unread messages are the first that is reported.
pub(crate) const OVERLOAD: usize = 1024;

/// See the file's head.
pub(crate) struct Service {
    pub(crate) id: ServiceId,
    /// Its place in the registry, once it is a service.
    seat: Option<Seat<Body>>,
    system: Arc<System>,
    pub(crate) statistics: Arc<Statistics>,
    /// Received and not yet read.
    pub(crate) batch: VecDeque<Message>,
    pub(crate) receipt: Option<Receipt>,
    /// Requests that were read and not answered.
    pub(crate) unanswered: Unanswered,
    pub(crate) affinity: Affinity,
    /// With which the present slice runs.
    pub(crate) slice_affinity: Affinity,
    /// Wakes the thread of its own, if it has one or is about to.
    pub(crate) event: Option<Arc<Event>>,
    /// Runs on a thread of its own from the next slice on.
    pub(crate) detach: bool,
    /// Queued by `exclusive.send`, not delivered.
    pub(crate) sending: VecDeque<Message>,
    /// It has died: what its finalizers send as answers is not wanted.
    pub(crate) dead: bool,
    /// Its main function has raised.
    pub(crate) failed: bool,
    /// Has an event descriptor.
    pub(crate) has_descriptor: bool,
    /// More unread messages than this are logged; 0 is never. See `check_level`.
    pub(crate) overload: usize,
    /// Wants its next slice without a message.
    pub(crate) again: bool,
    /// When the present slice began, in nanoseconds of the monotonic clock.
    pub(crate) began: u64,
    /// What our service library keeps.
    pub(crate) library: Library,
}

impl Service {
    /// A service that has received nothing.
    pub(crate) fn new(system: Arc<System>, id: ServiceId, statistics: Arc<Statistics>) -> Service {
        Service {
            id,
            seat: system.registry.seat(id),
            system,
            statistics,
            batch: VecDeque::new(),
            receipt: None,
            unanswered: Unanswered::default(),
            affinity: Affinity::Any,
            slice_affinity: Affinity::Any,
            event: None,
            detach: false,
            sending: VecDeque::new(),
            dead: false,
            failed: false,
            has_descriptor: false,
            overload: 0,
            again: false,
            began: 0,
            library: Library::default(),
        }
    }

    /// The VM is this service from now on.
    pub(crate) fn become_service(&mut self, id: ServiceId) {
        self.id = id;
        self.seat = self.system.registry.seat(id);
    }

    /// The system it belongs to.
    pub(crate) fn system(&self) -> &Arc<System> {
        &self.system
    }

    /// Reads a message: from the batch, or what has arrived since it was taken.
    #[inline(always)]
    pub(crate) fn receive(&mut self) -> Option<Message> {
        loop {
            if self.batch.is_empty() && !(self.may_find_more() && self.find_more()) {
                return None;
            }
            let message = self.batch.pop_front()?;
            if self.has_read(&message) {
                return Some(message);
            }
        }
    }

    /// Enters that a message was read. → whether a service library sees it
    #[inline(always)]
    fn has_read(&mut self, message: &Message) -> bool {
        if let Some(seat) = &self.seat
            && seat.mailbox.read(message.is_bounded())
        {
            self.system.notify_room(self.id);
        }
        match message.kind {
            kind::ROOM => return self.has_room_at(message.from),
            _ if message.wants_answer() => self.unanswered.add(message.from, message.session),
            _ if message.is_external() => self.system.external_taken(),
            _ => {}
        }
        true
    }

    /// A mailbox that was full has room. → whether tasks go on with that
    #[cold]
    fn has_room_at(&mut self, to: ServiceId) -> bool {
        self.flush_sending();
        self.flush_outbox(to);
        self.library.has_ready()
    }

    /// Whether there is a reason to ask for more now. Between slices it is asked for again: on a worker that takes the
    /// mailbox's lock, and on a thread of its own it has the next message wake that.
    #[inline(always)]
    fn may_find_more(&self) -> bool {
        let has_arrived = self.seat.as_ref().is_some_and(|seat| seat.mailbox.has_arrived());
        has_arrived || self.overload != 0 || self.event.is_some() && self.may_block_in_slice()
    }

    /// Whether the service may wait for its event behind the last message of a slice: without our library, or with a loop of
    /// its own.
    fn may_block_in_slice(&self) -> bool {
        self.library.has_own_loop || self.library.tasks().is_none()
    }

    /// Takes what has arrived; whether there is something to read now. If not, senders that were refused may send.
    pub(super) fn find_more(&mut self) -> bool {
        let has_more = self.refill();
        if !has_more {
            self.system.notify_if_refused(self.id);
        }
        has_more
    }

    /// Posts a message of the service.
    pub(crate) fn post(&mut self, message: Message) -> Receipt {
        if message.to == SYSTEM {
            return self.schedule(message);
        }
        if matches!(message.kind, kind::RESPONSE | kind::ERROR) {
            if self.dead {
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

    /// Posts an answer. The service that asked may have died: nothing is lost then that anything waits for.
    #[inline]
    pub(crate) fn answer(&mut self, message: Message) {
        if !self.dead {
            self.unanswered.remove(message.to, message.session);
            let _ = self.system.post(message, 0);
        }
    }

    /// A message to the system: root makes and removes services.
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

    /// A RESPONSE with `session` reaches the service after `ticks` centiseconds; with none, at the end of
    /// what is in its mailbox now. The timer's id, if there is one.
    pub(crate) fn set_timer(&self, session: i64, ticks: i64) -> Option<u64> {
        if ticks <= 0 {
            let message = Message::bare(SYSTEM, self.id, session, kind::RESPONSE);
            // Its own mailbox is there, and takes answers always.
            let _ = self.system.post(message, 0);
            return None;
        }
        let due = monotonic_nanos().saturating_add((ticks as u64).saturating_mul(TICK));
        Some(self.system.monitor.add_timer(self.id, session, due))
    }

    /// Takes what has arrived; whether there is something to read now.
    pub(crate) fn refill(&mut self) -> bool {
        let Some(seat) = &self.seat else { return false };
        let unread = seat.mailbox.refill(&mut self.batch);
        self.check_level();
        unread > 0
    }

    /// Called when messages were taken from the mailbox: logs how many are unread, if that is wanted, each
    /// time that there are more than 1024, 2048, 4096 …; once all were read, from 1024 on again.
    #[inline]
    pub(crate) fn check_level(&mut self) {
        if self.overload != 0 {
            self.report_level();
        }
    }

    fn report_level(&mut self) {
        let unread = self.batch.len();
        if unread == 0 {
            self.overload = OVERLOAD;
        }
        if unread <= self.overload {
            return;
        }
        while unread > self.overload {
            self.overload *= 2;
        }
        let text = format!("May overload, message queue length = {unread}");
        self.system().log_text(self.id, &text);
    }

    /// Whether there is nothing to read and nothing to run.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.batch.is_empty() && !self.refill() && !self.library.has_ready()
    }

    /// Blocks until its event wakes it, if it has one.
    pub(crate) fn wait(&self) {
        if let Some(event) = &self.event {
            event.wait(None);
        }
    }

    /// How much there is for the next slice, which counts as begun: unread messages, an unread receipt.
    pub(crate) fn unread(&mut self) -> usize {
        let again = std::mem::take(&mut self.again) || self.receipt.is_some();
        self.batch.len() + usize::from(again)
    }

    /// Delivers what `exclusive.send` queued and finds room, in order per receiver.
    pub(crate) fn flush_sending(&mut self) {
        let mut full: Vec<ServiceId> = Vec::new();
        for _ in 0..self.sending.len() {
            let Some(message) = self.sending.pop_front() else { return };
            if full.contains(&message.to) {
                self.sending.push_back(message);
                continue;
            }
            let to = message.to;
            if let Err(message) = self.deliver(message) {
                full.push(to);
                self.sending.push_back(message);
            }
        }
    }

    /// Posts a message of our library's; if `wait`, queues it where there is no room, behind what waits for that.
    #[inline]
    pub(crate) fn deliver_or_queue(&mut self, message: Message, ticket: i64, wait: bool) -> Posted {
        if self.library.is_queued(message.to) {
            if !wait {
                return Posted::Full;
            }
            self.library.queue(message, ticket);
            return Posted::Queued;
        }
        let sender = if wait { self.id } else { 0 };
        match self.system.post(message, sender) {
            Ok(()) => Posted::Done,
            Err((_, Refusal::Missing)) => Posted::Missing,
            Err((message, Refusal::Full)) if wait => {
                self.library.queue(message, ticket);
                Posted::Queued
            }
            Err(_) => Posted::Full,
        }
    }

    /// Delivers what waited for room at `to` (`full = "wait"`), in order, as far as there is some; tasks that waited for it go
    /// on.
    fn flush_outbox(&mut self, to: ServiceId) {
        let Some(mut queue) = self.library.outbox.remove(&to) else { return };
        while let Some(waiting) = queue.pop_front() {
            let (ticket, session) = (waiting.ticket, waiting.message.session);
            match self.system.post(waiting.message, self.id) {
                Ok(()) => self.wake_sender(ticket, true),
                Err((message, Refusal::Full)) => {
                    queue.push_front(Waiting { message, ticket });
                    self.library.outbox.insert(to, queue);
                    return;
                }
                Err((_, Refusal::Missing)) => {
                    self.wake_sender(ticket, false);
                    if session != 0 {
                        self.system.answer_dead(to, self.id, session);
                    }
                }
            }
        }
    }

    /// A task that waits in `send` goes on.
    fn wake_sender(&self, ticket: i64, delivered: bool) {
        if ticket != 0
            && let Some(tasks) = self.library.tasks()
        {
            tasks.wakeup_with(Token::Session(ticket), delivered);
        }
    }

    /// Delivers a message of `exclusive.send`: a full mailbox gives it back, a missing one answers it.
    pub(crate) fn deliver(&mut self, message: Message) -> Result<(), Message> {
        match self.system().post(message, self.id) {
            Ok(()) => Ok(()),
            Err((message, Refusal::Full)) => Err(message),
            Err((message, Refusal::Missing)) => {
                self.system().refuse(&message);
                Ok(())
            }
        }
    }
}
