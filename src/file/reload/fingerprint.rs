//! What tells whether a file has changed since a program loaded it. Made by the program right before it reads the file,
//! so that no change is missed in between, and compared by `lio --watch`.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The size of its text.
const SIZE: usize = 32;

/// Which file it is (its inode), when it was last written (seconds and nanoseconds), and its size; all 0 when there is no
/// such file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fingerprint([u64; 4]);

impl Fingerprint {
    /// Of the file at `path`, symbolic links followed.
    pub(crate) fn of(path: &Path) -> Fingerprint {
        let numbers = |data: Metadata| [data.ino(), data.mtime() as u64, data.mtime_nsec() as u64, data.size()];
        Fingerprint(fs::metadata(path).map(numbers).unwrap_or_default())
    }

    /// Whether the file was there.
    pub(crate) fn exists(&self) -> bool {
        *self != Fingerprint::default()
    }

    /// Whether it is the same file, or folder, whatever is in it.
    pub(crate) fn is_same_file(&self, other: &Fingerprint) -> bool {
        self.0[0] == other.0[0]
    }

    /// As text for a frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.0.map(u64::to_le_bytes).concat()
    }

    /// What [`encode`](Self::encode) made, and the rest of the text.
    pub(crate) fn decode(text: &[u8]) -> Option<(Fingerprint, &[u8])> {
        let (text, rest) = text.split_at_checked(SIZE)?;
        let number = |index| u64::from_le_bytes(text.as_chunks().0[index]);
        Some((Fingerprint([0, 1, 2, 3].map(number)), rest))
    }
}
