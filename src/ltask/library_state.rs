//! The data that lio's service library keeps in a service in addition to the service's messages: sessions, the message
//! that is being handled, and messages that wait for room in a full mailbox.

use super::message::{Message, Payload, ServiceId};
use super::service_io::ServiceIo;
use crate::lua::VmOwned;
use crate::task::{TaskId, Tasks};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// A message that waits for room in a full mailbox.
pub(crate) struct WaitingMessage {
    pub(crate) message: Message,
    /// The session on which the sending coroutine waits for the delivery; 0 for a call, whose coroutine waits for the
    /// response.
    pub(crate) send_session: i64,
}

/// The name of a request, for log lines and errors about the request. Names of more than 31 bytes are not kept.
#[derive(Clone, Copy, Default)]
pub(crate) struct RequestName {
    length: u8,
    bytes: [u8; 31],
}

impl RequestName {
    /// Creates the name `text`. The name is empty if `text` is longer than 31 bytes.
    pub(crate) fn new(text: &[u8]) -> RequestName {
        let mut name = RequestName::default();
        if text.len() <= name.bytes.len() {
            name.length = text.len() as u8;
            name.bytes[..text.len()].copy_from_slice(text);
        }
        name
    }

    /// Returns the bytes of the name.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
}

/// A message without its values.
#[derive(Clone, Copy)]
pub(crate) struct MessageHeader {
    pub(crate) kind: u8,
    pub(crate) from: ServiceId,
    pub(crate) session: i64,
}

/// The state of the service library in one service.
#[derive(Default)]
pub(crate) struct LibraryState {
    /// The VM's tasks; None in a service with another library.
    tasks: Option<VmOwned<Rc<Tasks>>>,
    /// The last session that was assigned.
    session: i64,
    /// The message that is being handled, until its values are on a task's stack. If an error occurs earlier, the field
    /// keeps the message.
    pub(crate) current_message: Option<MessageHeader>,
    /// Payloads whose values are being pushed. There are several payloads if pushing a value runs a finalizer that
    /// handles messages.
    pub(crate) decoding: Vec<Payload>,
    /// The number of messages that the current slice has handled.
    pub(crate) handled: u32,
    /// The name of the request that each task runs, or ran last, by task id.
    names: Vec<RequestName>,
    /// Messages that wait for room, by receiver and in order. Only a receiver of waiting messages has an entry.
    pub(crate) outbox: HashMap<ServiceId, VecDeque<WaitingMessage>>,
    /// Whether a task that sends to a full mailbox waits for room.
    pub(crate) wait_when_full: bool,
    /// Whether the service is starting: its main chunk has not returned yet.
    pub(crate) is_starting: bool,
    /// Requests that wait until the service's main chunk has returned, because they have no handler yet.
    pub(crate) held: Vec<Message>,
    /// Whether the service library calls other callbacks than those of `ltask.callbacks`.
    pub(crate) has_own_callbacks: bool,
    /// Whether the service has request handlers. If so, it does not end when it has no tasks left.
    pub(crate) has_handlers: bool,
    /// The number of tasks that wait until this service ends. These tasks do not keep the service running.
    pub(crate) end_waits: usize,
    /// The number of rounds of the ready queue since the last message.
    pub(crate) rounds: u32,
    /// Whether I/O is polled between batches.
    pub(crate) polls_io: bool,
    /// The loop that an I/O thread wakes; None in a service that does not use `lio.net`, or that owns a loop.
    pub(crate) io: Option<Box<ServiceIo>>,
    /// The number of functions of `lio.loop.timeout` that have not run. They keep the service running.
    pub(crate) timeouts: usize,
    /// Whether a service that owns a loop ends when it has no handlers and no tasks left.
    pub(crate) ends_with_tasks: bool,
    /// Whether the service's main function has its own loop, which calls `core.schedule`.
    pub(crate) has_own_loop: bool,
    /// Whether some functions behave as in the first generation of ltask.
    pub(crate) is_first_generation: bool,
    /// Whether the service ends after the current message. If so, the service's other messages are not handled.
    pub(crate) is_ending: bool,
    /// Whether the log contains an entry about the interruption of the service by the end of the system.
    pub(crate) interruption_is_logged: bool,
    /// Whether the program has ended the service, so that a killed task leaves its request to a dead service.
    pub(crate) is_exiting: bool,
}

impl LibraryState {
    /// Whether the service must run a round of its loop before it sleeps.
    #[inline]
    pub(crate) fn wants_round(&self) -> bool {
        self.io.as_ref().is_some_and(|io| io.wants_round())
    }

    /// Whether a task is ready to run.
    pub(crate) fn has_ready(&self) -> bool {
        self.tasks().is_some_and(|tasks| tasks.has_ready())
    }

    /// Returns the VM's tasks; None if the VM is closing, or in a service with another library.
    #[inline]
    pub(crate) fn tasks(&self) -> Option<&Rc<Tasks>> {
        let tasks: &Rc<Tasks> = self.tasks.as_deref()?;
        tasks.threads.are_open().then_some(tasks)
    }

    /// Sets the VM's tasks.
    pub(crate) fn set_tasks(&mut self, tasks: VmOwned<Rc<Tasks>>) {
        self.tasks = Some(tasks);
    }

    /// Records the name of the request that a task runs now.
    pub(crate) fn set_name(&mut self, task: TaskId, text: &[u8]) {
        let task = task as usize;
        if self.names.len() <= task {
            if self.names.is_empty() {
                self.names.reserve_exact(task + 1);
            }
            self.names.resize(task + 1, RequestName::default());
        }
        self.names[task] = RequestName::new(text);
    }

    /// Returns the name of the request that a task runs, or ran last.
    pub(crate) fn name(&self, task: TaskId) -> RequestName {
        self.names.get(task as usize).copied().unwrap_or_default()
    }

    /// Assigns a new session and returns it.
    pub(crate) fn next_session(&mut self) -> i64 {
        self.session += 1;
        self.session
    }

    /// Whether `session` was ever assigned.
    pub(crate) fn was_assigned(&self, session: i64) -> bool {
        (1..=self.session).contains(&session)
    }

    /// Whether a message waits for room in the mailbox of `to`.
    pub(crate) fn has_waiting(&self, to: ServiceId) -> bool {
        !self.outbox.is_empty() && self.outbox.contains_key(&to)
    }

    /// Queues a message behind the messages that wait for room in the same mailbox.
    pub(crate) fn push_waiting(&mut self, message: Message, send_session: i64) {
        let waiting = WaitingMessage { message, send_session };
        self.outbox.entry(waiting.message.to).or_default().push_back(waiting);
    }
}
