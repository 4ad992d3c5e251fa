//! The waiting task of each token.

use super::entry::TaskId;
use super::token::Token;
use rustc_hash::FxHashMap;

/// A map from tokens to tasks. Objects, the most common tokens, have their own map, whose keys are one word.
#[derive(Default)]
pub(super) struct Waiters {
    objects: FxHashMap<usize, TaskId>,
    /// Sessions have a separate map, which is searched for each response.
    sessions: FxHashMap<i64, TaskId>,
    others: FxHashMap<Token, TaskId>,
}

/// The map that contains a token, and the token's key there.
enum MapKey {
    /// The address and the type in one word. The type is needed because an empty userdata may have the address of the
    /// next object.
    Object(usize),
    Session(i64),
    Other,
}

impl Token {
    /// Returns the map for the token, and the token's key there.
    #[inline]
    fn map_key(self) -> MapKey {
        match self {
            Token::Object(kind, address) => MapKey::Object(address << 4 | kind as usize & 15),
            Token::Session(session) => MapKey::Session(session),
            _ => MapKey::Other,
        }
    }
}

impl Waiters {
    #[inline]
    pub(super) fn get(&self, token: Token) -> Option<TaskId> {
        match token.map_key() {
            MapKey::Object(key) => self.objects.get(&key).copied(),
            MapKey::Session(session) => self.sessions.get(&session).copied(),
            MapKey::Other => self.others.get(&token).copied(),
        }
    }

    /// Adds a waiting task. Returns the task that was waiting on the token before.
    #[inline]
    pub(super) fn insert(&mut self, token: Token, id: TaskId) -> Option<TaskId> {
        match token.map_key() {
            MapKey::Object(key) => self.objects.insert(key, id),
            MapKey::Session(session) => self.sessions.insert(session, id),
            MapKey::Other => self.others.insert(token, id),
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, token: Token) -> Option<TaskId> {
        match token.map_key() {
            MapKey::Object(key) => self.objects.remove(&key),
            MapKey::Session(session) => self.sessions.remove(&session),
            MapKey::Other => self.others.remove(&token),
        }
    }

    /// Returns how many tasks wait on a session.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lua::Kind;

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
