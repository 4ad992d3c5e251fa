//! Parser of JSON texts into a flat list of nodes.

use serde_core::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Why a JSON text cannot be parsed.
#[derive(Debug, PartialEq)]
pub(crate) struct ParseError {
    /// The message. It contains a line number, counted from 1, and a column: the number of bytes of this line that were
    /// read.
    pub(crate) message: String,
    /// A short code for programs: `truncated` if the text ends too early, otherwise `invalid`.
    pub(crate) code: &'static str,
}

/// A value, the start of an array or an object, or the end of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    /// A string of this length in bytes. Its content is the next bytes of [`Nodes::bytes`].
    String(usize),
    /// An array of this number of values, which follow.
    Array(usize),
    /// An object with this number of members. The key and the value of each member follow, then [`Node::End`].
    Object(usize),
    End,
}

/// The nodes of a text, and the bytes of their strings.
#[derive(Default)]
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Node>,
    pub(crate) bytes: Vec<u8>,
}

/// Parses a whole text according to RFC 8259: one value, UTF-8, no byte order mark, no lone surrogates, no number
/// beyond a double's range, and at most [`MAX_DEPTH`](super::MAX_DEPTH) nested arrays and objects.
pub(crate) fn parse(text: &[u8]) -> Result<Nodes, ParseError> {
    let mut nodes = Nodes::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = nodes.deserialize(&mut reader).and_then(|()| reader.end());
    read.map(|()| nodes).map_err(|error| ParseError {
        message: format!("json: {error}"),
        code: if error.is_eof() { "truncated" } else { "invalid" },
    })
}

impl Nodes {
    fn push<E>(&mut self, node: Node) -> Result<(), E> {
        self.nodes.push(node);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut Nodes {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Nodes {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.push(Node::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.push(Node::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.push(Node::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.push(match i64::try_from(value) {
            Ok(value) => Node::Integer(value),
            Err(_) => Node::Float(value as f64),
        })
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.push(Node::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.bytes.extend_from_slice(value.as_bytes());
        self.push(Node::String(value.len()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        let (at, mut count) = (self.nodes.len(), 0);
        self.nodes.push(Node::Null);
        while values.next_element_seed(&mut *self)?.is_some() {
            count += 1;
        }
        self.nodes[at] = Node::Array(count);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let (at, mut count) = (self.nodes.len(), 0);
        self.nodes.push(Node::Null);
        while fields.next_key_seed(&mut *self)?.is_some() {
            fields.next_value_seed(&mut *self)?;
            count += 1;
        }
        self.nodes[at] = Node::Object(count);
        self.push(Node::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Node::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn nodes_are_in_the_order_of_the_text() {
        let read = parse(br#" {"a":[1,2.5,null],"b\n":{},"a":true} "#).expect("valid JSON");
        let wanted = [
            Object(3),
            String(1),
            Array(3),
            Integer(1),
            Float(2.5),
            Null,
            String(2),
            Object(0),
            End,
            String(1),
            Boolean(true),
            End,
        ];
        assert_eq!(read.nodes, wanted);
        assert_eq!(read.bytes, b"ab\na");
    }

    #[test]
    fn invalid_text_is_refused_with_line_and_column() {
        for (text, message, code) in [
            ("", "EOF while parsing a value at line 1 column 0", "truncated"),
            ("[1,", "EOF while parsing a value at line 1 column 3", "truncated"),
            ("1 2", "trailing characters at line 1 column 3", "invalid"),
            ("{1:2}", "key must be a string at line 1 column 2", "invalid"),
        ] {
            let bad = parse(text.as_bytes()).map(|_| ()).expect_err(text);
            assert_eq!((bad.message, bad.code), (format!("json: {message}"), code));
        }
        let deep = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(deep(super::super::MAX_DEPTH as usize).as_bytes()).is_ok());
        assert!(parse(deep(super::super::MAX_DEPTH as usize + 1).as_bytes()).is_err());
    }

    /// Converts the value at the current node for comparison with `serde_json`.
    fn value(nodes: &mut std::slice::Iter<'_, Node>, bytes: &mut &[u8]) -> Option<Value> {
        let mut string = |size: usize| {
            let (string, rest) = bytes.split_at(size);
            *bytes = rest;
            std::string::String::from_utf8(string.to_vec()).expect("valid UTF-8")
        };
        Some(match *nodes.next().expect("a node") {
            Null => Value::Null,
            Boolean(value) => value.into(),
            Integer(value) => value.into(),
            Float(value) => value.into(),
            String(size) => string(size).into(),
            Array(count) => (0..count).filter_map(|_| value(nodes, bytes)).collect(),
            Object(count) => {
                let mut fields = serde_json::Map::new();
                for _ in 0..count {
                    let Some(Value::String(key)) = value(nodes, bytes) else { panic!("a key") };
                    fields.insert(key, value(nodes, bytes)?);
                }
                assert_eq!(nodes.next(), Some(&End));
                fields.into()
            }
            End => return None,
        })
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e300..1e300).prop_map(Value::from),
            any::<std::string::String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map(any::<std::string::String>(), inner, 0..6)
                    .prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn nodes_have_the_values_that_serde_json_parses(wanted in json()) {
            let read = parse(wanted.to_string().as_bytes()).expect("valid JSON");
            let mut nodes = read.nodes.iter();
            let mut bytes = &read.bytes[..];
            prop_assert_eq!(value(&mut nodes, &mut bytes), Some(wanted));
            prop_assert!(nodes.next().is_none() && bytes.is_empty());
        }

        #[test]
        fn random_text_is_parsed_like_by_serde_json(text in "[\\[\\]{}\",:0-9a-z\\\\ .eE+-]{0,40}") {
            let wanted = serde_json::from_str::<Value>(&text);
            match (parse(text.as_bytes()), wanted) {
                (Ok(_), Ok(_)) => {}
                (Err(bad), Err(error)) => prop_assert_eq!(bad.message, format!("json: {error}")),
                (read, wanted) => prop_assert!(false, "{:?} {:?}", read.map(|read| read.nodes), wanted),
            }
        }
    }
}
