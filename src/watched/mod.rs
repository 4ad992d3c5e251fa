//! The program's side of `lio --watch`: tells the supervisor which files it loads, and gets its listening
//! sockets from the process that it replaces.
//!
//! - `wire.rs`: frames between the two, used by both sides
//! - `fingerprint.rs`: what tells that a file has changed, used by both sides
//! - `lua.rs`: `lio.watch`, and `require "lio.watched"`, which `lio.net` calls
//!
//! Without a supervisor nothing here costs anything: `is_watched` is read once, when a module loads. With
//! one that has died the program goes on as without.

pub mod fingerprint;
pub(crate) mod lua;
pub mod wire;

use fingerprint::Fingerprint;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use wire::Frame;

/// The way to the supervisor, for all VMs of the process.
struct Link {
    socket: UnixStream,
    told: HashSet<PathBuf>,
}

static LINK: OnceLock<Mutex<Link>> = OnceLock::new();

/// Takes the supervisor's socket over, if the process was started by one, and hides it from the processes
/// that this one starts.
///
/// # Safety
/// Called once, before there are other threads.
pub unsafe fn join() {
    let Some(value) = std::env::var_os(wire::VARIABLE) else {
        return;
    };
    // SAFETY: the caller's promise.
    unsafe { std::env::remove_var(wire::VARIABLE) };
    let number = value.to_str().and_then(|text| text.parse::<RawFd>().ok());
    let Some(number) = number.filter(|&number| number > 2 && is_socket(number)) else {
        return;
    };
    // SAFETY: a socket that was inherited for us.
    let socket = unsafe {
        libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        UnixStream::from(OwnedFd::from_raw_fd(number))
    };
    let told = HashSet::new();
    let _ = LINK.set(Mutex::new(Link { socket, told }));
}

fn is_socket(number: RawFd) -> bool {
    // SAFETY: `data` is written by the call, and read only when that succeeded.
    unsafe {
        let mut data: libc::stat = std::mem::zeroed();
        libc::fstat(number, &mut data) == 0 && data.st_mode & libc::S_IFMT == libc::S_IFSOCK
    }
}

/// Whether a supervisor watches this process.
pub(crate) fn is_watched() -> bool {
    LINK.get().is_some()
}

fn link() -> Option<MutexGuard<'static, Link>> {
    let link = LINK.get()?;
    Some(link.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Reports that the file at `path` is about to be loaded. Does nothing without a supervisor.
pub fn loads(path: &[u8]) {
    report(path, Fingerprint::of);
}

/// Reports that a file was looked for at `path` and was not there: it counts as changed as soon as it is.
fn misses(path: &[u8]) {
    report(path, |_| Fingerprint::default());
}

fn report(path: &[u8], fingerprint: impl FnOnce(&Path) -> Fingerprint) {
    let Some(mut link) = link() else { return };
    let path = Path::new(OsStr::from_bytes(path));
    let Ok(path) = std::path::absolute(path) else {
        return;
    };
    if link.told.contains(&path) {
        return;
    }
    let mut text = fingerprint(&path).encode().to_vec();
    text.extend_from_slice(path.as_os_str().as_bytes());
    let _ = wire::send(&link.socket, wire::LOADS, &text, None);
    link.told.insert(path);
}

/// Asks, and waits for the answer; `None` when the supervisor is gone.
fn ask(kind: u8, text: &[u8]) -> Option<Frame> {
    let link = link()?;
    wire::send(&link.socket, kind, text, None).ok()?;
    wire::receive(&link.socket).ok()?
}

/// The socket of this key that the process before us has used, once for each.
fn wants(key: &[u8]) -> Option<OwnedFd> {
    ask(wire::WANTS, key)?.descriptor
}

fn is_yes(kind: u8, text: &[u8]) -> bool {
    ask(kind, text).is_some_and(|frame| frame.kind == wire::YES)
}

/// Hands a socket that was made to the supervisor, which keeps it open when we end.
fn made(key: &[u8], descriptor: BorrowedFd<'_>) {
    if let Some(link) = link() {
        let _ = wire::send(&link.socket, wire::MADE, key, Some(descriptor));
    }
}

fn closed(key: &[u8]) {
    if let Some(link) = link() {
        let _ = wire::send(&link.socket, wire::CLOSED, key, None);
    }
}
