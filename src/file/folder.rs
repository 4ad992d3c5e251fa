//! A folder that is served. It keeps a descriptor, so that opening a file below it is one system call, and
//! looks once a second whether its path still leads there: a deployment that swaps a link is noticed.

use super::beneath::{self, Aim};
use super::{Facts, Kind, OpenFile, fault};
use crate::raw::Fault;
use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a folder's path is taken to lead where it did.
const TRUSTED: Duration = Duration::from_secs(1);

/// What is found by name in a folder.
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) facts: Facts,
}

/// A folder and its path, which is absolute.
pub(crate) struct Folder {
    path: PathBuf,
    root: Option<File>,
    looked: Instant,
}

fn open_root(path: &Path) -> io::Result<File> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let flags = libc::O_PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let flags = super::QUIET;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags | libc::O_DIRECTORY)
        .open(path)
}

impl Folder {
    /// Opens a folder; a relative path counts from where the process is now.
    pub(crate) fn open(path: &[u8]) -> Result<Folder, Fault> {
        if path.contains(&0) {
            return Err(Fault::word("open", "the path has a NUL", "not found"));
        }
        let path = std::path::absolute(OsStr::from_bytes(path)).map_err(fault)?;
        let root = open_root(&path).map_err(fault)?;
        Ok(Folder {
            path,
            root: Some(root),
            looked: Instant::now(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.root.is_none()
    }

    /// Idempotent.
    pub(crate) fn close(&mut self) {
        self.root = None;
    }

    /// Makes the next opening look where the path leads.
    #[cfg(test)]
    pub(super) fn distrust(&mut self) {
        self.looked -= TRUSTED;
    }

    /// The folder's descriptor, after a look at where its path leads when that is due.
    fn root(&mut self) -> Result<&File, Fault> {
        let closed = Fault::word("open", "the folder is closed", "closed");
        let root = self.root.as_ref().ok_or(closed)?;
        if self.looked.elapsed() >= TRUSTED {
            let same = |now: &std::fs::Metadata, known: &std::fs::Metadata| {
                (now.dev(), now.ino()) == (known.dev(), known.ino())
            };
            let now = self.path.metadata().map_err(fault)?;
            let known = root.metadata().map_err(fault)?;
            if !same(&now, &known) {
                self.root = Some(open_root(&self.path).map_err(fault)?);
            }
            self.looked = Instant::now();
        }
        self.root.as_ref().ok_or(closed)
    }

    fn open_for(&mut self, path: &[u8], aim: Aim) -> Result<File, Fault> {
        beneath::check(path)?;
        let number = self.root()?.as_raw_fd();
        beneath::open(number, &self.path, path, aim).map_err(fault)
    }

    /// Opens a file or directory below the folder; `""` is the folder itself.
    pub(crate) fn open_beneath(&mut self, path: &[u8]) -> Result<OpenFile, Fault> {
        OpenFile::adopt(self.open_for(path, Aim::Read)?)
    }

    /// What lies in the directory `path`, `most` entries at most, directories first, then by name. Links
    /// are told as what they lead to; what could not be served is left out. The flag: whether there is
    /// more.
    pub(crate) fn list(&mut self, path: &[u8], most: usize) -> Result<(Vec<Entry>, bool), Fault> {
        let directory = self.open_for(path, Aim::Read)?;
        let mut entries = Vec::new();
        let mut names = Names::new(directory).map_err(fault)?;
        let more = loop {
            let Some(name) = names.next().map_err(fault)? else {
                break false;
            };
            let Some(facts) = names.look(name) else {
                continue;
            };
            let name = name.to_bytes().to_vec();
            let facts = match facts.kind {
                Kind::Link => self.behind_link(path, &name),
                Kind::Other => None,
                _ => Some(facts),
            };
            let Some(facts) = facts else { continue };
            if entries.len() == most {
                break true;
            }
            entries.push(Entry { name, facts });
        };
        entries.sort_by_cached_key(|entry| {
            let is_file = entry.facts.kind != Kind::Directory;
            (is_file, entry.name.to_ascii_lowercase(), entry.name.clone())
        });
        Ok((entries, more))
    }

    /// What a link in the directory `path` leads to, unless that is outside.
    fn behind_link(&mut self, path: &[u8], name: &[u8]) -> Option<Facts> {
        let mut full = path.to_vec();
        if !full.is_empty() && !full.ends_with(b"/") {
            full.push(b'/');
        }
        full.extend_from_slice(name);
        let file = self.open_for(&full, Aim::Look).ok()?;
        let facts = Facts::of(&file.metadata().ok()?);
        matches!(facts.kind, Kind::File | Kind::Directory).then_some(facts)
    }
}

/// The names in a directory.
struct Names {
    directory: *mut libc::DIR,
}

impl Names {
    fn new(file: File) -> io::Result<Names> {
        let number = file.into_raw_fd();
        // SAFETY: the descriptor is ours; it belongs to the directory stream then, or is closed here.
        unsafe {
            let directory = libc::fdopendir(number);
            if directory.is_null() {
                let error = io::Error::last_os_error();
                libc::close(number);
                return Err(error);
            }
            Ok(Names { directory })
        }
    }

    /// The next name, which lives until the call after; not `.` and `..`.
    fn next<'a>(&mut self) -> io::Result<Option<&'a CStr>> {
        loop {
            // SAFETY: the stream is open; an entry's name ends in a NUL and lives until the next call.
            let name = unsafe {
                *errno() = 0;
                let entry = libc::readdir(self.directory);
                if entry.is_null() {
                    return match *errno() {
                        0 => Ok(None),
                        number => Err(io::Error::from_raw_os_error(number)),
                    };
                }
                CStr::from_ptr((&raw const (*entry).d_name).cast())
            };
            if name != c"." && name != c".." {
                return Ok(Some(name));
            }
        }
    }

    /// What a name stands for, links not followed; `None` when it is gone.
    fn look(&self, name: &CStr) -> Option<Facts> {
        // SAFETY: the structure is plain numbers, and filled before it is read.
        let status = unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            let number = libc::dirfd(self.directory);
            let flags = libc::AT_SYMLINK_NOFOLLOW;
            if libc::fstatat(number, name.as_ptr(), &mut status, flags) != 0 {
                return None;
            }
            status
        };
        let kind = match status.st_mode & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFDIR => Kind::Directory,
            libc::S_IFLNK => Kind::Link,
            _ => Kind::Other,
        };
        Some(Facts {
            kind,
            size: status.st_size as u64,
            seconds: status.st_mtime as i64,
            nanoseconds: status.st_mtime_nsec as u32,
            inode: status.st_ino as u64,
            device: status.st_dev as u64,
        })
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // SAFETY: the stream is open, and nobody uses it any more.
        unsafe { libc::closedir(self.directory) };
    }
}

/// Where errno is: readdir(3) tells its failures by it alone.
fn errno() -> *mut libc::c_int {
    // SAFETY: always callable.
    #[cfg(any(target_os = "linux", target_os = "emscripten"))]
    return unsafe { libc::__errno_location() };
    // SAFETY: always callable.
    #[cfg(not(any(target_os = "linux", target_os = "emscripten")))]
    return unsafe { libc::__error() };
}
