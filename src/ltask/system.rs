//! One system: its services, queues, timers and log, shared by all its threads.
//!
//! This file posts messages and wakes threads; other files run the threads. Services start and end in `lifecycle.rs`,
//! threads in `run.rs`.

use super::config::{Config, MAX_SPARE_WORKERS};
use super::event::Event;
use super::log::{Log, PushResult, Repetition};
use super::mailbox::{Refusal, Wake};
use super::message::{Message, Payload, ROOT, SYSTEM, ServiceId, kind};
use super::monitor::Monitor;
use super::progress::Progress;
use super::registry::Registry;
use super::scheduler::Scheduler;
use super::statistics::Statistics;
use super::sync::lock;
use super::watcher::Watchers;
use crate::codec::pack::Value;
use crate::event::clock::monotonic_nanos;
use crate::lua::Function;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A system. `V` is the VM of a service.
pub(crate) struct System<V> {
    pub(crate) config: Config,
    pub(crate) registry: Registry<V>,
    pub(crate) scheduler: Scheduler,
    pub(crate) monitor: Arc<Monitor>,
    /// The progress of each worker, by number, including spare workers.
    pub(super) progress: Arc<[Progress]>,
    /// The progress of services with their own threads.
    pub(super) own_progress: Mutex<Vec<Arc<Progress>>>,
    pub(super) main_progress: Progress,
    pub(crate) log: Log,
    /// The watchers of the I/O threads.
    pub(super) watchers: Watchers,
    /// Threads that have not been joined.
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    /// The VMs of exclusive services, until `run::start` starts their threads.
    pub(super) exclusive: Mutex<Vec<V>>,
    /// The VMs of services whose own threads have ended because the system is ending.
    pub(super) remaining: Mutex<Vec<V>>,
    quit: AtomicBool,
    quit_lock: Mutex<()>,
    quit_wakeup: Condvar,
    /// Signalled when the last thread has ended.
    pub(super) finished: Arc<Event>,
    /// The number of threads that run services.
    pub(super) running: AtomicUsize,
    pub(crate) exit_code: AtomicI32,
    /// The first reason why the system could not start.
    boot_failure: Mutex<Option<String>>,
    /// The number of external messages that root has not read.
    external: AtomicUsize,
    /// The service that is notified when another service is blocked; 0 if there is none.
    blocked_listener: AtomicU32,
    debuglog: Option<Mutex<Box<dyn Write + Send>>>,
    pub(crate) preparation: Preparation,
}

/// How the VMs of services are prepared.
#[derive(Clone, Copy)]
pub(crate) struct Preparation {
    /// The functions that prepare a VM, in the order in which they are called.
    pub(crate) functions: &'static [Function],
    /// Returns whether a module is built in. If so, `require` does not search for a file.
    pub(crate) is_built_in: fn(&[u8]) -> bool,
}

impl<V> System<V> {
    /// Creates a system without services or threads. On failure, returns an error message.
    pub(crate) fn new(config: Config, preparation: Preparation) -> Result<Arc<System<V>>, String> {
        let debuglog = match config.debuglog.as_deref() {
            Some("=") => Some(Mutex::new(Box::new(std::io::stdout()) as Box<_>)),
            Some(path) => {
                let file = File::create(path).map_err(|error| format!("debuglog {path}: {error}"))?;
                Some(Mutex::new(Box::new(file) as Box<_>))
            }
            None => None,
        };
        let failed = |error| format!("eventfd: {error}");
        let lanes = config.worker + MAX_SPARE_WORKERS;
        Ok(Arc::new(System {
            registry: Registry::new(config.max_service, config.queue),
            scheduler: Scheduler::new(config.worker, lanes).map_err(failed)?,
            monitor: Arc::default(),
            progress: (0..lanes).map(|_| Progress::default()).collect(),
            own_progress: Mutex::default(),
            main_progress: Progress::default(),
            log: Log::new(config.log_queue),
            watchers: Watchers::new(config.io),
            threads: Mutex::default(),
            exclusive: Mutex::default(),
            remaining: Mutex::default(),
            quit: AtomicBool::new(false),
            quit_lock: Mutex::default(),
            quit_wakeup: Condvar::new(),
            finished: Event::new().map_err(failed)?,
            running: AtomicUsize::new(0),
            exit_code: AtomicI32::new(0),
            boot_failure: Mutex::default(),
            external: AtomicUsize::new(0),
            blocked_listener: AtomicU32::new(0),
            debuglog,
            config,
            preparation,
        }))
    }

    /// Posts a message. If the message is refused, returns it with the reason. If the mailbox is full, `sender` (unless
    /// it is 0) gets a ROOM message when there is room.
    pub(crate) fn post(&self, message: Message, sender: ServiceId) -> Result<(), (Message, Refusal)> {
        let to = message.to;
        let Some(slot) = self.registry.get(to) else { return Err((message, Refusal::Missing)) };
        let bounded = message.is_bounded();
        let wake = slot.mailbox.push(to, message, bounded, sender)?;
        self.wake(to, wake);
        Ok(())
    }

    /// Takes the action `wake`, which a push to the mailbox of service `id` has returned.
    pub(crate) fn wake(&self, id: ServiceId, wake: Wake<Arc<Event>>) {
        match wake {
            Wake::None => {}
            Wake::Schedule(affinity) => self.scheduler.schedule(id, affinity),
            Wake::Waker(event) => event.signal(),
        }
    }

    /// Sends ROOM messages to the services that wait for room in the mailbox of service `id`, if half of the mailbox is
    /// free.
    pub(crate) fn notify_room(&self, id: ServiceId) {
        let Some(slot) = self.registry.get(id) else { return };
        for waiting in slot.mailbox.take_refused() {
            self.send_room(id, waiting);
        }
    }

    /// Called when service `id` has found its mailbox empty. If a sender was refused, does the same as
    /// [`System::notify_room`].
    pub(crate) fn notify_if_refused(&self, id: ServiceId) {
        if let Some(slot) = self.registry.get(id)
            && slot.mailbox.has_refused()
        {
            self.notify_room(id);
        }
    }

    /// Sends a ROOM message from service `id` to service `waiting`.
    pub(crate) fn send_room(&self, id: ServiceId, waiting: ServiceId) {
        // A service that has died does not need the message.
        let _ = self.post(Message::without_payload(id, waiting, 0, kind::ROOM), 0);
    }

    /// Answers a message to a missing service with an error, if the sender waits for a response.
    pub(crate) fn answer_undelivered(&self, message: &Message) {
        if message.wants_response() {
            self.answer_dead(message.to, message.from, message.session);
        }
    }

    /// Answers a request of service `from` with the error that service `dead` is dead.
    pub(crate) fn answer_dead(&self, dead: ServiceId, from: ServiceId, session: i64) {
        let text = format!("{{service:{dead}}} is dead");
        let message = Message::with_values(dead, from, session, kind::ERROR, &[Value::String(text.as_bytes())]);
        // The sender of the request may be dead too.
        let _ = self.post(message, 0);
    }

    /// Wakes a service that waits on its event descriptor. Returns false if there is no such service.
    pub(crate) fn wake_thread(&self, id: ServiceId) -> bool {
        let Some(slot) = self.registry.get(id) else { return false };
        if let Some(event) = slot.mailbox.waker(id) {
            event.wake();
        }
        slot.mailbox.is_alive(id)
    }

    /// Posts an external message to root, as the request `external`. Any thread can call this function. Returns false
    /// if too many external messages are unread, or if there is no root.
    pub(crate) fn external(&self, data: *mut std::os::raw::c_void) -> bool {
        if self.external.fetch_add(1, Ordering::Relaxed) >= self.config.external_queue {
            self.external.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let values = [Value::String(b"external"), Value::Pointer(data.expose_provenance())];
        let taken = self.post(Message::with_values(SYSTEM, ROOT, 0, kind::REQUEST, &values), 0).is_ok();
        if !taken {
            self.record_external_read();
        }
        taken
    }

    /// Called when root has read an external message.
    pub(crate) fn record_external_read(&self) {
        self.external.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the statistics of a service; None if root has removed the service.
    pub(crate) fn statistics(&self, id: ServiceId) -> Option<Arc<Statistics>> {
        self.registry.get(id).and_then(|slot| slot.statistics())
    }

    /// Logs `text` as an error from `service`. If there is no logger, writes `text` to standard error.
    pub(crate) fn log_text(&self, service: ServiceId, text: &str) {
        self.log_at(b"error", service, self.statistics(service), text);
    }

    /// Like [`System::log_text`], but with a level and with the statistics of the service, which may be dead.
    pub(crate) fn log_at(&self, level: &[u8], service: ServiceId, statistics: Option<Arc<Statistics>>, text: &str) {
        if !self.log.is_read() {
            // No caller could handle a failed write.
            let _ = writeln!(std::io::stderr(), "{text}");
            return;
        }
        let payload = Payload::pack(&[Value::String(level), Value::String(text.as_bytes())]);
        self.add_to_log(service, statistics, payload, Repetition::Counted);
    }

    /// Adds an entry to the log, which may count or drop the entry, and notifies the logger.
    pub(crate) fn push_log(&self, service: ServiceId, payload: Payload, repetition: Repetition) {
        self.add_to_log(service, self.statistics(service), payload, repetition);
    }

    fn add_to_log(
        &self, service: ServiceId, statistics: Option<Arc<Statistics>>, payload: Payload, repetition: Repetition,
    ) {
        let now = monotonic_nanos();
        let result = self.log.push(service, statistics, payload, repetition, now);
        self.notify_logger(result);
    }

    /// Reports how often lines were repeated, if such a report is due at the time `now`.
    pub(crate) fn flush_log(&self, now: u64) {
        if self.log.next_flush() <= now {
            self.notify_logger(self.log.flush(now));
        }
    }

    fn notify_logger(&self, result: PushResult) {
        if result.flushes_earlier {
            self.monitor.wake();
        }
        let Some(reader) = result.reader else { return };
        // The mailbox accepts this message even if it is full. A logger that has died does not need the message.
        let _ = self.post(Message::with_values(SYSTEM, reader, 0, kind::SYSTEM, &[Value::String(b"log_ready")]), 0);
    }

    /// Records why the system cannot start, for `bootstrap.boot_failure`. Sets the exit code to 1.
    pub(crate) fn fail_boot(&self, reason: &str) {
        self.exit_code.store(1, Ordering::SeqCst);
        lock(&self.boot_failure).get_or_insert_with(|| reason.to_owned());
    }

    /// Returns why the system could not start; None if it could.
    pub(crate) fn boot_failure(&self) -> Option<String> {
        lock(&self.boot_failure).clone()
    }

    /// Sets the service that is notified when another service is blocked.
    pub(crate) fn set_blocked_listener(&self, service: ServiceId) {
        self.blocked_listener.store(service, Ordering::Relaxed);
    }

    /// Notifies the listener that a service with its own thread is blocked, or no longer blocked.
    pub(crate) fn report_blocked(&self, service: ServiceId, is_blocked: bool) {
        let reader = self.blocked_listener.load(Ordering::Relaxed);
        if reader == 0 {
            return;
        }
        let id = Value::Integer(i64::from(service));
        let values = [Value::String(b"blocked"), id, Value::Boolean(is_blocked)];
        // A service that has died does not need the message.
        let _ = self.post(Message::with_values(SYSTEM, reader, 0, kind::SYSTEM, &values), 0);
    }

    /// Writes a line to the debug log, if there is one.
    pub(crate) fn debug(&self, text: &str) {
        if let Some(file) = &self.debuglog {
            // A full disk must not end the system.
            let _ = writeln!(lock(file), "{text}");
        }
    }

    /// Whether the system is ending.
    pub(crate) fn is_quitting(&self) -> bool {
        self.quit.load(Ordering::Acquire)
    }

    /// Ends the system: every thread ends after its slice.
    pub(crate) fn quit(&self) {
        {
            let _guard = lock(&self.quit_lock);
            self.quit.store(true, Ordering::SeqCst);
            self.quit_wakeup.notify_all();
        }
        self.scheduler.sleepers.notify_all();
        self.monitor.wake();
        self.scheduler.main_event.wake();
        self.watchers.end();
        self.wake_threads();
    }

    /// Wakes every service with its own thread.
    pub(crate) fn wake_threads(&self) {
        for slot in self.registry.all() {
            if let Some(event) = slot.mailbox.any_waker() {
                event.wake();
            }
        }
    }

    /// Sleeps for `time`, or until the system ends.
    pub(crate) fn sleep(&self, time: Duration) {
        let guard = lock(&self.quit_lock);
        // The result does not matter, even if the lock is poisoned.
        let _ = self.quit_wakeup.wait_timeout_while(guard, time, |()| !self.is_quitting());
    }
}
