//! Messages that are sent as far as possible and otherwise queued, so that they are never mixed with others.
//!
//! If bytes are queued, the stream is armed for writing; the caller ensures that the queue is flushed.

use super::broadcast::Delivery;
use super::{Stream, TURN_BUDGET};
use bytes::Bytes;
use std::io;

impl Stream {
    /// Sends `pieces` as one message behind the queued bytes, and queues what the system does not accept. Returns whether
    /// everything was sent.
    ///
    /// # Errors
    /// The connection has failed.
    #[inline]
    pub(crate) fn deliver(&mut self, pieces: &[&[u8]]) -> io::Result<bool> {
        let mut sent = 0;
        if self.output.is_none() && self.send(pieces, &mut sent)? {
            return Ok(true);
        }
        self.queue().append(|out| {
            for piece in pieces {
                let skipped = sent.min(piece.len());
                sent -= skipped;
                out.extend_from_slice(&piece[skipped..]);
            }
        });
        Ok(false)
    }

    /// Like [`Stream::deliver`], for bytes that other queues share. If more than `most` bytes would then be queued, does
    /// nothing. Each queued message counts as its length plus the cost of an item.
    pub(crate) fn share(&mut self, message: &Bytes, most: usize) -> Delivery {
        let mut sent = 0;
        if let Some(queue) = &self.output {
            if queue.weight().saturating_add(message.len()) > most {
                return Delivery::Full;
            }
        } else {
            match self.send(&[message], &mut sent) {
                Ok(true) => return Delivery::Sent,
                Ok(false) => {}
                Err(_) => return Delivery::Closed,
            }
        }
        if sent < message.len() {
            self.queue().share(message.slice(sent..));
        } else {
            // The next flush sends the rest, which TLS holds back.
            self.queue();
        }
        Delivery::Queued
    }

    /// Returns whether the messages that were sent since the last wait are so numerous that other tasks should run.
    #[inline]
    pub(crate) fn has_spent_turn(&mut self) -> bool {
        let spent = self.messages >= TURN_BUDGET;
        if spent {
            self.messages = 0;
        }
        spent
    }
}
