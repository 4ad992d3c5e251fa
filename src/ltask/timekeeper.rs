//! The timekeeper: the one thread that knows what time it is.
//!
//! It sleeps until the next timer is due and posts what is. It has the log say how often lines were repeated. While workers are awake it also looks after
//! them every few milliseconds: a slice that takes long loses its hand-off slot to the others, gets a
//! stand-in if there is work and nobody to do it, and is reported by the watchdog when it takes very
//! long. When all workers have slept for a while, those looks end, and an idle system does nothing.

use super::message::{Message, SYSTEM, ServiceId, kind};
use super::queue;
use super::statistics::Statistics;
use super::system::{System, lock};
use super::thread_clock;
use super::timers::{Due, Timers};
use super::watch::Watch;
use crate::event::clock::monotonic_nanos;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const MILLI: u64 = 1_000_000;
/// Between two looks while slices run, and while all is quiet.
const BUSY_TICK: u64 = 2 * MILLI;
const QUIET_TICK: u64 = 10 * MILLI;
/// So many quiet looks, then none.
const QUIET_MOST: u32 = 20;
/// A slice longer than this holds its worker up.
const LONG: u64 = 8 * MILLI;
/// A slice that does not end so long after the system's end is interrupted.
const GRACE: u64 = 1000 * MILLI;
/// One that does not end then either is left behind.
const ABANDON: u64 = 6000 * MILLI;
/// A service with a thread of its own that has not waited for so long is held up: others may do its work.
const HELD: u64 = 200 * MILLI;
/// The watchdog waits so long for a traceback.
const REPORT: u64 = 200 * MILLI;

/// What others share with the thread.
#[derive(Default)]
pub(crate) struct Timekeeper {
    pub(crate) timers: Timers,
    woken: Mutex<bool>,
    bell: Condvar,
    /// It sleeps without looks.
    deep: AtomicBool,
    /// Slices that take long, and the workers that stand in for them.
    held_up: AtomicUsize,
    pub(crate) stand_ins: AtomicUsize,
}

impl Timekeeper {
    /// Wakes it.
    pub(crate) fn wake(&self) {
        *lock(&self.woken) = true;
        self.bell.notify_one();
    }

    /// A worker has woken: the looks begin again.
    pub(crate) fn stir(&self) {
        fence(Ordering::SeqCst);
        if self.deep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Sets a timer. Its id.
    pub(crate) fn add(&self, service: ServiceId, session: i64, due: u64) -> u64 {
        let (id, earlier) = self.timers.add(service, session, due);
        if earlier {
            self.wake();
        }
        id
    }

    /// Whether there are more stand-ins than slices that need one. Then the caller, one of them, is to
    /// leave, and is no longer counted.
    pub(crate) fn is_surplus(&self) -> bool {
        let count = self.stand_ins.load(Ordering::SeqCst);
        count > self.held_up.load(Ordering::SeqCst)
    }
}

/// What it remembers of a worker from look to look.
#[derive(Clone, Default)]
struct Seen {
    turn: u64,
    since: u64,
    service: ServiceId,
    /// CPU time of the thread when the slice was first seen, and at the last look.
    spent: u64,
    last: u64,
    asked: u64,
    logged: bool,
    /// The service's statistics since the watchdog asked: the service may be dead when it is named again.
    statistics: Option<Arc<Statistics>>,
    /// On a thread of its own: its waits, and whether it was told that it is held up.
    waits: u64,
    held: bool,
}

impl Seen {
    /// Whether the slice was reported: also by the thread itself since the last look.
    fn was_logged(&self, watch: &Watch) -> bool {
        self.logged || self.asked != 0 && watch.has_reported(self.turn)
    }
}

/// Runs until the system has ended and its other threads are gone.
pub(crate) fn run(system: &Arc<System>) {
    let keeper = &system.keeper;
    let mut seen = vec![Seen::default(); system.watches.len()];
    let mut own: Vec<(Arc<Watch>, Seen)> = Vec::new();
    let mut due: Vec<Due> = Vec::new();
    let (mut next_look, mut quiet) = (0, 0);
    let mut ended = 0;
    loop {
        let now = monotonic_nanos();
        deliver(system, now, &mut due);
        system.flush_log(now);
        if system.is_quitting() {
            let main_runs = system.main.watch.look().1.is_some();
            if system.running.load(Ordering::SeqCst) == 0 && !main_runs {
                return;
            }
            ended = if ended == 0 { now } else { ended };
            end(system, now - ended);
            if now - ended > ABANDON {
                return abandon(system);
            }
            next_look = now + QUIET_TICK;
        } else if now >= next_look {
            let busy = look(system, &mut seen, now) | look_at_own(system, &mut own, now);
            quiet = if busy { 0 } else { quiet + 1 };
            next_look = now + if busy { BUSY_TICK } else { QUIET_TICK };
            if quiet >= QUIET_MOST {
                next_look = go_deep(system, &own);
            }
        }
        wait(keeper, next_look.min(system.log.due()));
        if keeper.deep.swap(false, Ordering::SeqCst) {
            (next_look, quiet) = (0, QUIET_MOST - 1);
        }
    }
}

/// No more looks, unless a worker or a thread of a service's own woke just now.
fn go_deep(system: &System, own: &[(Arc<Watch>, Seen)]) -> u64 {
    system.keeper.deep.store(true, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let has_woken = |(watch, seen): &(Arc<Watch>, Seen)| watch.waits() != seen.waits;
    if system.sleepers.sleeping() < system.config.worker || own.iter().any(has_woken) {
        system.keeper.deep.store(false, Ordering::SeqCst);
        return monotonic_nanos() + QUIET_TICK;
    }
    u64::MAX
}

fn wait(keeper: &Timekeeper, next_look: u64) {
    let until = keeper.timers.plan(next_look);
    let mut woken = lock(&keeper.woken);
    while !*woken {
        let now = monotonic_nanos();
        if now >= until {
            break;
        }
        let limit = Duration::from_nanos(until - now).min(Duration::from_secs(3600));
        woken = match keeper.bell.wait_timeout(woken, limit) {
            Ok((guard, _)) => guard,
            Err(poisoned) => poisoned.into_inner().0,
        };
    }
    *woken = false;
}

fn deliver(system: &System, now: u64, due: &mut Vec<Due>) {
    loop {
        due.clear();
        system.keeper.timers.expire(now, 256, due);
        for one in due.iter() {
            let message = Message::bare(SYSTEM, one.service, one.session, kind::RESPONSE);
            // A service that has just died needs it no more.
            let _ = system.post(message, 0);
        }
        if due.len() < 256 {
            return;
        }
    }
}

/// Looks at every worker. Whether one is awake.
fn look(system: &Arc<System>, seen: &mut [Seen], now: u64) -> bool {
    let mut held_up = 0;
    let mut running = 0;
    for (number, watch) in system.watches.iter().enumerate() {
        let (turn, service) = watch.look();
        let before = &mut seen[number];
        if turn != before.turn || service.is_none() {
            if before.was_logged(watch) {
                recovered(system, before, now);
            }
            *before = Seen { turn, since: now, service: service.unwrap_or(0), ..Seen::default() };
            running += usize::from(service.is_some());
            continue;
        }
        running += 1;
        queue::rescue(&system.ready, &system.sleepers, number);
        let age = now - before.since;
        held_up += usize::from(age >= LONG);
        watchdog(system, watch, before, age, now);
    }
    system.keeper.held_up.store(held_up, Ordering::SeqCst);
    let stand_ins = system.keeper.stand_ins.load(Ordering::SeqCst);
    let nobody = system.sleepers.sleeping() == 0;
    if held_up > stand_ins && nobody && system.ready.has_shared() {
        super::run::stand_in(system);
    }
    running > 0 || system.sleepers.sleeping() < system.config.worker
}

/// Looks at the services with threads of their own. There a slice is mostly waiting: what counts is the CPU
/// time that it takes between two waits. Whether one takes some, or has woken and is not known to be held up.
fn look_at_own(system: &System, own: &mut Vec<(Arc<Watch>, Seen)>, now: u64) -> bool {
    let watches = lock(&system.own_watches).clone();
    own.retain(|(watch, seen)| {
        let is_there = watches.iter().any(|other| Arc::ptr_eq(watch, other));
        // Its thread is gone: its last slice has ended.
        if !is_there && seen.was_logged(watch) {
            recovered(system, seen, now);
        }
        if !is_there && seen.held {
            system.tell_held(seen.service, false);
        }
        is_there
    });
    for watch in watches {
        if !own.iter().any(|(other, _)| Arc::ptr_eq(&watch, other)) {
            own.push((watch, Seen::default()));
        }
    }
    let mut busy = false;
    for (watch, before) in own.iter_mut() {
        let waits = watch.waits();
        let (turn, service) = watch.look();
        let spent = thread_clock::nanos(watch.clock);
        // It waits where it is observed; elsewhere nothing is known but its CPU time.
        let is_awake = waits != 0 && waits.is_multiple_of(2);
        if turn != before.turn || waits != before.waits || service.is_none() {
            if before.was_logged(watch) {
                recovered(system, before, now);
            }
            if before.held {
                system.tell_held(before.service, false);
            }
            *before =
                Seen { turn, waits, since: now, service: service.unwrap_or(0), spent, last: spent, ..Seen::default() };
            busy |= is_awake;
            continue;
        }
        busy |= spent.saturating_sub(before.last) > MILLI / 2 || is_awake && !before.held;
        before.last = spent;
        if is_awake && !before.held && now - before.since >= HELD {
            before.held = true;
            system.tell_held(before.service, true);
        }
        watchdog(system, watch, before, spent.saturating_sub(before.spent), now);
    }
    busy
}

/// Reports a slice that has taken `age` nanoseconds, once.
fn watchdog(system: &System, watch: &Watch, seen: &mut Seen, age: u64, now: u64) {
    let limit = system.config.watchdog.as_nanos() as u64;
    if limit == 0 || seen.logged || age < limit {
        return;
    }
    if seen.asked == 0 {
        seen.asked = now;
        watch.since.store(seen.since, Ordering::Relaxed);
        seen.statistics = system.statistics(seen.service);
        if let Some(statistics) = &seen.statistics {
            statistics.endless.store(true, Ordering::Relaxed);
        }
        watch.interrupt();
        return;
    }
    if watch.has_reported(seen.turn) {
        seen.logged = true;
    } else if now - seen.asked >= REPORT {
        seen.logged = true;
        let state = "has not paused for";
        let cause = "; it blocks in a C function, or runs in a coroutine of its own";
        report(system, b"error", seen, now, state, cause);
    }
}

fn recovered(system: &System, seen: &Seen, now: u64) {
    report(system, b"info", seen, now, "has paused again after", "");
}

/// Logs the state of a slice that the watchdog has interrupted, under the name that its service had then.
fn report(system: &System, level: &[u8], seen: &Seen, now: u64, state: &str, cause: &str) {
    let id = seen.service;
    let label = label(seen.statistics.as_deref());
    let seconds = (now - seen.since) as f64 / 1e9;
    let text = format!("service {id} ({label}) {state} {seconds:.1} s{cause}");
    system.log_at(level, id, seen.statistics.clone(), &text);
}

fn label(statistics: Option<&Statistics>) -> String {
    statistics.map_or_else(|| "dead".to_owned(), |statistics| statistics.label())
}

/// Slices that do not end although the system has: their threads' bells ring again, and after a while
/// they are interrupted.
fn end(system: &System, since: u64) {
    system.sleepers.notify_all();
    system.ring_all();
    if since < GRACE {
        return;
    }
    for watch in &system.watches {
        if watch.look().1.is_some() {
            watch.interrupt();
        }
    }
    for watch in lock(&system.own_watches).iter() {
        if watch.look().1.is_some() {
            watch.interrupt();
        }
    }
    if system.main.watch.look().1.is_some() {
        system.main.watch.interrupt();
    }
}

/// Slices that nothing interrupts, because they block in C or loop in a coroutine of their own: better a
/// thread left than a process that cannot end.
fn abandon(system: &System) {
    let watches = system.watches.iter().chain([&system.main.watch]);
    for (_, service) in watches.map(Watch::look) {
        if let Some(id) = service {
            let text =
                format!("service {id} ({}) does not end; it is left behind", label(system.statistics(id).as_deref()));
            system.log_text(id, &text);
        }
    }
}
