//! What a task waits on. Two values of Lua are one token when they are equal by raw equality.
//!
//! A token holds no reference: whoever waits keeps the value alive, by leaving it on the waiting coroutine's stack. So an
//! address stands for one object as long as a task waits on it.

use super::books::TaskId;
use crate::lua::{Kind, Stack};
use rustc_hash::FxHashMap;
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

/// Which task waits on what. Objects, which are waited on most, have a map of their own, whose keys are one word.
#[derive(Default)]
pub(super) struct Waiters {
    objects: FxHashMap<usize, TaskId>,
    others: FxHashMap<Token, TaskId>,
}

/// Where the waiter of a token is found.
enum Place {
    /// The address and the type in one: an empty userdata's address may be that of what lies behind it.
    Object(usize),
    Other,
}

impl Token {
    #[inline]
    fn place(self) -> Place {
        match self {
            Token::Object(kind, address) => Place::Object(address << 4 | kind as usize & 15),
            _ => Place::Other,
        }
    }
}

impl Waiters {
    #[inline]
    pub(super) fn get(&self, token: Token) -> Option<TaskId> {
        match token.place() {
            Place::Object(key) => self.objects.get(&key).copied(),
            Place::Other => self.others.get(&token).copied(),
        }
    }

    /// Enters a waiter; returns the one that was there.
    #[inline]
    pub(super) fn insert(&mut self, token: Token, id: TaskId) -> Option<TaskId> {
        match token.place() {
            Place::Object(key) => self.objects.insert(key, id),
            Place::Other => self.others.insert(token, id),
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, token: Token) -> Option<TaskId> {
        match token.place() {
            Place::Object(key) => self.objects.remove(&key),
            Place::Other => self.others.remove(&token),
        }
    }

    /// How many wait on a session.
    pub(super) fn sessions(&self) -> usize {
        let tokens = self.others.keys();
        tokens.filter(|token| matches!(token, Token::Session(_))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_different_types_at_one_address_are_two_tokens() {
        let mut waiters = Waiters::default();
        let address = 0x7fff_1234_5678;
        let (table, userdata) = (Token::Object(Kind::Table, address), Token::Object(Kind::Userdata, address));
        assert_eq!(waiters.insert(table, 1), None);
        assert_eq!(waiters.insert(userdata, 2), None);
        assert_eq!(waiters.insert(Token::Light(address), 3), None);
        assert_eq!(waiters.insert(table, 4), Some(1));
        assert_eq!(waiters.remove(userdata), Some(2));
        assert_eq!(waiters.get(userdata), None);
        assert_eq!(waiters.get(table), Some(4));
        assert_eq!(waiters.get(Token::Light(address)), Some(3));
    }
}
