//! The content of small files, kept to be sent again. An entry counts only as long as the file's facts are those that it
//! was read with.

use crate::file::Facts;
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// A content is kept only when the file was left alone for so many seconds before: a change in the same tick of the
/// system's clock would not be noticed.
const SETTLED: i64 = 2;

/// What an entry takes besides its path and content, about.
const OVERHEAD: usize = 256;

/// What is known of files by their paths. When there is too much, what was not used lately is dropped.
pub(crate) struct Cache {
    /// Bytes in all, and of one file.
    most: usize,
    file_most: usize,
    size: usize,
    entries: FxHashMap<Rc<[u8]>, Entry>,
    /// The paths, in the order in which they are looked at to make room.
    queue: VecDeque<Rc<[u8]>>,
}

struct Entry {
    facts: Facts,
    /// `None`: only the facts are known.
    content: Option<Bytes>,
    /// Whether it was used since it was last looked at.
    is_used: bool,
}

impl Cache {
    /// Keeps up to `most` bytes, and of one file up to `file_most`; 0: nothing.
    pub(crate) fn new(most: usize, file_most: usize) -> Cache {
        Cache { most, file_most, size: 0, entries: FxHashMap::default(), queue: VecDeque::new() }
    }

    /// Whether a file with these facts may be kept; `now` in seconds since the epoch.
    pub(crate) fn takes(&self, facts: &Facts, now: u64) -> bool {
        let last = facts.seconds.max(facts.changed.0);
        facts.size <= self.file_most as u64
            && facts.size + (OVERHEAD as u64) < self.most as u64
            && last.saturating_add(SETTLED) < i64::try_from(now).unwrap_or(i64::MAX)
    }

    /// The facts that a file was last seen with, if it is known: to be compared with what they are now.
    pub(crate) fn facts(&self, path: &[u8]) -> Option<&Facts> {
        self.entries.get(path).map(|entry| &entry.facts)
    }

    /// The content of a file whose facts are those that are kept.
    pub(crate) fn content(&mut self, path: &[u8]) -> Option<Bytes> {
        let entry = self.entries.get_mut(path)?;
        entry.is_used = true;
        entry.content.clone()
    }

    /// Keeps the facts of a file that was found, and its content if it was read; see [`Cache::takes`].
    pub(crate) fn put(&mut self, path: &[u8], facts: &Facts, content: Option<Bytes>) {
        self.remove(path);
        let path: Rc<[u8]> = path.into();
        self.size += weight(&path, content.as_ref());
        let entry = Entry { facts: *facts, content, is_used: false };
        self.queue.push_back(path.clone());
        self.entries.insert(path, entry);
        self.make_room();
    }

    /// Forgets a file.
    pub(crate) fn remove(&mut self, path: &[u8]) {
        if let Some((path, entry)) = self.entries.remove_entry(path) {
            self.size -= weight(&path, entry.content.as_ref());
            self.queue.retain(|other| !Rc::ptr_eq(other, &path));
        }
    }

    fn make_room(&mut self) {
        while self.size > self.most
            && let Some(path) = self.queue.pop_front()
        {
            let Some(entry) = self.entries.get_mut(&path) else {
                continue;
            };
            if std::mem::take(&mut entry.is_used) {
                self.queue.push_back(path);
                continue;
            }
            self.size -= weight(&path, entry.content.as_ref());
            self.entries.remove(&path);
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.size)
    }
}

fn weight(path: &[u8], content: Option<&Bytes>) -> usize {
    OVERHEAD + path.len() + content.map_or(0, Bytes::len)
}
