//! Starts threads of the system, and counts those that run services.

use super::service::System;
use super::sync::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Builder;

/// In bytes. Lua limits its C stack to about 200 levels, for which this is ample.
const STACK: usize = 4 << 20;

/// Starts a thread that is joined when the system ends. If it is `counted`, the monitor thread waits for its end. The
/// error is a message; then `body` was not run.
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

/// Decrements the count when a thread ends. If the thread panics, the system ends.
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
