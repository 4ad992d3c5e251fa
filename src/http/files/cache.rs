//! A cache of the content of small files. An entry is valid only while the file's metadata is unchanged.

use crate::file::Metadata;
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// The content of a file is cached only if the file has not changed for this number of seconds: a later change in the
/// same tick of the system's clock would not be noticed.
const MIN_AGE: i64 = 2;

/// The approximate size of an entry without its path and content, in bytes.
const ENTRY_OVERHEAD: usize = 256;

/// The cache of files by path. If it is too large, entries that were not used recently are removed.
pub(crate) struct Cache {
    /// The maximum size of the cache, and of one cached file, in bytes.
    most: usize,
    file_most: usize,
    size: usize,
    entries: FxHashMap<Rc<[u8]>, Entry>,
    /// The paths, in the order in which they are checked for removal.
    queue: VecDeque<Rc<[u8]>>,
}

struct Entry {
    metadata: Metadata,
    /// `None` if only the metadata is cached.
    content: Option<Bytes>,
    /// Whether the entry has been used since it was last checked for removal.
    is_used: bool,
}

impl Cache {
    /// Creates a cache of up to `most` bytes, with files of up to `file_most` bytes. If `most` is 0, nothing is cached.
    pub(crate) fn new(most: usize, file_most: usize) -> Cache {
        Cache { most, file_most, size: 0, entries: FxHashMap::default(), queue: VecDeque::new() }
    }

    /// Whether a file with this metadata may be cached. `now`: seconds since the Unix epoch.
    pub(crate) fn accepts(&self, metadata: &Metadata, now: u64) -> bool {
        let last = metadata.seconds.max(metadata.changed.0);
        metadata.size <= self.file_most as u64
            && metadata.size + (ENTRY_OVERHEAD as u64) < self.most as u64
            && last.saturating_add(MIN_AGE) < i64::try_from(now).unwrap_or(i64::MAX)
    }

    /// Returns the cached metadata of a file. The caller compares it with the current metadata.
    pub(crate) fn metadata(&self, path: &[u8]) -> Option<&Metadata> {
        self.entries.get(path).map(|entry| &entry.metadata)
    }

    /// Returns the cached content of a file. The caller has checked that the metadata is unchanged.
    pub(crate) fn content(&mut self, path: &[u8]) -> Option<Bytes> {
        let entry = self.entries.get_mut(path)?;
        entry.is_used = true;
        entry.content.clone()
    }

    /// Caches the metadata of a file, and its content if given; see [`Cache::accepts`].
    pub(crate) fn put(&mut self, path: &[u8], metadata: &Metadata, content: Option<Bytes>) {
        self.remove(path);
        let path: Rc<[u8]> = path.into();
        self.size += weight(&path, content.as_ref());
        let entry = Entry { metadata: *metadata, content, is_used: false };
        self.queue.push_back(path.clone());
        self.entries.insert(path, entry);
        self.make_room();
    }

    /// Removes the entry of a file.
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
            let Some(entry) = self.entries.get_mut(&path) else { continue };
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
    ENTRY_OVERHEAD + path.len() + content.map_or(0, Bytes::len)
}
