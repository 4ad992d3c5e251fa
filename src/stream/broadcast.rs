//! Messages that many streams get: what the system does not take at once stands in all of their queues as one buffer.

use super::Stream;
use crate::socket::Moved;
use bytes::Bytes;

/// What became of a message for one of many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// The system has taken all of it.
    Sent,
    /// The rest of it is queued, for others to send.
    Queued,
    /// Nothing of it is queued: too much of what came before is, or a task waits to send.
    Full,
    /// The stream is closed, or has failed.
    Closed,
}

impl Stream {
    /// Sends a message that others get as well, and queues what the system does not take. Where something is queued
    /// already, the message goes behind it, unless there would be more than `most` bytes then, each message counted with a
    /// few more. `copy` keeps the copy of it that all of them share.
    pub(crate) fn tell(&mut self, data: &[u8], copy: &mut Option<Bytes>, most: usize) -> Told {
        if self.is_closed() || self.send_failed {
            return Told::Closed;
        }
        let queued = self.queued();
        let weight = self.output.as_ref().map_or(0, |queue| queue.weight());
        if self.turns.writes || queued > 0 && weight.saturating_add(data.len()) > most {
            return Told::Full;
        }
        let mut sent = 0;
        if queued == 0 {
            match self.socket.send(data) {
                Ok(Moved::Done(count)) => sent = count,
                Ok(Moved::WouldBlock) => {}
                Err(_) => {
                    self.send_failed = true;
                    return Told::Closed;
                }
            }
            self.written += sent as u64;
            if sent == data.len() {
                return Told::Sent;
            }
        }
        let copy = copy.get_or_insert_with(|| Bytes::copy_from_slice(data));
        self.queue().share(copy.slice(sent..));
        Told::Queued
    }
}
