//! Files for serving: opened without ever waiting, read by position, listed below a root.
//!
//! - `mod.rs`: an open file and what is known of it
//! - `beneath.rs`: paths that must not leave a folder
//! - `folder.rs`: a folder that is served: files below it, listings
//! - `lua.rs`: `require "lio.file"`
//!
//! Invariant: what is open here is a regular file or a directory, never a pipe or a device that could
//! make the loop wait.

pub(crate) mod beneath;
pub(crate) mod folder;
pub(crate) mod lua;
#[cfg(test)]
mod tests;

use crate::raw::Fault;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

/// Flags of every opening: a fifo without a writer must not wait, a terminal not become ours.
const QUIET: libc::c_int = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    File,
    Directory,
    /// A link, seen by a look that does not follow it.
    Link,
    /// A fifo, socket or device.
    Other,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Link => "link",
            Kind::Other => "other",
        }
    }
}

/// What is known of a file: plain data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    pub(crate) kind: Kind,
    /// Bytes.
    pub(crate) size: u64,
    /// When the content was changed last: seconds since the Unix epoch.
    pub(crate) seconds: i64,
    /// The rest of that time, below 10^9.
    pub(crate) nanoseconds: u32,
    pub(crate) inode: u64,
    pub(crate) device: u64,
}

impl Facts {
    pub(crate) fn of(metadata: &Metadata) -> Facts {
        let kind = metadata.file_type();
        let kind = match () {
            () if kind.is_file() => Kind::File,
            () if kind.is_dir() => Kind::Directory,
            () if kind.is_symlink() => Kind::Link,
            () => {
                debug_assert!(
                    kind.is_fifo()
                        || kind.is_socket()
                        || kind.is_char_device()
                        || kind.is_block_device()
                );
                Kind::Other
            }
        };
        Facts {
            kind,
            size: metadata.len(),
            seconds: metadata.mtime(),
            nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
            inode: metadata.ino(),
            device: metadata.dev(),
        }
    }
}

/// An open file or directory, and what was known of it when it was opened.
pub(crate) struct OpenFile {
    file: Option<File>,
    facts: Facts,
}

impl OpenFile {
    /// Opens a path for reading; links are followed.
    pub(crate) fn open(path: &[u8]) -> Result<OpenFile, Fault> {
        if path.contains(&0) {
            return Err(Fault::word("open", "the path has a NUL", "not found"));
        }
        let mut options = OpenOptions::new();
        let opened = options
            .read(true)
            .custom_flags(QUIET)
            .open(OsStr::from_bytes(path));
        Self::adopt(opened.map_err(fault)?)
    }

    /// Takes over a descriptor that was opened with [`QUIET`].
    fn adopt(file: File) -> Result<OpenFile, Fault> {
        let facts = Facts::of(&file.metadata().map_err(fault)?);
        match facts.kind {
            Kind::File | Kind::Directory => Ok(OpenFile {
                file: Some(file),
                facts,
            }),
            _ => Err(Fault::word("open", "not a regular file", "not a file")),
        }
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The descriptor; `None` once closed.
    pub(crate) fn number(&self) -> Option<RawFd> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Idempotent.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }
}

/// What hinders the opening of a file, in one word for programs.
pub(super) fn fault(error: io::Error) -> Fault {
    match error.raw_os_error() {
        // A socket, or a device without a driver.
        Some(libc::ENXIO | libc::ENODEV) => Fault::word("open", "not a regular file", "not a file"),
        // A path that can name nothing.
        Some(libc::ENAMETOOLONG) => Fault::word("open", "the name is too long", "not found"),
        Some(libc::ELOOP) => Fault::word("open", "too many links", "not found"),
        Some(libc::EXDEV) => Fault::word("open", "the path leaves the folder", "outside"),
        _ => Fault::io("open", &error),
    }
}

/// pread(2) into `room`: how many bytes came, 0 at the end.
pub(crate) fn read_at(
    number: RawFd,
    room: &mut [MaybeUninit<u8>],
    offset: u64,
) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX);
    loop {
        // SAFETY: the room is ours to write, and as long as is said.
        let count = unsafe { libc::pread(number, room.as_mut_ptr().cast(), room.len(), offset) };
        if count >= 0 {
            return Ok(count as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
