//! Sends a message to many streams. The queues of these streams share one buffer with the data that the system does not
//! accept immediately.

use super::Stream;
use crate::socket::Attempt;
use bytes::Bytes;

/// The result of sending a message to one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    /// The system has accepted the whole message.
    Sent,
    /// The rest of the message is queued, and is sent later.
    Queued,
    /// The message was not sent: too many earlier bytes are queued, or a task waits to send.
    Full,
    /// The stream is closed or has failed.
    Closed,
}

impl Stream {
    /// Sends a message that other streams get as well, and queues the bytes that the system does not accept. If the
    /// queue is not empty, the message is appended to it, unless the queue would then exceed `most` bytes; each queued
    /// message counts as its length plus `ITEM_COST` bytes. `copy` keeps the shared copy of the message between the
    /// calls for several streams.
    pub(crate) fn broadcast(&mut self, data: &[u8], copy: &mut Option<Bytes>, most: usize) -> Delivery {
        if self.is_closed() || self.send_failed {
            return Delivery::Closed;
        }
        let queued = self.queued();
        let weight = self.output.as_ref().map_or(0, |queue| queue.weight());
        if self.holders.has_writer || queued > 0 && weight.saturating_add(data.len()) > most {
            return Delivery::Full;
        }
        let mut sent = 0;
        if queued == 0 {
            match self.link.send(data) {
                Ok(Attempt::Done(count)) => sent = count,
                Ok(Attempt::WouldBlock) => {}
                Err(_) => {
                    self.send_failed = true;
                    return Delivery::Closed;
                }
            }
            self.written += sent as u64;
            if sent == data.len() && self.link.held() == 0 {
                return Delivery::Sent;
            }
        }
        if sent < data.len() {
            let copy = copy.get_or_insert_with(|| Bytes::copy_from_slice(data));
            self.queue().share(copy.slice(sent..));
        } else {
            // The next flush sends the rest, which TLS holds back.
            self.queue();
        }
        Delivery::Queued
    }
}
