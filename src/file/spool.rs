//! Temporary files for uploads. They have no name if the system supports unnamed files. A small file is kept in memory
//! until its path is requested, so that the small files of a form need no descriptors.
//!
//! Invariant: a file that was not linked is removed when its [`Spool`] is dropped, even after an error or a panic:
//! either the file never had a name (`O_TMPFILE`), or `Drop` removes the name.

use super::read_at;
use rustix::fs::{self, AtFlags, CWD};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The maximum number of further names to try if the first name already exists.
const MAX_ATTEMPTS: u32 = 100;

/// The maximum size in bytes of a file that is kept in memory.
const MAX_IN_MEMORY: usize = 16 * 1024;

/// An open temporary file.
pub(crate) struct Spool {
    dir: PathBuf,
    content: Content,
    size: u64,
}

enum Content {
    Memory(Vec<u8>),
    /// A file on disk, and its name if the name must be removed.
    Disk(File, Option<PathBuf>),
    Closed,
}

impl Spool {
    /// Returns an empty file. Once the file is on disk, it is in the file system of `dir`.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf(), content: Content::Memory(Vec::new()), size: 0 }
    }

    /// Appends all of `bytes`. May block on the disk.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.content {
            Content::Memory(memory) if memory.len() + bytes.len() <= MAX_IN_MEMORY => {
                memory.extend_from_slice(bytes);
            }
            _ => self.on_disk()?.write_all(bytes)?,
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Returns up to `most` bytes at `offset`; no bytes at the end of the file.
    pub(crate) fn read(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        match &self.content {
            Content::Memory(memory) => {
                let from = usize::try_from(offset).map_or(memory.len(), |at| at.min(memory.len()));
                let rest = &memory[from..];
                Ok(rest[..most.min(rest.len())].to_vec())
            }
            Content::Disk(file, _) => {
                let mut bytes = Vec::new();
                read_at(file.as_fd(), &mut bytes, most, offset)?;
                Ok(bytes)
            }
            Content::Closed => Err(Errno::BADF.into()),
        }
    }

    /// Returns the number of bytes written.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns a path through which this process and its children can open the file until it is closed. After this
    /// call, the file is on disk.
    pub(crate) fn path(&mut self) -> io::Result<PathBuf> {
        self.on_disk()?;
        Ok(match &self.content {
            Content::Disk(_, Some(name)) => name.clone(),
            Content::Disk(file, None) => path_of_descriptor(file),
            Content::Memory(_) | Content::Closed => PathBuf::new(),
        })
    }

    /// Gives the file the permanent name `to`. If the name already exists, it is replaced atomically if `replace` is
    /// true; otherwise the call fails.
    pub(crate) fn link(&mut self, to: &Path, replace: bool) -> io::Result<()> {
        let from = self.path()?;
        let link = |to: &Path| fs::linkat(CWD, &from, CWD, to, AtFlags::SYMLINK_FOLLOW);
        if !replace {
            return Ok(link(to)?);
        }
        // link(2) cannot replace a name, but rename(2) does, atomically.
        let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty());
        let between = fresh_name(dir.unwrap_or(Path::new(".")));
        link(&between)?;
        let moved = fs::rename(&between, to);
        // The intermediate name still exists if the rename failed, or if `to` was already a name of this file.
        let _ = fs::unlink(&between);
        Ok(moved?)
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.content, Content::Closed)
    }

    /// Closes the file, and removes it unless it was linked. Idempotent.
    pub(crate) fn close(&mut self) {
        if let Content::Disk(_, Some(name)) = std::mem::replace(&mut self.content, Content::Closed) {
            // Another process may have removed the file.
            let _ = fs::unlink(name);
        }
    }

    /// Returns the file on disk, which is created if necessary.
    fn on_disk(&mut self) -> io::Result<&mut File> {
        if let Content::Memory(memory) = &self.content {
            let (mut file, name) = match open_nameless(&self.dir) {
                Some(file) => (file, None),
                None => {
                    let (file, name) = open_named(&self.dir)?;
                    (file, Some(name))
                }
            };
            let written = file.write_all(memory);
            self.content = Content::Disk(file, name);
            written?;
        }
        match &mut self.content {
            Content::Disk(file, _) => Ok(file),
            Content::Memory(_) | Content::Closed => Err(Errno::BADF.into()),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns a name in `dir` that is most likely unused.
fn fresh_name(dir: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |passed| passed.subsec_nanos());
    dir.join(format!(".lio-{}-{count}-{time:x}", std::process::id()))
}

/// Opens a file without a name; `None` if the file system does not support this, or if `/proc` is not available.
#[cfg(target_os = "linux")]
fn open_nameless(dir: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = fs::open(dir, flags, Mode::from_raw_mode(0o666)).ok()?.into();
    // [`Spool::link`] needs this path below `/proc`.
    std::fs::symlink_metadata(path_of_descriptor(&file)).ok()?;
    Some(file)
}

#[cfg(not(target_os = "linux"))]
fn open_nameless(_dir: &Path) -> Option<File> {
    None
}

/// Returns the path through which this process and its children can open the file again.
fn path_of_descriptor(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

fn open_named(dir: &Path) -> io::Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    for _ in 0..=MAX_ATTEMPTS {
        let name = fresh_name(dir);
        match options.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((opened?, name)),
        }
    }
    Err(Errno::EXIST.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(spool: &Spool) -> Vec<u8> {
        spool.read(0, spool.size() as usize + 1).expect("read")
    }

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("lio-spool-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("folder");
        dir
    }

    fn check_one(mut spool: Spool, dir: &Path) {
        spool.write(b"one ").expect("write");
        spool.write(b"two").expect("write");
        assert_eq!(content(&spool), b"one two");
        spool.on_disk().expect("store");
        assert_eq!(content(&spool), b"one two", "on disk");
        assert_eq!(std::fs::read(spool.path().expect("a path")).expect("the path can be read"), b"one two");
        let kept = dir.join("kept");
        spool.link(&kept, false).expect("link");
        let again = spool.link(&kept, false).expect_err("exists");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        spool.link(&kept, true).expect("replace");
        drop(spool);
        assert_eq!(std::fs::read(&kept).expect("stays"), b"one two");
        let left = std::fs::read_dir(dir).expect("list").count();
        assert_eq!(left, 1, "only the linked file is left");
        std::fs::remove_dir_all(dir).expect("remove");
    }

    #[test]
    fn a_file_is_removed_with_its_owner_unless_it_was_linked() {
        let dir = folder("nameless");
        check_one(Spool::new(&dir), &dir);
    }

    #[test]
    fn named_files_are_removed_if_the_file_system_requires_names() {
        let dir = folder("named");
        let (file, name) = open_named(&dir).expect("create");
        let mut spool = Spool::new(&dir);
        spool.content = Content::Disk(file, Some(name));
        check_one(spool, &dir);
    }

    #[test]
    fn small_content_stays_in_memory_and_larger_content_is_written_to_a_file() {
        let dir = folder("small");
        let mut spool = Spool::new(&dir);
        let mut all = vec![b'a'; MAX_IN_MEMORY];
        spool.write(&all).expect("write");
        assert!(matches!(spool.content, Content::Memory(_)));
        spool.write(b"b").expect("write");
        all.push(b'b');
        assert!(!matches!(spool.content, Content::Memory(_)));
        assert_eq!(content(&spool), all);
        spool.close();
        assert!(spool.write(b"c").is_err(), "closed");
        std::fs::remove_dir_all(dir).expect("remove");
    }
}
