//! The buffers of one connection: a byte stream on top of a socket, or of TLS.
//!
//! | file | topic |
//! |---|---|
//! | `buffer` | the read buffer, and the pool of free buffers |
//! | `receive` | the forms of `recv` |
//! | [`holders`] | which tasks hold the stream for reading and for writing |
//! | `parcel` | streams that are sent to another VM |
//! | [`mod@file`] | files, sent by the kernel |
//! | [`broadcast`] | messages to many streams |
//! | `deliver` | messages that are sent or queued as a whole |
//! | [`queue`] | the output queue: bytes, shared bytes, ranges of files |
//!
//! A stream is registered once, for both directions, and requests events one at a time: a call that would block also
//! arms the stream for its next event. Idle streams own no buffer.

pub(crate) mod broadcast;
mod buffer;
mod deliver;
pub(crate) mod file;
pub(crate) mod holders;
mod parcel;
pub(crate) mod queue;
mod receive;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;

pub(crate) use buffer::{Buffer, Pool, next_read};
pub(crate) use holders::Holders;
pub(crate) use receive::{Received, RecvForm};

use self::queue::{Queue, Sent};
use crate::event::{READ, WRITE};
use crate::socket::{Attempt, Socket};
use crate::tls::{Handshake, Link, Session};
use std::io;
use std::net::Shutdown;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::Rc;

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Bytes were read.
    Some,
    /// The peer has closed its sending side.
    End,
    /// Nothing is available; the stream is armed for reading.
    WouldBlock,
}

/// The maximum number of reads, or of messages sent, without a wait in between. After that, other tasks run.
const TURN_BUDGET: u32 = 32;
/// This number of sent bytes counts as one more message.
const BYTES_PER_MESSAGE: usize = buffer::SIZE;

/// One connection.
pub(crate) struct Stream {
    link: Link,
    input: Buffer,
    /// The output queue, which is sent before any later data; usually `None`.
    output: Option<Box<Queue<Rc<OwnedFd>>>>,
    pool: Rc<Pool>,
    ended: bool,
    /// Whether no read has been tried yet, so that it is unknown whether data is available.
    untried: bool,
    /// The number of buffered bytes that were searched for `last_delimiter`.
    searched: usize,
    /// The delimiter of the last unsuccessful search.
    last_delimiter: Vec<u8>,
    /// The number of reads since the stream was last armed for reading.
    reads: u32,
    /// The number of messages sent since the stream last had to wait. A long message counts as several messages.
    messages: u32,
    /// The number of the parcel, if the stream was sent to another VM; otherwise 0.
    parcel: u64,
    /// Whether the last send failed, so that the peer will receive no further data.
    send_failed: bool,
    pub(crate) holders: Holders,
    /// The total number of bytes that the system has accepted.
    pub(crate) written: u64,
}

impl Stream {
    pub(crate) fn new(socket: Socket, pool: &Rc<Pool>) -> Stream {
        Stream::over(Link::Plain(socket), pool)
    }

    /// Creates a stream on top of a transport.
    pub(crate) fn over(link: Link, pool: &Rc<Pool>) -> Stream {
        // Bytes that the transport holds back are sent by the next flush.
        let output = (link.held() > 0).then(Default::default);
        Stream {
            link,
            input: Buffer::default(),
            output,
            pool: pool.clone(),
            ended: false,
            untried: true,
            searched: 0,
            last_delimiter: Vec::new(),
            reads: 0,
            messages: 0,
            parcel: 0,
            send_failed: false,
            holders: Holders::default(),
            written: 0,
        }
    }

    /// Returns the stream's socket.
    pub(crate) fn socket(&self) -> &Socket {
        self.link.socket()
    }

    /// Returns the transport.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Requests one report of the events `bits` from the selector. If this fails, no event is reported.
    pub(crate) fn arm(&self, bits: u8) -> io::Result<()> {
        self.link.arm(bits)
    }

    /// Returns the descriptor for other libraries; -1 once the stream is closed.
    pub(crate) fn handle(&mut self) -> RawFd {
        self.link.socket_mut().handle()
    }

    /// Returns the number of the socket's shared writer; `None` while bytes are queued, or if the socket has no writer.
    /// A TLS connection has none, because only its owner can encrypt.
    pub(crate) fn shared_writer(&mut self) -> Option<u64> {
        match &mut self.link {
            Link::Plain(socket) => socket.shared_writer().filter(|_| self.queued() == 0),
            Link::Tls(_) => None,
        }
    }

    /// Returns whether the peer has closed its sending side or the connection has failed, according to the selector.
    pub(crate) fn end_was_reported(&self) -> bool {
        self.is_closed() || self.ended || self.socket().source().is_some_and(|source| source.end_was_reported())
    }

    /// Returns the bytes that were read from the peer and not consumed yet.
    pub(crate) fn buffered(&self) -> &[u8] {
        self.input.bytes()
    }

    /// Like [`Stream::buffered`]; the bytes may be changed.
    pub(crate) fn buffered_mut(&mut self) -> &mut [u8] {
        self.input.bytes_mut()
    }

    /// Removes the first `count` buffered bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.searched = 0;
        self.input.consume(count);
        if self.input.is_empty() {
            self.pool.put(self.input.release());
        }
    }

    /// Puts `bytes` before the buffered bytes, so that they are received next.
    pub(crate) fn unread(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.searched = 0;
        let mut data = Vec::with_capacity(buffer::SIZE.max(bytes.len() + self.buffered().len()));
        data.extend_from_slice(bytes);
        data.extend_from_slice(self.buffered());
        let before = std::mem::take(&mut self.input);
        self.input.adopt(data.into());
        self.pool.put({ before }.release());
    }

    /// Removes the first `consume` buffered bytes and lends the first `length` of them: they stay in memory until
    /// [`Stream::release_lent_bytes`], or until the stream is used for anything else.
    #[inline]
    pub(crate) fn lend(&mut self, length: usize, consume: usize) {
        self.searched = 0;
        self.input.lend(length, consume);
    }

    /// Returns the lent bytes.
    pub(crate) fn lent_bytes(&self) -> &[u8] {
        self.input.lent_bytes()
    }

    /// Returns whether bytes are lent, and [`Stream::release_lent_bytes`] has not been called.
    pub(crate) fn has_lent_bytes(&self) -> bool {
        self.input.has_lent_bytes()
    }

    /// Puts the lent bytes back into the buffer.
    pub(crate) fn restore_lent_bytes(&mut self) {
        self.input.restore_lent_bytes();
    }

    /// Ends the loan: the lent bytes are no longer needed.
    pub(crate) fn release_lent_bytes(&mut self) {
        self.input.release_lent_bytes();
        if self.input.is_empty() {
            self.pool.put(self.input.release());
        }
    }

    /// Returns whether the peer has closed its sending side, and all its data is buffered or consumed.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.socket().is_closed()
    }

    /// Reads once, into free space for at least `want` bytes. After a short read, which shows that all available data
    /// was read, no system call is made until the next event. If the peer sends faster than the stream is read, the
    /// result is occasionally `WouldBlock`; the next event then arrives in the next round of the loop.
    pub(crate) fn fill(&mut self, want: usize) -> io::Result<Filled> {
        if self.ended {
            return Ok(Filled::End);
        }
        if !self.untried && (self.reads >= TURN_BUDGET || !self.link.may_read()) && !self.link.has_plaintext() {
            return self.read_later();
        }
        self.untried = false;
        self.reads += 1;
        if self.input.is_vacant() {
            self.input.adopt(self.pool.take_wide());
        }
        let received = self.input.fill(want, &self.pool, |room| self.link.receive(room));
        if self.input.is_empty() {
            self.pool.put(self.input.release());
        }
        match received? {
            Attempt::Done(0) => {
                self.ended = true;
                Ok(Filled::End)
            }
            Attempt::Done(_) => Ok(Filled::Some),
            Attempt::WouldBlock => self.read_later(),
        }
    }

    /// Counts work on received bytes as this number of reads, so that other tasks run earlier.
    pub(crate) fn spend(&mut self, reads: u64) {
        self.reads = self.reads.saturating_add(u32::try_from(reads).unwrap_or(TURN_BUDGET));
    }

    /// Returns whether no data is available and the peer has not closed its sending side. Makes a system call.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.untried = true;
        self.buffered().is_empty() && matches!(self.fill(0), Ok(Filled::WouldBlock))
    }

    /// If it is certain that nothing can be received now, arms the stream for reading and returns true. Returns false
    /// in all other cases. If arming fails, the next read returns the error.
    pub(super) fn arm_if_empty(&mut self) -> bool {
        self.input.is_empty() && !(self.untried || self.ended) && !self.link.may_read() && self.read_later().is_ok()
    }

    /// Moves the buffered bytes out of the wide buffer, so that the next read of any stream can use it.
    pub(super) fn leave_wide_buffer(&mut self) {
        if self.input.is_wide() {
            let mut rest = self.pool.take();
            rest.extend_from_slice(self.input.bytes());
            self.pool.put(self.input.release());
            self.input.adopt(rest.into());
        }
    }

    fn read_later(&mut self) -> io::Result<Filled> {
        self.leave_wide_buffer();
        self.reads = 0;
        self.messages = 0;
        self.link.arm(READ)?;
        Ok(Filled::WouldBlock)
    }

    /// Returns whether another message can be sent now. If not, other tasks must run first: the stream is armed for
    /// writing, and its event arrives in the next round of the loop.
    pub(crate) fn begin_message(&mut self) -> io::Result<bool> {
        if self.messages < TURN_BUDGET { Ok(true) } else { self.write_later() }
    }

    /// Returns the output queue. Its content is sent before any later data.
    pub(crate) fn queue(&mut self) -> &mut Queue<Rc<OwnedFd>> {
        self.output.get_or_insert_default()
    }

    /// Returns the number of queued bytes that have not been sent yet, including those that TLS holds back.
    pub(crate) fn queued(&self) -> usize {
        self.output.as_ref().map_or(0, |queue| queue.queued()) + self.link.held()
    }

    /// Removes the queue and returns a copy of its unsent bytes.
    fn take_output(&mut self) -> Vec<u8> {
        self.output.take().and_then(|queue| queue.copy()).unwrap_or_default()
    }

    /// Flushes the queue and then sends `pieces`, of which `sent` bytes were sent before. Updates `sent`. Returns true
    /// if the system has accepted everything; otherwise arms the stream for writing and returns false.
    #[inline]
    pub(crate) fn send(&mut self, pieces: &[&[u8]], sent: &mut usize) -> io::Result<bool> {
        let result = match pieces {
            [only] if !only.is_empty() && *sent == 0 && self.output.is_none() => self.send_only(only, sent),
            _ => self.send_all(pieces, sent),
        };
        self.send_failed = result.is_err();
        result
    }

    /// Like [`Stream::send`] for one piece, none of which was sent before. There must be no queue.
    #[inline]
    fn send_only(&mut self, data: &[u8], sent: &mut usize) -> io::Result<bool> {
        let count = match self.link.send(data)? {
            Attempt::Done(count) => count,
            Attempt::WouldBlock => 0,
        };
        self.written += count as u64;
        *sent = count;
        if count < data.len() {
            return self.write_later();
        }
        if self.link.held() > 0 {
            // The next call flushes the transport.
            self.queue();
            return self.write_later();
        }
        Ok(self.end_message(count))
    }

    /// Counts a message of this length as sent. Returns true.
    #[inline]
    fn end_message(&mut self, length: usize) -> bool {
        let weight = u32::try_from(1 + length / BYTES_PER_MESSAGE).unwrap_or(TURN_BUDGET);
        self.messages = self.messages.saturating_add(weight);
        true
    }

    fn write_later(&mut self) -> io::Result<bool> {
        self.messages = 0;
        self.link.arm(WRITE)?;
        Ok(false)
    }

    fn send_all(&mut self, pieces: &[&[u8]], sent: &mut usize) -> io::Result<bool> {
        let mut nothing = Queue::default();
        let queue = self.output.as_deref_mut().unwrap_or(&mut nothing);
        match queue.send(&mut self.link, pieces, sent, &mut self.written)? {
            Sent::All => {
                self.output = None;
                Ok(self.end_message(pieces.iter().map(|piece| piece.len()).sum()))
            }
            _ => self.write_later(),
        }
    }

    /// Puts TLS on top of the connection, before its first message or in the middle (STARTTLS). Unread bytes belong to
    /// TLS. No bytes may be queued.
    pub(crate) fn start_tls(&mut self, session: Session) {
        self.leave_wide_buffer();
        let received = self.input.release_unread();
        self.link.start_tls(session, received);
        self.searched = 0;
        self.untried = true;
    }

    /// Continues the handshake of TLS. If it must wait, arms the stream for the event that the result names.
    ///
    /// # Errors
    /// An error of TLS, or of the socket. The stream must then be closed.
    pub(crate) fn handshake(&mut self) -> io::Result<Handshake> {
        let Some(tls) = self.link.tls_mut() else { return Ok(Handshake::Done) };
        let progress = tls.handshake()?;
        match progress {
            Handshake::Done => {}
            Handshake::Read => self.link.arm(READ)?,
            Handshake::Write => self.link.arm(WRITE)?,
        }
        Ok(progress)
    }

    /// Closes one or both directions of the connection. Before the sending side closes, TLS sends close_notify; if the
    /// transport holds it back, the stream is armed for writing, and the next [`Stream::send`] sends it.
    pub(crate) fn shut_down(&mut self, how: Shutdown) -> io::Result<()> {
        if self.link.tls().is_none() {
            return self.socket().raw()?.shutdown(how);
        }
        if how != Shutdown::Read {
            self.link.end_sending()?;
            if self.link.held() > 0 {
                self.write_later()?;
            }
        }
        if how != Shutdown::Write {
            self.ended = true;
            self.socket().raw()?.shutdown(Shutdown::Read)?;
        }
        Ok(())
    }

    /// Closes the connection and returns its buffers to the pool. TLS sends close_notify. Queued bytes are discarded.
    pub(crate) fn close(&mut self) {
        self.link.close();
        self.ended = true;
        self.pool.put(self.input.release());
        self.output = None;
        self.last_delimiter = Vec::new();
        self.drop_parcel();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close();
    }
}
