//! The fingerprint of a file, from which `lio --watch` detects that the file has changed since a program loaded it. The
//! program takes the fingerprint immediately before it reads the file, so that no later change is missed.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The size of an encoded fingerprint in bytes.
const SIZE: usize = 32;

/// The inode of a file, the time of its last write (seconds and nanoseconds), and its size; all 0 if there is no such
/// file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fingerprint([u64; 4]);

impl Fingerprint {
    /// Returns the fingerprint of the file at `path`; symbolic links are followed.
    pub(crate) fn of(path: &Path) -> Fingerprint {
        let numbers = |data: Metadata| [data.ino(), data.mtime() as u64, data.mtime_nsec() as u64, data.size()];
        Fingerprint(fs::metadata(path).map(numbers).unwrap_or_default())
    }

    /// Returns whether the file existed.
    pub(crate) fn exists(&self) -> bool {
        *self != Fingerprint::default()
    }

    /// Returns whether both fingerprints have the same inode, and so belong to the same file or folder, regardless of
    /// its content.
    pub(crate) fn is_same_file(&self, other: &Fingerprint) -> bool {
        self.0[0] == other.0[0]
    }

    /// Encodes the fingerprint for a frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.0.map(u64::to_le_bytes).concat()
    }

    /// Decodes the fingerprint at the start of `text`, which [`encode`](Self::encode) has written. Also returns the
    /// rest of `text`.
    pub(crate) fn decode(text: &[u8]) -> Option<(Fingerprint, &[u8])> {
        let (text, rest) = text.split_at_checked(SIZE)?;
        let number = |index| u64::from_le_bytes(text.as_chunks().0[index]);
        Some((Fingerprint([0, 1, 2, 3].map(number)), rest))
    }
}
