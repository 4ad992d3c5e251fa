//! Incremental parser of `multipart/form-data` (RFC 7578, framing by RFC 2046 section 5.1).
//!
//! `form` reads the body part by part. Invariants: the work is linear in the number of bytes fed, regardless of how
//! they are split. The parser stores only one piece, at most a boundary's length of the previous piece, and the headers
//! of one part up to their limit. A malformed body is refused with a [`Reject`] at its first fault.

pub(crate) mod disposition;
pub(crate) mod form;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;

use super::http1::fields::{self, Field, Section};
use super::http1::reject::Reject;
use disposition::Disposition;
use memchr::memmem::Finder;
use std::ops::Range;

/// The maximum number of header fields of a part.
pub(crate) const MAX_PART_FIELDS: usize = 16;
/// The maximum number of bytes of white space after a boundary.
const MAX_PADDING: u32 = 64;

/// The limits of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The maximum number of parts (fields and files together).
    pub(crate) parts: u64,
    /// The maximum number of bytes of one part's header section.
    pub(crate) headers: usize,
}

/// The next event in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// More bytes are needed. Only bytes that cannot be interpreted yet remain in the buffer.
    More,
    /// A part begins: [`Multipart::part`] returns its headers.
    Part,
    /// Data of the current part, never empty: a range of [`Multipart::bytes`], valid until the next call.
    Data(Range<usize>),
    /// The current part is complete.
    PartEnd,
    /// The last boundary has arrived; the bytes after it are ignored.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first boundary, where text is ignored.
    Preamble,
    /// After a boundary and `padding` bytes of white space.
    Boundary { padding: u32 },
    /// Before the line feed of a boundary's line.
    BoundaryFeed,
    /// Within a header section; its first `searched` bytes do not contain its end.
    Headers { searched: usize },
    /// After a header section, before its last CRLF, which a boundary may share.
    Begin,
    /// Within a part's data.
    Data,
    /// After the last boundary and `padding` bytes of white space.
    Last { padding: u32 },
    /// Before the line feed after the last boundary.
    LastFeed,
    /// Complete.
    Epilogue,
}

/// A part's header section.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// The name and the file name of the part.
    pub(crate) disposition: Disposition,
    section: Vec<u8>,
    fields: [Field; MAX_PART_FIELDS],
    count: usize,
}

impl Part {
    /// Returns the names and values of the header fields in order, as sent.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = self.fields[..self.count].iter();
        fields.map(|field| (field.name.of(&self.section), field.value.of(&self.section)))
    }
}

/// The state of one body.
pub(crate) struct Multipart {
    state: State,
    /// The limits; `parts` counts down to 0.
    limits: Limits,
    /// Searches for the delimiter: CRLF, two dashes and the boundary.
    delimiter: Finder<'static>,
    /// The buffered bytes. The bytes from offset `start` on have not been processed yet.
    buffer: Vec<u8>,
    start: usize,
    part: Part,
}

impl Multipart {
    /// Returns a parser at the start of a body with this `Content-Type`.
    ///
    /// # Errors
    /// 415 if the type is not `multipart/form-data`; 400 if it has no valid boundary.
    pub(crate) fn new(content_type: &[u8], limits: Limits) -> Result<Self, Reject> {
        let boundary = disposition::boundary(content_type)?;
        let delimiter = [b"\r\n--", &boundary[..]].concat();
        Ok(Self {
            state: State::Preamble,
            limits,
            delimiter: Finder::new(&delimiter).into_owned(),
            // A delimiter starts with CRLF. The body can start with a boundary without this CRLF.
            buffer: b"\r\n".to_vec(),
            start: 0,
            part: Part::default(),
        })
    }

    /// Adds the next piece of the body. Call this only after [`Event::More`], so that the buffer stays small.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        if self.state == State::Epilogue {
            return;
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(piece);
    }

    /// Ends the body.
    ///
    /// # Errors
    /// 400 if the last boundary is missing.
    pub(crate) fn end(&mut self) -> Result<(), Reject> {
        match self.state {
            State::Epilogue | State::Last { .. } => {
                self.state = State::Epilogue;
                Ok(())
            }
            _ => Err(Reject::bad("the form ends before its last boundary")),
        }
    }

    /// The buffer that [`Event::Data`] points into.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The part that began most recently.
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }

    /// Returns the next event.
    ///
    /// # Errors
    /// 400 for malformed input, 413 for too many parts or headers. The parser must not be used after an error.
    pub(crate) fn next(&mut self) -> Result<Event, Reject> {
        loop {
            match self.state {
                State::Preamble => match self.content() {
                    Event::Data(_) | Event::PartEnd => {}
                    other => return Ok(other),
                },
                State::Data => return Ok(self.content()),
                State::Begin => {
                    if let Some(event) = self.shared_boundary() {
                        return Ok(event);
                    }
                }
                State::Headers { searched } => {
                    return Ok(if self.headers(searched)? { Event::Part } else { Event::More });
                }
                State::Epilogue => {
                    self.start = self.buffer.len();
                    return Ok(Event::Done);
                }
                _ => {
                    if !self.boundary_line()? {
                        return Ok(Event::More);
                    }
                }
            }
        }
    }

    /// The bytes that have not been processed yet.
    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Returns the data before the next boundary. If a boundary is next, consumes it and ends the part.
    fn content(&mut self) -> Event {
        let start = self.start;
        match self.delimiter.find(self.rest()) {
            Some(0) => {
                self.start += self.delimiter.needle().len();
                self.state = State::Boundary { padding: 0 };
                Event::PartEnd
            }
            Some(run) => {
                self.start += run;
                Event::Data(start..start + run)
            }
            None => {
                self.start = self.buffer.len() - self.held_back();
                if self.start > start { Event::Data(start..self.start) } else { Event::More }
            }
        }
    }

    /// Returns the number of bytes at the end of the buffer that might be the start of a delimiter. The only carriage
    /// return of a delimiter is its first byte, so only the last carriage return in the buffer can be the start.
    fn held_back(&self) -> usize {
        let rest = self.rest();
        let needle = self.delimiter.needle();
        let tail = &rest[rest.len().saturating_sub(needle.len() - 1)..];
        match memchr::memrchr(b'\r', tail) {
            Some(at) if needle.starts_with(&tail[at..]) => tail.len() - at,
            _ => 0,
        }
    }

    /// Handles a boundary directly after a header section: both share a CRLF, and the part has no data (RFC 2046
    /// section 5.1.1, body-part). If data follows instead, skips the CRLF and returns `None`.
    fn shared_boundary(&mut self) -> Option<Event> {
        let (rest, needle) = (self.rest(), self.delimiter.needle());
        if rest.starts_with(needle) {
            return Some(self.content());
        }
        if rest.len() < needle.len() && needle.starts_with(rest) {
            return Some(Event::More);
        }
        self.start += 2;
        self.state = State::Data;
        None
    }

    /// Consumes the next element of a boundary line, after the boundary itself. Returns false if more bytes are needed.
    fn boundary_line(&mut self) -> Result<bool, Reject> {
        let rest = self.rest();
        let (state, used) = match (self.state, rest) {
            (_, []) => return Ok(false),
            (State::Boundary { padding: 0 }, [b'-']) => return Ok(false),
            (State::Boundary { padding: 0 }, [b'-', b'-', ..]) => (State::Last { padding: 0 }, 2),
            (State::Boundary { padding }, [b' ' | b'\t', ..]) if padding < MAX_PADDING => {
                (State::Boundary { padding: padding + 1 }, 1)
            }
            (State::Boundary { .. }, [b'\r', ..]) => (State::BoundaryFeed, 1),
            (State::BoundaryFeed, [b'\n', ..]) => {
                let left = self.limits.parts.checked_sub(1);
                self.limits.parts = left.ok_or(Reject::new(413, "the form has too many parts"))?;
                (State::Headers { searched: 0 }, 1)
            }
            (State::Last { padding }, [b' ' | b'\t', ..]) if padding < MAX_PADDING => {
                (State::Last { padding: padding + 1 }, 1)
            }
            (State::Last { .. }, [b'\r', ..]) => (State::LastFeed, 1),
            (State::LastFeed, [b'\n', ..]) => (State::Epilogue, 1),
            _ => return Err(Reject::bad("malformed boundary line")),
        };
        self.state = state;
        self.start += used;
        Ok(true)
    }

    /// Parses a header section once it is complete, and stops before its last CRLF. Returns false if more bytes are
    /// needed.
    fn headers(&mut self, searched: usize) -> Result<bool, Reject> {
        let text = &self.buffer[self.start..];
        let (limit, found) = (self.limits.headers, &mut self.part.fields);
        let section = fields::parse_grown(text, searched, limit, MAX_PART_FIELDS, found);
        let Section::Complete { end, count } = section.map_err(of_part)? else {
            self.state = State::Headers { searched: text.len() };
            return Ok(false);
        };
        // Other readers split a form at each line that begins with the boundary.
        if text.starts_with(&self.delimiter.needle()[2..]) || self.delimiter.find(&text[..end]).is_some() {
            return Err(Reject::bad("a boundary within the headers of a part"));
        }
        self.part.section.clear();
        self.part.section.extend_from_slice(&text[..end]);
        self.part.count = count;
        self.part.disposition = disposition_of(&self.part)?;
        self.start += end - 2;
        self.state = State::Begin;
        Ok(true)
    }
}

/// Maps an exceeded header limit to 413: the headers of a part belong to the body, so the body is too large.
fn of_part(reject: Reject) -> Reject {
    match reject.status {
        431 => Reject::new(413, "a part of the form has too many headers"),
        _ => reject,
    }
}

fn disposition_of(part: &Part) -> Result<Disposition, Reject> {
    let mut values = part.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"content-disposition"));
    match (values.next(), values.next()) {
        (Some((_, value)), None) => disposition::disposition(value),
        (None, _) => Err(Reject::bad("a part of the form has no Content-Disposition")),
        _ => Err(Reject::bad("a part of the form has two Content-Dispositions")),
    }
}
