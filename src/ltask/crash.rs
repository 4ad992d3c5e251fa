//! The crash log: when the process gets a fatal signal, the file that `config.crashlog` names gets the
//! signal's number and each worker's service, and the signal takes its course.
//!
//! The handler only reads atomics and writes to a descriptor that was opened before; one system per
//! process has a crash log, the first that asks for one.

use super::progress::Progress;
use super::service::System;
use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::raw::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

static FILE: AtomicI32 = AtomicI32::new(-1);
static PROGRESS: AtomicPtr<Progress> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Opens the crash log, if the system is configured to have one. The error is a message.
pub(crate) fn install(system: &Arc<System>) -> Result<(), String> {
    let Some(path) = &system.config.crashlog else {
        return Ok(());
    };
    let file = File::create(path).map_err(|error| format!("crashlog {path}: {error}"))?;
    let taken = FILE.compare_exchange(-1, file.as_raw_fd(), Ordering::SeqCst, Ordering::SeqCst);
    if taken.is_err() {
        return Ok(());
    }
    let _ = file.into_raw_fd();
    COUNT.store(system.progress.len(), Ordering::SeqCst);
    PROGRESS.store(system.progress.as_ptr().cast_mut(), Ordering::SeqCst);
    for number in SIGNALS {
        // SAFETY: a zeroed sigaction is valid; the handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
            libc::sigaction(number, &action, std::ptr::null_mut());
        }
    }
    Ok(())
}

/// The system goes: nothing of it is read any more.
pub(crate) fn uninstall(system: &Arc<System>) {
    let mine = system.progress.as_ptr().cast_mut();
    let null = std::ptr::null_mut();
    if PROGRESS.compare_exchange(mine, null, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return;
    }
    for number in SIGNALS {
        // SAFETY: back to the default.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    let file = FILE.swap(-1, Ordering::SeqCst);
    // SAFETY: the descriptor was ours.
    unsafe { libc::close(file) };
}

extern "C" fn on_signal(number: c_int) {
    write(b"signal ", number as u64);
    write(b"\n", u64::MAX);
    let watches = PROGRESS.load(Ordering::SeqCst);
    if !watches.is_null() {
        for index in 0..COUNT.load(Ordering::SeqCst) {
            // SAFETY: the system's progress is there until `uninstall`.
            let (_, service) = unsafe { (*watches.add(index)).slice() };
            if let Some(service) = service {
                write(b"worker ", index as u64);
                write(b": service ", service.into());
                write(b"\n", u64::MAX);
            }
        }
    }
    // SAFETY: SA_RESETHAND put the default back: this ends the process.
    unsafe { libc::raise(number) };
}

/// Writes text and a number (none for u64::MAX) without allocating.
fn write(text: &[u8], number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = number;
    while number != u64::MAX && (rest > 0 || at == digits.len()) {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let file = FILE.load(Ordering::SeqCst);
    // SAFETY: both buffers are alive; there is nobody to tell of a failure.
    unsafe {
        libc::write(file, text.as_ptr().cast(), text.len());
        libc::write(file, digits[at..].as_ptr().cast(), digits.len() - at);
    }
}
