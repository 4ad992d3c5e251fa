//! The target `json` of the fuzzers.

use super::read::ParseError;
use super::{MAX_DEPTH, Node, NotUtf8, parse, put_float, put_integer, put_string};

/// A second reader of JSON texts, which only decides whether a text is valid.
struct Model<'t> {
    rest: &'t [u8],
}

impl Model<'_> {
    fn accepts(text: &[u8]) -> bool {
        let mut model = Model { rest: text };
        std::str::from_utf8(text).is_ok() && model.value(0).is_some() && model.is_at_end()
    }

    fn is_at_end(&mut self) -> bool {
        self.space();
        self.rest.is_empty()
    }

    fn space(&mut self) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn take(&mut self, text: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Reads a value within this number of arrays and objects.
    fn value(&mut self, depth: u32) -> Option<()> {
        self.space();
        match self.rest.first()? {
            b'n' => self.take(b"null"),
            b't' => self.take(b"true"),
            b'f' => self.take(b"false"),
            b'"' => self.string(),
            b'[' | b'{' if depth == MAX_DEPTH => None,
            b'[' => self.list(b"]", |model| model.value(depth + 1)),
            b'{' => self.list(b"}", |model| {
                model.space();
                model.string()?;
                model.space();
                model.take(b":")?;
                model.value(depth + 1)
            }),
            _ => self.number(),
        }
    }

    fn list(&mut self, end: &[u8], mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.rest = &self.rest[1..];
        self.space();
        if self.take(end).is_some() {
            return Some(());
        }
        loop {
            element(self)?;
            self.space();
            if self.take(end).is_some() {
                return Some(());
            }
            self.take(b",")?;
        }
    }

    fn string(&mut self) -> Option<()> {
        self.take(b"\"")?;
        loop {
            match self.rest {
                [b'"', rest @ ..] => {
                    self.rest = rest;
                    return Some(());
                }
                [b'\\', b'u', ..] => match self.unit()? {
                    0xd800..0xdc00 => {
                        let low = self.unit()?;
                        (0xdc00..0xe000).contains(&low).then_some(())?;
                    }
                    0xdc00..0xe000 => return None,
                    _ => {}
                },
                [b'\\', escape, rest @ ..] => {
                    b"\"\\/bfnrt".contains(escape).then_some(())?;
                    self.rest = rest;
                }
                [0x20..=0xff, rest @ ..] => self.rest = rest,
                _ => return None,
            }
        }
    }

    /// Reads `\uXXXX`.
    fn unit(&mut self) -> Option<u32> {
        self.take(b"\\u")?;
        let digits = self.rest.get(..4)?;
        self.rest = &self.rest[4..];
        let is_number = digits.iter().all(u8::is_ascii_hexdigit);
        is_number.then(|| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())?
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = &self.rest[count..];
        (count > 0).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let whole = self.rest;
        let _ = self.take(b"-");
        if self.take(b"0").is_none() {
            self.digits()?;
        }
        if self.take(b".").is_some() {
            self.digits()?;
        }
        if self.take(b"e").or_else(|| self.take(b"E")).is_some() {
            let _ = self.take(b"+").or_else(|| self.take(b"-"));
            self.digits()?;
        }
        let text = std::str::from_utf8(&whole[..whole.len() - self.rest.len()]).ok()?;
        text.parse::<f64>().ok()?.is_finite().then_some(())
    }
}

/// Writes the value at the start of `nodes`, and removes its nodes and the bytes of its strings.
fn write(nodes: &mut &[Node], bytes: &mut &[u8], text: &mut Vec<u8>) {
    let Some((node, rest)) = nodes.split_first() else { panic!("a node is missing") };
    *nodes = rest;
    match *node {
        Node::Null => text.extend_from_slice(b"null"),
        Node::Boolean(value) => text.extend_from_slice(if value { b"true" } else { b"false" }),
        Node::Integer(value) => put_integer(text, value),
        Node::Float(value) => {
            assert!(value.is_finite());
            put_float(text, value);
        }
        Node::String(length) => {
            let (string, rest) = bytes.split_at(length);
            *bytes = rest;
            assert_eq!(put_string(text, string), Ok(()), "a string is UTF-8");
        }
        Node::Array(count) => {
            text.push(b'[');
            for index in 0..count {
                text.extend_from_slice(if index == 0 { b"" } else { b"," });
                write(nodes, bytes, text);
            }
            text.push(b']');
        }
        Node::Object(count) => {
            text.push(b'{');
            for index in 0..count {
                text.extend_from_slice(if index == 0 { b"" } else { b"," });
                assert!(matches!(nodes.first(), Some(Node::String(_))), "a key is a string");
                write(nodes, bytes, text);
                text.push(b':');
                write(nodes, bytes, text);
            }
            assert_eq!(nodes.split_off_first(), Some(&Node::End));
            text.push(b'}');
        }
        Node::End => panic!("an end without an object"),
    }
}

/// Parses a text, writes its nodes and parses them again. Returns the number of nodes, or the error.
pub(crate) fn json(text: &[u8]) -> Result<usize, ParseError> {
    check_string(text);
    let read = parse(text);
    assert_eq!(read.is_ok(), Model::accepts(text), "readers agree on the validity: {:?}", read.as_ref().err());
    let read = read.inspect_err(|bad| {
        assert!(matches!(bad.code, "truncated" | "invalid") && bad.message.starts_with("json: "), "{bad:?}");
    })?;
    // A value takes at least a byte of the text. An object has two nodes and takes two bytes.
    assert!(read.nodes.len() <= text.len() && read.bytes.len() <= text.len(), "{} nodes", read.nodes.len());
    let (mut nodes, mut bytes, mut written) = (&read.nodes[..], &read.bytes[..], Vec::new());
    write(&mut nodes, &mut bytes, &mut written);
    assert!(nodes.is_empty() && bytes.is_empty());
    let again = parse(&written).expect("written text is valid");
    assert_eq!(again.nodes, read.nodes, "the nodes of the written text");
    assert_eq!(again.bytes, read.bytes, "the strings of the written text");
    check_prefixes(text);
    Ok(read.nodes.len())
}

/// Checks that a valid text that ends too early is reported as truncated.
fn check_prefixes(text: &[u8]) {
    // A number can be valid although it is cut off.
    let text = text.trim_ascii_end();
    if !matches!(text.last(), Some(b']' | b'}' | b'"')) {
        return;
    }
    let step = text.len() / 16 + 1;
    for end in (0..text.len()).rev().step_by(step) {
        let bad = parse(&text[..end]).err().expect("a prefix is not valid");
        // Only the exponent after them makes such digits a number of the right range.
        let lacks_exponent = bad.message.contains("number out of range");
        assert!(bad.code == "truncated" || lacks_exponent, "of {} bytes, the first {end}: {bad:?}", text.len());
    }
}

/// Checks that any bytes are written as a string that is read equally, if they are UTF-8.
fn check_string(bytes: &[u8]) {
    let mut text = Vec::new();
    match std::str::from_utf8(bytes) {
        Err(error) => assert_eq!(put_string(&mut text, bytes), Err(NotUtf8(error.valid_up_to() + 1))),
        Ok(_) => {
            assert_eq!(put_string(&mut text, bytes), Ok(()));
            assert!(Model::accepts(&text) && text.len() <= 2 + 6 * bytes.len());
            let read = parse(&text).expect("a written string is valid");
            assert_eq!((&read.nodes[..], &read.bytes[..]), (&[Node::String(bytes.len())][..], bytes));
        }
    }
}

/// Returns seeds of [`json`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let texts = [
        " {\"a\":[1,2.5,null],\"b\\n\":{},\"a\":true,\"\":false} ",
        "[9223372036854775807,-9223372036854775808,9223372036854775808,-0,-0.0,1e-400,5e-324,1.7976931348623157e308]",
        "\"\\ud83d\\ude00 \\u00e9\\u0000\\/\\b\\f\\n\\r\\t\\\\ \u{1f600}\u{7f}\"",
        "0.1E+2",
        &format!("[{}e-330]", "1".repeat(330)),
        &deep(127),
        &deep(128),
        &("{\"a\":".repeat(64) + "0" + &"}".repeat(64)),
        "\"\\ud83d\"",
        "1e400",
        "[1,]",
        "[1,2",
        "01",
        "\u{feff}1",
        "1 2",
        "\"\t\"",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_every_node_and_limit() {
        let shown =
            |found: Result<usize, ParseError>| found.map_or_else(|bad| bad.code.to_string(), |count| count.to_string());
        let all: Vec<_> = seeds().iter().map(|seed| shown(json(seed))).collect();
        let expected = [
            "14",
            "9",
            "1",
            "1",
            "2",
            "127",
            "invalid",
            "193",
            "invalid",
            "invalid",
            "invalid",
            "truncated",
            "invalid",
            "invalid",
            "invalid",
            "invalid",
        ];
        assert_eq!(all, expected);
    }
}
