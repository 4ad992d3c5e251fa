//! The validators of a file, and the choice of the response to a request, depending on its conditions and ranges.

use crate::codec::conditional::{self, Conditions, Validators as Known, Verdict};
use crate::codec::date;
use crate::codec::http1::head::Method;
use crate::codec::http1::request::RequestHead;
use crate::codec::range::{self, Span};
use crate::file::Metadata;

/// The maximum number of bytes of a tag: three hexadecimal numbers, separators, and a coding.
const MAX_TAG: usize = 96;
/// The maximum number of bytes in the name of a coding.
const MAX_CODING: usize = 16;

/// The validators of a representation.
#[derive(Clone, Copy)]
pub(crate) struct Validators {
    tag: [u8; MAX_TAG],
    tag_length: usize,
    date: [u8; date::LENGTH],
    /// Seconds since the Unix epoch.
    modified: u64,
    now: u64,
}

/// The response to a request for a representation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    Whole,
    /// One or more ranges.
    Parts(Vec<Span>),
    NotModified,
    /// A condition of the client is not met.
    Failed,
    /// None of the requested ranges exists.
    Unsatisfiable,
}

impl Choice {
    /// Returns the status of the response.
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
    /// Returns the validators of a file. `coding`: the content coding of the sent copy; its name has at most
    /// [`MAX_CODING`] bytes. `now`: seconds since the Unix epoch.
    ///
    /// The entity tag is strong. It consists of the file's size, its modification time and the coding, so it changes
    /// with each of them. It is therefore the same on every machine that has the file with the same modification time,
    /// and does not reveal the inode.
    pub(crate) fn of(metadata: &Metadata, coding: Option<&str>, now: u64) -> Validators {
        // A date in the future would be invalid (RFC 9110 section 8.8.2.1).
        let modified = u64::try_from(metadata.seconds).unwrap_or(0);
        let modified = modified.min(now).min(date::LAST_SECOND);
        let mut made = Validators { tag: [0; MAX_TAG], tag_length: 0, date: date::format(modified), modified, now };
        made.put(b"\"");
        made.put_hexadecimal(metadata.size);
        made.put(b"-");
        // Times before the epoch are written as two's complement.
        made.put_hexadecimal(metadata.seconds as u64);
        made.put(b".");
        made.put_hexadecimal(u64::from(metadata.nanoseconds));
        if let Some(coding) = coding.filter(|coding| coding.len() <= MAX_CODING) {
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

    /// Chooses the response to a request for a representation of `size` bytes.
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
        match conditional::evaluate(&conditions, &known) {
            Verdict::NotModified => return Choice::NotModified,
            Verdict::Failed => return Choice::Failed,
            Verdict::Send => {}
        }
        // Ranges are defined only for GET (RFC 9110 section 14.2).
        let field = request.joined(b"range").filter(|_| request.method() == Method::Get);
        let Some(field) = field.filter(|_| conditional::allows_range(&conditions, &known)) else {
            return Choice::Whole;
        };
        match range::parse(&field, size) {
            None => Choice::Whole,
            Some(parts) if parts.is_empty() => Choice::Unsatisfiable,
            Some(parts) => Choice::Parts(parts),
        }
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
}
