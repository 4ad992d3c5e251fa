//! The program's side of `lio --watch`: it reports the files that it loads to the supervisor, and gets its listening
//! sockets from the process that it replaces.
//!
//! | file | topic |
//! |---|---|
//! | [`wire`] | frames between the two, used by both sides |
//! | `fingerprint` | the state of a file, used by both sides |
//!
//! Without a supervisor this costs nothing: `is_watched` is read once, when a module loads. If the supervisor dies, the
//! program continues without it.

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

/// Takes ownership of the socket `number`, which leads to the process `supervisor`, the parent of this one. From now on
/// this process ends when the supervisor ends, even if that is killed. Children of this process do not inherit the
/// socket.
///
/// # Errors
/// The supervisor has already ended, or there is no such descriptor.
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

/// Whether a supervisor watches this process.
pub(crate) fn is_watched() -> bool {
    LINK.get().is_some()
}

/// Reports that the file at `path` is about to be loaded. Does nothing without a supervisor.
pub(crate) fn report_load(path: &[u8]) {
    report(path, Fingerprint::of);
}

/// Reports that there is no file at `path`, which is needed. It counts as changed as soon as it exists.
pub(crate) fn report_missing(path: &[u8]) {
    report(path, |_| Fingerprint::default());
}

/// Requests the listening socket of this key that the previous process has used. Each key can be requested once.
pub(crate) fn request_socket(key: &[u8]) -> Option<OwnedFd> {
    request(wire::SOCKET_REQUEST, key)?.descriptor
}

/// Whether another process is being ended that uses the address of this key, so that the address may become free.
pub(crate) fn may_become_free(key: &[u8]) -> bool {
    request(wire::ADDRESS_IN_USE, key).is_some_and(|frame| frame.kind == wire::YES)
}

/// Whether another process has replaced this one.
pub(crate) fn is_replaced() -> bool {
    request(wire::IS_REPLACED, b"").is_some_and(|frame| frame.kind == wire::YES)
}

/// Sends a new socket to the supervisor, which keeps it open when this process ends.
pub(crate) fn report_socket(key: &[u8], descriptor: BorrowedFd<'_>) {
    if let Some(link) = link() {
        let _ = wire::send(&link.socket, wire::NEW_SOCKET, key, Some(descriptor));
    }
}

/// Reports that a socket of this key was closed.
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
