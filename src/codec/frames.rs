//! Messages with a length of two bytes before them, most significant byte first, as skynet's gate frames them. Many
//! streams, each with an integer, share one object.
//!
//! Invariant: `partial` has only streams whose last message is incomplete; such an entry has at most 65,536 bytes. Its
//! bytes are copied again only when a message is completed.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The size of the length before a message.
const HEADER: usize = 2;

/// The largest size of a message.
pub(crate) const LARGEST: usize = u16::MAX as usize;

/// The result of [`Frames::push`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// No message is complete.
    Incomplete,
    /// The only message that the bytes have completed.
    One(Vec<u8>),
    /// The bytes have completed several messages, which are queued for [`Frames::pop`].
    Several,
}

/// The incomplete messages of streams, and complete messages that wait for [`Frames::pop`].
#[derive(Default)]
pub(crate) struct Frames {
    partial: FxHashMap<i64, Vec<u8>>,
    queue: VecDeque<(i64, Vec<u8>)>,
}

/// Returns the first message of `bytes`, and the bytes after it; `None` if the message is incomplete.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    rest.split_at_checked(u16::from_be_bytes(*header).into())
}

/// Returns `message` with its length before it; `None` if the message is too long.
pub(crate) fn framed(message: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(message.len()).ok()?;
    Some([&length.to_be_bytes(), message].concat())
}

impl Frames {
    /// Adds bytes that a stream has received.
    pub(crate) fn push(&mut self, stream: i64, bytes: &[u8]) -> Pushed {
        let Some(mut known) = self.partial.remove(&stream) else {
            let (pushed, rest) = self.split(stream, bytes);
            if !rest.is_empty() {
                self.partial.insert(stream, rest.to_vec());
            }
            return pushed;
        };
        known.extend_from_slice(bytes);
        let (pushed, rest) = self.split(stream, &known);
        let rest = rest.len();
        if rest > 0 {
            known.drain(..known.len() - rest);
            self.partial.insert(stream, known);
        }
        pushed
    }

    /// Splits off the complete messages. Returns the bytes after them.
    fn split<'b>(&mut self, stream: i64, bytes: &'b [u8]) -> (Pushed, &'b [u8]) {
        let Some((message, mut rest)) = first(bytes) else { return (Pushed::Incomplete, bytes) };
        let message = message.to_vec();
        let Some((second, behind)) = first(rest) else { return (Pushed::One(message), rest) };
        self.queue.push_back((stream, message));
        self.queue.push_back((stream, second.to_vec()));
        rest = behind;
        while let Some((next, behind)) = first(rest) {
            self.queue.push_back((stream, next.to_vec()));
            rest = behind;
        }
        (Pushed::Several, rest)
    }

    /// Removes the next queued message. Returns its stream and the message.
    pub(crate) fn pop(&mut self) -> Option<(i64, Vec<u8>)> {
        self.queue.pop_front()
    }

    /// Drops the incomplete message of a stream that has ended.
    pub(crate) fn forget(&mut self, stream: i64) {
        self.partial.remove(&stream);
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        *self = Frames::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(frames: &mut Frames, stream: i64, bytes: &[u8]) -> Vec<Vec<u8>> {
        match frames.push(stream, bytes) {
            Pushed::Incomplete => Vec::new(),
            Pushed::One(message) => vec![message],
            Pushed::Several => std::iter::from_fn(|| frames.pop().map(|(_, message)| message)).collect(),
        }
    }

    #[test]
    fn one_message_is_returned_and_several_are_queued() {
        let mut frames = Frames::default();
        assert_eq!(frames.push(7, b"\0\x02hi"), Pushed::One(b"hi".to_vec()));
        assert_eq!(frames.push(7, b"\0\x01a\0\0\0\x02b"), Pushed::Several);
        assert_eq!(frames.pop(), Some((7, b"a".to_vec())));
        assert_eq!(frames.pop(), Some((7, Vec::new())));
        assert_eq!(frames.pop(), None);
        assert_eq!(frames.push(7, b"c"), Pushed::One(b"bc".to_vec()));
        assert!(frames.partial.is_empty());
    }

    #[test]
    fn streams_do_not_share_incomplete_messages() {
        let mut frames = Frames::default();
        assert_eq!(frames.push(1, b"\0"), Pushed::Incomplete);
        assert_eq!(frames.push(2, b"\0\x01x"), Pushed::One(b"x".to_vec()));
        assert_eq!(frames.push(1, b"\x01y"), Pushed::One(b"y".to_vec()));
        assert_eq!(frames.push(1, b"\0\x05ab"), Pushed::Incomplete);
        frames.forget(1);
        assert_eq!(frames.push(1, b"\0\x01z"), Pushed::One(b"z".to_vec()));
    }

    #[test]
    fn a_message_that_is_too_long_is_not_framed() {
        assert_eq!(framed(b"ab").unwrap(), b"\0\x02ab");
        assert_eq!(framed(&[0; LARGEST]).unwrap().len(), LARGEST + HEADER);
        assert_eq!(framed(&[0; LARGEST + 1]), None);
    }

    proptest! {
        #[test]
        fn messages_arrive_however_the_bytes_are_split(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            sizes in prop::collection::vec(1usize..50, 1..200),
        ) {
            let bytes: Vec<u8> = messages.iter().flat_map(|message| framed(message).unwrap()).collect();
            let (mut frames, mut found, mut at) = (Frames::default(), Vec::new(), 0);
            for size in sizes.iter().cycle() {
                if at == bytes.len() { break }
                let end = bytes.len().min(at + size);
                found.extend(all(&mut frames, 3, &bytes[at..end]));
                at = end;
            }
            prop_assert_eq!(found, messages);
            prop_assert!(frames.partial.is_empty());
        }
    }
}
