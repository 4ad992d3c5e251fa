//! The crash log. When the process receives a fatal signal, the signal handler writes the signal's number and the
//! service that each worker is running to the file `config.crashlog`. Then the signal's default action ends the
//! process.
//!
//! At most one system of a process has a crash log at a time: the first that is configured to have one. The handler
//! does not allocate or wait: if another thread is installing or writing a log, it writes nothing.

use super::progress::Progress;
use super::service::System;
use super::sync::lock;
use std::fs::File;
use std::io::Write;
use std::os::raw::c_int;
use std::sync::{Arc, Mutex};

const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

struct CrashLog {
    file: File,
    /// The progress of the system's workers.
    progress: Arc<[Progress]>,
}

static LOG: Mutex<Option<CrashLog>> = Mutex::new(None);

/// Opens the crash log, if the system is configured to have one. On failure, returns an error message.
pub(crate) fn install(system: &Arc<System>) -> Result<(), String> {
    let Some(path) = &system.config.crashlog else { return Ok(()) };
    let file = File::create(path).map_err(|error| format!("crashlog {path}: {error}"))?;
    let mut log = lock(&LOG);
    if log.is_none() {
        *log = Some(CrashLog { file, progress: system.progress.clone() });
        set_handler(on_signal as *const () as usize);
    }
    Ok(())
}

/// Closes the crash log of the system, if it has one.
pub(crate) fn uninstall(system: &Arc<System>) {
    let mut log = lock(&LOG);
    if log.take_if(|log| Arc::ptr_eq(&log.progress, &system.progress)).is_some() {
        set_handler(libc::SIG_DFL);
    }
}

fn set_handler(handler: usize) {
    for number in SIGNALS {
        // SAFETY: a zeroed sigaction is valid; the handler is the default or `on_signal`, which is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
            libc::sigaction(number, &action, std::ptr::null_mut());
        }
    }
}

extern "C" fn on_signal(number: c_int) {
    // `try_lock` is one atomic operation, and formatting a number allocates nothing. No caller could handle a failed
    // write.
    if let Ok(log) = LOG.try_lock()
        && let Some(CrashLog { file, progress }) = &*log
    {
        let mut file = file;
        let _ = writeln!(file, "signal {number}");
        for (worker, progress) in progress.iter().enumerate() {
            if let (_, Some(service)) = progress.running_slice() {
                let _ = writeln!(file, "worker {worker}: service {service}");
            }
        }
    }
    // SAFETY: SA_RESETHAND has restored the default action, so this call ends the process.
    unsafe { libc::raise(number) };
}
