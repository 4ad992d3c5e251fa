//! The threads of a system: workers, timekeeper, and one for each service that needs its own.

use super::body::{Body, Outcome};
use super::event::Event;
use super::message::{Message, SYSTEM, kind};
use super::system::{System, lock};
use super::watch::{self, Watch};
use super::worker::Worker;
use super::{lifecycle, thread_clock, timekeeper};
use crate::event::clock::monotonic_nanos;
use crate::lua::interrupt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::Builder;

/// Lua's C stack is limited to some 200 levels; this is ample for them.
const STACK: usize = 4 << 20;

/// Starts a thread that is joined when the system ends. `counted`: the timekeeper waits for its end. The
/// error is a message; then `body` was not run.
fn spawn(
    system: &Arc<System>, name: String, counted: bool, body: impl FnOnce(&Arc<System>) + Send + 'static,
) -> Result<(), String> {
    let shared = system.clone();
    if counted {
        system.running.fetch_add(1, Ordering::SeqCst);
    }
    let thread = Builder::new().name(name).stack_size(STACK).spawn(move || {
        let _leaving = Leaving(&shared, counted);
        body(&shared);
    });
    match thread {
        Ok(handle) => {
            let mut threads = lock(&system.threads);
            threads.retain(|thread| !thread.is_finished());
            threads.push(handle);
            Ok(())
        }
        Err(error) => {
            if counted {
                system.running.fetch_sub(1, Ordering::SeqCst);
            }
            Err(format!("cannot start a thread: {error}"))
        }
    }
}

/// Counts a thread out, also when it panics: then the system ends.
struct Leaving<'a>(&'a Arc<System>, bool);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let Leaving(system, counted) = self;
        if std::thread::panicking() {
            system.exit_code.store(1, Ordering::SeqCst);
            system.quit();
        }
        if *counted && system.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            system.keeper.wake();
        }
    }
}

/// Without this thread there is no system.
fn must(system: &Arc<System>, started: Result<(), String>) -> bool {
    let Err(message) = started else { return true };
    system.log_text(SYSTEM, &message);
    system.fail_boot(&message);
    system.quit();
    false
}

/// Starts all threads.
pub(crate) fn start(system: &Arc<System>) {
    interrupt::install();
    for number in 0..system.config.worker {
        if let Some(worker) = Worker::new(system, number) {
            let name = format!("lio-worker-{number}");
            let started = spawn(system, name, true, move |system| worker.run(system));
            must(system, started);
        }
    }
    for service in std::mem::take(&mut *lock(&system.exclusive)) {
        own_thread(system, service);
    }
    let started = spawn(system, "lio-timer".into(), false, |system| {
        struct Finish<'a>(&'a System);
        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                self.0.finished.touch();
            }
        }
        let _finish = Finish(system);
        timekeeper::run(system);
    });
    if !must(system, started) {
        system.finished.touch();
    }
}

/// Adds a worker for one that is held up. It is only a help: without it the others wait.
pub(crate) fn stand_in(system: &Arc<System>) {
    let first = system.config.worker;
    let free = |&number: &usize| lock(&system.deques)[number].is_some();
    let Some(number) = (first..system.deque_count()).find(free) else {
        return;
    };
    system.keeper.stand_ins.fetch_add(1, Ordering::SeqCst);
    let started = spawn(system, "lio-stand-in".into(), true, move |system| {
        if let Some(worker) = Worker::new(system, number) {
            worker.run(system);
        }
        system.keeper.stand_ins.fetch_sub(1, Ordering::SeqCst);
    });
    if let Err(message) = started {
        system.keeper.stand_ins.fetch_sub(1, Ordering::SeqCst);
        system.log_text(SYSTEM, &message);
    }
}

/// A service that got an event descriptor goes on on a thread of its own.
pub(crate) fn detach(system: &Arc<System>, mut service: Body) {
    service.detach = false;
    if let (Some(slot), Some(event)) = (system.slots().get(service.id), service.event.clone()) {
        slot.mailbox.own(event);
    }
    own_thread(system, service);
}

fn own_thread(system: &Arc<System>, service: Body) {
    let name = format!("lio-{}", service.statistics.label());
    let id = service.id;
    // Where the service is found again when there is no thread for it.
    let place = Arc::new(Mutex::new(Some(service)));
    let taken = place.clone();
    let started = spawn(system, name, true, move |system| {
        let Some(service) = lock(&taken).take() else {
            return;
        };
        let watch = Arc::new(Watch::with_clock(thread_clock::own()));
        service.statistics.own_clock(watch.clock);
        watch.enter();
        lock(&system.own_watches).push(watch.clone());
        watch::observe(system, &watch);
        system.keeper.stir();
        live(system, service, &watch);
        watch::forget();
        lock(&system.own_watches).retain(|other| !Arc::ptr_eq(other, &watch));
        watch.leave();
    });
    if let Err(message) = started {
        system.log_text(id, &message);
        if let Some(service) = lock(&place).take() {
            lifecycle::retire(system, service);
        }
    }
}

/// Runs one service until it ends or the system does. It blocks by itself; an exclusive one (G1) is
/// resumed right after each yield, one with an event descriptor (G2) is told when it has nothing to do.
fn live(system: &Arc<System>, mut service: Body, watch: &Watch) {
    let exclusive = service.statistics.exclusive.load(Ordering::Relaxed);
    loop {
        if system.is_quitting() {
            lock(&system.retired).push(service);
            return;
        }
        let again = std::mem::take(&mut service.again);
        if !again && service.batch.is_empty() && !service.refill() && !exclusive {
            let id = service.id;
            service.batch.push_back(Message::bare(SYSTEM, id, 0, kind::IDLE));
        }
        service.began = monotonic_nanos();
        watch.begin(service.id);
        let outcome = service.run_slice(None);
        watch.end();
        let nanos = monotonic_nanos() - service.began;
        service.account(nanos);
        if outcome != Outcome::Yielded || service.statistics.doomed.load(Ordering::Relaxed) {
            return lifecycle::retire(system, service);
        }
    }
}

/// Waits until every thread has ended, then closes every VM. `interrupted` is asked when a signal came,
/// and says whether to end the system. Returns the exit code.
pub(crate) fn wait(system: &Arc<System>, interrupted: impl Fn() -> bool) -> i32 {
    loop {
        if system.finished.wait_once() {
            break;
        }
        if interrupted() {
            system.quit();
        }
    }
    finish(system)
}

/// Joins the threads and closes the VMs. The system is over.
pub(crate) fn finish(system: &Arc<System>) -> i32 {
    for thread in std::mem::take(&mut *lock(&system.threads)) {
        // One whose slice nothing interrupts is left behind, see the timekeeper.
        if system.running.load(Ordering::SeqCst) > 0 && !thread.is_finished() {
            continue;
        }
        // A thread that panicked has said so on standard error.
        let _ = thread.join();
    }
    interrupt::uninstall();
    close_all(system);
    system.exit_code.load(Ordering::SeqCst)
}

/// Closes every VM that is left: those with threads, those in mailboxes, root last of all.
pub(crate) fn close_all(system: &Arc<System>) {
    let mut left = std::mem::take(&mut *lock(&system.retired));
    left.append(&mut lock(&system.exclusive));
    for slot in system.slots().all() {
        left.extend(slot.mailbox.take_body());
    }
    left.sort_by_key(|service| std::cmp::Reverse(service.id));
    for service in left {
        service.end();
    }
    for slot in system.slots().all() {
        drop(slot.mailbox.empty());
    }
}

/// Makes a configured service exclusive (G1): its thread starts with the system. The error is a message.
pub(crate) fn make_exclusive(system: &System, id: u32) -> Result<(), String> {
    let slot = system.slots().get(id);
    let event = Event::new().map_err(|error| format!("eventfd: {error}"))?;
    let service = slot.and_then(|slot| slot.mailbox.detach(id, event.clone()));
    let (Some(mut service), Some(slot)) = (service, slot) else {
        return Err(format!("service {id} is not there, or has a thread already"));
    };
    match service.event.clone() {
        // Of a VM that took a descriptor before it was a service, and may have a selector on it.
        Some(kept) => slot.mailbox.rehang(id, kept),
        None => service.event = Some(event),
    }
    service.detach = false;
    service.statistics.exclusive.store(true, Ordering::Relaxed);
    lock(&system.exclusive).push(service);
    Ok(())
}
