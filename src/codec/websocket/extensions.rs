//! The syntax of `Sec-WebSocket-Extensions` (RFC 6455 section 9.1): a list of extensions with parameters.

use crate::codec::http1::fields::{is_token, is_token_byte};
use std::borrow::Cow;

/// A list that does not match the grammar. RFC 6455 section 9.1 requires that the handshake fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed;

/// A parameter: its name, and its value without quotes.
pub(crate) type Parameter<'v> = (&'v [u8], Option<Cow<'v, [u8]>>);

/// An extension of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Extension<'v> {
    /// A token.
    pub(crate) name: &'v [u8],
    /// In the order of the list; a name may occur several times.
    pub(crate) parameters: Vec<Parameter<'v>>,
}

/// Parses the value of one field. The values of several fields form one list. Empty elements are skipped (RFC 9110
/// section 5.6.1).
pub(crate) fn parse(value: &[u8]) -> Result<Vec<Extension<'_>>, Malformed> {
    let mut cursor = Cursor { rest: value };
    let mut extensions = Vec::new();
    loop {
        cursor.skip_space();
        match cursor.rest.first() {
            None => return Ok(extensions),
            Some(b',') => (),
            Some(_) => extensions.push(cursor.extension()?),
        }
        cursor.skip_space();
        if !cursor.rest.is_empty() && !cursor.take(b',') {
            return Err(Malformed);
        }
    }
}

/// The part of a value that has not been parsed.
struct Cursor<'v> {
    rest: &'v [u8],
}

impl<'v> Cursor<'v> {
    fn extension(&mut self) -> Result<Extension<'v>, Malformed> {
        let name = self.token()?;
        let mut parameters = Vec::new();
        loop {
            self.skip_space();
            if !self.take(b';') {
                return Ok(Extension { name, parameters });
            }
            self.skip_space();
            let name = self.token()?;
            self.skip_space();
            let value = match self.take(b'=') {
                true => Some(self.value()?),
                false => None,
            };
            parameters.push((name, value));
        }
    }

    fn value(&mut self) -> Result<Cow<'v, [u8]>, Malformed> {
        self.skip_space();
        match self.take(b'"') {
            true => self.quoted(),
            false => self.token().map(Cow::Borrowed),
        }
    }

    /// Takes the rest of a quoted string, whose value must be a token.
    fn quoted(&mut self) -> Result<Cow<'v, [u8]>, Malformed> {
        let mut value = Vec::new();
        loop {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            match byte {
                b'"' => break,
                b'\\' => {
                    let (&escaped, rest) = rest.split_first().ok_or(Malformed)?;
                    self.rest = rest;
                    value.push(escaped);
                }
                _ => value.push(byte),
            }
        }
        if is_token(&value) { Ok(Cow::Owned(value)) } else { Err(Malformed) }
    }

    fn token(&mut self) -> Result<&'v [u8], Malformed> {
        let end = self.rest.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        if token.is_empty() { Err(Malformed) } else { Ok(token) }
    }

    fn take(&mut self, byte: u8) -> bool {
        let rest = self.rest.strip_prefix(&[byte]);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the list in a short form, or `malformed`.
    fn parsed(value: &[u8]) -> String {
        let Ok(extensions) = parse(value) else { return "malformed".into() };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shown = extensions.iter().map(|extension| {
            let parameters = extension.parameters.iter().map(|(name, value)| match value {
                Some(value) => format!(";{}={}", text(name), text(value)),
                None => format!(";{}", text(name)),
            });
            text(extension.name) + &parameters.collect::<String>()
        });
        shown.collect::<Vec<_>>().join(",")
    }

    #[test]
    fn lists_of_extensions() {
        for (value, expected) in [
            ("permessage-deflate", "permessage-deflate"),
            ("a; b=1; c; b=2, a", "a;b=1;c;b=2,a"),
            (" a\t;\tb =\t1 ,, c ,", "a;b=1,c"),
            (r#"a; b="10""#, "a;b=10"),
            (r#"a; b="1\0""#, "a;b=10"),
            ("", ""),
            (",", ""),
        ] {
            assert_eq!(parsed(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn lists_that_do_not_match_the_grammar() {
        for value in [
            ";",
            "a;",
            "a; ;b",
            "a b",
            "a; =1",
            "a; b=",
            "a; b= ;c",
            r#"a; b=""#,
            r#"a; b="1"#,
            r#"a; b="""#,
            r#"a; b="1 2""#,
            r#"a; b="1\"#,
            r#"a; b="1"2"#,
            "a; b=1 2",
            "a/b",
            "ä",
        ] {
            assert_eq!(parsed(value.as_bytes()), "malformed", "{value}");
        }
        assert_eq!(parsed(b"a; b=\"1\"x"), "malformed");
    }

    proptest! {
        #[test]
        fn a_parsed_list_is_parsed_to_itself(value in r#"[ab;,="\\ 1]{0,24}"#) {
            let first = parsed(value.as_bytes());
            if first != "malformed" {
                prop_assert_eq!(parsed(first.as_bytes()), first);
            }
        }
    }
}
