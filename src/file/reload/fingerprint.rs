//! What tells whether a file has changed since a program loaded it. Made by the program right before it reads the file,
//! so that no change is missed in between, and compared by `lio --watch`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The size of its text.
const SIZE: usize = 32;

/// Which file it is, when it was last written, and its size; all 0 when there is no such file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fingerprint {
    inode: u64,
    seconds: u64,
    nanoseconds: u64,
    size: u64,
}

impl Fingerprint {
    /// Of the file at `path`, symbolic links followed.
    pub(crate) fn of(path: &Path) -> Fingerprint {
        let Ok(data) = fs::metadata(path) else {
            return Fingerprint::default();
        };
        Fingerprint {
            inode: data.ino(),
            seconds: data.mtime() as u64,
            nanoseconds: data.mtime_nsec() as u64,
            size: data.size(),
        }
    }

    /// Whether the file was there.
    pub(crate) fn exists(&self) -> bool {
        *self != Fingerprint::default()
    }

    /// Whether it is the same file, or folder, whatever is in it.
    pub(crate) fn is_same_file(&self, other: &Fingerprint) -> bool {
        self.inode == other.inode
    }

    /// As text for a frame.
    pub(crate) fn encode(&self) -> [u8; SIZE] {
        let mut text = [0; SIZE];
        let numbers = [self.inode, self.seconds, self.nanoseconds, self.size];
        for (place, number) in text.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        text
    }

    /// What [`encode`](Self::encode) made, and the rest of the text.
    pub(crate) fn decode(text: &[u8]) -> Option<(Fingerprint, &[u8])> {
        let (text, rest) = text.split_at_checked(SIZE)?;
        let mut numbers = text.chunks_exact(8).map(|place| u64::from_le_bytes(place.try_into().unwrap_or_default()));
        let fingerprint = Fingerprint {
            inode: numbers.next()?,
            seconds: numbers.next()?,
            nanoseconds: numbers.next()?,
            size: numbers.next()?,
        };
        Some((fingerprint, rest))
    }
}
