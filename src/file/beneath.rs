//! Paths that must not leave a folder, even if they contain `..`, links or special bytes.
//!
//! First [`check`] examines the text of the path. Then the kernel resolves the path below the folder's descriptor
//! (openat2(2) with RESOLVE_BENEATH), so no other process can replace a link in the meantime. If the kernel does not
//! support this, the path is resolved by name, and its target must be inside the folder. Links that stay inside the
//! folder are followed in both cases.

use super::Refusal;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Checks that `path` may be opened: it is not absolute, and contains no `..`, NUL or backslash. An absolute path or
/// `..` can lead out of the folder, and a backslash is a separator on some systems.
pub(crate) fn check(path: &[u8]) -> Result<(), Refusal> {
    let leaves = path.first() == Some(&b'/')
        || memchr::memchr2(0, b'\\', path).is_some()
        || path.split(|&byte| byte == b'/').any(|part| part == b"..");
    if leaves { Err(Refusal::OUTSIDE) } else { Ok(()) }
}

/// Opens a [`check`]ed path below the folder `root`, whose path is `name`; `""` is the folder itself. `flags` is
/// [`super::READ_FLAGS`] for reading the file, or [`super::METADATA_FLAGS`] for its metadata alone.
///
/// # Errors
/// Returns `EXDEV` if a link leads out of the folder, or another system error.
pub(super) fn open(root: BorrowedFd<'_>, name: &Path, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    match by_kernel(root, path, flags) {
        // The target of an absolute link may still be inside the folder.
        Err(Errno::XDEV) => {
            let (_, inside) = resolve(name, path)?;
            by_kernel(root, inside.as_os_str().as_bytes(), flags)
        }
        // The kernel, or a security filter, does not support openat2.
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::TOOBIG) => by_name(name, path, flags),
        result => result,
    }
}

/// Like [`open`], but without openat2. A process that replaces links in the folder during this call can bypass the
/// check.
pub(super) fn by_name(name: &Path, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let (root, inside) = resolve(name, path)?;
    fs::open(root.join(inside), flags | OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn by_kernel(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    let resolve = fs::ResolveFlags::BENEATH | fs::ResolveFlags::NO_MAGICLINKS;
    // The kernel returns EAGAIN if a file was renamed while it resolved the path.
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

/// Returns the path of the folder `name` with all links resolved, and the target of `path` relative to it.
///
/// # Errors
/// Returns `EXDEV` if the target is outside the folder.
fn resolve(name: &Path, path: &[u8]) -> Result<(PathBuf, PathBuf), Errno> {
    let canonical =
        |path: &Path| path.canonicalize().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOENT));
    let root = canonical(name)?;
    let target = canonical(&root.join(OsStr::from_bytes(path)))?;
    let inside = target.strip_prefix(&root).map_err(|_| Errno::XDEV)?.to_path_buf();
    Ok((root, inside))
}
