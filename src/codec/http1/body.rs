//! The body of one message as it comes in, for servers and clients alike: how it is framed, and what of it is among the
//! bytes that were read (RFC 9112 section 6).
//!
//! The caller keeps the bytes: it hands over what it has, uses the run of data that it is told of, drops what is
//! consumed, and asks again. Invariant: a body is never longer than its framing says, and one with broken framing is
//! refused again and again.

use super::chunked::Chunked;
use super::status::Reject;
use std::ops::Range;

/// How the end of a body is told (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body.
    #[default]
    None,
    /// After so many bytes, at most `i64::MAX`.
    Length(u64),
    /// With the last chunk.
    Chunked,
    /// With the connection: only of an answer.
    UntilClose,
}

/// What is left of a body.
#[derive(Debug)]
enum Rest {
    /// All of it was handed out, or there is none.
    Done,
    /// So many bytes, at least one.
    Length(u64),
    Chunked(Box<Chunked>),
    UntilClose,
    Broken(Box<Reject>),
}

/// What is among the bytes. Ranges and counts are from their start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// Data, at least one byte. It counts as handed out; so many bytes are to be dropped after its use.
    Data { data: Range<usize>, consume: usize },
    /// The body is complete; so many bytes are to be dropped. `trailers`: the trailer section with its blank line, if
    /// there is one.
    End { consume: usize, trailers: Range<usize> },
    /// More bytes are needed than are left when so many are dropped.
    More { consume: usize },
}

/// The body of one message.
#[derive(Debug)]
pub(crate) struct Incoming {
    rest: Rest,
    /// Bytes of data that were handed out.
    received: u64,
}

impl Incoming {
    /// No body.
    pub(crate) const NONE: Incoming = Incoming { rest: Rest::Done, received: 0 };

    /// The body of a message that is framed so.
    #[inline]
    pub(crate) fn new(framing: Framing) -> Self {
        let rest = match framing {
            Framing::None | Framing::Length(0) => Rest::Done,
            Framing::Length(length) => Rest::Length(length),
            Framing::Chunked => Rest::Chunked(Box::new(Chunked::new())),
            Framing::UntilClose => Rest::UntilClose,
        };
        Incoming { rest, received: 0 }
    }

    /// What is at the start of `bytes`, which begin behind what was consumed before.
    ///
    /// # Errors
    /// 400 for framing that is malformed, 431 for trailers that are too long.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Result<Run, Reject> {
        let run = match &mut self.rest {
            Rest::Done => return Ok(Run::End { consume: 0, trailers: 0..0 }),
            Rest::Broken(reject) => return Err(**reject),
            Rest::Chunked(_) => return self.next_of_chunks(bytes),
            Rest::UntilClose => bytes.len(),
            Rest::Length(left) => {
                let run = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= run as u64;
                if *left == 0 {
                    self.rest = Rest::Done;
                }
                run
            }
        };
        if run == 0 {
            return Ok(Run::More { consume: 0 });
        }
        self.received += run as u64;
        Ok(Run::Data { data: 0..run, consume: run })
    }

    fn next_of_chunks(&mut self, bytes: &[u8]) -> Result<Run, Reject> {
        let Rest::Chunked(decoder) = &mut self.rest else {
            return Ok(Run::More { consume: 0 });
        };
        let step = decoder.next(bytes);
        let step = step.inspect_err(|reject| self.rest = Rest::Broken(Box::new(*reject)))?;
        let consume = step.consumed;
        if let Some(data) = step.data {
            self.received += data.len() as u64;
            return Ok(Run::Data { data, consume });
        }
        if !step.done {
            return Ok(Run::More { consume });
        }
        self.rest = Rest::Done;
        Ok(Run::End { consume, trailers: step.trailers.unwrap_or_default() })
    }

    /// The peer has ended its side, and all that it sent was handed over before. → whether the body is complete
    pub(crate) fn end(&mut self) -> bool {
        if matches!(self.rest, Rest::UntilClose) {
            self.rest = Rest::Done;
        }
        self.is_done()
    }

    /// Whether all of it was handed out.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.rest, Rest::Done)
    }

    /// How many bytes of data are still to come, if that is known from the start.
    #[inline]
    pub(crate) fn left(&self) -> Option<u64> {
        match self.rest {
            Rest::Done => Some(0),
            Rest::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Bytes of data that were handed out.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Bytes of data that were handed out or announced: what a limit is compared with, before the data has come.
    pub(crate) fn announced(&self) -> u64 {
        match &self.rest {
            Rest::Length(left) => self.received.saturating_add(*left),
            Rest::Chunked(decoder) => decoder.announced(),
            _ => self.received,
        }
    }

    /// Refuses a body that is, or will be, longer than `limit` bytes.
    pub(crate) fn check(&self, limit: u64) -> Result<(), Reject> {
        if self.announced() > limit { Err(Reject::new(413, "the body is larger than allowed")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Data, trailers, what is left.
    type Fed = (Vec<u8>, Vec<u8>, Vec<u8>);

    /// Feeds `bytes` cut into pieces of these lengths.
    fn feed(body: &mut Incoming, bytes: &[u8], cuts: &[usize]) -> Result<Fed, Reject> {
        let (mut data, mut trailers, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
        let (mut at, mut cuts) = (0, cuts.iter().cycle());
        loop {
            match body.next(&buffer)? {
                Run::Data { data: run, consume } => {
                    data.extend_from_slice(&buffer[run]);
                    buffer.drain(..consume);
                }
                Run::End { consume, trailers: section } => {
                    trailers.extend_from_slice(&buffer[section]);
                    buffer.drain(..consume);
                    break;
                }
                Run::More { consume } => {
                    buffer.drain(..consume);
                    let more = cuts.next().map_or(1, |cut| cut + 1).min(bytes.len() - at);
                    if more == 0 {
                        break;
                    }
                    buffer.extend_from_slice(&bytes[at..at + more]);
                    at += more;
                }
            }
        }
        buffer.extend_from_slice(&bytes[at..]);
        Ok((data, trailers, buffer))
    }

    #[test]
    fn a_length_ends_where_it_says() {
        let mut body = Incoming::new(Framing::Length(5));
        assert_eq!((body.left(), body.announced()), (Some(5), 5));
        assert_eq!(body.check(4).map_err(|reject| reject.status), Err(413));
        let (data, _, rest) = feed(&mut body, b"helloGET", &[1]).expect("right");
        assert_eq!((&data[..], &rest[..]), (&b"hello"[..], &b"GET"[..]));
        assert!(body.is_done());
        assert_eq!(body.received(), 5);
    }

    #[test]
    fn an_end_completes_only_what_has_no_other_end() {
        let mut body = Incoming::new(Framing::UntilClose);
        let (data, ..) = feed(&mut body, b"all of it", &[3]).expect("right");
        assert_eq!(data, b"all of it");
        assert!(!body.is_done() && body.end());
        assert!(!Incoming::new(Framing::Length(1)).end());
        assert!(!Incoming::new(Framing::Chunked).end());
        assert!(Incoming::NONE.is_done());
    }

    #[test]
    fn broken_chunks_stay_refused() {
        let mut body = Incoming::new(Framing::Chunked);
        assert_eq!(body.next(b"x\r\n").map_err(|reject| reject.status), Err(400));
        assert_eq!(body.next(b"0\r\n\r\n").map_err(|reject| reject.status), Err(400));
        assert!(!body.is_done() && !body.end());
    }

    #[test]
    fn a_chunk_counts_before_its_data_has_come() {
        let mut body = Incoming::new(Framing::Chunked);
        assert_eq!(body.next(b"a\r\n"), Ok(Run::More { consume: 3 }));
        assert_eq!((body.received(), body.announced()), (0, 10));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..6),
            cuts in prop::collection::vec(0usize..40, 1..8),
            trailer in any::<bool>(),
        ) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                super::super::write::chunk(&mut bytes, chunk);
            }
            let section: &[u8] = if trailer { b"A: b\r\n\r\n" } else { b"\r\n" };
            bytes.extend_from_slice(b"0\r\n");
            bytes.extend_from_slice(section);
            bytes.extend_from_slice(b"GET / HTTP");
            let mut body = Incoming::new(Framing::Chunked);
            let (data, trailers, rest) = feed(&mut body, &bytes, &cuts).expect("right");
            prop_assert_eq!(data, chunks.concat());
            prop_assert_eq!(&trailers[..], section);
            prop_assert_eq!(&rest[..], b"GET / HTTP");
        }
    }
}
