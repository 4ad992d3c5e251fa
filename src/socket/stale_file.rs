//! The files of unix sockets that no socket uses any longer. They prevent a new socket from being bound to the same
//! path.

use rustix::io::Errno;
use socket2::SockAddr;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Returns whether `path` is the file of a unix socket (not a link to such a file) that no socket uses. The check tries
/// to connect a datagram socket to the file. This does not affect a listener, because connecting fails due to the
/// socket's type.
pub(crate) fn is_stale(path: &Path) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let probe = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None)?;
    probe.set_nonblocking(true)?;
    let asked = probe.connect(&SockAddr::unix(path)?);
    let errno = asked.err().and_then(|error| Errno::from_io_error(&error));
    Ok(errno == Some(Errno::CONNREFUSED))
}

/// Removes the file of a unix socket that no socket uses. Returns false if `address` has no file, or if the file is in
/// use or not a unix socket.
pub(crate) fn remove(address: &SockAddr) -> io::Result<bool> {
    let Some(path) = address.as_pathname() else { return Ok(false) };
    if !is_stale(path).unwrap_or(false) {
        return Ok(false);
    }
    fs::remove_file(path)?;
    Ok(true)
}
