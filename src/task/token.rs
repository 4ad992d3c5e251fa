//! What a task waits on. Two values of Lua are one token when they are equal by raw equality.
//!
//! A token holds no reference: whoever waits keeps the value alive, by leaving it on the waiting coroutine's stack. So an
//! address stands for one object as long as a task waits on it.

use crate::lua::{Kind, Stack};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Strings up to this length exist once per VM (`LUAI_MAXSHORTLEN`); equal longer ones may have different addresses.
const SHORT: usize = 40;

/// What a task waits on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// The answer to a request of the scheduler's; equal to no value of Lua.
    Session(i64),
    /// An integer, or a float that equals one.
    Integer(i64),
    /// Any other float, by its bits.
    Float(u64),
    Boolean(bool),
    /// A light userdata.
    Light(usize),
    /// Type and address of anything that Lua allocates, and of a C function.
    Object(Kind, usize),
    /// A long string, by a keyed hash of 128 bits.
    Text(u64, u64),
}

/// The keys under which this VM's long strings are hashed.
#[derive(Default)]
pub(super) struct TextKeys(RandomState, RandomState);

impl Token {
    /// The full userdata that has this identity.
    #[inline]
    pub(crate) fn of_userdata(identity: usize) -> Token {
        Token::Object(Kind::Userdata, identity)
    }

    /// The token that the value at `index` is; `None` for nil and NaN, which equal nothing.
    #[inline]
    pub(super) fn of(stack: &Stack, index: i32, keys: &TextKeys) -> Option<Token> {
        match stack.kind(index) {
            Kind::None | Kind::Nil => None,
            Kind::Number => match stack.whole(index) {
                Some(value) => Some(Token::Integer(value)),
                None => {
                    let value = stack.number(index).ok()?;
                    (!value.is_nan()).then_some(Token::Float(value.to_bits()))
                }
            },
            Kind::Boolean => Some(Token::Boolean(stack.is_true(index))),
            Kind::LightUserdata => stack.light(index).map(|light| Token::Light(light.0)),
            Kind::String if stack.raw_length(index) > SHORT => {
                let text = stack.string(index)?;
                Some(Token::Text(keys.0.hash_one(text), keys.1.hash_one(text)))
            }
            kind => Some(Token::Object(kind, stack.identity(index))),
        }
    }

    /// Whether the collector can find it unreachable.
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
