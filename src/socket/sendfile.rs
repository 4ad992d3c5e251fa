//! Sends files to sockets with sendfile(2), which does not copy the data through the process. If the kernel does not
//! support this, a read and a send are used.

#![allow(unsafe_code)]

use super::{Attempt, Socket};
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread, retry_on_intr};
use std::io;
use std::os::fd::BorrowedFd;

/// The maximum number of bytes copied at once.
const MAX_COPY: usize = 64 * 1024;

impl Socket {
    /// Sends up to `count` bytes of a regular file, starting at `offset`. Returns the number of bytes sent; 0 at the
    /// end of the file.
    pub(crate) fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        match self.send_by_kernel(file, offset, count) {
            // The kernel does not support sendfile(2) at all, or not for this file.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOTSOCK) => {
                self.send_copied(file, offset, count)
            }
            sent => self.written(sent, count),
        }
    }

    /// Like [`Socket::send_file`], but with a read and a send. Bytes that the socket does not accept are read again by
    /// the next call.
    pub(super) fn send_copied(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        let mut buffer: Vec<u8> = Vec::with_capacity(count.min(MAX_COPY));
        if retry_on_intr(|| pread(file, spare_capacity(&mut buffer), offset))? == 0 {
            return Ok(Attempt::Done(0));
        }
        self.send(&buffer[..buffer.len().min(count)])
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn send_by_kernel(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> rustix::io::Result<usize> {
        let Ok(socket) = self.raw() else { return Err(Errno::BADF) };
        if i64::try_from(offset).is_err() {
            return Ok(0);
        }
        without_signal(count, || retry_on_intr(|| rustix::fs::sendfile(socket, file, Some(&mut { offset }), count)))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn send_by_kernel(&self, _: BorrowedFd<'_>, _: u64, _: usize) -> rustix::io::Result<usize> {
        Err(Errno::NOSYS)
    }
}

/// Runs a call that raises SIGPIPE if the peer has closed, and has no flag to prevent this. The signal is blocked in
/// this thread during the call, and removed if it was raised. A call that fails, or that transfers fewer than `count`
/// bytes because the peer closes in the meantime, may have raised the signal.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn without_signal<E>(count: usize, call: impl FnOnce() -> Result<usize, E>) -> Result<usize, E> {
    // SAFETY: both sets are initialised before they are read. Only this thread's signal mask changes, and it is
    // restored at the end.
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
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&pipe, std::ptr::null_mut(), &now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;
    use crate::event::signals::restore_default;
    use std::io::Write;
    use std::os::fd::AsFd;

    fn pair() -> (Socket, Socket) {
        Socket::pair(&Default::default()).unwrap()
    }

    fn file(content: &[u8]) -> std::fs::File {
        let name = format!("lio-sendfile-{}-{}", std::process::id(), content.len());
        let path = std::env::temp_dir().join(name);
        std::fs::File::create(&path).unwrap().write_all(content).unwrap();
        let opened = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        opened
    }

    fn received(socket: &Socket, count: usize) -> Vec<u8> {
        let mut room = vec![0; count];
        let Ok(Attempt::Done(got)) = socket.receive_into(&mut room) else { return Vec::new() };
        room.truncate(got);
        room
    }

    #[test]
    fn copying_sends_the_same_bytes_and_reports_the_end() {
        let (left, right) = pair();
        let content: Vec<u8> = (0..5000u32).map(|byte| byte as u8).collect();
        let file = file(&content);
        let sent = left.send_copied(file.as_fd(), 100, 400).unwrap();
        assert!(matches!(sent, Attempt::Done(400)));
        assert_eq!(received(&right, 1000), &content[100..500]);
        let sent = left.send_copied(file.as_fd(), 4900, 400).unwrap();
        assert!(matches!(sent, Attempt::Done(100)));
        let end = left.send_copied(file.as_fd(), 5000, 400).unwrap();
        assert!(matches!(end, Attempt::Done(0)));
    }

    /// Regression: a transfer ended the process if the peer had received a part of the data before closing.
    #[test]
    fn a_peer_that_closes_during_a_transfer_raises_no_signal() {
        // The signal would end the test's process.
        restore_default(libc::SIGPIPE);
        let moved = without_signal(10, || {
            // SAFETY: the call sends the signal to this thread, as the kernel does.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE) };
            Ok::<_, ()>(5)
        });
        assert_eq!(moved, Ok(5));
    }

    #[test]
    fn a_peer_that_has_closed_raises_no_signal() {
        // The signal would end the process of the test.
        restore_default(libc::SIGPIPE);
        let (left, mut right) = pair();
        right.close();
        let file = file(b"some bytes");
        let failed = left.send_file(file.as_fd(), 0, 10);
        let errno = failed.err().and_then(|error| error.raw_os_error());
        assert_eq!(errno, Some(libc::EPIPE));
        // SAFETY: the set is a local variable that sigpending(2) fills.
        let pending = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&mut set);
            libc::sigismember(&set, libc::SIGPIPE)
        };
        assert_eq!(pending, 0);
    }
}
