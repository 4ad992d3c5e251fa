//! `lio.signal`: signals as readiness of a pipe, for loops that end gracefully.
//!
//! Called by `lualib/lio/loop.lua`. The handler only sets an atomic bit and writes one byte, both
//! async-signal-safe (signal-safety(7)). The disposition that the host had is put back when the last
//! watcher of a signal closes, which is why this is not built on a crate that keeps its handler.

use crate::raw::object::{self, Object};
use crate::raw::{Fault, Function, Text, args, functions, guard, push_bytes, settle};
use mio::unix::pipe::{Receiver, Sender};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const WATCHERS: usize = 64;

const NAMES: &[(&CStr, c_int)] = &[
    (c"SIGHUP", libc::SIGHUP),
    (c"SIGINT", libc::SIGINT),
    (c"SIGQUIT", libc::SIGQUIT),
    (c"SIGTERM", libc::SIGTERM),
    (c"SIGUSR1", libc::SIGUSR1),
    (c"SIGUSR2", libc::SIGUSR2),
    (c"SIGCHLD", libc::SIGCHLD),
    (c"SIGWINCH", libc::SIGWINCH),
    (c"SIGALRM", libc::SIGALRM),
    (c"SIGCONT", libc::SIGCONT),
    (c"SIGPIPE", libc::SIGPIPE),
];

/// Signals whose repetition ends a program that does not react: those of a person at a terminal. A service manager may
/// repeat SIGTERM and SIGHUP while the program is merely busy.
const ENDS: [c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// What the handler sees of one watcher. `wanted` 0 = the place is free.
struct Place {
    wanted: AtomicU64,
    caught: AtomicU64,
    pipe: AtomicI32,
    /// What is caught goes to the watchers that are opened later.
    holds: AtomicBool,
}

static PLACES: [Place; WATCHERS] = [const {
    Place {
        wanted: AtomicU64::new(0),
        caught: AtomicU64::new(0),
        pipe: AtomicI32::new(-1),
        holds: AtomicBool::new(false),
    }
}; WATCHERS];

/// Handlers that run at this moment, on any thread; a pipe is closed when there is none.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// How many watchers each signal has, and the disposition to put back.
struct Dispositions {
    watchers: [u32; 65],
    previous: [MaybeUninit<libc::sigaction>; 65],
}

static DISPOSITIONS: Mutex<Dispositions> = Mutex::new(Dispositions {
    watchers: [0; 65],
    previous: [MaybeUninit::uninit(); 65],
});

extern "C" fn on_signal(number: c_int) {
    RUNNING.fetch_add(1, Ordering::SeqCst);
    // SAFETY: errno is this thread's; `write` is async-signal-safe.
    unsafe {
        let errno = errno();
        let saved = *errno;
        for place in &PLACES {
            if place.wanted.load(Ordering::SeqCst) & bit(number) != 0 {
                let before = place.caught.fetch_or(bit(number), Ordering::SeqCst);
                if place.holds.load(Ordering::SeqCst) {
                    continue;
                }
                if before & bit(number) != 0 && ENDS.contains(&number) {
                    // The loop has not even taken the first one: it hangs. Let the second one end it.
                    libc::signal(number, libc::SIG_DFL);
                    libc::raise(number);
                }
                place.wake();
            }
        }
        *errno = saved;
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
}

impl Place {
    /// Makes the pipe readable. A full one is already.
    fn wake(&self) {
        let byte = 1u8;
        // SAFETY: writes one byte from the stack; a descriptor of -1 is refused.
        unsafe {
            libc::write(
                self.pipe.load(Ordering::SeqCst),
                (&raw const byte).cast::<c_void>(),
                1,
            );
        }
    }
}

/// Where this thread's errno is.
fn errno() -> *mut c_int {
    // SAFETY: both return a pointer that holds as long as the thread.
    #[cfg(target_os = "macos")]
    return unsafe { libc::__error() };
    // SAFETY: as above.
    #[cfg(not(target_os = "macos"))]
    return unsafe { libc::__errno_location() };
}

fn bit(number: c_int) -> u64 {
    1 << (number as u64 - 1)
}

/// One watcher: a set of signals, and the pipe that is readable when one of them came.
pub(crate) struct Signals {
    place: Option<&'static Place>,
    wanted: u64,
    reader: Option<Receiver>,
    writer: Option<Sender>,
}

impl Signals {
    fn open(wanted: u64, holds: bool) -> io::Result<Signals> {
        let (writer, reader) = mio::unix::pipe::new()?;
        let mut dispositions = DISPOSITIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let free = PLACES
            .iter()
            .find(|place| place.wanted.load(Ordering::SeqCst) == 0);
        let Some(place) = free else {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        };
        place.pipe.store(writer.as_raw_fd(), Ordering::SeqCst);
        place.caught.store(0, Ordering::SeqCst);
        place.holds.store(holds, Ordering::SeqCst);
        place.wanted.store(wanted, Ordering::SeqCst);
        for number in 1..=64 {
            if wanted & bit(number) != 0 {
                dispositions.install(number);
            }
        }
        let held = if holds { 0 } else { held() & wanted };
        if held != 0 {
            place.caught.fetch_or(held, Ordering::SeqCst);
            place.wake();
        }
        Ok(Signals {
            place: Some(place),
            wanted,
            reader: Some(reader),
            writer: Some(writer),
        })
    }

    /// The signals that came since the last call.
    fn take(&mut self) -> u64 {
        let Some(reader) = &self.reader else { return 0 };
        let mut sink = [0u8; 64];
        // SAFETY: reads into `sink` only.
        while unsafe { libc::read(reader.as_raw_fd(), sink.as_mut_ptr().cast(), sink.len()) } > 0 {}
        match self.place {
            Some(place) => place.caught.swap(0, Ordering::SeqCst),
            None => 0,
        }
    }

    fn close(&mut self) {
        let Some(place) = self.place.take() else {
            return;
        };
        let mut dispositions = DISPOSITIONS.lock().unwrap_or_else(PoisonError::into_inner);
        for number in 1..=64 {
            if self.wanted & bit(number) != 0 {
                dispositions.restore(number);
            }
        }
        place.pipe.store(-1, Ordering::SeqCst);
        place.wanted.store(0, Ordering::SeqCst);
        while RUNNING.load(Ordering::SeqCst) != 0 {
            std::hint::spin_loop();
        }
        self.reader = None;
        self.writer = None;
    }
}

/// The signals that `signal.hold` has caught.
fn held() -> u64 {
    let holding = PLACES.iter().filter(|place| {
        place.holds.load(Ordering::SeqCst) && place.wanted.load(Ordering::SeqCst) != 0
    });
    holding.fold(0, |all, place| all | place.caught.load(Ordering::SeqCst))
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.close();
    }
}

impl Dispositions {
    fn install(&mut self, number: c_int) {
        let index = number as usize;
        self.watchers[index] += 1;
        if self.watchers[index] > 1 {
            return;
        }
        // SAFETY: a zeroed sigaction is valid; `on_signal` is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(number, &action, self.previous[index].as_mut_ptr());
        }
    }

    fn restore(&mut self, number: c_int) {
        let index = number as usize;
        self.watchers[index] -= 1;
        if self.watchers[index] == 0 {
            // SAFETY: `install` filled the entry when the count left 0.
            unsafe {
                libc::sigaction(number, self.previous[index].as_ptr(), std::ptr::null_mut());
            }
        }
    }
}

impl Object for Signals {
    const NAME: &'static CStr = c"lio.signals";
    const METHODS: &'static [(&'static CStr, Function)] =
        functions![(c"take", take), (c"handle", handle), (c"close", close)];
    const META: &'static [(&'static CStr, Function)] = functions![(c"__close", close)];
}

/// `signal.open(name, …)`: watches signals by name (`"SIGTERM"`). Their default action no longer runs.
/// Returns the watcher, or `nil, message, code`.
unsafe extern "C-unwind" fn open(state: *mut lua_State) -> c_int {
    // SAFETY: the arguments are read here, where Lua calls.
    unsafe { watch(state, false) }
}

/// `signal.hold(name, …)`: as `open`, for a program whose watchers are opened later, in other VMs: each watcher that is
/// opened before this one closes gets the signals that came since.
unsafe extern "C-unwind" fn hold(state: *mut lua_State) -> c_int {
    // SAFETY: as for `open`.
    unsafe { watch(state, true) }
}

unsafe fn watch(state: *mut lua_State, holds: bool) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        let mut wanted = 0;
        for index in 1..=ffi::lua_gettop(state) {
            wanted |= bit(signal_argument(state, index));
        }
        if wanted == 0 {
            args::argument_error(state, 1, Text::new("signal name expected"));
        }
        match object::push_new(state, || {
            Signals::open(wanted, holds).map_err(|error| Fault::io("signal", &error))
        }) {
            Ok(_) => 1,
            Err(fault) => fault.push(state),
        }
    }
}

unsafe fn signal_argument(state: *mut lua_State, index: c_int) -> c_int {
    // SAFETY: as for `open`.
    unsafe {
        let name = args::bytes(state, index);
        for (known, number) in NAMES {
            if known.to_bytes() == name {
                return *number;
            }
        }
        let message = Text::format(format_args!(
            "unknown signal '{}'",
            std::str::from_utf8(name).unwrap_or("?")
        ));
        args::argument_error(state, index, message)
    }
}

/// `watcher:take()` → the names of the signals that came since the last call, as several results.
unsafe extern "C-unwind" fn take(state: *mut lua_State) -> c_int {
    // SAFETY: as for `open`.
    unsafe {
        let signals = object::check::<Signals>(state, 1);
        let caught = settle(state, guard(|| Ok((*signals).take())));
        let mut results = 0;
        for (name, number) in NAMES {
            if caught & bit(*number) != 0 {
                push_bytes(state, name.to_bytes());
                results += 1;
            }
        }
        results
    }
}

/// `watcher:handle()` → the descriptor that is readable when a signal came.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: as for `open`.
    unsafe {
        let signals = object::check::<Signals>(state, 1);
        let number = (*signals).reader.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        ffi::lua_pushlightuserdata(state, number as isize as *mut c_void);
        1
    }
}

/// `watcher:close()`: the host's dispositions come back. Idempotent.
unsafe extern "C-unwind" fn close(state: *mut lua_State) -> c_int {
    // SAFETY: as for `open`.
    unsafe {
        let signals = object::check::<Signals>(state, 1);
        settle(
            state,
            guard(|| {
                (*signals).close();
                Ok(())
            }),
        );
        0
    }
}

/// `signal.raise(name)`: sends the signal to this process (for tests).
unsafe extern "C-unwind" fn raise_signal(state: *mut lua_State) -> c_int {
    // SAFETY: as for `open`.
    unsafe {
        let number = signal_argument(state, 1);
        libc::kill(libc::getpid(), number);
        0
    }
}

/// Opens `lio.signal`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: as for `open`.
    unsafe {
        crate::raw::module::push(
            state,
            functions![(c"open", open), (c"hold", hold), (c"raise", raise_signal)],
        );
        1
    }
}
