//! One TLS connection on top of another transport: rustls encrypts and decrypts, this file moves the bytes.
//!
//! The session keeps no buffer of the plaintext that it sends: a call that sends encrypts at once. Encrypted bytes that
//! the transport does not accept are held back until [`TlsLink::flush`]. Bytes from the peer are decrypted at once,
//! except if the caller has no room for the plaintext.

mod output;

use self::output::Output;
use super::error::TlsError;
pub(crate) use super::lower::Lower;
use crate::socket::Attempt;
use rustix::io::{Errno, pread, retry_on_intr};
use rustls::{Connection, ProtocolVersion};
use std::cell::Cell;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;

/// The maximum number of bytes of a file that are encrypted at a time.
const FILE_PIECE: usize = 64 * 1024;
/// The maximum number of bytes that are read from the transport at a time. A read of fewer bytes shows that all
/// available bytes were read.
const READ_SIZE: usize = 64 * 1024 + 512;
/// The size of the session's buffer for incomplete records, unless they are longer.
const SESSION_BUFFER: usize = 4096;

thread_local! {
    /// Memory for bytes that are read and immediately decrypted. It is empty while a session uses it.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// TLS on top of another transport.
pub(crate) struct TlsLink<L> {
    lower: L,
    session: Session,
}

/// A [`TlsLink`] without its transport.
pub(crate) struct Session {
    tls: Connection,
    state: State,
}

#[derive(Default)]
struct State {
    /// Whether no read of the transport has been tried yet.
    untried: bool,
    /// Bytes of the peer that the session has not taken, because the caller had no room for their plaintext.
    unread: Vec<u8>,
    /// Whether the session has plaintext, or has the end of the stream.
    has_plaintext: bool,
    /// The number of bytes of the peer that the session has taken.
    taken: usize,
    /// The number of encrypted bytes that the transport has not accepted.
    held: usize,
    /// Whether close_notify was sent, and whether the transport's sending side was closed after it.
    sending_ended: bool,
    lower_ended: bool,
    /// The error that has ended the session.
    failure: Option<TlsError>,
}

/// The progress of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handshake {
    Done,
    /// The handshake continues when the transport is readable.
    Read,
    /// The handshake continues when the transport is writable.
    Write,
}

/// Room for plaintext.
struct Room<'a> {
    left: usize,
    put: &'a mut dyn FnMut(&[u8]),
}

/// A source without bytes, which has not ended.
struct NoBytes;

impl Read for NoBytes {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Session {
    pub(super) fn new(tls: Connection) -> Session {
        Session { tls, state: State::default() }
    }

    /// Passes bytes of the peer that were read from the transport before.
    pub(super) fn unread(&mut self, received: Vec<u8>) {
        self.state.unread = received;
    }
}

impl<L: Lower> TlsLink<L> {
    /// Puts a session on top of a transport.
    pub(super) fn new(lower: L, mut session: Session) -> TlsLink<L> {
        session.state.untried = true;
        TlsLink { lower, session }
    }

    /// Separates the session from its transport.
    pub(super) fn into_inner(self) -> (L, Session) {
        (self.lower, self.session)
    }

    pub(super) fn lower(&self) -> &L {
        &self.lower
    }

    pub(super) fn lower_mut(&mut self) -> &mut L {
        &mut self.lower
    }

    /// Returns the state of rustls, for its properties.
    pub(super) fn tls(&self) -> &Connection {
        &self.session.tls
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.tls.is_handshaking()
    }

    /// Returns the number of encrypted bytes that the transport has not accepted.
    pub(super) fn held(&self) -> usize {
        self.session.state.held
    }

    /// See `Link::has_plaintext`.
    pub(super) fn has_plaintext(&self) -> bool {
        let state = &self.session.state;
        state.has_plaintext || state.failure.is_some() || self.has_unread()
    }

    /// Whether there are bytes of the peer that the session has not taken, and that no event will report.
    fn has_unread(&self) -> bool {
        !self.session.state.unread.is_empty() || self.lower.has_plaintext()
    }

    pub(super) fn may_read(&self) -> bool {
        self.has_plaintext() || self.lower.may_read()
    }

    /// Continues the handshake as far as possible.
    ///
    /// # Errors
    /// An error of TLS, or of the transport. If the peer breaks a rule, it gets an alert.
    pub(crate) fn handshake(&mut self) -> io::Result<Handshake> {
        loop {
            self.check()?;
            if !self.flush()? {
                return Ok(Handshake::Write);
            }
            if !self.session.tls.is_handshaking() {
                return Ok(Handshake::Done);
            }
            if self.session.state.has_plaintext {
                return Err(self.fail(TlsError::new("the peer has closed the connection during the handshake")));
            }
            let mut no_room = Room { left: 0, put: &mut |_| {} };
            if self.advance(&mut no_room)? == Attempt::WouldBlock {
                return Ok(if self.flush()? { Handshake::Read } else { Handshake::Write });
            }
        }
    }

    /// Reads plaintext into the spare capacity of `buffer`; see `Link::receive`.
    pub(super) fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<Attempt<usize>> {
        let left = buffer.capacity() - buffer.len();
        self.receive_by(&mut Room { left, put: &mut |bytes| buffer.extend_from_slice(bytes) })
    }

    /// Reads plaintext into `room`; see `Link::receive_into`.
    pub(super) fn receive_into(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        let left = room.len();
        let mut filled = 0;
        self.receive_by(&mut Room {
            left,
            put: &mut |bytes| {
                room[filled..filled + bytes.len()].copy_from_slice(bytes);
                filled += bytes.len();
            },
        })
    }

    /// Receives what was read before. If there is nothing, reads the transport once: a peer that sends records without
    /// data must not take the turns of other connections.
    fn receive_by(&mut self, room: &mut Room<'_>) -> io::Result<Attempt<usize>> {
        let total = room.left;
        let mut may_read = !self.has_plaintext();
        loop {
            if self.session.state.has_plaintext && self.take_plaintext(room)? {
                return Ok(Attempt::Done(total - room.left));
            }
            self.check()?;
            if !self.has_unread() && !std::mem::replace(&mut may_read, false) {
                self.flush()?;
                return Ok(Attempt::WouldBlock);
            }
            let advanced = self.advance(room);
            if room.left < total {
                // An error is reported by the next call.
                return Ok(Attempt::Done(total - room.left));
            }
            if advanced? == Attempt::WouldBlock && !self.session.state.has_plaintext {
                self.flush()?;
                return Ok(Attempt::WouldBlock);
            }
        }
    }

    /// Moves decrypted bytes to `room`. Returns whether bytes were moved, or the stream has ended.
    fn take_plaintext(&mut self, room: &mut Room<'_>) -> io::Result<bool> {
        let before = room.left;
        loop {
            let mut reader = self.session.tls.reader();
            match reader.fill_buf() {
                Ok([]) => return Ok(true),
                Ok(_) if room.left == 0 => return Ok(true),
                Ok(bytes) => {
                    let count = bytes.len().min(room.left);
                    (room.put)(&bytes[..count]);
                    room.left -= count;
                    reader.consume(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.session.state.has_plaintext = false;
                    return Ok(room.left < before);
                }
                Err(_) if room.left < before => return Ok(true),
                Err(_) => {
                    let text = "the peer has closed the connection without close_notify: data may be missing";
                    return Err(self.fail(TlsError::new(text)));
                }
            }
        }
    }

    /// Decrypts the next bytes of the peer. Plaintext goes to `room` as far as it fits.
    fn advance(&mut self, room: &mut Room<'_>) -> io::Result<Attempt<()>> {
        if !self.session.state.unread.is_empty() {
            let unread = std::mem::take(&mut self.session.state.unread);
            let used = self.feed(&unread, room)?;
            self.keep_unread(&unread[used..]);
            return Ok(Attempt::Done(()));
        }
        if !self.session.state.untried && !self.lower.may_read() {
            return Ok(Attempt::WouldBlock);
        }
        let mut scratch = take_scratch();
        self.session.state.untried = false;
        let received = self.lower.receive_into(&mut scratch);
        let result = match received {
            Ok(Attempt::Done(0)) => {
                // Records the end of the peer's bytes.
                let ended = self.session.tls.read_tls(&mut io::empty());
                self.session.state.has_plaintext = true;
                ended.map(|_| Attempt::Done(()))
            }
            Ok(Attempt::Done(count)) => self.feed(&scratch[..count], room).map(|used| {
                self.keep_unread(&scratch[used..count]);
                Attempt::Done(())
            }),
            Ok(Attempt::WouldBlock) => Ok(Attempt::WouldBlock),
            Err(error) => Err(error),
        };
        SCRATCH.set(scratch);
        result
    }

    fn keep_unread(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.session.state.unread = rest.to_vec();
        }
    }

    /// Decrypts `data`. Stops when there is more plaintext than fits into `room`. Returns the number of bytes that the
    /// session has taken.
    fn feed(&mut self, data: &[u8], room: &mut Room<'_>) -> io::Result<usize> {
        let mut rest = data;
        while !rest.is_empty() {
            if self.session.state.has_plaintext && room.left == 0 {
                break;
            }
            self.session.tls.read_tls(&mut rest)?;
            let state = match self.session.tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The peer gets an alert. Plaintext of earlier records comes before the error.
                    let _ = self.flush();
                    let failure = self.fail(error.into());
                    self.session.state.has_plaintext = true;
                    self.take_plaintext(room)?;
                    return Err(failure);
                }
            };
            if state.plaintext_bytes_to_read() > 0 || state.peer_has_closed() {
                self.session.state.has_plaintext = true;
                self.take_plaintext(room)?;
            }
            if state.peer_has_closed() {
                rest = &[];
            }
        }
        if self.session.tls.wants_write() {
            self.flush()?;
        }
        let used = data.len() - rest.len();
        let taken = self.session.state.taken.saturating_add(used);
        self.session.state.taken = taken;
        if rest.is_empty() && taken > SESSION_BUFFER {
            // A long record may have made the session's buffer grow to 32 KiB. The session shrinks it before it reads.
            let _ = self.session.tls.read_tls(&mut NoBytes);
        }
        Ok(used)
    }

    /// Encrypts and sends bytes. Returns the number of bytes that were encrypted; the session may hold a part of them
    /// back.
    pub(super) fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        if !self.begin_sending()? {
            return Ok(Attempt::WouldBlock);
        }
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut count = 0;
        while count < total {
            // Short pieces share a record. The session takes a limited number of bytes at a time.
            let taken = match count {
                0 => self.session.tls.writer().write_vectored(pieces),
                _ => self.session.tls.writer().write(rest_of_piece(pieces, count)),
            };
            let taken = taken.map_err(|error| self.fail_writing(error))?;
            count += taken;
            if taken == 0 || !self.flush()? {
                break;
            }
        }
        Ok(if count == 0 && total > 0 { Attempt::WouldBlock } else { Attempt::Done(count) })
    }

    /// Encrypts and sends up to `count` bytes of a file; see `Link::send_file`.
    pub(super) fn send_file(&mut self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<Attempt<usize>> {
        if !self.begin_sending()? {
            return Ok(Attempt::WouldBlock);
        }
        let mut scratch = take_scratch();
        let result = self.send_file_by(file, offset, count, &mut scratch);
        SCRATCH.set(scratch);
        result
    }

    fn send_file_by(
        &mut self, file: BorrowedFd<'_>, offset: u64, count: usize, scratch: &mut [u8],
    ) -> io::Result<Attempt<usize>> {
        let mut sent = 0;
        while sent < count {
            let want = (count - sent).min(FILE_PIECE);
            let read = retry_on_intr(|| pread(file, &mut scratch[..want], offset + sent as u64))?;
            if read == 0 {
                break;
            }
            let taken = self.session.tls.writer().write(&scratch[..read]).map_err(|error| self.fail_writing(error))?;
            sent += taken;
            if taken == 0 || !self.flush()? {
                return Ok(if sent == 0 { Attempt::WouldBlock } else { Attempt::Done(sent) });
            }
        }
        Ok(Attempt::Done(sent))
    }

    /// Returns whether bytes can be encrypted now, because the transport has accepted all earlier bytes.
    fn begin_sending(&mut self) -> io::Result<bool> {
        self.check()?;
        if self.session.state.sending_ended {
            return Err(Errno::PIPE.into());
        }
        if self.session.tls.is_handshaking() {
            return Err(Errno::NOTCONN.into());
        }
        self.flush()
    }

    /// Sends the encrypted bytes that are held back; see `Link::flush`.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        while self.session.tls.wants_write() {
            let mut output = Output { to: &mut self.lower, is_blocked: false };
            match self.session.tls.write_tls(&mut output) {
                Ok(_) if !output.is_blocked => {}
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ if !self.session.tls.wants_write() => {}
                _ => {
                    // Without new bytes, this only counts.
                    let state = self.session.tls.process_new_packets();
                    self.session.state.held = state.map_or(1, |state| state.tls_bytes_to_write());
                    return Ok(false);
                }
            }
        }
        self.session.state.held = 0;
        if !self.lower.flush()? {
            self.session.state.held = self.lower.held();
            return Ok(false);
        }
        if self.session.state.sending_ended && !std::mem::replace(&mut self.session.state.lower_ended, true) {
            self.lower.end_sending()?;
        }
        Ok(true)
    }

    /// Sends close_notify, and then closes the sending side of the transport; see `Link::end_sending`. If bytes are
    /// held back, this happens when they are flushed.
    pub(super) fn end_sending(&mut self) -> io::Result<()> {
        self.check()?;
        if !std::mem::replace(&mut self.session.state.sending_ended, true) {
            self.session.tls.send_close_notify();
        }
        self.flush().map(|_| ())
    }

    /// Sends close_notify if the transport accepts it now, and closes the transport. Idempotent.
    pub(super) fn close(&mut self) {
        if !self.lower.is_closed() {
            if self.session.state.failure.is_none() && !self.session.state.sending_ended {
                self.session.tls.send_close_notify();
                let _ = self.flush();
            }
            self.discard_tickets();
            self.lower.close();
        }
        self.session.state.unread = Vec::new();
    }

    /// Reads the session tickets that a server of TLS 1.3 has sent to a client that receives nothing. If a socket is
    /// closed with unread bytes, the system resets the connection and discards the bytes that it has not sent yet.
    fn discard_tickets(&mut self) {
        let tls = &self.session.tls;
        if matches!(tls, Connection::Client(_)) && tls.protocol_version() == Some(ProtocolVersion::TLSv1_3) {
            let mut scratch = take_scratch();
            let _ = self.lower.receive_into(&mut scratch);
            SCRATCH.set(scratch);
        }
    }

    /// Fails if the session has failed before.
    fn check(&self) -> io::Result<()> {
        self.session.state.failure.as_ref().map_or(Ok(()), |error| Err(error.clone().into()))
    }

    /// Ends the session with an error, which is returned.
    #[cold]
    fn fail(&mut self, error: TlsError) -> io::Error {
        let error = self.session.state.failure.get_or_insert(error);
        error.clone().into()
    }

    /// Like [`TlsLink::fail`], for an error of the session's writer.
    #[cold]
    fn fail_writing(&mut self, error: io::Error) -> io::Error {
        match error.downcast::<rustls::Error>() {
            Ok(error) => self.fail(error.into()),
            Err(error) => error,
        }
    }
}

/// Returns the rest of the piece that contains the byte at `offset`.
fn rest_of_piece<'a>(pieces: &'a [IoSlice<'_>], mut offset: usize) -> &'a [u8] {
    for piece in pieces {
        if offset < piece.len() {
            return &piece[offset..];
        }
        offset -= piece.len();
    }
    &[]
}

fn take_scratch() -> Vec<u8> {
    let mut scratch = SCRATCH.take();
    if scratch.is_empty() {
        scratch.resize(READ_SIZE, 0);
    }
    scratch
}

#[cfg(any(test, feature = "fuzzing"))]
impl<L> TlsLink<L> {
    /// Returns the number of bytes of the peer that are kept before they are decrypted.
    pub(super) fn unread_length(&self) -> usize {
        self.session.state.unread.len()
    }
}

#[cfg(test)]
mod tests;
