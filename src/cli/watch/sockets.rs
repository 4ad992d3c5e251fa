//! The listening sockets that a script has created, which stay open from one process to the next. Each socket has a
//! key, which consists of the address and the options that the script has passed. Each socket has at most one owner:
//! the newest process that uses the socket.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// A socket that the supervisor keeps open.
struct KeptSocket {
    key: Vec<u8>,
    descriptor: OwnedFd,
    owner: Option<u32>,
    /// The previous owner.
    previous_owner: Option<u32>,
}

/// All sockets that the supervisor keeps open.
#[derive(Default)]
pub(super) struct Sockets {
    list: Vec<KeptSocket>,
}

/// Returns the path in the key of a unix socket that has a file; `None` for all other sockets.
fn path(key: &[u8]) -> Option<&[u8]> {
    let path = key.strip_prefix(b"unix ")?;
    (!path.starts_with(b"\0")).then_some(path)
}

/// Returns whether `key` is the key of a datagram socket, and the port that the script has passed; `None` if it is not
/// the key of an internet socket.
fn port(key: &[u8]) -> Option<(bool, u16)> {
    let mut words = key.split(|&byte| byte == b' ');
    let datagrams = match words.next()? {
        b"udp" => true,
        b"inet" | b"inet6" => false,
        _ => return None,
    };
    let text = std::str::from_utf8(words.nth(1)?).ok()?;
    Some((datagrams, text.parse().ok()?))
}

impl KeptSocket {
    fn is_unused_by(&self, process: u32) -> bool {
        self.owner != Some(process)
    }

    /// Returns the port that the socket is bound to.
    fn bound_port(&self) -> Option<u16> {
        let address = socket2::SockRef::from(&self.descriptor).local_addr().ok()?;
        Some(address.as_socket()?.port())
    }

    /// Whether the socket prevents a process from binding the address in `key`.
    fn blocks(&self, key: &[u8]) -> bool {
        if path(key).is_some() {
            return self.key == key;
        }
        match (port(key), port(&self.key)) {
            (Some((wanted_kind, wanted)), Some((kind, _))) => {
                wanted != 0 && kind == wanted_kind && self.bound_port() == Some(wanted)
            }
            _ => false,
        }
    }

    /// Closes the socket. Removes the file of a unix socket, unless `keep_file` is true.
    fn remove(self, keep_file: bool) {
        drop(self.descriptor);
        if !keep_file && let Some(path) = path(&self.key) {
            let _ = fs::remove_file(std::ffi::OsStr::from_bytes(path));
        }
    }
}

impl Sockets {
    /// Adds a socket that a process has created.
    pub(super) fn add(&mut self, process: u32, key: Vec<u8>, descriptor: OwnedFd) {
        let owner = Some(process);
        // A new socket at the path of an older one makes the older one unreachable.
        if path(&key).is_some() {
            self.list.retain(|socket| socket.key != key);
        }
        self.list.push(KeptSocket { key, descriptor, owner, previous_owner: None });
    }

    /// Returns a socket with this key that the process does not have yet, and makes the process its owner. Returns
    /// `None` if there is no such socket, or if its file was removed.
    pub(super) fn take(&mut self, process: u32, key: &[u8]) -> Option<BorrowedFd<'_>> {
        let mut list = self.list.iter_mut();
        let socket = list.find(|socket| socket.key == key && socket.is_unused_by(process))?;
        if let Some(path) = path(key)
            && fs::symlink_metadata(std::ffi::OsStr::from_bytes(path)).is_err()
        {
            // The file was removed, so no client can connect to this socket.
            return None;
        }
        socket.previous_owner = socket.owner.replace(process);
        Some(socket.descriptor.as_fd())
    }

    /// Gives the sockets of a failed process back to the previous process, which continues. Closes the sockets that had
    /// no previous owner.
    pub(super) fn return_to_previous(&mut self, process: u32) {
        self.close_if(|socket| socket.owner == Some(process) && socket.previous_owner.is_none());
        for socket in &mut self.list {
            if socket.owner == Some(process) {
                socket.owner = socket.previous_owner.take();
            }
        }
    }

    /// Called when a process has closed one of its sockets. If `forget` is true, closes the socket, so that no other
    /// process gets it. Otherwise, it belongs to the previous owner again, which may still use it.
    pub(super) fn closed(&mut self, process: u32, key: &[u8], forget: bool) {
        let is_mine = |socket: &KeptSocket| socket.key == key && socket.owner == Some(process);
        let Some(index) = self.list.iter().position(is_mine) else { return };
        if forget {
            return self.list.swap_remove(index).remove(false);
        }
        let socket = &mut self.list[index];
        socket.owner = socket.previous_owner.take();
    }

    /// Whether a socket that `process` does not use prevents `process` from binding an address.
    pub(super) fn is_address_blocked(&self, process: u32, key: &[u8]) -> bool {
        let mut others = self.list.iter().filter(|socket| socket.is_unused_by(process));
        others.any(|socket| socket.blocks(key))
    }

    /// Closes the sockets that `process` does not use and that prevent `process` from binding an address.
    pub(super) fn close_blocking(&mut self, process: u32, key: &[u8]) {
        self.close_if(|socket| socket.is_unused_by(process) && socket.blocks(key));
    }

    /// Closes the sockets that `process` does not use, but that have the same key as a socket of `process`. There are
    /// such sockets if the previous process had more workers.
    pub(super) fn close_surplus(&mut self, process: u32) {
        let mine = self.list.iter().filter(|socket| socket.owner == Some(process));
        let mine: Vec<_> = mine.map(|socket| socket.key.clone()).collect();
        self.close_if(|socket| socket.is_unused_by(process) && mine.contains(&socket.key));
    }

    /// Closes the sockets that `process` does not use.
    pub(super) fn close_unused(&mut self, process: u32) {
        self.close_if(|socket| socket.is_unused_by(process));
    }

    /// Closes all sockets, and removes the files of unix sockets.
    pub(super) fn close_all(&mut self) {
        self.close_if(|_| true);
    }

    /// Closes the sockets for which `is_closable` returns true.
    fn close_if(&mut self, mut is_closable: impl FnMut(&KeptSocket) -> bool) {
        for index in (0..self.list.len()).rev() {
            if is_closable(&self.list[index]) {
                let socket = self.list.swap_remove(index);
                let shared = self.list.iter().any(|other| other.key == socket.key);
                socket.remove(shared);
            }
        }
    }
}
