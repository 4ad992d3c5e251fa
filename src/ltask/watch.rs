//! How a slice that takes too long is seen, and interrupted, from outside.
//!
//! Each thread that runs services has a `Watch`: whether a slice runs and whose. To say where a service
//! hangs, or to end it when the system quits, the timekeeper sends the thread a signal; its handler sets
//! a hook in the VM that this very thread runs, which `lua_sethook` allows (the stock interpreter does
//! so for Ctrl-C), and the hook does the rest between two Lua instructions. The signal is SIGURG, which
//! is ignored by default and which Go's runtime uses for the same purpose; where a program has a handler
//! of its own for it, it is left alone and there are no tracebacks.

use super::message::ServiceId;
use super::service::Service;
use super::system::System;
use crate::event::pause::{self, Pause};
use crate::raw::hook;
use mlua::ffi::{self, lua_Debug, lua_State};
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

thread_local! {
    /// The service whose slice this thread runs, for the signal's handler.
    static CURRENT: Cell<*mut Service> = const { Cell::new(std::ptr::null_mut()) };
}

thread_local! {
    /// The system and the watch of a thread that runs one service.
    static OWN: RefCell<Option<(Arc<System>, Arc<Watch>)>> = const { RefCell::new(None) };
}

/// The calling thread runs one service: its waits are counted.
pub(crate) fn observe(system: &Arc<System>, watch: &Arc<Watch>) {
    OWN.set(Some((system.clone(), watch.clone())));
    pause::observe(paused);
}

/// The thread's service has ended.
pub(crate) fn forget() {
    OWN.set(None);
}

/// The calling thread begins or ends to wait. After a wait the timekeeper looks at it: either it finds the wait
/// counted before it stops looking, or this thread finds that it has stopped.
pub(crate) fn paused(pause: Pause) {
    OWN.with_borrow(|own| {
        let Some((system, watch)) = own else { return };
        let waits = watch.waits.load(Ordering::Relaxed);
        let next = match pause {
            Pause::Begins => (waits + 1) | 1,
            Pause::Ends => (waits + 2) & !1,
        };
        watch.waits.store(next, Ordering::Release);
        if pause == Pause::Ends {
            system.keeper.stir();
        }
    });
}

/// The CPU time of a thread by its clock, in nanoseconds; 0 when there is none (any more).
pub(crate) fn clock_nanos(clock: i32) -> u64 {
    if clock == 0 {
        return 0;
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to `time`; a clock of a thread that has gone is an error.
    match unsafe { libc::clock_gettime(clock as libc::clockid_t, &mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}

/// The CPU clock of the calling thread, 0 when the system has none.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn own_clock() -> i32 {
    let mut clock = 0;
    // SAFETY: asks for the calling thread.
    match unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) } {
        0 => clock,
        _ => 0,
    }
}

/// As above.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn own_clock() -> i32 {
    0
}

/// See the file's head.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Watch {
    /// The thread's CPU clock, where slices are mostly waiting; 0 elsewhere.
    pub(crate) clock: i32,
    /// Odd while a slice runs; counts up at its begin and end.
    turn: AtomicU64,
    service: AtomicU32,
    /// pthread_t of the thread, 0 when it is not there.
    thread: AtomicUsize,
    /// The last turn whose traceback was logged.
    reported: AtomicU64,
    /// How often the thread has begun and ended to wait in a selector or for its event: odd while it waits.
    waits: AtomicU64,
    /// Since when it has not paused, as the watchdog that interrupts it knows.
    pub(super) since: AtomicU64,
}

impl Watch {
    /// Of a thread whose CPU time counts.
    pub(crate) fn with_clock(clock: i32) -> Watch {
        Watch {
            clock,
            ..Watch::default()
        }
    }

    /// The calling thread is the one to watch.
    pub(crate) fn enter(&self) {
        CURRENT.with(|current| current.set(std::ptr::null_mut()));
        // SAFETY: asks for the calling thread.
        let thread = unsafe { libc::pthread_self() };
        self.thread.store(thread as usize, Ordering::SeqCst);
    }

    /// The thread goes.
    pub(crate) fn leave(&self) {
        // A signal is sent under the same lock, so none is sent to a thread that has gone.
        let _guard = super::system::lock(&SENDING);
        self.thread.store(0, Ordering::SeqCst);
    }

    /// A slice begins.
    pub(crate) fn begin(&self, service: &mut Service) {
        self.service.store(service.id, Ordering::Relaxed);
        CURRENT.with(|current| current.set(service));
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
    }

    /// It ended.
    pub(crate) fn end(&self) {
        CURRENT.with(|current| current.set(std::ptr::null_mut()));
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
    }

    /// The turn, if a slice runs, and whose.
    pub(crate) fn look(&self) -> (u64, Option<ServiceId>) {
        let turn = self.turn.load(Ordering::Acquire);
        let service = self.service.load(Ordering::Relaxed);
        (turn, (turn % 2 == 1).then_some(service))
    }

    /// Whether the hook has logged a traceback of turn `turn`.
    pub(crate) fn has_reported(&self, turn: u64) -> bool {
        self.reported.load(Ordering::Acquire) == turn
    }

    /// How often the thread has begun and ended to wait.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Acquire)
    }

    /// Makes the running slice log where it is, or, when the system quits, raise an error.
    pub(crate) fn interrupt(&self) {
        let _guard = super::system::lock(&SENDING);
        let thread = self.thread.load(Ordering::SeqCst);
        if thread != 0 && super::system::lock(&INSTALLED).count > 0 {
            // SAFETY: the thread is there: it takes the lock before it goes.
            unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGURG) };
        }
    }
}

static SENDING: Mutex<()> = Mutex::new(());

struct Installed {
    count: usize,
}

static INSTALLED: Mutex<Installed> = Mutex::new(Installed { count: 0 });

/// A system runs: the signal's handler is there as long as one does.
pub(crate) fn install() {
    let mut installed = super::system::lock(&INSTALLED);
    // SAFETY: zeroed sigactions are valid; the handler is async-signal-safe.
    unsafe {
        if installed.count == 0 {
            let mut present: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGURG, std::ptr::null(), &mut present);
            if present.sa_sigaction != libc::SIG_DFL && present.sa_sigaction != libc::SIG_IGN {
                return;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGURG, &action, std::ptr::null_mut());
        }
    }
    installed.count += 1;
}

/// It has ended.
pub(crate) fn uninstall() {
    let mut installed = super::system::lock(&INSTALLED);
    if installed.count == 0 {
        return;
    }
    installed.count -= 1;
    if installed.count == 0 {
        // SAFETY: back to the default, which is to ignore.
        unsafe { libc::signal(libc::SIGURG, libc::SIG_DFL) };
    }
}

extern "C" fn on_signal(_: c_int) {
    let service = CURRENT.with(Cell::get);
    if service.is_null() {
        return;
    }
    // SAFETY: this thread runs the service, so its box is there; only plain fields are read, and
    // `lua_sethook` may be called at any time by the thread that runs the VM.
    unsafe {
        let mask = ffi::LUA_MASKCOUNT;
        let main = (*service).main_state();
        let core = (*service).fast.core;
        let task = match core.is_null() {
            true => std::ptr::null_mut(),
            false => (*core).running(),
        };
        ffi::lua_sethook(main, Some(hook!(hook)), mask, 1);
        if !task.is_null() {
            ffi::lua_sethook(task, Some(hook!(hook)), mask, 1);
        }
        if !core.is_null() && (*service).system().is_quitting() {
            // What resumed it must not go on either.
            (*core).for_each_link(|from, _| ffi::lua_sethook(from, Some(hook!(hook)), mask, 1));
        }
    }
}

/// Between two instructions of the service.
unsafe extern "C-unwind" fn hook(state: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: this thread runs the VM; nothing that needs `Drop` is alive when an error is raised.
    unsafe {
        let Some(service) = Service::of(state) else {
            return;
        };
        if service.system().is_quitting() {
            // The hook stays: what catches this error gets it again.
            ffi::luaL_error(state, c"the system has ended".as_ptr());
        }
        ffi::lua_sethook(state, None, 0, 0);
        ffi::lua_sethook(service.main_state(), None, 0, 0);
        ffi::luaL_traceback(state, state, std::ptr::null(), 0);
        let text = ffi::lua_tostring(state, -1);
        if let Some(service) = Service::of(state)
            && !text.is_null()
        {
            log(service, CStr::from_ptr(text));
        }
        ffi::lua_settop(state, -2);
    }
}

fn log(service: &Service, traceback: &CStr) {
    let system = service.system();
    let number = service.worker().map(|worker| worker.number());
    let own = super::system::lock(&system.own_watches).clone();
    let watch = match number {
        Some(number) => system.watches.get(number),
        None => own
            .iter()
            .find(|watch| watch.service.load(Ordering::Relaxed) == service.id)
            .map(|watch| &**watch),
    };
    // On a thread of its own a slice is mostly waiting.
    let since = watch.map_or(0, |watch| watch.since.load(Ordering::Relaxed));
    let text = format!(
        "service {} ({}) has not paused for {:.1} s; {}",
        service.id,
        service.card.label(),
        (crate::event::clock::monotonic_nanos() - since.max(service.began)) as f64 / 1e9,
        traceback.to_string_lossy()
    );
    system.log_text(service.id, &text);
    if let Some(watch) = watch {
        watch
            .reported
            .store(watch.turn.load(Ordering::Relaxed), Ordering::Release);
    }
}
