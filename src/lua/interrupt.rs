//! Interrupts: another thread has a VM run something between two instructions.
//!
//! The other thread sends a signal; its handler sets a hook in the VM that the thread runs, which `lua_sethook` allows (the
//! stock interpreter does so for Ctrl-C), and the hook does the rest. The signal is SIGURG, which is ignored by default and
//! which Go's runtime uses for the same purpose; where a program has a handler of its own for it, it is left alone, and
//! nothing is interrupted.

use super::call::Call;
use super::fault::Fault;
use super::function::only;
use super::home::{self, Home};
use super::pusher::Pusher;
use super::state::State;
use super::threads::Threads;
use mlua::ffi::{self, lua_Debug, lua_State};
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// The VM that this thread runs, for the signal's handler.
    static RUNNING: Cell<*const Home> = const { Cell::new(ptr::null()) };
}

/// Names a VM as the one that this thread runs, as long as this lives.
pub(super) struct Running(*const Home);

impl Running {
    pub(super) fn enter(home: *const Home) -> Running {
        Running(RUNNING.replace(home))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// A thread that can be interrupted.
#[derive(Default)]
pub(crate) struct Target {
    /// Its pthread_t, 0 when there is none.
    thread: AtomicUsize,
}

/// How many have asked for the handler. Held while a signal is sent, so that none is sent to a thread that has gone.
static INSTALLED: Mutex<usize> = Mutex::new(0);

fn installed() -> MutexGuard<'static, usize> {
    INSTALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Target {
    /// It is the calling thread, until [`Target::leave`] is called by it.
    pub(crate) fn enter(&self) {
        RUNNING.set(ptr::null());
        // SAFETY: asks for the calling thread.
        let thread = unsafe { libc::pthread_self() };
        self.thread.store(thread as usize, Ordering::SeqCst);
    }

    /// The thread ends, or runs no VM for this any more.
    pub(crate) fn leave(&self) {
        let _guard = installed();
        self.thread.store(0, Ordering::SeqCst);
    }

    /// Interrupts the VM that it runs, if it runs one.
    pub(crate) fn interrupt(&self) {
        let installed = installed();
        let thread = self.thread.load(Ordering::SeqCst);
        if thread != 0 && *installed > 0 {
            // SAFETY: the thread is there: it takes the lock before it goes.
            unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGURG) };
        }
    }
}

/// Installs the signal's handler, until [`uninstall`] has been called as often.
pub(crate) fn install() {
    let mut installed = installed();
    if *installed > 0 || replace_handler(&[libc::SIG_DFL, libc::SIG_IGN], on_signal as *const () as usize) {
        *installed += 1;
    }
}

/// See [`install`].
pub(crate) fn uninstall() {
    let mut installed = installed();
    if *installed == 1 {
        replace_handler(&[on_signal as *const () as usize], libc::SIG_DFL);
    }
    *installed = installed.saturating_sub(1);
}

/// Sets the signal's handler, if the present one is one of these. Whether it is.
fn replace_handler(present: &[usize], handler: usize) -> bool {
    // SAFETY: zeroed sigactions are valid; the handler is async-signal-safe, or what the signal does by default.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGURG, ptr::null(), &mut action);
        let is_present = present.contains(&action.sa_sigaction);
        if is_present {
            action = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGURG, &action, ptr::null_mut());
        }
        is_present
    }
}

extern "C" fn on_signal(_: c_int) {
    let home = RUNNING.get();
    if home.is_null() {
        return;
    }
    // SAFETY: this thread runs the VM, so its home is there; only plain fields are read, and `lua_sethook` may be called at
    // any time by the thread that runs the VM.
    unsafe {
        let home = &*home;
        let hook @ Some(_) = home.on_interrupt.get().copied() else { return };
        State::new(home.main.get()).set_hook(hook);
        if let Some(threads) = threads(home) {
            threads.for_each_running(false, |state| State::new(state).set_hook(hook));
        }
    }
}

/// The coroutines that are interrupted with the main function.
fn threads(home: &Home) -> Option<&Threads> {
    home.threads.get()?.downcast_ref()
}

impl Call<'_> {
    /// An interrupt of the VM reaches the coroutines that these run, besides the main function.
    pub(crate) fn interrupt_with(&mut self, threads: &Rc<Threads>) {
        if let Some(home) = home::of(self) {
            let _ = home.threads.set(threads.clone());
        }
    }
}

/// Has `handler` run when the VM is interrupted, between two instructions, in the place of the function that was. An error
/// is raised there, and again wherever it is caught. It must not look at the values of the call: they are that function's.
pub(super) fn on_interrupt<F>(home: &Home, _: F)
where
    F: Fn(&mut Call<'_>) -> Result<(), Fault> + Copy + 'static,
{
    let _ = home.on_interrupt.set(hook::<F>);
}

/// Between two instructions.
unsafe extern "C-unwind" fn hook<F>(state: *mut lua_State, _: *mut lua_Debug)
where
    F: Fn(&mut Call<'_>) -> Result<(), Fault> + Copy + 'static,
{
    // SAFETY: Lua calls it with a valid state, and room for 20 values; what is left of the step when its error is raised is
    // the error. The values below are those of the interrupted function.
    unsafe {
        let mut to = Pusher::new(state);
        let Some((home, main)) = home::of(&to).and_then(|home| Some((home, home.main()?))) else { return };
        to.set_hook(None);
        main.set_hook(None);
        let top = to.count();
        let result = catch_unwind(AssertUnwindSafe(|| only::<F>()(&mut Call::new(State::again(&to), 20))));
        let fault = match result {
            Ok(Ok(())) => return to.shorten(top),
            Ok(Err(fault)) => fault,
            Err(panic) => Fault::panic(panic),
        };
        // What catches the error gets it again, and what has resumed this must not go on either.
        let again: Option<ffi::lua_Hook> = Some(hook::<F>);
        to.set_hook(again);
        main.set_hook(again);
        if let Some(threads) = threads(home) {
            threads.for_each_running(true, |state| State::new(state).set_hook(again));
        }
        fault.raise(&mut to)
    }
}
