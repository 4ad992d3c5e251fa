//! One system: its services, queues, timers and log, shared by all its threads.
//!
//! Posting is here: it knows nothing of threads but whom to wake. Births and deaths are in `lifecycle.rs`,
//! the threads in `run.rs`.

use super::config::{Config, STAND_INS};
use super::event::Event;
use super::log::{Log, Pushed, Repetition};
use super::mailbox::{Refusal, Wake};
use super::message::{Message, Payload, ROOT, SYSTEM, ServiceId, kind};
use super::monitor::Monitor;
use super::progress::Progress;
use super::registry::Registry;
use super::scheduler::Scheduler;
use super::statistics::Statistics;
use super::sync::lock;
use crate::codec::pack::Value;
use crate::event::clock::monotonic_nanos;
use crate::lua::Function;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// See the file's head. `B` is the body of a service, which waits here between its slices.
pub(crate) struct System<B> {
    pub(crate) config: Config,
    pub(crate) registry: Registry<B>,
    pub(crate) scheduler: Scheduler,
    pub(crate) monitor: Arc<Monitor>,
    /// That of the workers, by number, stand-ins included.
    pub(super) progress: Arc<[Progress]>,
    /// That of services with a thread of their own.
    pub(super) own_progress: Mutex<Vec<Arc<Progress>>>,
    pub(super) main_progress: Progress,
    pub(crate) log: Log,
    /// Threads that have not been joined.
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Configured exclusive services: their bodies, until `run`.
    pub(super) exclusive: Mutex<Vec<B>>,
    /// Bodies whose threads have ended with the system.
    pub(super) left_over: Mutex<Vec<B>>,
    quit: AtomicBool,
    quit_lock: Mutex<()>,
    quit_wakeup: Condvar,
    /// Readable when the last thread has ended.
    pub(super) finished: Arc<Event>,
    /// How many threads run services.
    pub(super) running: AtomicUsize,
    pub(crate) exit_code: AtomicI32,
    /// Why the system could not start: the first reason.
    boot_failure: Mutex<Option<String>>,
    /// External messages that root has not been given.
    external: AtomicUsize,
    /// The service that is told which others are held up; 0 is none.
    held_reader: AtomicU32,
    debuglog: Option<Mutex<Box<dyn Write + Send>>>,
    pub(crate) preparation: Preparation,
}

/// What the VMs of services are made with.
#[derive(Clone, Copy)]
pub(crate) struct Preparation {
    /// What prepares a VM.
    pub(crate) steps: &'static [Function],
    /// Whether a module is found without a search for files.
    pub(crate) is_built_in: fn(&[u8]) -> bool,
}

impl<B> System<B> {
    /// A system with no services and no threads. The error is a message.
    pub(crate) fn new(config: Config, preparation: Preparation) -> Result<Arc<System<B>>, String> {
        let debuglog = match config.debuglog.as_deref() {
            Some("=") => Some(Mutex::new(Box::new(std::io::stdout()) as Box<_>)),
            Some(path) => {
                let file = File::create(path).map_err(|error| format!("debuglog {path}: {error}"))?;
                Some(Mutex::new(Box::new(file) as Box<_>))
            }
            None => None,
        };
        let failed = |error| format!("eventfd: {error}");
        let lanes = config.worker + STAND_INS;
        Ok(Arc::new(System {
            registry: Registry::new(config.max_service, config.queue),
            scheduler: Scheduler::new(config.worker, lanes).map_err(failed)?,
            monitor: Arc::default(),
            progress: (0..lanes).map(|_| Progress::default()).collect(),
            own_progress: Mutex::default(),
            main_progress: Progress::default(),
            log: Log::new(config.log_queue),
            threads: Mutex::default(),
            exclusive: Mutex::default(),
            left_over: Mutex::default(),
            quit: AtomicBool::new(false),
            quit_lock: Mutex::default(),
            quit_wakeup: Condvar::new(),
            finished: Event::new().map_err(failed)?,
            running: AtomicUsize::new(0),
            exit_code: AtomicI32::new(0),
            boot_failure: Mutex::default(),
            external: AtomicUsize::new(0),
            held_reader: AtomicU32::new(0),
            debuglog,
            config,
            preparation,
        }))
    }

    /// Posts a message. One that is refused comes back; when that is for want of room, `sender` (if not
    /// 0) gets a ROOM message as soon as there is some.
    pub(crate) fn post(&self, message: Message, sender: ServiceId) -> Result<(), (Message, Refusal)> {
        let to = message.to;
        let Some(slot) = self.registry.get(to) else { return Err((message, Refusal::Missing)) };
        let bounded = message.is_bounded();
        let wake = slot.mailbox.push(to, message, bounded, sender)?;
        self.wake(to, wake);
        Ok(())
    }

    /// Does what a push asked for.
    pub(crate) fn wake(&self, id: ServiceId, wake: Wake<Arc<Event>>) {
        match wake {
            Wake::None => {}
            Wake::Schedule(affinity) => self.scheduler.schedule(id, affinity),
            Wake::Waker(event) => event.signal(),
        }
    }

    /// Sends ROOM to the services whose messages service `id` had no room for.
    pub(crate) fn notify_room(&self, id: ServiceId) {
        let Some(slot) = self.registry.get(id) else { return };
        for waiting in slot.mailbox.room() {
            self.send_room(id, waiting);
        }
    }

    /// The same, by a receiver that found nothing more: a sender that was refused just before that is
    /// notified now.
    pub(crate) fn notify_if_refused(&self, id: ServiceId) {
        if let Some(slot) = self.registry.get(id)
            && slot.mailbox.has_refused()
        {
            self.notify_room(id);
        }
    }

    /// Sends ROOM to one of them.
    pub(crate) fn send_room(&self, id: ServiceId, waiting: ServiceId) {
        // One that has died wants nothing any more.
        let _ = self.post(Message::bare(id, waiting, 0, kind::ROOM), 0);
    }

    /// Answers a message to a service that is not there, if its sender waits for an answer.
    pub(crate) fn refuse(&self, message: &Message) {
        if message.wants_answer() {
            self.answer_dead(message.to, message.from, message.session);
        }
    }

    /// Answers `from`'s request that died with service `dead`.
    pub(crate) fn answer_dead(&self, dead: ServiceId, from: ServiceId, session: i64) {
        let text = format!("{{service:{dead}}} is dead");
        let message = Message::of(dead, from, session, kind::ERROR, &[Value::String(text.as_bytes())]);
        // Who asked may be dead as well.
        let _ = self.post(message, 0);
    }

    /// Wakes a service that waits on its event descriptor. False when there is none of that number.
    pub(crate) fn wake_thread(&self, id: ServiceId) -> bool {
        let Some(slot) = self.registry.get(id) else { return false };
        if let Some(event) = slot.mailbox.waker(id) {
            event.wake();
        }
        slot.mailbox.is_alive(id)
    }

    /// Takes an external message, from any thread, for root's `external` request. False when too many
    /// wait, or root is not there.
    pub(crate) fn external(&self, data: *mut std::os::raw::c_void) -> bool {
        if self.external.fetch_add(1, Ordering::Relaxed) >= self.config.external_queue {
            self.external.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let values = [Value::String(b"external"), Value::Pointer(data.expose_provenance())];
        let taken = self.post(Message::of(SYSTEM, ROOT, 0, kind::REQUEST, &values), 0).is_ok();
        if !taken {
            self.external_taken();
        }
        taken
    }

    /// Root has read an external message.
    pub(crate) fn external_taken(&self) {
        self.external.fetch_sub(1, Ordering::Relaxed);
    }

    /// What is known of a living service from outside.
    pub(crate) fn statistics(&self, id: ServiceId) -> Option<Arc<Statistics>> {
        self.registry.get(id).and_then(|slot| slot.statistics())
    }

    /// Logs text as an error of `service`: for the logger, or at once when there is none.
    pub(crate) fn log_text(&self, service: ServiceId, text: &str) {
        self.log_at(b"error", service, self.statistics(service), text);
    }

    /// The same with a level, and with the statistics of a service that may be dead.
    pub(crate) fn log_at(&self, level: &[u8], service: ServiceId, statistics: Option<Arc<Statistics>>, text: &str) {
        if !self.log.is_read() {
            // A failure has no caller to go to any more.
            let _ = writeln!(std::io::stderr(), "{text}");
            return;
        }
        let payload = Payload::of(&[Value::String(level), Value::String(text.as_bytes())]);
        self.add_to_log(service, statistics, payload, Repetition::Counted);
    }

    /// Adds an entry to the log, which may count or drop it, and tells the logger.
    pub(crate) fn push_log(&self, service: ServiceId, payload: Payload, repetition: Repetition) {
        self.add_to_log(service, self.statistics(service), payload, repetition);
    }

    fn add_to_log(
        &self, service: ServiceId, statistics: Option<Arc<Statistics>>, payload: Payload, repetition: Repetition,
    ) {
        let now = monotonic_nanos();
        let pushed = self.log.push(service, statistics, payload, repetition, now);
        self.notify_logger(pushed);
    }

    /// Logs how often lines were repeated, when it is time to.
    pub(crate) fn flush_log(&self, now: u64) {
        if self.log.due() <= now {
            self.notify_logger(self.log.flush(now));
        }
    }

    fn notify_logger(&self, pushed: Pushed) {
        if pushed.is_due {
            self.monitor.wake();
        }
        let Some(reader) = pushed.reader else { return };
        // A full mailbox wakes the logger as well.
        let _ = self.post(Message::of(SYSTEM, reader, 0, kind::SYSTEM, &[Value::String(b"log_ready")]), 0);
    }

    /// The system cannot start, for this reason: the exit code is 1, and `bootstrap.boot_failure` has the reason.
    pub(crate) fn fail_boot(&self, reason: &str) {
        self.exit_code.store(1, Ordering::SeqCst);
        lock(&self.boot_failure).get_or_insert_with(|| reason.to_owned());
    }

    /// Why the system could not start.
    pub(crate) fn boot_failure(&self) -> Option<String> {
        lock(&self.boot_failure).clone()
    }

    /// Makes `service` the one that is told which services are held up.
    pub(crate) fn set_held_reader(&self, service: ServiceId) {
        self.held_reader.store(service, Ordering::Relaxed);
    }

    /// A service with a thread of its own is held up, or no longer.
    pub(crate) fn report_held(&self, service: ServiceId, is_held: bool) {
        let reader = self.held_reader.load(Ordering::Relaxed);
        if reader == 0 {
            return;
        }
        let id = Value::Integer(i64::from(service));
        let values = [Value::String(b"held"), id, Value::Boolean(is_held)];
        // One that has died wants nothing any more.
        let _ = self.post(Message::of(SYSTEM, reader, 0, kind::SYSTEM, &values), 0);
    }

    /// Writes a line to the debug log, if there is one.
    pub(crate) fn debug(&self, text: &str) {
        if let Some(file) = &self.debuglog {
            // A full disk must not end the system.
            let _ = writeln!(lock(file), "{text}");
        }
    }

    /// Whether the system ends.
    pub(crate) fn is_quitting(&self) -> bool {
        self.quit.load(Ordering::Acquire)
    }

    /// Ends the system: every thread leaves as soon as its slice is over.
    pub(crate) fn quit(&self) {
        {
            let _guard = lock(&self.quit_lock);
            self.quit.store(true, Ordering::SeqCst);
            self.quit_wakeup.notify_all();
        }
        self.scheduler.sleepers.notify_all();
        self.monitor.wake();
        self.scheduler.main_event.wake();
        self.wake_threads();
    }

    /// Wakes every service with a thread of its own.
    pub(crate) fn wake_threads(&self) {
        for slot in self.registry.all() {
            if let Some(event) = slot.mailbox.any_waker() {
                event.wake();
            }
        }
    }

    /// Sleeps; the system's end cuts it short.
    pub(crate) fn sleep(&self, time: Duration) {
        let guard = lock(&self.quit_lock);
        // Nothing is to be done about a poisoned lock but to go on.
        let _ = self.quit_wakeup.wait_timeout_while(guard, time, |()| !self.is_quitting());
    }
}
