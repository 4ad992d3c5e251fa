//! Starts threads of the system, and counts the threads that run services.

use super::service::System;
use super::sync::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Builder;

/// The size of a thread's stack in bytes. Lua limits its C stack to about 200 levels, which need much less.
const STACK: usize = 4 << 20;

/// Starts a thread that is joined when the system ends. If `counted` is true, the monitor thread waits until this
/// thread has ended. On failure, returns an error message, and `body` does not run.
pub(super) fn spawn(
    system: &Arc<System>, name: String, counted: bool, body: impl FnOnce(&Arc<System>) + Send + 'static,
) -> Result<(), String> {
    let shared = system.clone();
    if counted {
        system.running.fetch_add(1, Ordering::SeqCst);
    }
    let thread = Builder::new().name(name).stack_size(STACK).spawn(move || {
        let _end = ThreadEnd(&shared, counted);
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

/// Decrements the number of running threads when a counted thread ends. If the thread panics, ends the system.
struct ThreadEnd<'a>(&'a Arc<System>, bool);

impl Drop for ThreadEnd<'_> {
    fn drop(&mut self) {
        let ThreadEnd(system, counted) = self;
        if std::thread::panicking() {
            system.exit_code.store(1, Ordering::SeqCst);
            system.quit();
        }
        if *counted && system.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            system.monitor.wake();
        }
    }
}
