//! What a task waits on, as the core's map knows it. Two values of Lua are one token when they are
//! equal by raw equality.
//!
//! A token holds no reference: whoever parks a task keeps the value alive, by leaving it on the waiting
//! coroutine's stack. So an address stands for one object as long as somebody waits on it.

use super::core::Slot;
use mlua::ffi::{self, lua_State};
use rustc_hash::FxHashMap;
use std::ffi::c_int;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Strings up to this length exist once per VM (`LUAI_MAXSHORTLEN`); equal longer ones may have
/// different addresses.
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
    Object(c_int, usize),
    /// A long string, by a keyed hash of 128 bits.
    Text(u64, u64),
}

/// The keys under which this VM's long strings are hashed.
pub(super) struct TextKeys(RandomState, RandomState);

impl TextKeys {
    pub(super) fn new() -> Self {
        TextKeys(RandomState::new(), RandomState::new())
    }
}

impl Token {
    /// The token that the value at `index` is; `None` for nil and NaN, which equal nothing.
    ///
    /// # Safety
    /// `state` is valid and there is a value at `index`.
    pub(super) unsafe fn read(
        state: *mut lua_State,
        index: c_int,
        keys: &TextKeys,
    ) -> Option<Token> {
        // SAFETY: reads one value; `lua_tolstring` on a string converts nothing.
        unsafe {
            match ffi::lua_type(state, index) {
                ffi::LUA_TSTRING if ffi::lua_rawlen(state, index) as usize > SHORT => {
                    let mut length = 0;
                    let start = ffi::lua_tolstring(state, index, &mut length);
                    let text = std::slice::from_raw_parts(start.cast::<u8>(), length);
                    Some(Token::Text(keys.0.hash_one(text), keys.1.hash_one(text)))
                }
                ffi::LUA_TNUMBER if ffi::lua_isinteger(state, index) != 0 => {
                    let value = ffi::lua_tointegerx(state, index, std::ptr::null_mut());
                    Some(Token::Integer(value))
                }
                ffi::LUA_TNUMBER => {
                    Token::float(ffi::lua_tonumberx(state, index, std::ptr::null_mut()))
                }
                ffi::LUA_TBOOLEAN => Some(Token::Boolean(ffi::lua_toboolean(state, index) != 0)),
                ffi::LUA_TLIGHTUSERDATA => {
                    Some(Token::Light(ffi::lua_touserdata(state, index).addr()))
                }
                ffi::LUA_TNIL | ffi::LUA_TNONE => None,
                kind => Some(Token::Object(kind, ffi::lua_topointer(state, index).addr())),
            }
        }
    }

    fn float(value: f64) -> Option<Token> {
        // 2^63 itself is the first float that no integer equals.
        let in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
        if in_range && value.trunc() == value {
            return Some(Token::Integer(value as i64));
        }
        (!value.is_nan()).then_some(Token::Float(value.to_bits()))
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
    objects: Map<usize>,
    others: Map<Token>,
}

/// Where the waiter of a token is looked for.
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
    pub(super) fn get(&self, token: Token) -> Option<Slot> {
        match token.place() {
            Place::Object(key) => self.objects.get(&key).copied(),
            Place::Other => self.others.get(&token).copied(),
        }
    }

    /// Enters a waiter; returns the one that was there.
    #[inline]
    pub(super) fn insert(&mut self, token: Token, slot: Slot) -> Option<Slot> {
        match token.place() {
            Place::Object(key) => self.objects.insert(key, slot),
            Place::Other => self.others.insert(token, slot),
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, token: Token) -> Option<Slot> {
        match token.place() {
            Place::Object(key) => self.objects.remove(&key),
            Place::Other => self.others.remove(&token),
        }
    }

    /// How many wait on a session.
    pub(super) fn sessions(&self) -> usize {
        let tokens = self.others.keys();
        tokens
            .filter(|token| matches!(token, Token::Session(_)))
            .count()
    }
}

/// A map from keys that are one word. No key comes from outside.
pub(super) type Map<K> = FxHashMap<K, Slot>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_is_the_integer_that_it_equals() {
        assert_eq!(Token::float(1.0), Some(Token::Integer(1)));
        assert_eq!(Token::float(-0.0), Some(Token::Integer(0)));
        assert_eq!(
            Token::float(-(2f64.powi(63))),
            Some(Token::Integer(i64::MIN))
        );
        assert!(matches!(Token::float(2f64.powi(63)), Some(Token::Float(_))));
        assert!(matches!(Token::float(0.5), Some(Token::Float(_))));
        assert!(matches!(Token::float(f64::INFINITY), Some(Token::Float(_))));
        assert_eq!(Token::float(f64::NAN), None);
    }

    #[test]
    fn objects_of_different_types_at_one_address_are_two_tokens() {
        let mut waiters = Waiters::default();
        let address = 0x7fff_1234_5678;
        let (table, userdata) = (
            Token::Object(ffi::LUA_TTABLE, address),
            Token::Object(ffi::LUA_TUSERDATA, address),
        );
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
