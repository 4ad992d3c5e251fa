//! What our service library keeps in a service besides its messages: sessions, the request at hand, and
//! what waits for room in a full mailbox.

use super::message::{Message, Payload, ServiceId};
use crate::lua::VmOwned;
use crate::task::{TaskId, Tasks};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// A message that waits for room.
pub(crate) struct Waiting {
    pub(crate) message: Message,
    /// The session on which its sender's coroutine waits until it is delivered; 0 for a call, which waits
    /// for its answer.
    pub(crate) ticket: i64,
}

/// The name of a request, as far as it is short, for messages about it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Name {
    length: u8,
    bytes: [u8; 31],
}

impl Name {
    /// Of a request; empty when it is too long.
    pub(crate) fn new(text: &[u8]) -> Name {
        let mut name = Name::default();
        if text.len() <= name.bytes.len() {
            name.length = text.len() as u8;
            name.bytes[..text.len()].copy_from_slice(text);
        }
        name
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
}

/// What a message says besides its values.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    pub(crate) from: ServiceId,
    pub(crate) session: i64,
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct Library {
    /// The VM's tasks; none in a service with another library.
    tasks: Option<VmOwned<Rc<Tasks>>>,
    /// The last session that was given out.
    session: i64,
    /// The message at hand, until its values are on a task's stack. An error in between leaves it here.
    pub(crate) current: Option<Head>,
    /// Payloads whose values are being pushed: more than one when that runs a finalizer which handles messages.
    pub(crate) reading: Vec<Payload>,
    /// How many messages the present slice has handled.
    pub(crate) handled: u32,
    /// What each task runs, or ran last.
    names: Vec<Name>,
    /// By receiver, in order. A receiver has an entry only while something waits.
    pub(crate) outbox: HashMap<ServiceId, VecDeque<Waiting>>,
    /// Whether a sender waits when a mailbox is full.
    pub(crate) wait_when_full: bool,
    /// Its main chunk has not returned yet.
    pub(crate) starting: bool,
    /// It has given its handlers: it ends when it is told to, not by itself.
    pub(crate) serves: bool,
    /// How many of its tasks wait for its own end, and do not keep it alive.
    pub(crate) end_waits: usize,
    /// How many rounds of the run queue there were since the last message.
    pub(crate) rounds: u32,
    /// Whether I/O is polled between batches.
    pub(crate) polls: bool,
    /// Its main function has a loop of its own, which calls `core.schedule`.
    pub(crate) has_own_loop: bool,
    /// Whether some functions have the form of the first generation.
    pub(crate) is_first_generation: bool,
    /// The service ends when its present messages are done.
    pub(crate) ended: bool,
}

impl Library {
    /// Whether coroutines are ready to run.
    pub(crate) fn has_ready(&self) -> bool {
        self.tasks().is_some_and(|tasks| tasks.has_ready())
    }

    /// The VM's tasks, until it closes; none in a service with another library.
    #[inline]
    pub(crate) fn tasks(&self) -> Option<&Rc<Tasks>> {
        let tasks: &Rc<Tasks> = self.tasks.as_deref()?;
        tasks.threads.are_open().then_some(tasks)
    }

    /// Sets the VM's tasks.
    pub(crate) fn set_tasks(&mut self, tasks: VmOwned<Rc<Tasks>>) {
        self.tasks = Some(tasks);
    }

    /// The request `text` is what a task runs now.
    pub(crate) fn set_name(&mut self, task: TaskId, text: &[u8]) {
        let task = task as usize;
        if self.names.len() <= task {
            if self.names.is_empty() {
                self.names.reserve_exact(task + 1);
            }
            self.names.resize(task + 1, Name::default());
        }
        self.names[task] = Name::new(text);
    }

    /// What a task runs, or ran last.
    pub(crate) fn name(&self, task: TaskId) -> Name {
        self.names.get(task as usize).copied().unwrap_or_default()
    }

    /// A session on which no task waits.
    pub(crate) fn next_session(&mut self) -> i64 {
        self.session += 1;
        self.session
    }

    /// Whether that session was ever given out.
    pub(crate) fn was_given(&self, session: i64) -> bool {
        (1..=self.session).contains(&session)
    }

    /// Whether something waits for room at `to`.
    pub(crate) fn is_queued(&self, to: ServiceId) -> bool {
        !self.outbox.is_empty() && self.outbox.contains_key(&to)
    }

    /// Queues a message behind those that wait for room at its receiver.
    pub(crate) fn queue(&mut self, message: Message, ticket: i64) {
        let waiting = Waiting { message, ticket };
        self.outbox.entry(waiting.message.to).or_default().push_back(waiting);
    }
}
