//! Files on a stream: what is queued goes out first, then the file, by the kernel, a turn at a time.

use super::{Stream, buffer::SIZE};
use crate::file::read_at;
use crate::socket::Moved;
use std::io;
use std::os::fd::BorrowedFd;

/// So many bytes of a file go out in one turn; then others get theirs.
const TURN: u64 = 512 * 1024;

/// How far a turn has come.
#[derive(Clone, Copy)]
pub(crate) enum Turn {
    /// All is taken by the system.
    Done,
    /// The rest is for another turn; the stream is armed.
    Later,
    /// The file ended before.
    Short,
}

impl Stream {
    /// Sends the queue and then the bytes from `offset` to `offset + length` of the file, of which `sent`
    /// are gone already; updates `sent`.
    pub(crate) fn send_file(
        &mut self, file: BorrowedFd<'_>, offset: u64, length: u64, sent: &mut u64,
    ) -> io::Result<Turn> {
        if *sent == 0 && !self.begin_message()? {
            return Ok(Turn::Later);
        }
        let until = length.min(sent.saturating_add(TURN));
        loop {
            if self.queued() > 0 {
                if !self.send_queue(*sent < length)? {
                    return Ok(Turn::Later);
                }
                continue;
            }
            if *sent >= length {
                self.end_message(0);
                return Ok(Turn::Done);
            }
            if *sent >= until {
                return self.go_on_later();
            }
            let want = (until - *sent) as usize;
            let Moved::Done(count) = self.transport.send_file(file, offset + *sent, want)? else {
                return self.go_on_later();
            };
            if count == 0 {
                return Ok(Turn::Short);
            }
            *sent += count as u64;
            self.written += count as u64;
            if count < want {
                return self.go_on_later();
            }
        }
    }

    fn go_on_later(&mut self) -> io::Result<Turn> {
        self.write_later().map(|_| Turn::Later)
    }

    /// Sends what is queued, with `more` to follow at once. False when it would block, the stream being
    /// armed.
    fn send_queue(&mut self, more: bool) -> io::Result<bool> {
        let queue = self.first();
        let asked = queue.len();
        let moved = match more || asked < self.queued() {
            true => self.transport.send_more(queue)?,
            false => self.transport.send(queue)?,
        };
        let count = match moved {
            Moved::Done(count) => count,
            Moved::WouldBlock => 0,
        };
        self.written += count as u64;
        self.took(count);
        if count < asked {
            self.go_on_later()?;
        }
        Ok(count == asked)
    }

    /// Appends `length` bytes of the file from `offset` to the queue: false, with nothing appended, when
    /// the file has less.
    pub(crate) fn queue_file(&mut self, file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<bool> {
        let out = self.queue();
        let begin = out.len();
        let mut got = 0;
        while got < length {
            // What the file does not have takes no memory.
            let want = (length - got).min(got.max(SIZE));
            match read_at(file, out, want, offset + got as u64) {
                Ok(count @ 1..) => got += count,
                ended => {
                    out.truncate(begin);
                    return ended.map(|_| false);
                }
            }
        }
        Ok(true)
    }
}
