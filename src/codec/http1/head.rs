//! A request head: from the bytes at the start of a connection's read buffer to plain data.
//!
//! The HTTP glue calls [`Parser::parse`] whenever bytes came in and no head is complete. Most heads arrive
//! whole, so the first call parses at once; later ones first look for the blank line in the new
//! bytes only. Invariant: the outcome does not depend on how the bytes were split, and bytes that
//! trickle in one by one cost O(n) in total. Nothing is allocated.

mod framing;
mod line;
mod target;

use super::fields::{self, Fields, Section, Span};
use super::status::Reject;

use framing::Facts;
use line::Line;
use target::Target;

pub(crate) use framing::Framing;
pub(crate) use framing::{Coding, members, read_codings, read_length};
pub(crate) use line::Method;
pub(crate) use target::TargetForm;

/// Empty lines before a request line that are skipped (RFC 9112 section 2.2 asks for one).
const MAX_LEADING_CRLF: usize = 2;

/// Limits are clamped to this, so that offsets fit a [`Span`].
const MAX_LIMIT: usize = 1 << 30;

/// How large a head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of the request line without its CRLF; beyond it 414.
    pub(crate) request_line: usize,
    /// Bytes of the header section with the blank line; beyond it 431.
    pub(crate) headers: usize,
    /// Number of fields, at most [`fields::MAX_FIELDS`]; beyond it 431.
    pub(crate) fields: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_line: 8192, headers: 32768, fields: 100 }
    }
}

/// What is known about a head that is still coming in. Start each head with the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Up to here the buffer was searched for the blank line.
    searched: usize,
    /// From this buffered length on a parse is due, blank line or not.
    due: usize,
    /// Whether the request line is there, and right.
    has_line: bool,
}

impl Progress {
    /// Whether a parse of `buf` may tell more than the last one did.
    #[inline]
    fn is_due(&mut self, buf: &[u8]) -> bool {
        let from = std::mem::replace(&mut self.searched, buf.len()).min(buf.len());
        buf.len() >= self.due
            || match self.has_line {
                true => fields::is_worth_parsing(buf, from),
                false => memchr::memchr(b'\n', &buf[from..]).is_some(),
            }
    }

    /// Puts the next parse off until the buffer has doubled or passes a limit at `limit_at`.
    fn put_off(&mut self, buffered: usize, limit_at: usize) {
        self.due = (buffered * 2).min(limit_at + 1).max(buffered + 1);
    }
}

/// A complete request head. Spans are offsets into the parsed buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The method as sent.
    pub(crate) method: Span,
    /// Which of the standard methods it is.
    pub(crate) method_id: Method,
    /// The request target as sent.
    pub(crate) target: Span,
    /// The form of the target.
    pub(crate) target_form: TargetForm,
    /// The raw path; empty for authority form, and for `http://host`: see [`Head::path`].
    pub(crate) path: Span,
    /// The raw query behind the `?`, if there is a `?`.
    pub(crate) query: Option<Span>,
    /// `host[:port]`: from the target if it has one, else from `Host`, which may be empty.
    pub(crate) host: Option<Span>,
    /// 10 for HTTP/1.0, 11 for HTTP/1.1.
    pub(crate) version: u8,
    /// Number of fields written to the table.
    pub(crate) field_count: usize,
    /// Bytes up to and with the blank line, skipped empty lines included.
    pub(crate) head_len: usize,
    /// How the body ends.
    pub(crate) framing: Framing,
    /// Whether the client lets the connection persist after the answer.
    pub(crate) keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends its body.
    pub(crate) expect_continue: bool,
    /// Whether the client offers to switch protocols (`Connection: upgrade` with `Upgrade`).
    pub(crate) upgrade: bool,
}

impl Head {
    /// The raw path in `buf`, never empty but for authority form: `/` for `http://host`,
    /// `*` for asterisk form.
    pub(crate) fn path<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        match self.target_form {
            TargetForm::Asterisk => b"*",
            TargetForm::Absolute if self.path.start == self.path.end => b"/",
            _ => self.path.of(buf),
        }
    }

    /// The raw path that routes are looked up by; CONNECT, which has none, counts as `/`.
    #[inline]
    pub(crate) fn route_path<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        match self.target_form {
            TargetForm::Authority => b"/",
            _ => self.path(buf),
        }
    }
}

/// [`Parser::parse`] without a memory, which finds the same.
#[cfg(test)]
pub(crate) fn parse(
    buf: &[u8], limits: &Limits, progress: &mut Progress, fields: &mut Fields,
) -> Result<Option<Head>, Reject> {
    let Some((line, target)) = parse_line(buf, limits, progress)? else {
        return Ok(None);
    };
    let section = parse_fields(buf, &line, limits, progress, fields)?;
    Ok(section.map(|section| line.with(&target, &section)))
}

/// The request line and its target, if they are there and a parse is due.
#[inline]
fn parse_line(buf: &[u8], limits: &Limits, progress: &mut Progress) -> Result<Option<(Line, Target)>, Reject> {
    if !progress.is_due(buf) {
        return Ok(None);
    }
    let limit = limits.request_line.min(MAX_LIMIT);
    let start = skip_empty_lines(buf)?;
    let Some(line) = line::parse(buf, start, limit)? else {
        progress.put_off(buf.len(), start + limit);
        return Ok(None);
    };
    progress.has_line = true;
    let target = target::split(buf, &line)?;
    Ok(Some((line, target)))
}

/// The header section behind a request line: what its fields say, how many they are, and where it ends.
#[derive(Clone, Copy)]
struct Parsed {
    facts: Facts,
    count: usize,
    end: usize,
}

#[inline]
fn parse_fields(
    buf: &[u8], line: &Line, limits: &Limits, progress: &mut Progress, fields: &mut Fields,
) -> Result<Option<Parsed>, Reject> {
    let limit = limits.headers.min(MAX_LIMIT);
    let section = fields::parse_section(buf, line.end, limit, limits.fields, fields)?;
    let Section::Complete { end, count } = section else {
        progress.put_off(buf.len(), line.end + limit);
        return Ok(None);
    };
    let facts = framing::decide(buf, &fields[..count], line.version)?;
    Ok(Some(Parsed { facts, count, end }))
}

impl Line {
    #[inline]
    fn with(&self, target: &Target, section: &Parsed) -> Head {
        Head {
            method: self.method,
            method_id: self.method_id,
            target: self.target,
            target_form: target.form,
            path: target.path,
            query: target.query,
            host: target.authority.or(section.facts.host),
            version: self.version,
            field_count: section.count,
            head_len: section.end,
            framing: section.facts.framing,
            keep_alive: section.facts.keep_alive,
            expect_continue: section.facts.expect_continue,
            upgrade: section.facts.upgrade,
        }
    }
}

/// A longer header section is not remembered.
const REMEMBERED: usize = 2048;

/// A parser with the fields of the head that it parsed last. Clients repeat their fields: a section with the bytes of the
/// one before is known, and only compared.
pub(crate) struct Parser {
    fields: Box<Fields>,
    /// The section that `fields` and `parsed` are of, with its blank line; empty: none. It began at `start`.
    section: Vec<u8>,
    start: usize,
    version: u8,
    /// What they were parsed within.
    limits: Limits,
    parsed: Parsed,
}

impl Parser {
    pub(crate) fn new() -> Self {
        Parser {
            fields: Box::new(fields::NO_FIELDS),
            section: Vec::new(),
            start: 0,
            version: 0,
            limits: Limits::default(),
            parsed: Parsed { facts: Facts::default(), count: 0, end: 0 },
        }
    }

    /// The fields of the head that was parsed last.
    #[cfg(test)]
    pub(crate) fn fields(&self) -> &[fields::Field] {
        &self.fields[..self.parsed.count]
    }

    /// Parses the request head at the start of `buf`; `None` when more bytes are needed.
    ///
    /// `progress` is the default at the first call for a head and then belongs to it; `buf` may move
    /// but only grow meanwhile. After `Some`, reset `progress` and consume `head_len` bytes.
    ///
    /// # Errors
    /// The status to answer with before closing: 400, 414, 417, 431, 501 or 505. Faults in the
    /// request line, bare line feeds and passed limits are found before the head is complete; other
    /// malformed fields when the buffer has doubled since the last look, or at the blank line.
    #[inline]
    pub(crate) fn parse(
        &mut self, buf: &[u8], limits: &Limits, progress: &mut Progress,
    ) -> Result<Option<Head>, Reject> {
        let Some((line, target)) = parse_line(buf, limits, progress)? else {
            return Ok(None);
        };
        let is_known = line.version == self.version
            && *limits == self.limits
            && !self.section.is_empty()
            && buf[line.end..].starts_with(&self.section);
        if !is_known {
            return self.parse_new(buf, &line, &target, limits, progress);
        }
        if line.end != self.start {
            self.move_to(line.end);
        }
        Ok(Some(line.with(&target, &self.parsed)))
    }

    fn parse_new(
        &mut self, buf: &[u8], line: &Line, target: &Target, limits: &Limits, progress: &mut Progress,
    ) -> Result<Option<Head>, Reject> {
        self.section.clear();
        let Some(parsed) = parse_fields(buf, line, limits, progress, &mut self.fields)? else {
            return Ok(None);
        };
        let section = &buf[line.end..parsed.end];
        if section.len() <= REMEMBERED {
            self.section.extend_from_slice(section);
        }
        (self.start, self.version, self.parsed) = (line.end, line.version, parsed);
        self.limits = *limits;
        Ok(Some(line.with(target, &parsed)))
    }

    /// The section begins at `start` now.
    fn move_to(&mut self, start: usize) {
        let moved = start.wrapping_sub(self.start) as u32;
        for field in &mut self.fields[..self.parsed.count] {
            field.name.shift(moved);
            field.value.shift(moved);
        }
        if let Some(host) = &mut self.parsed.facts.host {
            host.shift(moved);
        }
        self.start = start;
        self.parsed.end = start + self.section.len();
    }
}

/// The offset of the request line. A robust server skips the odd CRLF that old clients send
/// after a body, but no more than that.
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
