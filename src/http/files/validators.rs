//! What of a file answers a request: conditions and ranges put together.

use crate::codec::conditional::{self, Conditions, Validators as Known, Verdict};
use crate::codec::date;
use crate::codec::http1::head::Method;
use crate::codec::http1::request::RequestHead;
use crate::codec::range::{self, Span};
use crate::file::Facts;

/// Room for a tag: three hexadecimal numbers, what separates them, and a coding.
const TAG_MOST: usize = 96;
/// Bytes that the name of a coding may have.
const CODING_MOST: usize = 16;

/// What a representation is told by: plain data.
#[derive(Clone, Copy)]
pub(crate) struct Validators {
    tag: [u8; TAG_MOST],
    tag_length: usize,
    date: [u8; date::LENGTH],
    /// Seconds since the epoch.
    modified: u64,
    now: u64,
}

/// What of a representation answers a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    Whole,
    /// One or more.
    Parts(Vec<Span>),
    NotModified,
    /// A condition of the client does not hold.
    Failed,
    /// No part that was asked for is there.
    Unsatisfiable,
}

impl Choice {
    /// The status of the answer.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Choice::Whole => 200,
            Choice::Parts(_) => 206,
            Choice::NotModified => 304,
            Choice::Failed => 412,
            Choice::Unsatisfiable => 416,
        }
    }
}

impl Validators {
    /// Those of a file whose bytes go out with a coding, whose name is short; `now` in seconds since the epoch. The entity
    /// tag is strong: another content or another coding has another one. It is the same on every machine that has the file
    /// with its time, and tells no inode.
    pub(crate) fn of(facts: &Facts, coding: Option<&str>, now: u64) -> Validators {
        // A date that is still to come would be wrong (RFC 9110 section 8.8.2.1).
        let modified = u64::try_from(facts.seconds).unwrap_or(0);
        let modified = modified.min(now).min(date::LAST_SECOND);
        let mut made = Validators { tag: [0; TAG_MOST], tag_length: 0, date: date::format(modified), modified, now };
        made.put(b"\"");
        made.put_hexadecimal(facts.size);
        made.put(b"-");
        // As two's complement, for what is older than the epoch.
        made.put_hexadecimal(facts.seconds as u64);
        made.put(b".");
        made.put_hexadecimal(u64::from(facts.nanoseconds));
        if let Some(coding) = coding.filter(|coding| coding.len() <= CODING_MOST) {
            made.put(b"-");
            made.put(coding.as_bytes());
        }
        made.put(b"\"");
        made
    }

    /// The value of `ETag`.
    pub(crate) fn tag(&self) -> &[u8] {
        &self.tag[..self.tag_length]
    }

    /// The value of `Last-Modified`.
    pub(crate) fn date(&self) -> &[u8] {
        &self.date
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.tag_length + bytes.len();
        self.tag[self.tag_length..end].copy_from_slice(bytes);
        self.tag_length = end;
    }

    fn put_hexadecimal(&mut self, number: u64) {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let nibble = (number >> (4 * digit) & 15) as usize;
            self.tag[self.tag_length] = b"0123456789abcdef"[nibble];
            self.tag_length += 1;
        }
    }

    /// How a request is answered by a representation of that size.
    pub(crate) fn choose(&self, request: RequestHead<'_>, size: u64) -> Choice {
        if !request.has_conditions() {
            return Choice::Whole;
        }
        let names = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"];
        let values = names.map(|name| request.joined(name.as_bytes()));
        let [if_match, if_none_match, if_modified_since, if_unmodified_since, if_range] =
            values.each_ref().map(Option::as_deref);
        let conditions = Conditions { if_match, if_none_match, if_modified_since, if_unmodified_since, if_range };
        let known = Known { tag: self.tag(), modified: self.modified, now: self.now };
        match conditional::judge(&conditions, &known) {
            Verdict::NotModified => return Choice::NotModified,
            Verdict::Failed => return Choice::Failed,
            Verdict::Send => {}
        }
        // Ranges are defined for GET alone (RFC 9110 section 14.2).
        let asked = request.joined(b"range").filter(|_| request.method() == Method::Get);
        let Some(asked) = asked.filter(|_| conditional::allows_range(&conditions, &known)) else {
            return Choice::Whole;
        };
        match range::select(&asked, size) {
            None => Choice::Whole,
            Some(parts) if parts.is_empty() => Choice::Unsatisfiable,
            Some(parts) => Choice::Parts(parts),
        }
    }
}
