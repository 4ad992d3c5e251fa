//! Paths that must not leave a folder: what `..`, links and odd bytes could be used for.
//!
//! The text is checked first. Then the kernel resolves it below the folder's descriptor (openat2(2) with
//! RESOLVE_BENEATH), so nobody can swap a link in between; where it cannot, the path is resolved by name
//! and compared. Links that stay inside the folder are followed either way.

use super::QUIET;
use crate::raw::Fault;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What a path is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Read,
    /// Only to see what it is.
    Look,
}

/// Whether a relative path may be looked up at all: not absolute, without a `..`, NUL or backslash.
/// Whoever writes those does not mean a file of the folder; a backslash separates elsewhere.
pub(crate) fn check(path: &[u8]) -> Result<(), Fault> {
    let leaves = path.first() == Some(&b'/')
        || memchr::memchr2(0, b'\\', path).is_some()
        || path.split(|&byte| byte == b'/').any(|part| part == b"..");
    match leaves {
        true => Err(Fault::word("open", "the path leaves the folder", "outside")),
        false => Ok(()),
    }
}

/// Opens a [`check`]ed path below the folder `root`, whose path is `name`; `""` is the folder itself.
/// `EXDEV` when a link leads out of it.
pub(super) fn open(root: RawFd, name: &Path, path: &[u8], aim: Aim) -> io::Result<File> {
    match by_kernel(root, path, aim) {
        // A link with an absolute target may still end inside.
        Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {
            let inside = resolve(name, path)?;
            by_kernel(root, &inside, aim)
        }
        Err(error) if is_refusal(&error) => by_name(name, path, aim),
        result => result,
    }
}

/// Whether the kernel, or what guards it, does not know openat2.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSYS | libc::EPERM | libc::EINVAL | libc::E2BIG)
    )
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn by_kernel(root: RawFd, path: &[u8], aim: Aim) -> io::Result<File> {
    use std::os::fd::FromRawFd;

    // Not made of zeros: each file that is served comes by here.
    let mut text = [const { MaybeUninit::<u8>::uninit() }; libc::PATH_MAX as usize];
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    if path.len() >= text.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    // SAFETY: the path and a NUL have room.
    unsafe {
        let start = text.as_mut_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(path.as_ptr(), start, path.len());
        start.add(path.len()).write(0);
    }
    let flags = match aim {
        Aim::Read => libc::O_RDONLY | QUIET,
        Aim::Look => libc::O_PATH | libc::O_CLOEXEC,
    };
    // SAFETY: the structure is plain numbers.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = flags as u64;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    // A rename meanwhile makes the kernel unsure, which is told by EAGAIN.
    for _ in 0..16 {
        // SAFETY: path and structure live as long as the call, and the path ends in a NUL; the descriptor is new, and ours.
        let number = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                root,
                text.as_ptr(),
                &raw const how,
                size_of::<libc::open_how>(),
            )
        };
        if number >= 0 {
            // SAFETY: as above.
            return Ok(unsafe { File::from_raw_fd(number as RawFd) });
        }
        let error = io::Error::last_os_error();
        if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
            return Err(error);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn by_kernel(_: RawFd, _: &[u8], _: Aim) -> io::Result<File> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Where a path leads to, relative to the folder `name`; `EXDEV` when that is outside.
fn resolve(name: &Path, path: &[u8]) -> io::Result<Vec<u8>> {
    let root = name.canonicalize()?;
    let target = root.join(OsStr::from_bytes(path)).canonicalize()?;
    match target.strip_prefix(&root) {
        Ok(inside) => Ok(inside.as_os_str().as_bytes().to_vec()),
        Err(_) => Err(io::Error::from_raw_os_error(libc::EXDEV)),
    }
}

/// The same without the kernel's help: whoever can change the folder meanwhile can cheat it.
pub(super) fn by_name(name: &Path, path: &[u8], aim: Aim) -> io::Result<File> {
    let inside = resolve(name, path)?;
    let target = name.canonicalize()?.join(OsStr::from_bytes(&inside));
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let look = libc::O_PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let look = QUIET;
    let flags = match aim {
        Aim::Read => QUIET,
        Aim::Look => look,
    };
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(flags | libc::O_NOFOLLOW)
        .open(target)
}
