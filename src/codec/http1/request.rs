//! Access to a request head: its method, path, query and fields.

use super::head::{Head, Method};
use super::stored_section;
use std::borrow::Cow;

/// A head together with the bytes that its spans refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestHead<'b> {
    pub(crate) head: &'b Head,
    pub(crate) bytes: &'b [u8],
}

impl<'b> RequestHead<'b> {
    /// The header section as sent.
    pub(crate) fn section(self) -> &'b [u8] {
        let behind = &self.bytes[..self.head.head_len][self.head.target.end as usize..];
        match memchr::memchr(b'\n', behind) {
            Some(end) => &behind[end + 1..],
            None => &[],
        }
    }

    /// Returns the value of a field; `None` if the field is missing. If the field occurs several times, its values are
    /// joined. Names are case-insensitive.
    pub(crate) fn joined(self, name: &[u8]) -> Option<Cow<'b, [u8]>> {
        stored_section::joined(self.section(), name)
    }

    /// Whether the request may have a field that asks for less than the whole representation: a condition or a range.
    pub(crate) fn has_conditions(self) -> bool {
        stored_section::lines(self.section()).any(|line| match line {
            [b'i' | b'I', b'f' | b'F', b'-', ..] => true,
            line => line.len() > 6 && line[..6].eq_ignore_ascii_case(b"range:"),
        })
    }

    pub(crate) fn method(self) -> Method {
        self.head.method_id
    }

    /// The raw path, see [`Head::path`].
    pub(crate) fn path(self) -> &'b [u8] {
        self.head.path(self.bytes)
    }

    /// Returns the raw path that the router matches, see [`Head::route_path`].
    pub(crate) fn route_path(self) -> &'b [u8] {
        self.head.route_path(self.bytes)
    }

    /// The raw query, if there is a `?`.
    pub(crate) fn query(self) -> Option<&'b [u8]> {
        self.head.query.map(|span| span.of(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::{Limits, Parser, Progress};
    use super::*;

    fn with_head<R>(bytes: &[u8], read: impl FnOnce(RequestHead<'_>) -> R) -> R {
        let mut parser = Parser::new();
        let parsed = parser.parse(bytes, &Limits::default(), &mut Progress::default());
        let head = *parsed.expect("well-formed").expect("complete");
        let head = &head;
        read(RequestHead { head, bytes })
    }

    #[test]
    fn fields_come_only_from_the_head() {
        let bytes = b"\r\nGET /a?b HTTP/1.1\r\nHost: h\r\nX: 1\r\nx: 2\r\n\r\nX: body";
        with_head(bytes, |head| {
            assert_eq!(head.joined(b"X").as_deref(), Some(&b"1, 2"[..]));
            assert_eq!(head.joined(b"Y"), None);
            assert_eq!((head.path(), head.query()), (&b"/a"[..], Some(&b"b"[..])));
            assert_eq!(head.method(), Method::Get);
        });
        with_head(b"GET / HTTP/1.0\r\n\r\n", |head| {
            assert_eq!((head.section(), head.query()), (&b"\r\n"[..], None));
        });
    }

    #[test]
    fn conditions_and_ranges_are_recognized_by_name() {
        for (field, has) in [
            ("If-None-Match: *", true),
            ("iF-Modified-Since: x", true),
            ("RANGE:x", true),
            ("Ranges: x", false),
            ("Accept: if-match", false),
            ("I: f", false),
        ] {
            let bytes = format!("GET / HTTP/1.0\r\nAccept: *\r\n{field}\r\n\r\n");
            let found = with_head(bytes.as_bytes(), |head| head.has_conditions());
            assert_eq!(found, has, "{field}");
        }
    }
}
