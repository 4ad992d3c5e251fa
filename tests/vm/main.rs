//! Tests of Lua VMs in a Rust program: lio in the VM of a program that embeds Lua, allocations that fail, and many VMs
//! on many threads. The tests are one program, because each program takes long to link in the release profile.

#[cfg(feature = "vendored")]
mod embed;
mod memory;
mod threads;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Makes the tests run one at a time, because some tests count the descriptors of the process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Waits up to 10 s until `count` descriptors are open, because a thread of the resolver may still close a descriptor.
/// Returns whether `count` descriptors are open.
fn descriptors_become(count: usize) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while descriptors() != count && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    descriptors() == count
}

/// Waits until the number of open descriptors is stable, and returns it.
fn settled_descriptors() -> usize {
    let mut count = descriptors();
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_millis(200) {
        std::thread::sleep(Duration::from_millis(5));
        if count != descriptors() {
            count = descriptors();
            since = Instant::now();
        }
    }
    count
}
