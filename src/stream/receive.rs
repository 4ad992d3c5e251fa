//! The forms of `recv`: available data, exactly n bytes, up to a delimiter, up to the end.
//!
//! All forms work within the read buffer, and need less memory than the requested size plus the size of one read. The
//! caller creates one Lua string from the result.

use super::buffer::next_read;
use super::{Filled, Stream};
use memchr::memmem;
use std::io;

/// The form of the data to receive.
#[derive(Clone, Copy)]
pub(crate) enum RecvForm<'a> {
    /// The available data, at least one byte.
    Any,
    /// Exactly this number of bytes.
    Exactly(usize),
    /// A line: up to LF, without the LF and without a CR before the LF.
    Line { limit: usize },
    /// Up to a delimiter, without the delimiter.
    Until { delimiter: &'a [u8], limit: usize },
    /// Up to the end of the stream.
    All { limit: usize },
}

/// The result of [`Stream::receive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    /// The first `length` buffered bytes are the result; the caller then removes `consume` bytes.
    Ready { length: usize, consume: usize },
    /// The data is incomplete; the stream is armed.
    WouldBlock,
    /// The stream has ended before the data was complete; the rest of the stream is buffered.
    Ended,
    /// The data is longer than the limit.
    TooLong,
}

impl Stream {
    /// Tries to receive data of this form. Reads as long as data is available and the result is incomplete.
    #[inline]
    pub(crate) fn receive(&mut self, form: RecvForm<'_>) -> io::Result<Received> {
        match form {
            RecvForm::Any => self.receive_any(),
            form => self.receive_form(form),
        }
    }

    #[inline]
    fn receive_any(&mut self) -> io::Result<Received> {
        if self.input.is_empty() {
            match self.fill(0)? {
                Filled::Some => {}
                Filled::WouldBlock => return Ok(Received::WouldBlock),
                Filled::End => return Ok(Received::Ended),
            }
        }
        Ok(whole(self.buffered().len()))
    }

    fn receive_form(&mut self, form: RecvForm<'_>) -> io::Result<Received> {
        loop {
            if let Some(received) = self.find(form) {
                return Ok(received);
            }
            let buffered = self.buffered().len();
            let want = match form {
                RecvForm::Exactly(count) => next_read(count, buffered),
                _ => 0,
            };
            match self.fill(want)? {
                Filled::Some => {}
                Filled::WouldBlock => return Ok(Received::WouldBlock),
                Filled::End => return Ok(self.at_end(form)),
            }
        }
    }

    fn at_end(&self, form: RecvForm<'_>) -> Received {
        match form {
            RecvForm::All { .. } => whole(self.buffered().len()),
            _ => Received::Ended,
        }
    }

    /// Returns the result if the buffered bytes determine it.
    fn find(&mut self, form: RecvForm<'_>) -> Option<Received> {
        let buffered = self.buffered().len();
        match form {
            RecvForm::Any => (buffered > 0).then(|| whole(buffered)),
            RecvForm::Exactly(count) => (buffered >= count).then(|| whole(count)),
            RecvForm::All { limit } => (buffered > limit).then_some(Received::TooLong),
            RecvForm::Line { limit } => self.search(b"\n", limit, true),
            RecvForm::Until { delimiter, limit } => self.search(delimiter, limit, false),
        }
    }

    fn search(&mut self, delimiter: &[u8], limit: usize, line: bool) -> Option<Received> {
        if self.searched > 0 && self.last_delimiter != delimiter {
            self.searched = 0;
        }
        let bytes = self.input.bytes();
        let from = self.searched.min(bytes.len());
        let Some(found) = memmem::find(&bytes[from..], delimiter) else {
            let too_long = is_too_long(bytes, delimiter, limit, line);
            // The delimiter may begin in the bytes searched so far.
            self.searched = (bytes.len() + 1).saturating_sub(delimiter.len());
            if self.last_delimiter != delimiter {
                self.last_delimiter.clear();
                self.last_delimiter.extend_from_slice(delimiter);
            }
            return too_long.then_some(Received::TooLong);
        };
        let end = from + found;
        let cut = line && end > 0 && bytes[end - 1] == b'\r';
        let length = end - usize::from(cut);
        if length > limit {
            return Some(Received::TooLong);
        }
        Some(Received::Ready { length, consume: end + delimiter.len() })
    }
}

/// Returns whether `bytes`, which contain no delimiter, exceed the limit regardless of the bytes that follow. The limit
/// is not exceeded if a delimiter may have begun at the limit or before.
fn is_too_long(bytes: &[u8], delimiter: &[u8], limit: usize, line: bool) -> bool {
    if bytes.len() <= limit {
        return false;
    }
    if line {
        return bytes.len() > limit + 1 || bytes[limit] != b'\r';
    }
    let first = (bytes.len() + 1).saturating_sub(delimiter.len());
    !(first..=limit).any(|start| delimiter.starts_with(&bytes[start..]))
}

fn whole(length: usize) -> Received {
    Received::Ready { length, consume: length }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns whether some continuation of `bytes` has a result within the limit.
    fn can_be_saved(bytes: &[u8], delimiter: &[u8], limit: usize, line: bool) -> bool {
        bytes.len() <= limit
            || (0..=delimiter.len()).any(|from| {
                let whole = [bytes, &delimiter[from..]].concat();
                memmem::find(&whole, delimiter).is_some_and(|end| {
                    let cut = line && end > 0 && whole[end - 1] == b'\r';
                    end - usize::from(cut) <= limit
                })
            })
    }

    proptest! {
        #[test]
        fn too_long_is_reported_exactly_when_it_is_certain(
            bytes in prop::collection::vec(prop::sample::select(b"ab\r".as_slice()), 0..12),
            delimiter in prop::collection::vec(prop::sample::select(b"ab\r".as_slice()), 1..5),
            limit in 0usize..12,
        ) {
            if memmem::find(&bytes, &delimiter).is_none() {
                prop_assert_eq!(
                    is_too_long(&bytes, &delimiter, limit, false),
                    !can_be_saved(&bytes, &delimiter, limit, false)
                );
            }
            prop_assert_eq!(
                is_too_long(&bytes, b"\n", limit, true),
                !can_be_saved(&bytes, b"\n", limit, true)
            );
        }
    }
}
