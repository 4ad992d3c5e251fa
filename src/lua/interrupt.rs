//! Interrupts: a VM runs a function between two instructions at the request of another thread.
//!
//! The other thread sends a signal. The signal handler sets a hook in the VM that the interrupted thread is running,
//! and the hook calls the function. `lua_sethook` may be called from a signal handler; the stock interpreter does so
//! for Ctrl-C. The signal is SIGURG, which is ignored by default and which Go's runtime uses for the same purpose. If
//! the program has its own handler for this signal, that handler stays installed, and no VM is interrupted.

use super::call::Call;
use super::fault::Fault;
use super::function::zero_sized;
use super::pusher::Pusher;
use super::state::State;
use super::threads::Threads;
use super::vm_context::{self, VmContext};
use mlua::ffi::{self, lua_Debug, lua_State};
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// The VM that this thread is running, for the signal handler.
    static RUNNING: Cell<*const VmContext> = const { Cell::new(ptr::null()) };
}

/// The number of [`install`] calls that [`uninstall`] has not undone. Locked while a signal is sent, so that no signal
/// is sent to a thread that has ended.
static INSTALLED: Mutex<usize> = Mutex::new(0);

/// A thread that can be interrupted.
#[derive(Default)]
pub(crate) struct Target {
    /// The `pthread_t` of the thread; 0 if there is no thread.
    thread: AtomicUsize,
}

impl Target {
    /// Sets the target to the calling thread, until that thread calls [`Target::leave`].
    pub(crate) fn enter(&self) {
        RUNNING.set(ptr::null());
        // SAFETY: `pthread_self` has no preconditions.
        let thread = unsafe { libc::pthread_self() };
        self.thread.store(thread as usize, Ordering::SeqCst);
    }

    /// Removes the thread from the target. The thread calls this before it ends or stops running VMs for this target.
    pub(crate) fn leave(&self) {
        let _guard = installed();
        self.thread.store(0, Ordering::SeqCst);
    }

    /// Interrupts the VM that the thread is running, if any.
    pub(crate) fn interrupt(&self) {
        let installed = installed();
        let thread = self.thread.load(Ordering::SeqCst);
        if thread != 0 && *installed > 0 {
            // SAFETY: the thread exists: it takes the lock in `leave` before it ends.
            unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGURG) };
        }
    }
}

/// Installs the signal handler, until [`uninstall`] has been called as often as this function.
pub(crate) fn install() {
    let mut installed = installed();
    if *installed > 0 || replace_handler(&[libc::SIG_DFL, libc::SIG_IGN], on_signal as *const () as usize) {
        *installed += 1;
    }
}

/// Undoes one [`install`].
pub(crate) fn uninstall() {
    let mut installed = installed();
    if *installed == 1 {
        replace_handler(&[on_signal as *const () as usize], libc::SIG_DFL);
    }
    *installed = installed.saturating_sub(1);
}

/// Marks a VM as running on this thread, until the value is dropped.
pub(super) struct RunningVm(*const VmContext);

impl RunningVm {
    /// Marks the VM as running on this thread.
    pub(super) fn enter(context: *const VmContext) -> RunningVm {
        RunningVm(RUNNING.replace(context))
    }
}

impl Drop for RunningVm {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

impl Call<'_> {
    /// Lets interrupts of the VM reach the coroutines that `threads` runs, in addition to the main function.
    pub(crate) fn interrupt_with(&mut self, threads: &Rc<Threads>) {
        if let Some(context) = vm_context::context_of(self) {
            let _ = context.threads.set(threads.clone());
        }
    }
}

/// Sets the function that runs when the VM is interrupted, between two instructions of the interrupted function. If the
/// function fails, its error is raised in the interrupted function, and is raised again whenever Lua code catches it.
/// The function must not read the values of its call, which belong to the interrupted function.
pub(super) fn on_interrupt<F>(context: &VmContext, _: F)
where
    F: Fn(&mut Call<'_>) -> Result<(), Fault> + Copy + 'static,
{
    let _ = context.on_interrupt.set(hook::<F>);
}

/// Locks the count of installations.
fn installed() -> MutexGuard<'static, usize> {
    INSTALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the signal's handler if the current one is in `present`. Returns whether the handler was set.
fn replace_handler(present: &[usize], handler: usize) -> bool {
    // SAFETY: a zeroed sigaction is valid, and the new handler is async-signal-safe or the default action.
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
    let context = RUNNING.get();
    if context.is_null() {
        return;
    }
    // SAFETY: this thread runs the VM, so its context exists. Only plain fields are read, and the thread that runs a VM
    // may call `lua_sethook` at any time.
    unsafe {
        let context = &*context;
        let hook @ Some(_) = context.on_interrupt.get().copied() else { return };
        State::new(context.main_coroutine.get()).set_hook(hook);
        if let Some(threads) = threads(context) {
            threads.for_each_running(false, |state| State::new(state).set_hook(hook));
        }
    }
}

/// Returns the coroutines that are interrupted together with the main function.
fn threads(context: &VmContext) -> Option<&Threads> {
    context.threads.get()?.downcast_ref()
}

/// The hook, which Lua calls between two instructions.
unsafe extern "C-unwind" fn hook<F>(state: *mut lua_State, _: *mut lua_Debug)
where
    F: Fn(&mut Call<'_>) -> Result<(), Fault> + Copy + 'static,
{
    // SAFETY: Lua calls the hook with a valid state and with room for 20 values. When the handler's error is raised,
    // the step has ended and only its error remains. The values below belong to the interrupted function.
    unsafe {
        let mut to = Pusher::new(state);
        let Some((context, main)) =
            vm_context::context_of(&to).and_then(|context| Some((context, context.main_coroutine()?)))
        else {
            return;
        };
        to.set_hook(None);
        main.set_hook(None);
        let top = to.count();
        let result = catch_unwind(AssertUnwindSafe(|| zero_sized::<F>()(&mut Call::new(State::reborrow(&to), 20))));
        let fault = match result {
            Ok(Ok(())) => return to.shorten(top),
            Ok(Err(fault)) => fault,
            Err(panic) => Fault::panic(panic),
        };
        // Code that catches the error gets it again. A coroutine that has resumed this coroutine also gets it.
        let again: Option<ffi::lua_Hook> = Some(hook::<F>);
        to.set_hook(again);
        main.set_hook(again);
        if let Some(threads) = threads(context) {
            threads.for_each_running(true, |state| State::new(state).set_hook(again));
        }
        fault.raise(&mut to)
    }
}
