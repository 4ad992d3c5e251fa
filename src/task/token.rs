//! Tokens: the values that tasks wait on. Two Lua values are the same token if they are equal by raw equality.
//!
//! A token does not keep its value alive. The waiting task does, because it leaves the value on its coroutine's stack.
//! So an address identifies one object as long as a task waits on it.

use crate::lua::{Kind, Stack};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Strings up to this length exist once per VM (`LUAI_MAXSHORTLEN`). Equal longer strings may have different addresses.
const MAX_SHORT_STRING: usize = 40;

/// A value that a task waits on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// A session of the scheduler, such as that of a request. It is not equal to any Lua value.
    Session(i64),
    /// An integer, or a float with an integer value.
    Integer(i64),
    /// Any other float, by its bits.
    Float(u64),
    Boolean(bool),
    /// A light userdata.
    Light(usize),
    /// Any other value that Lua allocates, or a C function: its type and address.
    Object(Kind, usize),
    /// A long string, by a keyed hash of 128 bits.
    Text(u64, u64),
}

/// The keys of the two hash functions for the VM's long strings.
#[derive(Default)]
pub(super) struct TextKeys(RandomState, RandomState);

impl Token {
    /// Returns the token of the full userdata that has this identity.
    #[inline]
    pub(crate) fn of_userdata(identity: usize) -> Token {
        Token::Object(Kind::Userdata, identity)
    }

    /// Returns the token of the value at `index`; `None` for nil and NaN, on which no task can wait.
    #[inline]
    pub(super) fn of(stack: &Stack, index: i32, keys: &TextKeys) -> Option<Token> {
        match stack.kind(index) {
            Kind::None | Kind::Nil => None,
            Kind::Number => match stack.integer_value(index) {
                Some(value) => Some(Token::Integer(value)),
                None => {
                    let value = stack.number(index).ok()?;
                    (!value.is_nan()).then_some(Token::Float(value.to_bits()))
                }
            },
            Kind::Boolean => Some(Token::Boolean(stack.is_true(index))),
            Kind::LightUserdata => stack.light(index).map(|light| Token::Light(light.0)),
            Kind::String if stack.raw_length(index) > MAX_SHORT_STRING => {
                let text = stack.string(index)?;
                Some(Token::Text(keys.0.hash_one(text), keys.1.hash_one(text)))
            }
            kind => Some(Token::Object(kind, stack.identity(index))),
        }
    }

    /// Whether only code that refers to the value can end a wait on it: true for tables, functions, userdata and
    /// coroutines.
    pub(super) fn is_collectable(self) -> bool {
        use Kind::{Function, Table, Thread, Userdata};
        matches!(self, Token::Object(Table | Function | Userdata | Thread, _))
    }
}

impl Hash for Token {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (kind, bits) = match *self {
            Token::Session(value) => (1, value as u64),
            Token::Integer(value) => (2, value as u64),
            Token::Float(bits) => (3, bits),
            Token::Boolean(value) => (4, u64::from(value)),
            Token::Light(address) => (5, address as u64),
            Token::Object(_, address) => (6, address as u64),
            Token::Text(hash, _) => (7, hash),
        };
        state.write_u64(bits ^ kind << 56);
    }
}
