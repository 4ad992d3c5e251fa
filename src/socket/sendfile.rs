//! Files to sockets without a copy through the process: sendfile(2), or what stands in for it.

use super::{Moved, Socket};
use crate::raw::file::read_at;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// So much is copied at once where the kernel does not do it.
const COPIED: usize = 64 * 1024;

impl Socket {
    /// Sends `count` bytes of a regular file from `offset`: how many went, 0 when the file has no more.
    pub(crate) fn send_file(
        &self,
        file: RawFd,
        offset: u64,
        count: usize,
    ) -> io::Result<Moved<usize>> {
        let result = by_kernel(self.number(), file, offset, count);
        if result.as_ref().is_err_and(is_refusal) {
            return self.send_copied(file, offset, count);
        }
        self.written(result, count)
    }

    /// The same by a read and a send. What the socket does not take is read again the next time.
    pub(super) fn send_copied(
        &self,
        file: RawFd,
        offset: u64,
        count: usize,
    ) -> io::Result<Moved<usize>> {
        let mut buffer: Vec<u8> = Vec::with_capacity(count.min(COPIED));
        let room: &mut [MaybeUninit<u8>] = buffer.spare_capacity_mut();
        let most = count.min(room.len());
        let got = read_at(file, &mut room[..most], offset)?;
        if got == 0 {
            return Ok(Moved::Done(0));
        }
        // SAFETY: so many bytes of the room were read into.
        unsafe { buffer.set_len(got) };
        self.send(&buffer)
    }
}

/// Whether the kernel cannot do it with this file, or at all.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENOTSOCK)
    )
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn by_kernel(socket: RawFd, file: RawFd, offset: u64, count: usize) -> io::Result<usize> {
    let Ok(mut from) = libc::off64_t::try_from(offset) else {
        return Ok(0);
    };
    without_signal(count, || {
        loop {
            // SAFETY: plain numbers, and a place for the offset.
            let sent = unsafe { libc::sendfile64(socket, file, &mut from, count) };
            if sent >= 0 {
                return Ok(sent as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn by_kernel(_: RawFd, _: RawFd, _: u64, _: usize) -> io::Result<usize> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Runs a call that raises SIGPIPE when the peer is gone, and for which there is no flag against it: the
/// signal is held off in this thread, and taken back when it came. A call that has moved less than `count`
/// bytes may have raised it, too: the peer went in the middle.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn without_signal(count: usize, call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    // SAFETY: the sets are plain numbers, filled before they are read; only this thread's mask changes,
    // and is what it was in the end.
    unsafe {
        let mut pipe: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut before);
        let result = call();
        if libc::sigismember(&before, libc::SIGPIPE) == 1 {
            return result;
        }
        if !matches!(result, Ok(moved) if moved == count) {
            let now = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            libc::sigtimedwait(&pipe, std::ptr::null_mut(), &now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;
    use crate::selector::descriptor::Owned;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::rc::Rc;

    fn pair() -> (Socket, Socket) {
        let owned: Rc<Owned> = Rc::default();
        Socket::pair(&owned).unwrap()
    }

    fn file(content: &[u8]) -> std::fs::File {
        let name = format!("lio-sendfile-{}-{}", std::process::id(), content.len());
        let path = std::env::temp_dir().join(name);
        std::fs::File::create(&path)
            .unwrap()
            .write_all(content)
            .unwrap();
        let opened = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        opened
    }

    fn received(socket: &Socket, count: usize) -> Vec<u8> {
        let mut room = vec![MaybeUninit::uninit(); count];
        let Ok(Moved::Done(got)) = socket.receive(&mut room) else {
            return Vec::new();
        };
        // SAFETY: so many bytes were received.
        room[..got]
            .iter()
            .map(|byte| unsafe { byte.assume_init() })
            .collect()
    }

    #[test]
    fn what_the_kernel_refuses_is_copied_and_the_end_is_told() {
        let (left, right) = pair();
        let content: Vec<u8> = (0..5000u32).map(|byte| byte as u8).collect();
        let file = file(&content);
        let sent = left.send_copied(file.as_raw_fd(), 100, 400).unwrap();
        assert!(matches!(sent, Moved::Done(400)));
        assert_eq!(received(&right, 1000), &content[100..500]);
        let sent = left.send_copied(file.as_raw_fd(), 4900, 400).unwrap();
        assert!(matches!(sent, Moved::Done(100)));
        let end = left.send_copied(file.as_raw_fd(), 5000, 400).unwrap();
        assert!(matches!(end, Moved::Done(0)));
    }

    /// A transfer of which the peer had taken a part when it went ended the process.
    #[test]
    fn a_peer_that_goes_in_the_middle_raises_no_signal() {
        // SAFETY: the test's own process; SIGPIPE would end it.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let moved = without_signal(10, || {
            // SAFETY: the signal goes to this thread, as the kernel's does.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE) };
            Ok(5)
        });
        assert_eq!(moved.ok(), Some(5));
    }

    #[test]
    fn a_peer_that_is_gone_raises_no_signal() {
        // SAFETY: the test's own process; SIGPIPE would end it.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (left, mut right) = pair();
        right.close();
        let file = file(b"some bytes");
        let failed = left.send_file(file.as_raw_fd(), 0, 10);
        let errno = failed.err().and_then(|error| error.raw_os_error());
        assert_eq!(errno, Some(libc::EPIPE));
        // SAFETY: plain numbers.
        let pending = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&mut set);
            libc::sigismember(&set, libc::SIGPIPE)
        };
        assert_eq!(pending, 0);
    }
}
