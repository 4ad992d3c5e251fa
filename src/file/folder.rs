//! A folder that is served.
//!
//! A [`Folder`] keeps a descriptor of the folder, so that opening a file below it takes one system call. At most once a
//! second, an access checks whether the path still leads to the same folder, to detect a deployment that replaces a
//! link.

use super::{Kind, METADATA_FLAGS, Metadata, OpenFile, READ_FLAGS, Refusal, beneath};
use rustix::fs::{self, AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The minimum time between two checks of the folder's path.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// An entry of a directory listing.
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) metadata: Metadata,
}

/// A folder and its absolute path.
pub(crate) struct Folder {
    path: PathBuf,
    root: Option<OwnedFd>,
    checked: Instant,
}

const CLOSED: Refusal = Refusal::Word("the folder is closed", "closed");

impl Folder {
    /// Opens a folder. A relative path is relative to the current directory of the process.
    pub(crate) fn open(path: &[u8]) -> Result<Folder, Refusal> {
        if path.contains(&0) {
            return Err(Refusal::HAS_NUL);
        }
        let path = std::path::absolute(OsStr::from_bytes(path)).map_err(Refusal::System)?;
        let root = Some(open_root(&path)?);
        Ok(Folder { path, root, checked: Instant::now() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.root.is_none()
    }

    /// Closes the folder. Idempotent.
    pub(crate) fn close(&mut self) {
        self.root = None;
    }

    /// Forces a check of the folder's path at the next access.
    #[cfg(test)]
    pub(super) fn expire_check(&mut self) {
        self.checked -= CHECK_EVERY;
    }

    /// Opens a file or directory below the folder; `""` is the folder itself.
    pub(crate) fn open_beneath(&mut self, path: &[u8]) -> Result<OpenFile, Refusal> {
        OpenFile::adopt(self.open_for(path, READ_FLAGS)?)
    }

    /// Returns the current metadata of a path below the folder. The target of the path may be outside the folder, so
    /// the result may only be compared with the metadata of a file that was opened by this path.
    pub(crate) fn metadata_beneath(&mut self, path: &[u8]) -> Result<Metadata, Refusal> {
        Ok(Metadata::from_status(&fs::statat(self.root_for(path)?, path, AtFlags::empty())?))
    }

    /// Lists the directory `path`: at most `most` entries, sorted by name, with directories first. For a link, the
    /// entry contains the target's metadata. Files that cannot be served are omitted. Also returns whether there are
    /// further entries.
    pub(crate) fn list(&mut self, path: &[u8], most: usize) -> Result<(Vec<Entry>, bool), Refusal> {
        let mut entries = Vec::new();
        let mut directory = Dir::new(self.open_for(path, READ_FLAGS)?)?;
        let more = loop {
            let Some(entry) = directory.read().transpose()? else { break false };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            // `None` if the entry has been removed in the meantime.
            let status = fs::statat(directory.fd()?, name, AtFlags::SYMLINK_NOFOLLOW);
            let metadata = status.ok().map(|status| Metadata::from_status(&status));
            let name = name.to_bytes().to_vec();
            let served = match metadata {
                Some(metadata) if metadata.kind == Kind::Link => self.link_target(path, &name),
                metadata => metadata.filter(|metadata| metadata.kind != Kind::Other),
            };
            let Some(metadata) = served else { continue };
            if entries.len() == most {
                break true;
            }
            entries.push(Entry { name, metadata });
        };
        entries.sort_by_cached_key(|entry| {
            let is_file = entry.metadata.kind != Kind::Directory;
            (is_file, entry.name.to_ascii_lowercase(), entry.name.clone())
        });
        Ok((entries, more))
    }

    /// Reopens the folder if its path now leads to another folder.
    fn reopen_if_moved(&mut self) -> Result<(), Errno> {
        if let Some(root) = &mut self.root {
            let now = fs::stat(&self.path)?;
            let known = fs::fstat(&*root)?;
            if (now.st_dev, now.st_ino) != (known.st_dev, known.st_ino) {
                *root = open_root(&self.path)?;
            }
            self.checked = Instant::now();
        }
        Ok(())
    }

    /// Checks `path` and returns the folder's descriptor.
    fn root_for(&mut self, path: &[u8]) -> Result<&OwnedFd, Refusal> {
        beneath::check(path)?;
        if self.checked.elapsed() >= CHECK_EVERY {
            self.reopen_if_moved()?;
        }
        self.root.as_ref().ok_or(CLOSED)
    }

    fn open_for(&mut self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Refusal> {
        self.root_for(path)?;
        let root = self.root.as_ref().ok_or(CLOSED)?;
        Ok(beneath::open(root.as_fd(), &self.path, path, flags)?)
    }

    /// Returns the metadata of the file or directory that the link `name` in the directory `path` leads to; `None` if
    /// the target is outside the folder, does not exist, or is neither a file nor a directory.
    fn link_target(&mut self, path: &[u8], name: &[u8]) -> Option<Metadata> {
        let mut full = path.to_vec();
        if !full.is_empty() && !full.ends_with(b"/") {
            full.push(b'/');
        }
        full.extend_from_slice(name);
        let metadata = Metadata::of(self.open_for(&full, METADATA_FLAGS).ok()?).ok()?;
        matches!(metadata.kind, Kind::File | Kind::Directory).then_some(metadata)
    }
}

fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    fs::open(path, METADATA_FLAGS | OFlags::DIRECTORY, Mode::empty())
}
