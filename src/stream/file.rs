//! Files on a stream: the queue is sent first, then the kernel sends the file, one turn at a time.

use super::Stream;
use super::queue::{FILE_BUDGET, Sent};
use crate::socket::Attempt;
use std::io;
use std::os::fd::BorrowedFd;

impl Stream {
    /// Flushes the queue, and then sends the bytes of the file from `offset` to `offset + length`, of which `sent`
    /// bytes were sent before. Updates `sent`.
    pub(crate) fn send_file(
        &mut self, file: BorrowedFd<'_>, offset: u64, length: u64, sent: &mut u64,
    ) -> io::Result<Sent> {
        if *sent == 0 && !self.begin_message()? {
            return Ok(Sent::BudgetSpent);
        }
        if let Some(queue) = &mut self.output {
            match queue.send_all(&mut self.link, &[], &mut 0, &mut self.written, *sent < length)? {
                Sent::All => self.output = None,
                _ => return self.continue_later(),
            }
        }
        let until = length.min(sent.saturating_add(FILE_BUDGET));
        loop {
            if *sent >= length {
                if !self.link.flush()? {
                    self.queue();
                    return self.continue_later();
                }
                self.end_message(0);
                return Ok(Sent::All);
            }
            if *sent >= until {
                return self.continue_later();
            }
            let want = (until - *sent) as usize;
            let Attempt::Done(count) = self.link.send_file(file, offset + *sent, want)? else {
                return self.continue_later();
            };
            if count == 0 {
                return Ok(Sent::FileTooShort);
            }
            *sent += count as u64;
            self.written += count as u64;
            if count < want {
                return self.continue_later();
            }
        }
    }

    fn continue_later(&mut self) -> io::Result<Sent> {
        self.write_later().map(|_| Sent::BudgetSpent)
    }
}
