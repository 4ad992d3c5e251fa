//! Paths that must not leave a folder: what `..`, links and odd bytes could be used for.
//!
//! The text is checked first. Then the kernel resolves it below the folder's descriptor (openat2(2) with
//! RESOLVE_BENEATH), so nobody can swap a link in between; where it cannot, the path is resolved by name
//! and compared. Links that stay inside the folder are followed either way.

use super::Refusal;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether a relative path may be looked up at all: not absolute, without a `..`, NUL or backslash.
/// Whoever writes those does not mean a file of the folder; a backslash separates elsewhere.
pub(crate) fn check(path: &[u8]) -> Result<(), Refusal> {
    let leaves = path.first() == Some(&b'/')
        || memchr::memchr2(0, b'\\', path).is_some()
        || path.split(|&byte| byte == b'/').any(|part| part == b"..");
    if leaves { Err(Refusal::OUTSIDE) } else { Ok(()) }
}

/// Opens a [`check`]ed path below the folder `root`, whose path is `name`; `""` is the folder itself.
/// `EXDEV` when a link leads out of it. `flags`: [`super::QUIET`] to read it, [`super::INSPECT`] only to see what it is.
pub(super) fn open(root: BorrowedFd<'_>, name: &Path, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    match by_kernel(root, path, flags) {
        // A link with an absolute target may still end inside.
        Err(Errno::XDEV) => {
            let (_, inside) = resolve(name, path)?;
            by_kernel(root, inside.as_os_str().as_bytes(), flags)
        }
        // The kernel, or what guards it, does not know openat2.
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::TOOBIG) => by_name(name, path, flags),
        result => result,
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn by_kernel(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    let resolve = fs::ResolveFlags::BENEATH | fs::ResolveFlags::NO_MAGICLINKS;
    // A rename meanwhile makes the kernel unsure, which is told by EAGAIN.
    for _ in 0..16 {
        match fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn by_kernel(_: BorrowedFd<'_>, _: &[u8], _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// The folder `name` without links, and where a path leads to in it; `EXDEV` when that is outside.
fn resolve(name: &Path, path: &[u8]) -> Result<(PathBuf, PathBuf), Errno> {
    let canonical =
        |path: &Path| path.canonicalize().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOENT));
    let root = canonical(name)?;
    let target = canonical(&root.join(OsStr::from_bytes(path)))?;
    let inside = target.strip_prefix(&root).map_err(|_| Errno::XDEV)?.to_path_buf();
    Ok((root, inside))
}

/// The same without the kernel's help: whoever can change the folder meanwhile can cheat it.
pub(super) fn by_name(name: &Path, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let (root, inside) = resolve(name, path)?;
    fs::open(root.join(inside), flags | OFlags::NOFOLLOW, Mode::empty())
}
