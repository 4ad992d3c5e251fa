//! The target `unpack` of the fuzzers.

use super::format::MAX_DEPTH;
use super::read::Corrupt;
use super::{Item, Origin, Reader, Shape, TableState, Value, Writer};
use rustc_hash::FxHashMap;

/// A value that was read.
#[derive(PartialEq, Debug)]
enum Tree {
    Nil,
    Boolean(bool),
    Integer(i64),
    Float(u64),
    String(Vec<u8>),
    Pointer(usize),
    Function(u64),
    Table(Option<i64>, Content),
    /// The index of the content among the contents of the message.
    Postponed(Option<i64>, usize),
    Reference(i64),
}

/// The content of a table: its items and its pairs.
#[derive(PartialEq, Debug, Default)]
struct Content(Vec<Tree>, Vec<(Tree, Tree)>);

/// The values of a message, and the contents of its postponed tables.
#[derive(PartialEq, Debug, Default)]
struct Message {
    values: Vec<Tree>,
    contents: Vec<Content>,
}

/// Reads messages, and counts what the reader returns.
struct Counting<'b> {
    reader: Reader<&'b [u8]>,
    origin: Origin,
    items: usize,
    room: u64,
}

enum Next {
    Value(Tree),
    Content(Content),
    End,
}

impl Counting<'_> {
    fn next(&mut self, depth: u32) -> Result<Next, Corrupt> {
        self.items += 1;
        Ok(Next::Value(match self.reader.next(depth)? {
            Item::Nil => Tree::Nil,
            Item::Boolean(value) => Tree::Boolean(value),
            Item::Integer(value) => Tree::Integer(value),
            Item::Float(value) => Tree::Float(value.to_bits()),
            Item::String(bytes) => Tree::String(bytes.to_vec()),
            Item::Pointer(_) | Item::Function(_) if self.origin == Origin::Text => panic!("an address in a text"),
            Item::Pointer(address) => Tree::Pointer(address),
            Item::Function(number) => Tree::Function(number),
            Item::Table(shape, name) => Tree::Table(name, self.content(&shape, depth + 1)?),
            Item::Postponed(number, name) => Tree::Postponed(name, number as usize - 1),
            Item::Reference(name) => Tree::Reference(name),
            Item::Content(_, shape) => {
                assert_eq!(depth, 0);
                return Ok(Next::Content(self.content(&shape, 1)?));
            }
            Item::End => {
                assert_eq!(depth, 0);
                return Ok(Next::End);
            }
        }))
    }

    fn content(&mut self, shape: &Shape, depth: u32) -> Result<Content, Corrupt> {
        assert!(depth <= MAX_DEPTH, "{depth} open tables");
        self.room += u64::from(shape.room.0) + u64::from(shape.room.1);
        let mut content = Content::default();
        for _ in 0..shape.items {
            content.0.push(self.value(depth)?);
        }
        if shape.pairs {
            loop {
                match self.value(depth)? {
                    Tree::Nil => break,
                    key => content.1.push((key, self.value(depth)?)),
                }
            }
        }
        Ok(content)
    }

    fn value(&mut self, depth: u32) -> Result<Tree, Corrupt> {
        match self.next(depth)? {
            Next::Value(tree) => Ok(tree),
            _ => panic!("a value"),
        }
    }
}

fn read(bytes: &[u8], origin: Origin) -> Result<Message, Corrupt> {
    let mut counting = Counting { reader: Reader::new(bytes, origin), origin, items: 0, room: 0 };
    let mut message = Message::default();
    let result = loop {
        match counting.next(0) {
            Ok(Next::Value(tree)) => message.values.push(tree),
            Ok(Next::Content(content)) => message.contents.push(content),
            Ok(Next::End) => break Ok(()),
            Err(corrupt) => break Err(corrupt),
        }
    };
    assert!(counting.items <= bytes.len() + 1, "each item takes a byte");
    assert!(counting.room <= bytes.len() as u64, "room for {} entries of {} bytes", counting.room, bytes.len());
    result.map(|()| message)
}

/// A part of a message in a form that does not depend on how tables were postponed.
#[derive(PartialEq, Debug)]
enum Token<'m> {
    Value(&'m Tree),
    Begin(usize, usize),
    /// The number of a table, in the order of the tokens.
    Again(usize),
}

/// A walk through the values of a message, with the contents of postponed tables in their places.
struct Walk<'m> {
    message: &'m Message,
    tokens: Vec<Token<'m>>,
    /// The tables with a name: their number and their content.
    named: FxHashMap<i64, (usize, &'m Content)>,
    tables: usize,
}

impl<'m> Walk<'m> {
    /// Returns `None` if a table has no content, or if a reference comes before its table.
    fn of(message: &'m Message) -> Option<Walk<'m>> {
        let mut walk = Walk { message, tokens: Vec::new(), named: FxHashMap::default(), tables: 0 };
        for value in &message.values {
            walk.value(value)?;
        }
        Some(walk)
    }

    fn value(&mut self, tree: &'m Tree) -> Option<()> {
        let (name, content) = match tree {
            Tree::Table(name, content) => (name, content),
            Tree::Postponed(name, index) => (name, self.message.contents.get(*index)?),
            Tree::Reference(name) => {
                let (number, _) = self.named.get(name)?;
                self.tokens.push(Token::Again(*number));
                return Some(());
            }
            tree => {
                self.tokens.push(Token::Value(tree));
                return Some(());
            }
        };
        let Content(items, pairs) = content;
        self.tables += 1;
        if let Some(name) = name {
            self.named.insert(*name, (self.tables, content));
        }
        self.tokens.push(Token::Begin(items.len(), pairs.len()));
        for item in items {
            self.value(item)?;
        }
        for (key, value) in pairs {
            self.value(key)?;
            self.value(value)?;
        }
        Some(())
    }
}

/// Writes a message again. Returns `None` if a reference comes before its table, which no writer produces.
fn written(walk: &Walk<'_>) -> Option<Vec<u8>> {
    let mut writer = Writer::default();
    let mut later = Vec::new();
    for value in &walk.message.values {
        write(&mut writer, walk, value, 0, &mut later)?;
    }
    let mut done = 0;
    while let Some(number) = writer.begin_content(done).expect("memory") {
        done = number;
        write_content(&mut writer, walk, later[number as usize - 1], 1, &mut later)?;
    }
    Some(writer.bytes().to_vec())
}

fn write<'m>(
    writer: &mut Writer, walk: &Walk<'m>, tree: &'m Tree, depth: u32, later: &mut Vec<&'m Content>,
) -> Option<()> {
    let value = match tree {
        Tree::Nil => Value::Nil,
        Tree::Boolean(value) => Value::Boolean(*value),
        Tree::Integer(value) => Value::Integer(*value),
        Tree::Float(bits) => Value::Float(f64::from_bits(*bits)),
        Tree::String(bytes) => Value::String(bytes),
        Tree::Pointer(address) => Value::Pointer(*address),
        Tree::Function(number) => Value::Function(*number),
        Tree::Table(..) | Tree::Postponed(..) | Tree::Reference(_) => {
            let content = match tree {
                Tree::Table(_, content) => content,
                Tree::Postponed(_, index) => &walk.message.contents[*index],
                Tree::Reference(name) => walk.named[name].1,
                _ => return None,
            };
            let identity = std::ptr::from_ref(content).addr();
            match (writer.table(identity, depth).expect("memory"), tree) {
                (TableState::Written, Tree::Reference(_)) => {}
                (TableState::Written, _) => panic!("a table is written twice"),
                (_, Tree::Reference(_)) => return None,
                (TableState::New, _) => return write_content(writer, walk, content, depth + 1, later),
                (TableState::Postponed(number), _) => {
                    later.push(content);
                    assert_eq!(later.len() as i64, number);
                }
            }
            return Some(());
        }
    };
    writer.value(value).expect("memory");
    Some(())
}

fn write_content<'m>(
    writer: &mut Writer, walk: &Walk<'m>, content: &'m Content, depth: u32, later: &mut Vec<&'m Content>,
) -> Option<()> {
    let Content(items, pairs) = content;
    let mut array = writer.array(items.len() as u64).expect("memory");
    for (key, item) in (1..).zip(items) {
        assert_eq!(writer.item(&mut array, key), Ok(true));
        write(writer, walk, item, depth, later)?;
    }
    writer.end_items(&array);
    for (key, value) in pairs {
        write(writer, walk, key, depth, later)?;
        write(writer, walk, value, depth, later)?;
    }
    writer.end(array, pairs.len() as u64).expect("memory");
    Some(())
}

/// The result: the numbers of values and of postponed contents, and whether the message could be written again.
pub(crate) type Unpacked = Result<(usize, usize, bool), Corrupt>;

/// Reads the input as a message and as a text, and writes it again.
pub(crate) fn unpack(data: &[u8]) -> Unpacked {
    let (message, text) = (read(data, Origin::Message), read(data, Origin::Text));
    match &text {
        Err(Corrupt::ForeignFunction | Corrupt::ForeignPointer) => {}
        text => assert_eq!(*text, message, "a text without addresses is a message"),
    }
    let message = message?;
    let counts = (message.values.len(), message.contents.len());
    let Some(walk) = Walk::of(&message) else { return Ok((counts.0, counts.1, false)) };
    let Some(bytes) = written(&walk) else { return Ok((counts.0, counts.1, false)) };
    let again = read(&bytes, Origin::Message).expect("a written message");
    let again = Walk::of(&again).expect("a written message has its tables");
    assert_eq!(again.tokens, walk.tokens, "the values of the written message");
    Ok((counts.0, counts.1, true))
}

/// Returns seeds of [`unpack`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let values = [
        Tree::Nil,
        Tree::Boolean(true),
        Tree::Integer(-16),
        Tree::Integer(200),
        Tree::Integer(i64::MIN),
        Tree::Float(1.5f64.to_bits()),
        Tree::String(b"short".to_vec()),
        Tree::String(vec![b'x'; 300]),
    ];
    let nested = |depth: usize| {
        let empty = Tree::Table(None, Content::default());
        (1..depth).fold(empty, |inner, _| Tree::Table(None, Content(vec![inner], vec![(Tree::Integer(7), Tree::Nil)])))
    };
    let pairs = (0..5).map(|key| (Tree::Integer(key), Tree::String(vec![b'v'; 70]))).collect();
    let list = Tree::Table(None, Content((0..300).map(Tree::Integer).collect(), Vec::new()));
    let shared = Tree::Table(Some(1), Content(vec![Tree::Reference(1)], Vec::new()));
    let packed = |values: Vec<Tree>| {
        let message = Message { values, contents: Vec::new() };
        Walk::of(&message).and_then(|walk| written(&walk)).unwrap_or_default()
    };
    vec![
        packed(values.into()),
        packed(vec![Tree::Table(None, Content(vec![Tree::Nil, Tree::Integer(1)], pairs)), list]),
        packed(vec![nested(150), nested(2)]),
        packed(vec![shared, Tree::Reference(1)]),
        packed(vec![Tree::Pointer(8), Tree::Function(3)]),
        // Counts of items and pairs that exceed the bytes.
        b"\xcd\x80\xff\xff\xff\xff\x10".to_vec(),
        b"\xcd\x3f\xc0".to_vec(),
        // References without a table, a content without a table, a table without its content, an unknown tag.
        b"\xd2\x20".to_vec(),
        b"\xd1\x00".to_vec(),
        b"\xcf".to_vec(),
        b"\xff".to_vec(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_every_kind_of_value() {
        let all: Vec<_> = seeds().iter().map(|seed| format!("{:?}", unpack(seed))).collect();
        let expected = [
            "Ok((8, 0, true))",
            "Ok((2, 0, true))",
            "Ok((2, 3, true))",
            "Ok((2, 0, true))",
            "Ok((2, 0, true))",
            "Err(CutOff)",
            "Ok((1, 0, true))",
            "Ok((1, 0, false))",
            "Err(Content)",
            "Err(CutOff)",
            "Err(Tag)",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..60 {
            for first in 0..=255 {
                let _ = unpack(&vec![first; length]);
            }
        }
    }
}
