//! Files that are served: opened without blocking, read at an offset, and listed below a folder. No Lua.
//!
//! | file | topic |
//! |---|---|
//! | this file | an open file and its metadata |
//! | [`beneath`] | paths that must not leave a folder |
//! | [`folder`] | a served folder: its files and listings |
//! | [`spool`] | temporary files for uploads |
//! | [`supervisor_link`] | the program's side of `lio --watch` |
//!
//! Invariant: an [`OpenFile`] is a regular file or a directory, never a pipe or a device that could block the loop.

pub(crate) mod beneath;
pub(crate) mod folder;
pub(crate) mod spool;
// Only the executable contains the supervisor, which uses some items of this module.
#[cfg_attr(not(feature = "vendored"), allow(dead_code))]
pub(crate) mod supervisor_link;
#[cfg(test)]
mod tests;

use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::{self as system, Errno};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The flags for opening a file to read: a fifo without a writer must not block, and a terminal must not become the
/// controlling terminal.
const READ_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The flags of an `open` that is used only to get the metadata of a path.
#[cfg(any(target_os = "linux", target_os = "android"))]
const METADATA_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const METADATA_FLAGS: OFlags = READ_FLAGS;

/// The kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    File,
    Directory,
    /// A link that was not followed.
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

/// The metadata of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Metadata {
    pub(crate) kind: Kind,
    /// The size in bytes.
    pub(crate) size: u64,
    /// The time of the last change of the content: seconds since the Unix epoch.
    pub(crate) seconds: i64,
    /// The nanoseconds of the time in `seconds`, below 10^9.
    pub(crate) nanoseconds: u32,
    /// The time of the last change of the file or its metadata, which programs cannot set: seconds and nanoseconds.
    pub(crate) changed: (i64, u32),
    pub(crate) inode: u64,
    pub(crate) device: u64,
}

impl Metadata {
    /// Returns the current metadata of an open file.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Metadata> {
        Ok(Metadata::from_status(&fs::fstat(file)?))
    }

    // The types of the fields differ between systems.
    #[allow(clippy::unnecessary_cast)]
    fn from_status(status: &Stat) -> Metadata {
        let kind = match FileType::from_raw_mode(status.st_mode as fs::RawMode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        };
        Metadata {
            kind,
            size: status.st_size as u64,
            seconds: status.st_mtime as i64,
            nanoseconds: status.st_mtime_nsec as u32,
            changed: (status.st_ctime as i64, status.st_ctime_nsec as u32),
            inode: status.st_ino as u64,
            device: status.st_dev as u64,
        }
    }
}

/// The reason why a file was not opened or cannot be used.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A message, and a short code for programs.
    Word(&'static str, &'static str),
    System(io::Error),
}

impl Refusal {
    /// A fifo, socket or device.
    pub(crate) const NOT_A_FILE: Refusal = Refusal::Word("not a regular file", "not a file");
    /// A path with a NUL, which no file can have.
    const HAS_NUL: Refusal = Refusal::Word("the path contains a NUL", "not found");
    /// A path that leads out of its folder.
    const OUTSIDE: Refusal = Refusal::Word("the path leaves the folder", "outside");
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Refusal {
        match error {
            // A socket, or a device without a driver.
            Errno::NXIO | Errno::NODEV => Refusal::NOT_A_FILE,
            Errno::NAMETOOLONG => Refusal::Word("the name is too long", "not found"),
            Errno::LOOP => Refusal::Word("too many links", "not found"),
            Errno::XDEV => Refusal::OUTSIDE,
            _ => Refusal::System(error.into()),
        }
    }
}

/// An open file or directory, and its metadata at the time of opening.
pub(crate) struct OpenFile {
    file: Option<Rc<OwnedFd>>,
    metadata: Metadata,
}

impl OpenFile {
    /// Opens a path for reading; links are followed.
    ///
    /// # Errors
    /// Refuses a path to anything but a regular file or a directory; other errors come from the system.
    pub(crate) fn open(path: &[u8]) -> Result<OpenFile, Refusal> {
        if path.contains(&0) {
            return Err(Refusal::HAS_NUL);
        }
        let opened = system::retry_on_intr(|| fs::open(path, READ_FLAGS, Mode::empty()));
        Self::adopt(opened?)
    }

    /// Takes ownership of a descriptor that was opened with [`READ_FLAGS`].
    fn adopt(file: OwnedFd) -> Result<OpenFile, Refusal> {
        let metadata = Metadata::from_status(&fs::fstat(&file)?);
        match metadata.kind {
            Kind::File | Kind::Directory => Ok(OpenFile { file: Some(Rc::new(file)), metadata }),
            _ => Err(Refusal::NOT_A_FILE),
        }
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the descriptor; `None` once the file is closed.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Returns a shared descriptor, for a response that can outlive this object; `None` once the file is closed.
    pub(crate) fn share(&self) -> Option<Rc<OwnedFd>> {
        self.file.clone()
    }

    /// Closes the file. Idempotent.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }
}

/// Reads up to `most` bytes of a file at `offset`, and appends them to `out`. Returns the number of bytes; 0 at the end
/// of the file.
pub(crate) fn read_at(file: BorrowedFd<'_>, out: &mut Vec<u8>, most: usize, offset: u64) -> io::Result<usize> {
    let start = out.len();
    out.resize(start + most, 0);
    let room = &mut out[start..];
    let got = system::retry_on_intr(|| system::pread(file, &mut *room, offset));
    out.truncate(start + got.unwrap_or(0));
    Ok(got?)
}
