//! Paths that must not leave a folder: what `..`, links and odd bytes could be used for.
//!
//! The text is checked first. Then the kernel resolves it below the folder's descriptor (openat2(2) with
//! RESOLVE_BENEATH), so nobody can swap a link in between; where it cannot, the path is resolved by name
//! and compared. Links that stay inside the folder are followed either way.

use super::{INSPECT, QUIET, Refusal};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a path is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Read,
    /// Only to see what it is.
    Inspect,
}

impl Aim {
    fn flags(self) -> OFlags {
        match self {
            Aim::Read => QUIET,
            Aim::Inspect => INSPECT,
        }
    }
}

/// Whether a relative path may be looked up at all: not absolute, without a `..`, NUL or backslash.
/// Whoever writes those does not mean a file of the folder; a backslash separates elsewhere.
pub(crate) fn check(path: &[u8]) -> Result<(), Refusal> {
    let leaves = path.first() == Some(&b'/')
        || memchr::memchr2(0, b'\\', path).is_some()
        || path.split(|&byte| byte == b'/').any(|part| part == b"..");
    if leaves { Err(Refusal::OUTSIDE) } else { Ok(()) }
}

/// Opens a [`check`]ed path below the folder `root`, whose path is `name`; `""` is the folder itself.
/// `EXDEV` when a link leads out of it.
pub(super) fn open(root: BorrowedFd<'_>, name: &Path, path: &[u8], aim: Aim) -> Result<OwnedFd, Errno> {
    match by_kernel(root, path, aim) {
        // A link with an absolute target may still end inside.
        Err(Errno::XDEV) => {
            let (_, inside) = resolve(name, path)?;
            by_kernel(root, inside.as_os_str().as_bytes(), aim)
        }
        // The kernel, or what guards it, does not know openat2.
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::TOOBIG) => by_name(name, path, aim),
        result => result,
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn by_kernel(root: BorrowedFd<'_>, path: &[u8], aim: Aim) -> Result<OwnedFd, Errno> {
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    let resolve = fs::ResolveFlags::BENEATH | fs::ResolveFlags::NO_MAGICLINKS;
    // A rename meanwhile makes the kernel unsure, which is told by EAGAIN.
    for _ in 0..16 {
        match fs::openat2(root, path, aim.flags(), Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn by_kernel(_: BorrowedFd<'_>, _: &[u8], _: Aim) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// The folder `name` without links, and where a path leads to in it; `EXDEV` when that is outside.
fn resolve(name: &Path, path: &[u8]) -> Result<(PathBuf, PathBuf), Errno> {
    let canonical =
        |path: &Path| path.canonicalize().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOENT));
    let root = canonical(name)?;
    let target = canonical(&root.join(OsStr::from_bytes(path)))?;
    match target.strip_prefix(&root) {
        Ok(inside) => Ok((root, inside.to_path_buf())),
        Err(_) => Err(Errno::XDEV),
    }
}

/// The same without the kernel's help: whoever can change the folder meanwhile can cheat it.
pub(super) fn by_name(name: &Path, path: &[u8], aim: Aim) -> Result<OwnedFd, Errno> {
    let (root, inside) = resolve(name, path)?;
    let flags = aim.flags() | OFlags::NOFOLLOW;
    fs::open(root.join(inside), flags, Mode::empty())
}
