//! Parser of request heads at the start of a connection's read buffer.
//!
//! The HTTP server calls [`Parser::parse`] whenever bytes have arrived and no head is complete. Most heads arrive
//! whole, so the first call parses at once; later calls first search the new bytes for the blank line. Invariant: the
//! result does not depend on how the bytes were split, and bytes that arrive one by one cost O(n) in total. No call
//! allocates memory, except for a copy of the last section.

mod framing;
mod line;
mod target;

use super::body::Framing;
use super::fields::{self, Fields, Section, Span};
use super::reject::Reject;

use line::Line;
use target::Target;

pub(crate) use framing::{Coding, MessageFields};
pub(crate) use line::Method;
pub(crate) use target::{TargetForm, is_host};

/// The maximum number of empty lines that are skipped before a request line (RFC 9112 section 2.2 requires at least
/// one).
const MAX_LEADING_CRLF: usize = 2;

/// Limits are clamped to this value, so that offsets fit into a [`Span`].
const MAX_LIMIT: usize = 1 << 30;

/// The size limits of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The maximum number of bytes of the request line without its CRLF; 414 if exceeded.
    pub(crate) request_line: usize,
    /// The maximum number of bytes of the header section including its blank line; 431 if exceeded.
    pub(crate) headers: usize,
    /// The maximum number of fields, at most [`fields::MAX_FIELDS`]; 431 if exceeded.
    pub(crate) fields: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_line: 8192, headers: 32768, fields: 100 }
    }
}

/// The state of a head that is still arriving. Start each head with the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// The buffer was searched for the blank line up to this offset.
    searched: usize,
    /// If the buffer has at least this length, the head is parsed even without a blank line.
    parse_from: usize,
    /// Whether the first line is complete and valid.
    pub(super) has_line: bool,
}

impl Progress {
    /// Whether parsing `buf` can find more than the last attempt did.
    #[inline]
    pub(super) fn needs_parse(&mut self, buf: &[u8]) -> bool {
        let from = std::mem::replace(&mut self.searched, buf.len()).min(buf.len());
        buf.len() >= self.parse_from
            || match self.has_line {
                true => fields::is_worth_parsing(buf, from),
                false => memchr::memchr(b'\n', &buf[from..]).is_some(),
            }
    }

    /// Postpones the next parse until the buffer has doubled, exceeds the limit at offset `limit_at`, or contains a
    /// blank line.
    pub(super) fn postpone(&mut self, buffered: usize, limit_at: usize) {
        self.parse_from = (buffered * 2).min(limit_at + 1).max(buffered + 1);
    }
}

/// A complete request head. Spans are offsets into the parsed buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The method as sent.
    pub(crate) method: Span,
    /// The standard method with this name, or `Other`.
    pub(crate) method_id: Method,
    /// The request target as sent.
    pub(crate) target: Span,
    /// The form of the target.
    pub(crate) target_form: TargetForm,
    /// The raw path; empty for authority form and for `http://host`, see [`Head::path`].
    pub(crate) path: Span,
    /// The raw query after the `?`, if there is a `?`.
    pub(crate) query: Option<Span>,
    /// `host[:port]`: from the target if the target has a host, otherwise from `Host`, which may be empty.
    pub(crate) host: Option<Span>,
    /// 10 for HTTP/1.0, 11 for HTTP/1.1.
    pub(crate) version: u8,
    /// The number of fields written to the table.
    pub(crate) field_count: usize,
    /// The number of bytes up to and including the blank line; skipped empty lines are counted.
    pub(crate) head_len: usize,
    /// How the end of the body is determined.
    pub(crate) framing: Framing,
    /// Whether the client allows keep-alive after the response.
    pub(crate) keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends its body.
    pub(crate) expect_continue: bool,
    /// Whether the client offers to switch protocols (`Connection: upgrade` with `Upgrade`).
    pub(crate) upgrade: bool,
}

impl Head {
    /// Returns the raw path in `buf`: `/` for `http://host`, `*` for asterisk form. It is empty only for authority
    /// form.
    pub(crate) fn path<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        match self.target_form {
            TargetForm::Asterisk => b"*",
            TargetForm::Absolute if self.path.start == self.path.end => b"/",
            _ => self.path.of(buf),
        }
    }

    /// Returns the raw path that the router matches. CONNECT has no path and counts as `/`.
    #[inline]
    pub(crate) fn route_path<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        match self.target_form {
            TargetForm::Authority => b"/",
            _ => self.path(buf),
        }
    }
}

/// The longest header section that a parser caches, in bytes.
const MAX_CACHED_SECTION: usize = 2048;

/// A parser that keeps the last head and its fields. Clients repeat their header sections, so a section is parsed only
/// if its bytes differ from those of the last section.
pub(crate) struct Parser {
    fields: Box<Fields>,
    head: Head,
    /// The section that `fields` describes, including its blank line; empty if there is none. The section began at
    /// offset `start`.
    section: Vec<u8>,
    start: usize,
    /// The value of `Host` in the section.
    host: Option<Span>,
    /// The limits that the section was parsed with.
    limits: Limits,
}

impl Parser {
    pub(crate) fn new() -> Self {
        Parser {
            fields: Box::new(fields::NO_FIELDS),
            head: Head::default(),
            section: Vec::new(),
            start: 0,
            host: None,
            limits: Limits::default(),
        }
    }

    /// The fields of the head that was parsed last.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn fields(&self) -> &[fields::Field] {
        &self.fields[..self.head.field_count]
    }

    /// The head that was parsed last.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Parses the request head at the start of `buf`; `None` if more bytes are needed.
    ///
    /// Pass the default as `progress` to the first call for a head, and the same value to all later calls for this
    /// head. Between these calls `buf` may move and grow, but not shrink. After `Some`, reset `progress` and consume
    /// `head_len` bytes.
    ///
    /// # Errors
    /// The status to respond with before closing: 400, 414, 417, 431, 501 or 505. Faults in the request line, bare line
    /// feeds and exceeded limits are found before the head is complete; other malformed fields are found when the
    /// buffer has doubled since the last attempt, or at the blank line.
    #[inline]
    pub(crate) fn parse(
        &mut self, buf: &[u8], limits: &Limits, progress: &mut Progress,
    ) -> Result<Option<&Head>, Reject> {
        let Some((line, target)) = parse_line(buf, limits, progress)? else { return Ok(None) };
        let is_known = line.version == self.head.version
            && *limits == self.limits
            && !self.section.is_empty()
            && buf[line.end..].starts_with(&self.section);
        if !is_known {
            if !self.parse_section(buf, &line, limits, progress)? {
                return Ok(None);
            }
        } else if line.end != self.start {
            self.move_to(line.end);
        }
        let head = &mut self.head;
        (head.method, head.method_id, head.target) = (line.method, line.method_id, line.target);
        (head.target_form, head.path, head.query) = (target.form, target.path, target.query);
        head.host = target.authority.or(self.host);
        Ok(Some(head))
    }

    /// Parses the header section after a request line. Returns whether it is complete.
    fn parse_section(
        &mut self, buf: &[u8], line: &Line, limits: &Limits, progress: &mut Progress,
    ) -> Result<bool, Reject> {
        self.section.clear();
        let limit = limits.headers.min(MAX_LIMIT);
        let section = fields::parse_section(buf, line.end, limit, limits.fields, &mut *self.fields)?;
        let Section::Complete { end, count } = section else {
            progress.postpone(buf.len(), line.end + limit);
            return Ok(false);
        };
        let properties = framing::read_fields(buf, &self.fields[..count], line.version)?;
        if end - line.end <= MAX_CACHED_SECTION {
            self.section.extend_from_slice(&buf[line.end..end]);
        }
        (self.start, self.limits, self.host) = (line.end, *limits, properties.host);
        let head = &mut self.head;
        (head.version, head.field_count, head.head_len) = (line.version, count, end);
        (head.framing, head.keep_alive) = (properties.framing, properties.keep_alive);
        (head.expect_continue, head.upgrade) = (properties.expect_continue, properties.upgrade);
        Ok(true)
    }

    /// Adjusts all offsets to a section that now begins at `start`.
    fn move_to(&mut self, start: usize) {
        let moved = start.wrapping_sub(self.start) as u32;
        for field in &mut self.fields[..self.head.field_count] {
            field.name.shift(moved);
            field.value.shift(moved);
        }
        if let Some(host) = &mut self.host {
            host.shift(moved);
        }
        self.start = start;
        self.head.head_len = start + self.section.len();
    }
}

/// Returns the offset of the request line. Some old clients send an extra CRLF after a body, so up to
/// [`MAX_LEADING_CRLF`] empty lines are skipped.
#[inline]
fn skip_empty_lines(buf: &[u8]) -> Result<usize, Reject> {
    let mut start = 0;
    while buf[start..].starts_with(b"\r\n") {
        start += 2;
        if start > 2 * MAX_LEADING_CRLF {
            return Err(Reject::bad("empty lines before the request"));
        }
    }
    if buf[start..] == *b"\r" {
        return Ok(start + 1);
    }
    Ok(start)
}

/// Parses the request line and its target, if a parse is worthwhile; `None` if more bytes are needed.
#[inline]
fn parse_line(buf: &[u8], limits: &Limits, progress: &mut Progress) -> Result<Option<(Line, Target)>, Reject> {
    if !progress.needs_parse(buf) {
        return Ok(None);
    }
    let limit = limits.request_line.min(MAX_LIMIT);
    let start = skip_empty_lines(buf)?;
    let Some(line) = line::parse(buf, start, limit)? else {
        progress.postpone(buf.len(), start + limit);
        return Ok(None);
    };
    progress.has_line = true;
    let target = target::split(buf, &line)?;
    Ok(Some((line, target)))
}
