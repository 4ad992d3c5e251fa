use super::format::*;
use super::*;
use proptest::prelude::*;

/// A value that the tests write and read.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Nil,
    Boolean(bool),
    Integer(i64),
    Float(u64),
    String(Vec<u8>),
    Pointer(usize),
    Function(u64),
    Table(Vec<Tree>, Vec<(Tree, Tree)>),
}

fn write(writer: &mut Writer, tree: &Tree, depth: u32, later: &mut Vec<Tree>) {
    let value = match tree {
        Tree::Nil => Value::Nil,
        Tree::Boolean(value) => Value::Boolean(*value),
        Tree::Integer(value) => Value::Integer(*value),
        Tree::Float(bits) => Value::Float(f64::from_bits(*bits)),
        Tree::String(bytes) => Value::String(bytes),
        Tree::Pointer(address) => Value::Pointer(*address),
        Tree::Function(number) => Value::Function(*number),
        Tree::Table(..) => {
            let identity = writer.bytes().len();
            match writer.table(identity, depth).expect("memory") {
                TableState::New => content(writer, tree, depth + 1, later),
                TableState::Postponed(number) => {
                    later.push(tree.clone());
                    assert_eq!(later.len() as i64, number);
                }
                TableState::Written => panic!("a tree contains each table once"),
            }
            return;
        }
    };
    writer.value(value).expect("memory");
}

fn content(writer: &mut Writer, tree: &Tree, depth: u32, later: &mut Vec<Tree>) {
    let Tree::Table(items, pairs) = tree else { panic!("a table") };
    let mut array = writer.array(items.len() as u64).expect("memory");
    for (number, item) in (1..).zip(items) {
        assert!(writer.item(&mut array, number).expect("memory"));
        write(writer, item, depth, later);
    }
    writer.end_items(&array);
    for (key, value) in pairs {
        write(writer, key, depth, later);
        write(writer, value, depth, later);
    }
    writer.end(array, pairs.len() as u64).expect("memory");
}

fn packed(values: &[Tree]) -> Vec<u8> {
    let mut writer = Writer::default();
    let mut later = Vec::new();
    for value in values {
        write(&mut writer, value, 0, &mut later);
    }
    let mut done = 0;
    while let Some(number) = writer.begin_content(done).expect("memory") {
        done = number;
        let tree = later[number as usize - 1].clone();
        content(&mut writer, &tree, 1, &mut later);
    }
    writer.bytes().to_vec()
}

/// Reads all values of a message, including the postponed contents. Returns the reader's error if it fails.
fn read(bytes: &[u8], origin: Origin) -> Result<Vec<Tree>, Corrupt> {
    let mut reader = Reader::new(bytes, origin);
    let mut values = Vec::new();
    let mut bodies = Vec::new();
    loop {
        match value(&mut reader, 0)? {
            Read::Value(tree) => values.push(tree),
            Read::Body(number, tree) => {
                assert_eq!(number, bodies.len() as i64 + 1);
                bodies.push(tree);
            }
            Read::End => break,
        }
    }
    Ok(values.iter().map(|tree| joined(tree, &bodies)).collect())
}

/// Returns a copy of `tree` in which the postponed tables `bodies` replace their placeholders.
fn joined(tree: &Tree, bodies: &[Tree]) -> Tree {
    match tree {
        Tree::Pointer(number @ LATER_FROM..) => match bodies.get(number - LATER_FROM) {
            Some(body) => joined(body, bodies),
            None => Tree::Nil,
        },
        Tree::Table(items, pairs) => {
            let join = |tree| joined(tree, bodies);
            let items = items.iter().map(join).collect();
            let pairs = pairs.iter().map(|(key, value)| (join(key), join(value)));
            Tree::Table(items, pairs.collect())
        }
        tree => tree.clone(),
    }
}

/// A pointer from this address on is a placeholder for a postponed table.
const LATER_FROM: usize = usize::MAX / 2;

enum Read {
    Value(Tree),
    Body(i64, Tree),
    End,
}

fn value(reader: &mut Reader<&[u8]>, depth: u32) -> Result<Read, Corrupt> {
    Ok(Read::Value(match reader.next(depth)? {
        Item::Nil => Tree::Nil,
        Item::Boolean(value) => Tree::Boolean(value),
        Item::Integer(value) => Tree::Integer(value),
        Item::Float(value) => Tree::Float(value.to_bits()),
        Item::String(bytes) => Tree::String(bytes.to_vec()),
        Item::Pointer(address) => Tree::Pointer(address),
        Item::Function(number) => Tree::Function(number),
        Item::Table(shape, _) => table(reader, &shape, depth + 1)?,
        Item::Postponed(number, _) => Tree::Pointer(LATER_FROM + number as usize - 1),
        Item::Reference(offset) => Tree::Integer(offset),
        Item::Content(number, shape) => {
            assert_eq!(depth, 0);
            return Ok(Read::Body(number, table(reader, &shape, 1)?));
        }
        Item::End => return Ok(Read::End),
    }))
}

fn table(reader: &mut Reader<&[u8]>, shape: &Shape, depth: u32) -> Result<Tree, Corrupt> {
    let next = |reader: &mut Reader<&[u8]>| match value(reader, depth)? {
        Read::Value(tree) => Ok(tree),
        _ => panic!("a value"),
    };
    let mut items = Vec::new();
    for _ in 0..shape.items {
        items.push(next(reader)?);
    }
    let mut pairs = Vec::new();
    if shape.pairs {
        loop {
            match next(reader)? {
                Tree::Nil => break,
                key => pairs.push((key, next(reader)?)),
            }
        }
    }
    Ok(Tree::Table(items, pairs))
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Tree::Boolean),
        any::<i64>().prop_map(Tree::Integer),
        (-200..200i64).prop_map(Tree::Integer),
        any::<u64>().prop_map(Tree::Float),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Tree::String),
        (0..LATER_FROM).prop_map(Tree::Pointer),
        (1..100u64).prop_map(Tree::Function),
    ];
    leaf.prop_recursive(60, 200, 6, |inner| {
        let pair = (inner.clone(), prop_oneof![Just(Tree::Nil), inner.clone()]);
        let item = prop_oneof![9 => inner, 1 => Just(Tree::Nil)];
        let items = prop::collection::vec(item, 0..6);
        (items, prop::collection::vec(pair, 0..4)).prop_map(|(items, pairs)| Tree::Table(items, pairs))
    })
}

fn nested(depth: usize) -> Tree {
    (1..depth).fold(Tree::Table(Vec::new(), Vec::new()), |inner, _| {
        Tree::Table(vec![inner], vec![(Tree::Integer(7), Tree::Nil)])
    })
}

#[test]
fn tables_of_any_depth_are_read_back() {
    for depth in [1, 47, 48, 49, 50, 97, 300] {
        let values = [nested(depth), Tree::Integer(1), nested(depth)];
        let read = read(&packed(&values), Origin::Message).expect("a written message");
        assert_eq!(read, values, "{depth}");
    }
}

#[test]
fn a_repeated_table_refers_to_its_first_offset() {
    let mut writer = Writer::default();
    for (identity, depth) in [(10, 0), (20, MAX_DEPTH), (10, 0), (20, 3), (20, 0)] {
        if let TableState::New = writer.table(identity, depth).expect("memory") {
            let array = writer.array(0).expect("memory");
            writer.end(array, 0).expect("memory");
        }
    }
    writer.begin_content(0).expect("memory").expect("one was postponed");
    let array = writer.array(0).expect("memory");
    writer.end(array, 0).expect("memory");
    assert_eq!(writer.begin_content(1), Ok(None));
    let mut reader = Reader::new(writer.bytes(), Origin::Message);
    let empty = Shape::default;
    assert_eq!(reader.next(0), Ok(Item::Table(empty(), Some(0))));
    assert_eq!(reader.next(0), Ok(Item::Postponed(1, Some(2))));
    for offset in [0, 2, 2] {
        assert_eq!(reader.next(0), Ok(Item::Reference(offset)));
    }
    assert_eq!(reader.next(0), Ok(Item::Content(1, empty())));
    assert_eq!(reader.next(0), Ok(Item::End));
}

#[test]
fn many_tables_are_distinguished() {
    let mut writer = Writer::default();
    for round in 0..2 {
        for identity in 1..3000 {
            let found = writer.table(identity, 0).expect("memory");
            assert_eq!(matches!(found, TableState::Written), round == 1, "{identity}");
            if round == 0 {
                let array = writer.array(0).expect("memory");
                writer.end(array, 0).expect("memory");
            }
        }
    }
    writer.clear();
    assert!(matches!(writer.table(1, 0), Ok(TableState::New)));
}

#[test]
fn small_gaps_in_an_array_become_nil() {
    let mut writer = Writer::default();
    writer.table(1, 0).expect("memory");
    let mut array = writer.array(300).expect("memory");
    for (key, taken) in [(1, true), (4, true), (4, false), (69, false), (300, false)] {
        assert_eq!(writer.item(&mut array, key), Ok(taken), "{key}");
        if taken {
            writer.integer(key).expect("memory");
        }
    }
    writer.end_items(&array);
    writer.end(array, 0).expect("memory");
    let items = [Tree::Integer(1), Tree::Nil, Tree::Nil, Tree::Integer(4)];
    let read = read(writer.bytes(), Origin::Text).expect("a written message");
    assert_eq!(read, [Tree::Table(items.to_vec(), Vec::new())]);
}

#[test]
fn classes_of_key_counts_are_rounded_up() {
    let classes: Vec<u8> = [0, 1, 2, 3, 4, 5, 8, 9, 1 << 40, u64::MAX].map(keys_class).to_vec();
    assert_eq!(classes, [0, 1, 2, 3, 3, 4, 4, 5, 41, 65]);
}

#[test]
fn preallocation_is_limited_by_the_number_of_bytes() {
    let mut counted = vec![TABLE, WIDTH_64];
    counted.extend((1u64 << 40).to_ne_bytes());
    let mut reader = Reader::new(&counted[..], Origin::Text);
    assert_eq!(reader.next(0), Err(Corrupt::CutOff));
    for (bytes, room) in [
        (&[TABLE, SHAPE_KEYS, NIL][..], (0, 0)),
        (&[TABLE, 33, 0x10, 0x10, NIL], (0, 0)),
        (&[TABLE, WIDTH_8 | 2, 1, 0x10, NIL], (1, 2)),
    ] {
        let mut reader = Reader::new(bytes, Origin::Text);
        match reader.next(0) {
            Ok(Item::Table(shape, None)) => assert_eq!(shape.room, room),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn text_with_an_address_is_refused() {
    for (value, refused) in [(Tree::Pointer(0), Corrupt::ForeignPointer), (Tree::Function(1), Corrupt::ForeignFunction)]
    {
        let bytes = packed(&[Tree::Table(vec![value], Vec::new())]);
        assert!(read(&bytes, Origin::Message).is_ok());
        assert_eq!(read(&bytes, Origin::Text), Err(refused));
    }
}

proptest! {
    #[test]
    fn values_are_read_back_unchanged(values in prop::collection::vec(tree(), 0..4)) {
        prop_assert_eq!(read(&packed(&values), Origin::Message), Ok(values));
    }

    #[test]
    fn a_truncated_message_is_refused_or_shorter(values in prop::collection::vec(tree(), 1..3)) {
        let bytes = packed(&values);
        for length in 0..bytes.len() {
            if let Ok(read) = read(&bytes[..length], Origin::Message) {
                prop_assert!(read.len() <= values.len());
            }
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(byte(), 0..200)) {
        let _ = read(&bytes, Origin::Text);
        let _ = read(&bytes, Origin::Message);
    }
}

/// Generates a byte. Tags are more likely than other bytes.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), NIL..=REFERENCE + 1]
}
