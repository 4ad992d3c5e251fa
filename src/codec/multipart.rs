//! Incremental parsing of `multipart/form-data` (RFC 7578, framing by RFC 2046 section 5.1).
//!
//! `form` reads it part by part. Invariants: the work is linear in the
//! bytes fed, however they are split; what is kept is one piece, a boundary's length of the one before,
//! and a part's headers within their limit; a malformed body is a [`Reject`], found at its first fault.

pub(crate) mod disposition;
pub(crate) mod form;

use super::http1::fields::{self, Field, Section};
use super::http1::status::Reject;
use disposition::Disposition;
use memchr::memmem::Finder;
use std::ops::Range;

/// The most header fields of a part.
pub(crate) const MAX_PART_FIELDS: usize = 16;
/// The most white space behind a boundary.
const MAX_PADDING: u32 = 64;

/// What a body may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Parts, fields and files together.
    pub(crate) parts: u64,
    /// Bytes of one part's header section.
    pub(crate) headers: usize,
}

/// What comes next in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// All that was fed is used up, but for what only later bytes can tell.
    Hungry,
    /// A part begins: [`Multipart::part`] tells its headers.
    Part,
    /// Data of the current part, never empty: [`Multipart::bytes`] has it until the next call.
    Data(Range<usize>),
    /// The current part is complete.
    PartEnd,
    /// The last boundary has come; what follows means nothing.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first boundary, where text means nothing.
    Preamble,
    /// Behind a boundary; so much white space was seen.
    Boundary { padding: u32 },
    /// The line feed of a boundary's line is due.
    BoundaryFeed,
    /// In a header section, of which so many bytes were searched for its end.
    Headers { searched: usize },
    /// Behind a header section, at its last CRLF: a boundary may share that.
    Begin,
    /// In a part's data.
    Data,
    /// Behind the last boundary; so much white space was seen.
    Last { padding: u32 },
    /// The line feed behind the last boundary is due.
    LastFeed,
    /// Complete.
    Epilogue,
}

/// A part's header section.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Its name and file name.
    pub(crate) disposition: Disposition,
    section: Vec<u8>,
    fields: [Field; MAX_PART_FIELDS],
    count: usize,
}

impl Part {
    /// Names and values in order, as sent.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = self.fields[..self.count].iter();
        fields.map(|field| (field.name.of(&self.section), field.value.of(&self.section)))
    }
}

/// The state of one body.
pub(crate) struct Multipart {
    state: State,
    /// Of the parts, how many may still come.
    limits: Limits,
    /// Finds CRLF, two dashes and the boundary.
    delimiter: Finder<'static>,
    /// What was fed and is not done with begins at `start`.
    buffer: Vec<u8>,
    start: usize,
    part: Part,
}

impl Multipart {
    /// A parser at the start of a body whose `Content-Type` is this.
    pub(crate) fn new(content_type: &[u8], limits: Limits) -> Result<Self, Reject> {
        let boundary = disposition::boundary(content_type)?;
        let delimiter = [b"\r\n--", &boundary[..]].concat();
        Ok(Self {
            state: State::Preamble,
            limits,
            delimiter: Finder::new(&delimiter).into_owned(),
            // The first boundary stands at the start of a line, as which a body's start counts.
            buffer: b"\r\n".to_vec(),
            start: 0,
            part: Part::default(),
        })
    }

    /// Adds the next bytes of the body. To be called when `next` is hungry, so that the buffer stays small.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        if self.state == State::Epilogue {
            return;
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(piece);
    }

    /// Tells that the body is at its end.
    ///
    /// # Errors
    /// 400 when the last boundary has not come.
    pub(crate) fn finish(&mut self) -> Result<(), Reject> {
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

    /// The part that began last.
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }

    /// Takes the next step.
    ///
    /// # Errors
    /// 400 for what is malformed, 413 for too many parts or headers. The parser must not be asked again
    /// after an error.
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
                    return Ok(if self.headers(searched)? { Event::Part } else { Event::Hungry });
                }
                State::Epilogue => {
                    self.start = self.buffer.len();
                    return Ok(Event::Done);
                }
                _ => {
                    if !self.boundary_line()? {
                        return Ok(Event::Hungry);
                    }
                }
            }
        }
    }

    /// What was fed and is not done with.
    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Data up to the next boundary, or the boundary itself, which ends the part.
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
                if self.start > start { Event::Data(start..self.start) } else { Event::Hungry }
            }
        }
    }

    /// How many bytes at the end may be a boundary's beginning. A delimiter has one carriage return, its
    /// first byte, so only the last one can begin it.
    fn held_back(&self) -> usize {
        let rest = self.rest();
        let needle = self.delimiter.needle();
        let tail = &rest[rest.len().saturating_sub(needle.len() - 1)..];
        match memchr::memrchr(b'\r', tail) {
            Some(at) if needle.starts_with(&tail[at..]) => tail.len() - at,
            _ => 0,
        }
    }

    /// The CRLF that ends a header section may belong to a boundary: then the part has no data (RFC 2046
    /// section 5.1.1, body-part). `None` when it does not.
    fn shared_boundary(&mut self) -> Option<Event> {
        let (rest, needle) = (self.rest(), self.delimiter.needle());
        if rest.starts_with(needle) {
            return Some(self.content());
        }
        if rest.len() < needle.len() && needle.starts_with(rest) {
            return Some(Event::Hungry);
        }
        self.start += 2;
        self.state = State::Data;
        None
    }

    /// What stands behind a boundary on its line; false when more bytes must tell.
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
            _ => return Err(Reject::bad("malformed line of a boundary")),
        };
        self.state = state;
        self.start += used;
        Ok(true)
    }

    /// Reads a header section once it is complete; false when more bytes must come. It stays where its last
    /// CRLF begins.
    fn headers(&mut self, searched: usize) -> Result<bool, Reject> {
        let text = &self.buffer[self.start..];
        let (limit, found) = (self.limits.headers, &mut self.part.fields);
        let section = fields::parse_grown(text, searched, limit, MAX_PART_FIELDS, found);
        let Section::Complete { end, count } = section.map_err(of_part)? else {
            self.state = State::Headers { searched: text.len() };
            return Ok(false);
        };
        self.part.section.clear();
        self.part.section.extend_from_slice(&text[..end]);
        self.part.count = count;
        self.part.disposition = disposition_of(&self.part)?;
        self.start += end - 2;
        self.state = State::Begin;
        Ok(true)
    }
}

/// A part's headers are part of the body: too many are a body that is too large.
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
        (None, _) => Err(Reject::bad("a part without Content-Disposition")),
        _ => Err(Reject::bad("a part with two Content-Dispositions")),
    }
}
