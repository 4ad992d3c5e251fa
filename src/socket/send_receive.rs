//! Sending and receiving. `modules/socket/send_receive.rs` checks the arguments, and distinguishes the end of a
//! stream from an empty datagram.
//!
//! Invariant: if a transfer shows that the socket is not ready, this is reported to the selectors.

use super::address::from_rustix;
use super::{Attempt, Socket};
use crate::event::Source;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, recvfrom, send, sendmsg};
use socket2::SockAddr;
use std::io::{self, IoSlice};

impl Socket {
    /// recv(2) into the spare capacity of `buffer`, which must be at least one byte. A result of 0 means the end of the
    /// stream.
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut Vec<u8>) -> io::Result<Attempt<usize>> {
        let socket = self.open()?;
        let size = buffer.capacity() - buffer.len();
        let received = retry_on_intr(|| Ok(recv(socket, spare_capacity(buffer), RecvFlags::empty())?.1));
        self.received(received, size)
    }

    /// recv(2) into `room`, which must not be empty.
    pub(crate) fn receive_into(&self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        let socket = self.open()?;
        let received = retry_on_intr(|| Ok(recv(socket, &mut *room, RecvFlags::empty())?.1));
        self.received(received, room.len())
    }

    /// recvfrom(2). Returns the number of bytes received, and the address of the sender.
    pub(crate) fn receive_from(&self, room: &mut [u8]) -> io::Result<Attempt<(usize, Option<SockAddr>)>> {
        let socket = self.open()?;
        match retry_on_intr(|| recvfrom(socket, &mut *room, RecvFlags::empty())) {
            Ok((count, _, from)) => Ok(Attempt::Done((count, from.and_then(from_rustix)))),
            Err(error) => self.read_failed(error),
        }
    }

    /// send(2), without SIGPIPE. The result may be less than the length of `data`.
    pub(crate) fn send(&self, data: &[u8]) -> io::Result<Attempt<usize>> {
        self.send_with(data, SendFlags::NOSIGNAL)
    }

    /// Like `send`, but more data follows immediately, so the system does not send a short packet yet.
    pub(crate) fn send_more(&self, data: &[u8]) -> io::Result<Attempt<usize>> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let flags = SendFlags::NOSIGNAL;
        self.send_with(data, flags)
    }

    /// Sends several pieces with sendmsg(2).
    pub(crate) fn send_pieces(&self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        let socket = self.open()?;
        let total = pieces.iter().map(|piece| piece.len()).sum();
        let sent = retry_on_intr(|| {
            let nothing = &mut SendAncillaryBuffer::default();
            sendmsg(socket, pieces, nothing, SendFlags::NOSIGNAL)
        });
        self.written(sent, total)
    }

    /// sendto(2).
    pub(crate) fn send_to(&self, data: &[u8], to: &SockAddr) -> io::Result<Attempt<usize>> {
        let flags = SendFlags::NOSIGNAL.bits() as i32;
        let socket = self.open()?;
        loop {
            let sent = socket.send_to_with_flags(data, to, flags);
            let sent = sent.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
            if !matches!(sent, Err(Errno::INTR)) {
                return self.written(sent, data.len());
            }
        }
    }

    /// Updates the readiness after an attempt to send `total` bytes, whose result was `sent`.
    #[inline]
    pub(super) fn written(&self, sent: rustix::io::Result<usize>, total: usize) -> io::Result<Attempt<usize>> {
        match sent {
            Ok(count) => {
                if count < total {
                    self.report(Source::write_blocked);
                }
                Ok(Attempt::Done(count))
            }
            Err(Errno::WOULDBLOCK) => {
                self.report(Source::write_blocked);
                Ok(Attempt::WouldBlock)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Updates the readiness with `found`, unless the socket is closed.
    #[inline]
    fn report(&self, found: impl FnOnce(&Source)) {
        if let Some(source) = self.source() {
            found(source);
        }
    }

    #[inline]
    fn received(&self, received: rustix::io::Result<usize>, size: usize) -> io::Result<Attempt<usize>> {
        match received {
            Ok(count) => {
                if self.protocol.is_stream() && count != 0 && count < size {
                    self.report(Source::read_short);
                }
                Ok(Attempt::Done(count))
            }
            Err(error) => self.read_failed(error),
        }
    }

    fn read_failed<T>(&self, error: Errno) -> io::Result<Attempt<T>> {
        match error {
            Errno::WOULDBLOCK => {
                self.report(Source::read_blocked);
                Ok(Attempt::WouldBlock)
            }
            _ => Err(error.into()),
        }
    }

    #[inline]
    fn send_with(&self, data: &[u8], flags: SendFlags) -> io::Result<Attempt<usize>> {
        let socket = self.open()?;
        let sent = retry_on_intr(|| send(socket, data, flags));
        self.written(sent, data.len())
    }
}
