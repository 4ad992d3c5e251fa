//! The program's side of `lio --watch`: reports to the supervisor which files the program loads, and gets the listening
//! sockets from the process that the program replaces.
//!
//! | file | topic |
//! |---|---|
//! | [`wire`] | frames between program and supervisor, used by both sides |
//! | `fingerprint` | fingerprints of files, used by both sides |
//!
//! Without a supervisor the link costs nothing: `is_watched` is called once, when a module loads. If the supervisor
//! dies, the program continues without it.

mod fingerprint;
pub(crate) mod wire;

pub(crate) use fingerprint::Fingerprint;

use crate::event::adopt;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, getppid};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use wire::Frame;

/// The connection to the supervisor, for all VMs of the process.
struct Link {
    socket: UnixStream,
    reported: HashSet<PathBuf>,
}

static LINK: OnceLock<Mutex<Link>> = OnceLock::new();

/// Takes ownership of the socket with the descriptor `number`, which is connected to the process `supervisor`, the
/// parent of this process. On Linux, this process will get SIGTERM when the supervisor ends, even if the supervisor is
/// killed. Children of this process do not inherit the socket.
///
/// # Errors
/// Fails if the supervisor has already ended, or if the descriptor does not exist.
pub(crate) fn join(number: RawFd, supervisor: Pid) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    if getppid() != Some(supervisor) {
        return Err(Errno::SRCH.into());
    }
    let socket = adopt::owned(number)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    let _ = LINK.set(Mutex::new(Link { socket: socket.into(), reported: HashSet::new() }));
    Ok(())
}

/// Returns whether a supervisor watches this process.
pub(crate) fn is_watched() -> bool {
    LINK.get().is_some()
}

/// Reports that the file at `path` is about to be loaded. Does nothing without a supervisor.
pub(crate) fn report_load(path: &[u8]) {
    report(path, Fingerprint::of);
}

/// Reports that the program needs a file at `path` that does not exist. The file counts as changed as soon as it
/// exists.
pub(crate) fn report_missing(path: &[u8]) {
    report(path, |_| Fingerprint::default());
}

/// Requests the listening socket with this key that the previous process used; `None` if there is none. Each socket can
/// be requested once.
pub(crate) fn request_socket(key: &[u8]) -> Option<OwnedFd> {
    request(wire::SOCKET_REQUEST, key)?.descriptor
}

/// Returns whether the address with this key may become free, because the supervisor is ending a process that uses it.
pub(crate) fn may_become_free(key: &[u8]) -> bool {
    request(wire::ADDRESS_IN_USE, key).is_some_and(|frame| frame.kind == wire::YES)
}

/// Returns whether another process has replaced this process.
pub(crate) fn is_replaced() -> bool {
    request(wire::IS_REPLACED, b"").is_some_and(|frame| frame.kind == wire::YES)
}

/// Sends a new socket to the supervisor, which keeps it open when this process ends.
pub(crate) fn report_socket(key: &[u8], descriptor: BorrowedFd<'_>) {
    if let Some(link) = link() {
        let _ = wire::send(&link.socket, wire::NEW_SOCKET, key, Some(descriptor));
    }
}

/// Reports that a socket with this key was closed.
pub(crate) fn report_closed(key: &[u8]) {
    if let Some(link) = link() {
        let _ = wire::send(&link.socket, wire::CLOSED_SOCKET, key, None);
    }
}

fn link() -> Option<MutexGuard<'static, Link>> {
    let link = LINK.get()?;
    Some(link.lock().unwrap_or_else(PoisonError::into_inner))
}

fn report(path: &[u8], fingerprint: impl FnOnce(&Path) -> Fingerprint) {
    let Some(mut link) = link() else { return };
    let Ok(path) = std::path::absolute(OsStr::from_bytes(path)) else { return };
    if link.reported.contains(&path) {
        return;
    }
    let mut text = fingerprint(&path).encode();
    text.extend_from_slice(path.as_os_str().as_bytes());
    let _ = wire::send(&link.socket, wire::FILE_LOAD, &text, None);
    link.reported.insert(path);
}

/// Sends a request and waits for the response; `None` if the supervisor has ended.
fn request(kind: u8, text: &[u8]) -> Option<Frame> {
    let link = link()?;
    wire::send(&link.socket, kind, text, None).ok()?;
    wire::receive(&link.socket).ok()?
}
