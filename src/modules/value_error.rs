//! Why a Lua value cannot be converted, and the path to the part that cannot. `json` and `template` convert tables by
//! the same rules: a table with the keys 1 to n is a list, and a table with string keys has named fields.

use crate::lua::{Kind, Pairs, Read, Walk};
use std::fmt::{self, Write};

/// The maximum length of a message in bytes. A longer message, with a long path to the value, is truncated.
const MAX_MESSAGE: usize = 400;

/// The failure is boxed, so that each result, which is nearly always `Ok`, is one word.
pub(super) type ValueResult<T = ()> = Result<T, Box<ValueError>>;

/// Why a value cannot be converted, and the path to it, innermost step first.
pub(super) struct ValueError {
    what: String,
    /// Whether `what` is a description of the value, and not a sentence.
    is_value: bool,
    path: Vec<PathStep>,
}

/// One step of the path to a value.
pub(super) enum PathStep {
    Field(Vec<u8>),
    Element(i64),
}

/// Returns the failure `what`.
pub(super) fn fail<T>(what: impl Into<String>) -> ValueResult<T> {
    Err(Box::new(ValueError { what: what.into(), is_value: false, path: Vec::new() }))
}

/// Returns the failure for a value that has no counterpart. `what` describes the value.
pub(super) fn unsupported<T>(what: impl Into<String>) -> ValueResult<T> {
    Err(Box::new(ValueError { what: what.into(), is_value: true, path: Vec::new() }))
}

impl ValueError {
    /// Adds a step to the path: the value that cannot be converted is inside `step`.
    pub(super) fn inside(mut self: Box<Self>, step: PathStep) -> Box<Self> {
        self.path.push(step);
        self
    }

    /// Returns the message of `call`, which cannot `verb` the value.
    pub(super) fn message(&self, call: &str, verb: &str) -> String {
        let mut message = format!("{call}: ");
        if self.is_value {
            message.push_str("cannot ");
            message.push_str(verb);
            message.push(' ');
        }
        message.push_str(&self.what);
        if !self.path.is_empty() {
            message.push_str(" at ");
        }
        let written = self.path.iter().rev().try_for_each(|step| write_step(&mut message, step));
        debug_assert!(written.is_ok(), "a string accepts all text");
        let end = (0..=MAX_MESSAGE).rev().find(|at| message.is_char_boundary(*at));
        message.truncate(end.unwrap_or(0));
        message
    }
}

fn write_step(message: &mut String, step: &PathStep) -> fmt::Result {
    match step {
        PathStep::Element(index) => write!(message, "[{index}]"),
        PathStep::Field(name) if is_name(name) => write!(message, ".{}", String::from_utf8_lossy(name)),
        PathStep::Field(name) => write!(message, "[{}]", quoted(name)),
    }
}

/// Returns whether `.name` is valid Lua.
fn is_name(name: &[u8]) -> bool {
    name.first().is_some_and(|byte| !byte.is_ascii_digit())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Returns a key for a message: in quotes, escaped, and truncated to 40 bytes.
pub(super) fn quoted(name: &[u8]) -> String {
    match name.len() {
        0..=40 => format!("\"{}\"", name.escape_ascii()),
        _ => format!("\"{}...\"", name[..40].escape_ascii()),
    }
}

/// Returns Lua's name for a type that is not supported, without an article.
pub(super) fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Boolean => "boolean",
        Kind::Number => "float",
        Kind::Function => "function",
        Kind::Thread => "thread",
        Kind::LightUserdata => "light userdata",
        _ => "userdata",
    }
}

/// Returns the failure for a key whose type is not supported, or whose type differs from the type of the keys before
/// it.
pub(super) fn bad_key(pairs: &mut Pairs<'_>) -> ValueResult {
    let key = pairs.key();
    match pairs.walk().read(key) {
        Read::String(_) | Read::Integer(_) => unsupported("a table with both integer and string keys"),
        Read::Table => unsupported("a table with a table as key"),
        Read::Other(kind) => unsupported(format!("a table with a {} as key", type_name(kind))),
    }
}

/// Returns the number of keys of the table. Fails if a key is not an integer.
pub(super) fn count_integer_keys(values: &mut Walk, table: i32) -> ValueResult<i64> {
    let mut count = 0;
    if let Some(mut pairs) = values.pairs(table) {
        while pairs.next() {
            if pairs.integer_key().is_none() {
                bad_key(&mut pairs)?;
            }
            count += 1;
        }
    }
    Ok(count)
}
