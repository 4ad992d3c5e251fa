//! Interrupts: a VM runs a function between two instructions at the request of another thread.
//!
//! The other thread sends a signal. The signal handler sets a hook in the VM that the interrupted thread is running,
//! and the hook calls the function. `lua_sethook` may be called from a signal handler; the stock interpreter does so
//! for Ctrl-C. The signal is SIGURG, which is ignored by default and which Go's runtime uses for the same purpose. If
//! the program has its own handler for this signal, that handler stays installed, and no VM is interrupted. A hook that
//! the program has set with `debug.sethook` is set again when the function has run. Code that reads or changes hooks
//! holds interrupts, see `interrupt_hold`.

use super::call::Call;
use super::fault::Fault;
use super::function::zero_sized;
use super::hook::Hook;
use super::interrupt_hold::HeldInterrupts;
use super::pusher::Pusher;
use super::state::State;
use super::threads::Threads;
use super::vm_context::{self, OnInterrupt, VmContext};
use super::work;
use mlua::ffi::{self, lua_Debug, lua_State};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(target_os = "linux")]
use std::time::Duration;

thread_local! {
    /// The VM that this thread is running, for the signal handler.
    static RUNNING: Cell<*const VmContext> = const { Cell::new(ptr::null()) };
}

/// The effect of an interrupt on the interrupted function.
pub(crate) enum Interruption {
    /// The function continues.
    Continue,
    /// The error is raised once in the interrupted coroutine, unless this is the main function's. Code that catches the
    /// error continues.
    Raise(Fault),
    /// Like `Raise`, but if Lua code catches the error, the error is raised again in its next instruction. Variables
    /// are closed first.
    RaiseInTask(Fault),
    /// The error is raised at each instruction, also in the main function, until all functions have ended.
    RaiseEverywhere(Fault),
}

/// The number of instructions for which a function may run that closes a variable, before the error is raised in it,
/// too.
const CLOSING_INSTRUCTIONS: c_int = 100_000;
/// The events after an error that is raised again: a C function has caught the error and calls a function, to close a
/// variable, or Lua code has caught the error and continues with an instruction.
const CAUGHT: c_int = ffi::LUA_MASKCALL | ffi::LUA_MASKCOUNT;
/// The events while variables are closed: a function returns, or has run for too long.
const CLOSING: c_int = ffi::LUA_MASKRET | ffi::LUA_MASKCOUNT;

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
        // The first access to a thread-local of a shared object may allocate, which a signal handler must not do.
        std::hint::black_box(RUNNING.get());
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

/// Installs the signal handler, until [`uninstall`] has been called as often as this function has returned true.
/// Returns false if the program has its own handler.
pub(crate) fn install() -> bool {
    let mut installed = installed();
    let is_installed =
        *installed > 0 || replace_handler(&[libc::SIG_DFL, libc::SIG_IGN], on_signal as *const () as usize);
    *installed += usize::from(is_installed);
    is_installed
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

/// Interrupts the VM that a thread is running, at intervals of the CPU time that the thread uses, see timer_create(2).
/// An idle thread is not interrupted.
#[cfg(target_os = "linux")]
pub(crate) struct CpuTimer(libc::timer_t);

#[cfg(target_os = "linux")]
impl CpuTimer {
    /// Starts a timer for the calling thread. Returns `None` if the program has its own handler for the signal, or if
    /// the system has no timer left.
    pub(crate) fn start(interval: Duration) -> Option<CpuTimer> {
        if !install() {
            return None;
        }
        let mut timer = ptr::null_mut();
        let span = libc::timespec { tv_sec: interval.as_secs() as i64, tv_nsec: interval.subsec_nanos().into() };
        let times = libc::itimerspec { it_interval: span, it_value: span };
        // SAFETY: a zeroed sigevent is valid. The timer's signals go to the calling thread, which exists, and end with
        // the timer.
        let started = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGURG;
            event.sigev_notify_thread_id = libc::gettid();
            libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) == 0
                && libc::timer_settime(timer, 0, &times, ptr::null_mut()) == 0
        };
        if !started {
            uninstall();
        }
        started.then_some(CpuTimer(timer))
    }
}

#[cfg(target_os = "linux")]
impl Drop for CpuTimer {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and is deleted once.
        unsafe { libc::timer_delete(self.0) };
        uninstall();
    }
}

impl Call<'_> {
    /// Sets the function that runs when the VM is interrupted, see [`Interruption`], unless it is set. Returns false if
    /// the core did not create the VM, which then cannot be interrupted.
    pub(crate) fn on_interrupt<F>(&mut self, function: F) -> bool
    where
        F: Fn(&mut Call<'_>) -> Interruption + Copy + 'static,
    {
        let context = vm_context::context_of(self);
        context.is_some_and(|context| {
            on_interrupt(context, function);
            true
        })
    }

    /// If an error is being raised again in this coroutine, see [`Interruption::RaiseInTask`], lets the code that
    /// catches it run for a time first, like code that closes variables.
    pub(crate) fn pause_interrupts(&mut self) {
        if let Some(context) = vm_context::context_of(self)
            && has_hook(context, self)
        {
            // No function has this frame, so no return ends the pause.
            context.closing.begin(self.state.cast());
            change_hook(context, self, ffi::LUA_MASKCOUNT, CLOSING_INSTRUCTIONS);
        }
    }

    /// Runs `access`, which reads or changes the hook of the coroutine at `index`, or of the running coroutine if there
    /// is no coroutine at `index`. Interrupts are held, and `access` finds the program's hook. It runs no code of the
    /// program.
    pub(crate) fn access_hook<R>(&mut self, index: c_int, access: impl FnOnce(&mut Call<'_>) -> R) -> R {
        let Some(context) = vm_context::context_of(self) else { return access(self) };
        let _held = HeldInterrupts::begin(context);
        let state = self.coroutine_at(index).unwrap_or_else(|| State::reborrow(self));
        let current = state.debug_hook();
        if !context.is_of_interrupt(current) {
            return access(self);
        }
        // The interrupt has not taken effect yet, or its error is being raised again.
        restore_hook(context, &state);
        let result = access(self);
        // `access` may have changed the stack.
        let state = self.coroutine_at(index).unwrap_or_else(|| State::reborrow(self));
        set_hook(context, &state, current.events, current.count);
        result
    }

    /// Lets interrupts of the VM reach the coroutines that `threads` runs, in addition to the main function.
    pub(crate) fn interrupt_with(&mut self, threads: &Rc<Threads>) {
        if let Some(context) = vm_context::context_of(self)
            && context.threads.set(threads.clone()).is_ok()
        {
            // The handler must not find the pointer before the reference that keeps its target alive.
            compiler_fence(Ordering::SeqCst);
            context.interrupted_threads.set(Rc::as_ptr(threads).cast());
        }
    }
}

/// Sets the function that runs when the VM is interrupted, between two instructions of the interrupted function. If the
/// function panics, the error is raised once. The function must not read the values of its
/// call, which belong to the interrupted function.
pub(super) fn on_interrupt<F>(context: &VmContext, _: F)
where
    F: Fn(&mut Call<'_>) -> Interruption + Copy + 'static,
{
    let _ = context.on_interrupt.set(OnInterrupt { hook: hook::<F>, set_hooks });
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
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_SIGINFO;
            libc::sigaction(libc::SIGURG, &action, ptr::null_mut());
        }
        is_present
    }
}

/// Handles the signals of timers and of `pthread_kill`. Other code may send the signal to a thread that has not called
/// [`Target::enter`]; it has no effect there.
#[cfg(target_os = "linux")]
extern "C" fn on_signal(_: c_int, info: *const libc::siginfo_t, _: *mut c_void) {
    // SAFETY: with SA_SIGINFO, the system passes a valid pointer.
    let code = unsafe { (*info).si_code };
    if matches!(code, libc::SI_TKILL | libc::SI_TIMER) {
        interrupt_running_vm();
    }
}

#[cfg(not(target_os = "linux"))]
extern "C" fn on_signal(_: c_int, _: *const libc::siginfo_t, _: *mut c_void) {
    interrupt_running_vm();
}

/// Interrupts the VM that this thread is running. clock_gettime(2) and write(2) are async-signal-safe, and rustix calls
/// the kernel directly, so `errno` does not change.
fn interrupt_running_vm() {
    let context = RUNNING.get();
    // SAFETY: this thread runs the VM, so its context exists.
    let Some(context) = (unsafe { context.as_ref() }) else { return };
    if context.closing.ignores_signal() {
        return;
    }
    if !context.hold.defers() {
        set_hooks(context);
    }
    if let Some(threads) = threads(context) {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        if let Some(age) = threads.work.interrupted(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64) {
            work::report_c_function(age);
        }
    }
}

/// Sets the hook of interrupts in the VM that this thread is running. The signal handler calls this while interrupts
/// are not held, and other code while they are: so nothing else changes a hook, or the replaced hooks, at the same
/// time. Only plain fields are read.
fn set_hooks(context: &VmContext) {
    if let Some(main) = context.main_coroutine() {
        set_hook(context, &main, ffi::LUA_MASKCOUNT, 1);
    }
    if let Some(threads) = threads(context) {
        // SAFETY: the coroutine is running, so it exists.
        threads
            .for_each_running(false, |state| set_hook(context, &unsafe { State::new(state) }, ffi::LUA_MASKCOUNT, 1));
    }
}

/// Returns the coroutines that are interrupted together with the main function.
fn threads(context: &VmContext) -> Option<&Threads> {
    // SAFETY: only `interrupt_with` sets the pointer, to a `Threads` that the context keeps alive.
    unsafe { context.interrupted_threads.get().cast::<Threads>().as_ref() }
}

/// Sets the hook of interrupts in a coroutine, for the events of `mask` and the instruction number `count`, and records
/// the program's hook, if there is one. Only in the signal handler, or while interrupts are held.
fn set_hook(context: &VmContext, state: &State, mask: c_int, count: c_int) {
    let Some(&OnInterrupt { hook, .. }) = context.on_interrupt.get() else { return };
    let (current, replaced) = (state.debug_hook(), &context.replaced_hooks);
    match current.function {
        Some(_) if current.calls(hook) => {}
        Some(_) => replaced.record(state, current),
        // The program may have removed its hook in the meantime.
        None => drop(replaced.take(state)),
    }
    state.set_debug_hook(Hook { function: Some(hook), events: mask, count });
}

/// Sets the hook of interrupts in a coroutine, like [`set_hook`], at any time.
fn change_hook(context: &VmContext, state: &State, mask: c_int, count: c_int) {
    let _held = HeldInterrupts::begin(context);
    set_hook(context, state, mask, count);
}

/// Whether a coroutine has the hook of interrupts.
fn has_hook(context: &VmContext, state: &State) -> bool {
    context.is_of_interrupt(state.debug_hook())
}

/// Removes the hook of interrupts from a coroutine, and sets the program's hook again.
fn restore_hook(context: &VmContext, state: &State) {
    let _held = HeldInterrupts::begin(context);
    if has_hook(context, state) {
        state.set_debug_hook(context.replaced_hooks.take(state));
    }
}

/// Lets a function run that a C function has called after it has caught an error: it closes a variable. The error is
/// raised again when the C function has returned.
fn begin_closing(context: &VmContext, state: &State) {
    context.closing.begin(state.level(1).map_or(ptr::null_mut(), |record| frame_of(&record)));
    change_hook(context, state, CLOSING, CLOSING_INSTRUCTIONS);
}

/// Called when a function returns. If it is the C function that has caught the error, the error is raised again in the
/// next instruction.
fn end_closing(context: &VmContext, state: &State, record: &lua_Debug) {
    if context.closing.is_of(frame_of(record)) {
        context.closing.end();
        change_hook(context, state, CAUGHT, 1);
    }
}

/// Returns the address of a function's frame.
fn frame_of(record: &lua_Debug) -> *mut c_void {
    let offset = size_of::<lua_Debug>() - size_of::<*mut c_void>();
    // SAFETY: the last field of the record, `i_ci`, is a pointer that ends where the record ends. mlua declares it as
    // private.
    unsafe { ptr::from_ref(record).byte_add(offset).cast::<*mut c_void>().read() }
}

/// The hook, which Lua calls between two instructions, and for calls and returns while an error is raised again.
unsafe extern "C-unwind" fn hook<F>(state: *mut lua_State, record: *mut lua_Debug)
where
    F: Fn(&mut Call<'_>) -> Interruption + Copy + 'static,
{
    // SAFETY: Lua calls the hook with a valid state, with a valid record, and with room for 20 values. When the error
    // is raised, the step has ended and only its error remains. The values below belong to the interrupted function.
    unsafe {
        let mut to = Pusher::new(state);
        let Some(context) = vm_context::context_of(&to) else { return to.set_debug_hook(Hook::NONE) };
        match (*record).event {
            ffi::LUA_HOOKCALL | ffi::LUA_HOOKTAILCALL => return begin_closing(context, &to),
            ffi::LUA_HOOKRET => return end_closing(context, &to, &*record),
            _ => context.closing.end(),
        }
        if let Some(threads) = threads(context) {
            threads.work.continues();
        }
        restore_hook(context, &to);
        let main = context.main_coroutine();
        if let Some(main) = &main {
            restore_hook(context, main);
        }
        let top = to.count();
        let result = catch_unwind(AssertUnwindSafe(|| zero_sized::<F>()(&mut Call::new(State::reborrow(&to), 20))));
        let (fault, repeats, reaches_main) = match result {
            Ok(Interruption::Continue) => return to.shorten(top),
            Ok(Interruption::Raise(fault)) => (fault, false, false),
            Ok(Interruption::RaiseInTask(fault)) => (fault, true, false),
            Ok(Interruption::RaiseEverywhere(fault)) => (fault, true, true),
            Err(panic) => (Fault::panic(panic), false, true),
        };
        let is_main = main.as_ref().is_some_and(|main| main.state == to.state);
        if is_main && !reaches_main {
            drop(fault);
            return to.shorten(top);
        }
        if repeats {
            // Code that catches the error gets it again. A coroutine that has resumed this coroutine also gets it.
            let mask = if reaches_main { ffi::LUA_MASKCOUNT } else { CAUGHT };
            change_hook(context, &to, mask, 1);
            if let Some(main) = main.filter(|_| reaches_main) {
                change_hook(context, &main, mask, 1);
            }
            if let Some(threads) = threads(context) {
                let is_reached = |state| reaches_main || state != context.main_coroutine.get();
                threads.for_each_running(true, |state| {
                    if is_reached(state) {
                        change_hook(context, &State::new(state), mask, 1);
                    }
                });
            }
        }
        // Level 0 is the interrupted function.
        fault.raise_at(&mut to, 0)
    }
}
