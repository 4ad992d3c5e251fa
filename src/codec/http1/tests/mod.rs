//! Tests of HTTP/1, one file per topic. Each test checks one rule and is named for the behaviour.
//!
//! This file contains the functions that several test files use: they parse a whole head, and read its spans.

mod chunked;
mod fields;
mod head_accepts;
mod head_framing;
mod head_properties;
mod head_refuses;
mod response_head;
mod write;

use super::fields::{Fields, NO_FIELDS};
use super::head::{Head, Limits, Parser, Progress};
use super::reject::Reject;

/// A parsed head, its fields, and the buffer that the spans refer to.
#[derive(Debug)]
struct Parsed {
    buf: Vec<u8>,
    head: Head,
    fields: Box<Fields>,
}

impl Parsed {
    fn method(&self) -> &str {
        std::str::from_utf8(self.head.method.of(&self.buf)).unwrap()
    }

    fn path(&self) -> &str {
        std::str::from_utf8(self.head.path(&self.buf)).unwrap()
    }

    fn query(&self) -> Option<&str> {
        let query = self.head.query?;
        Some(std::str::from_utf8(query.of(&self.buf)).unwrap())
    }

    fn host(&self) -> Option<&str> {
        let host = self.head.host?;
        Some(std::str::from_utf8(host.of(&self.buf)).unwrap())
    }

    fn fields(&self) -> Vec<(&str, &[u8])> {
        let found = &self.fields[..self.head.field_count];
        found.iter().map(|f| (std::str::from_utf8(f.name.of(&self.buf)).unwrap(), f.value.of(&self.buf))).collect()
    }
}

/// Calls [`Parser::parse`] on a new parser; a used parser would return the same result. If the head is complete, copies
/// its fields to `fields`.
fn parse_with_new(
    buf: &[u8], limits: &Limits, progress: &mut Progress, fields: &mut Fields,
) -> Result<Option<Head>, Reject> {
    let mut parser = Parser::new();
    let head = parser.parse(buf, limits, progress)?.copied();
    if let Some(head) = &head {
        fields[..head.field_count].copy_from_slice(parser.fields());
    }
    Ok(head)
}

/// Parses `buf` in one call.
fn parse_within(buf: &[u8], limits: &Limits) -> Result<Option<Parsed>, Reject> {
    let mut fields = Box::new(NO_FIELDS);
    let head = parse_with_new(buf, limits, &mut Progress::default(), &mut fields)?;
    Ok(head.map(|head| Parsed { buf: buf.to_vec(), head, fields }))
}

fn parse(text: impl AsRef<[u8]>) -> Result<Option<Parsed>, Reject> {
    parse_within(text.as_ref(), &Limits::default())
}

/// Parses a head that is complete and valid.
fn accept(text: impl AsRef<[u8]>) -> Parsed {
    parse(text).expect("not refused").expect("complete")
}

/// Returns the status that a head is refused with.
fn refuse(text: impl AsRef<[u8]>) -> u16 {
    parse(text).expect_err("refused").status
}

/// Returns an HTTP/1.1 GET request with a Host field and `lines`, each of which must end with CRLF.
fn get(lines: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}
