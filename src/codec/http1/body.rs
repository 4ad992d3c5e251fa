//! The body of a message that a server or a client receives: its framing, and which of the buffered bytes belong to it
//! (RFC 9112 section 6).
//!
//! The caller owns the buffer. It passes the buffered bytes, uses the reported data, removes the consumed bytes, and
//! calls again. Invariant: a body is never longer than its framing says, and a body with broken framing stays refused.

use super::chunked::Chunked;
use super::reject::Reject;
use std::ops::Range;

/// How the end of a body is determined (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body.
    #[default]
    None,
    /// The body has this many bytes, at most `i64::MAX`.
    Length(u64),
    /// The body ends with the last chunk.
    Chunked,
    /// The body ends when the connection closes; only for responses.
    UntilClose,
}

/// The part of a body that has not been returned yet.
#[derive(Debug)]
enum Rest {
    /// All data was returned, or there is no body.
    Done,
    /// The number of bytes left, at least one.
    Length(u64),
    Chunked(Box<Chunked>),
    UntilClose,
    Broken(Box<Reject>),
}

/// The result of one parsing step on the buffered bytes. Ranges and counts are relative to the start of these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyEvent {
    /// At least one byte of data, which counts as returned. The caller uses the data, and then removes `consume` bytes.
    Data { data: Range<usize>, consume: usize },
    /// The body is complete; the caller removes `consume` bytes. `trailers`: the trailer section with its blank line;
    /// empty if there is none.
    End { consume: usize, trailers: Range<usize> },
    /// The caller removes `consume` bytes. More bytes must arrive before the next step.
    More { consume: usize },
}

const TOO_LARGE: Reject = Reject::new(413, "the body is larger than allowed");

/// The body of one message.
#[derive(Debug)]
pub(crate) struct IncomingBody {
    rest: Rest,
    /// The number of data bytes returned so far.
    received: u64,
}

impl IncomingBody {
    /// No body.
    pub(crate) const NONE: IncomingBody = IncomingBody { rest: Rest::Done, received: 0 };

    /// Starts a body with this framing.
    #[inline]
    pub(crate) fn new(framing: Framing) -> Self {
        let rest = match framing {
            Framing::None | Framing::Length(0) => Rest::Done,
            Framing::Length(length) => Rest::Length(length),
            Framing::Chunked => Rest::Chunked(Box::new(Chunked::new())),
            Framing::UntilClose => Rest::UntilClose,
        };
        IncomingBody { rest, received: 0 }
    }

    /// Examines `bytes`, which begin after the bytes consumed so far. `limit`: the maximum size of the whole body in
    /// bytes.
    ///
    /// # Errors
    /// 400 for malformed framing, 431 for trailers that exceed a limit; 413 as [`check`](Self::check) does: then the
    /// bytes do not count as examined, so that a call with a larger limit continues.
    pub(crate) fn next(&mut self, bytes: &[u8], limit: u64) -> Result<BodyEvent, Reject> {
        self.check(limit)?;
        let run = match &mut self.rest {
            Rest::Done => return Ok(BodyEvent::End { consume: 0, trailers: 0..0 }),
            Rest::Broken(reject) => return Err(**reject),
            Rest::Chunked(_) => return self.next_of_chunks(bytes, limit),
            // The length is unknown until the bytes arrive.
            Rest::UntilClose if self.received + bytes.len() as u64 > limit => return Err(TOO_LARGE),
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
            return Ok(BodyEvent::More { consume: 0 });
        }
        self.received += run as u64;
        Ok(BodyEvent::Data { data: 0..run, consume: run })
    }

    /// Ends the body because the peer has closed its sending side. All received bytes must have been passed to `next`.
    /// Returns whether the body is complete.
    pub(crate) fn end(&mut self) -> bool {
        if matches!(self.rest, Rest::UntilClose) {
            self.rest = Rest::Done;
        }
        self.is_done()
    }

    /// Whether all data was returned.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.rest, Rest::Done)
    }

    /// The number of data bytes still to come, if the framing announces it.
    #[inline]
    pub(crate) fn left(&self) -> Option<u64> {
        match self.rest {
            Rest::Done => Some(0),
            Rest::Length(left) => Some(left),
            _ => None,
        }
    }

    /// The number of data bytes returned so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// The number of data bytes returned or announced. Limits apply to this number, so that a body can be refused
    /// before its data arrives.
    pub(crate) fn announced(&self) -> u64 {
        match &self.rest {
            Rest::Length(left) => self.received.saturating_add(*left),
            Rest::Chunked(decoder) => decoder.announced(),
            _ => self.received,
        }
    }

    /// Returns a refusal with status 413 if the body is, or will be, longer than `limit` bytes.
    pub(crate) fn check(&self, limit: u64) -> Result<(), Reject> {
        if self.announced() > limit { Err(TOO_LARGE) } else { Ok(()) }
    }

    fn next_of_chunks(&mut self, bytes: &[u8], limit: u64) -> Result<BodyEvent, Reject> {
        let Rest::Chunked(decoder) = &mut self.rest else {
            return Ok(BodyEvent::More { consume: 0 });
        };
        let before = **decoder;
        let decoded = decoder.next(bytes);
        if decoded.is_ok() && decoder.announced() > limit {
            **decoder = before;
            return Err(TOO_LARGE);
        }
        let decoded = decoded.inspect_err(|reject| self.rest = Rest::Broken(Box::new(*reject)))?;
        let consume = decoded.consumed;
        if let Some(data) = decoded.data {
            self.received += data.len() as u64;
            return Ok(BodyEvent::Data { data, consume });
        }
        if !decoded.done {
            return Ok(BodyEvent::More { consume });
        }
        self.rest = Rest::Done;
        Ok(BodyEvent::End { consume, trailers: decoded.trailers.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The data, the trailers, and the bytes after the body.
    type Fed = (Vec<u8>, Vec<u8>, Vec<u8>);

    /// Feeds `bytes` in pieces. Each element of `cuts`, plus one, is the length of a piece; the list repeats.
    fn feed(body: &mut IncomingBody, bytes: &[u8], cuts: &[usize]) -> Result<Fed, Reject> {
        let (mut data, mut trailers, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
        let (mut at, mut cuts) = (0, cuts.iter().cycle());
        loop {
            match body.next(&buffer, u64::MAX)? {
                BodyEvent::Data { data: run, consume } => {
                    data.extend_from_slice(&buffer[run]);
                    buffer.drain(..consume);
                }
                BodyEvent::End { consume, trailers: section } => {
                    trailers.extend_from_slice(&buffer[section]);
                    buffer.drain(..consume);
                    break;
                }
                BodyEvent::More { consume } => {
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
    fn a_body_with_a_length_ends_after_that_many_bytes() {
        let mut body = IncomingBody::new(Framing::Length(5));
        assert_eq!((body.left(), body.announced()), (Some(5), 5));
        assert_eq!(body.check(4).map_err(|reject| reject.status), Err(413));
        let (data, _, rest) = feed(&mut body, b"helloGET", &[1]).expect("well-formed");
        assert_eq!((&data[..], &rest[..]), (&b"hello"[..], &b"GET"[..]));
        assert!(body.is_done());
        assert_eq!(body.received(), 5);
    }

    #[test]
    fn the_end_of_the_stream_completes_only_a_body_without_other_framing() {
        let mut body = IncomingBody::new(Framing::UntilClose);
        let (data, ..) = feed(&mut body, b"all of it", &[3]).expect("well-formed");
        assert_eq!(data, b"all of it");
        assert!(!body.is_done() && body.end());
        assert!(!IncomingBody::new(Framing::Length(1)).end());
        assert!(!IncomingBody::new(Framing::Chunked).end());
        assert!(IncomingBody::NONE.is_done());
    }

    #[test]
    fn broken_chunks_stay_refused() {
        let mut body = IncomingBody::new(Framing::Chunked);
        assert_eq!(body.next(b"x\r\n", u64::MAX).map_err(|reject| reject.status), Err(400));
        assert_eq!(body.next(b"0\r\n\r\n", u64::MAX).map_err(|reject| reject.status), Err(400));
        assert!(!body.is_done() && !body.end());
    }

    #[test]
    fn a_chunk_is_counted_before_its_data_arrives() {
        let mut body = IncomingBody::new(Framing::Chunked);
        assert_eq!(body.next(b"a\r\n", 10), Ok(BodyEvent::More { consume: 3 }));
        assert_eq!((body.received(), body.announced()), (0, 10));
    }

    #[test]
    fn a_refusal_for_the_size_takes_no_bytes() {
        for (framing, bytes) in [
            (Framing::Chunked, &b"2;a=b\r\nxx\r\n3\r\nyyy\r\n0\r\nA: b\r\n\r\n"[..]),
            (Framing::Chunked, b"5\r\nxxyyy\r\n0\r\n\r\n"),
            (Framing::Length(5), b"xxyyy"),
            (Framing::UntilClose, b"xxyyy"),
        ] {
            let (mut body, mut data, mut at, mut refusals) = (IncomingBody::new(framing), Vec::new(), 0, 0);
            for end in 0..=bytes.len() {
                let event = body.next(&bytes[at..end], 4).or_else(|reject| {
                    assert_eq!(reject.status, 413);
                    refusals += 1;
                    body.next(&bytes[at..end], 5)
                });
                match event.expect("well-formed") {
                    BodyEvent::Data { data: run, consume } => {
                        data.extend_from_slice(&bytes[at..end][run]);
                        at += consume;
                    }
                    BodyEvent::End { consume, .. } | BodyEvent::More { consume } => at += consume,
                }
            }
            assert_eq!((&data[..], at), (&b"xxyyy"[..], bytes.len()));
            assert!(refusals > 0);
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_result(
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
            let mut body = IncomingBody::new(Framing::Chunked);
            let (data, trailers, rest) = feed(&mut body, &bytes, &cuts).expect("well-formed");
            prop_assert_eq!(data, chunks.concat());
            prop_assert_eq!(&trailers[..], section);
            prop_assert_eq!(&rest[..], b"GET / HTTP");
        }
    }
}
