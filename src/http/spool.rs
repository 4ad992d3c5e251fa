//! Temporary files for uploads, without a name where the system can do that. A small one is kept in memory until
//! somebody wants its path, so that a form of many costs no descriptor each.
//!
//! Called by `form` and by `lualib/lio/web/part.lua`. Invariant: whatever ends the owner, a file that was
//! not linked is gone: it never had a name (`O_TMPFILE`), or `Drop` removes that.

use crate::raw::object::{self, Object, closed_text};
use crate::raw::{Fault, Function, args, functions, guard, push_bytes, raise, settle};
use mlua::ffi::{self, lua_State};
use std::convert::Infallible;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::raw::c_int;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The most one `read` gives.
const READ_MOST: i64 = 1 << 20;
/// How often a taken name is replaced by another one.
const ATTEMPTS: u32 = 100;

/// So many bytes are kept in memory.
const SMALL: usize = 16 * 1024;

/// An open temporary file.
pub(crate) struct Spool {
    dir: PathBuf,
    /// All of it, while there is no file.
    memory: Vec<u8>,
    file: Option<File>,
    closed: bool,
    /// The name to remove, for a file that could not be made without one.
    name: Option<PathBuf>,
    size: u64,
}

/// A name in `dir` that nothing has, most likely.
fn fresh_name(dir: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |passed| passed.subsec_nanos());
    dir.join(format!(".lio-{}-{count}-{time:x}", std::process::id()))
}

/// A file without a name, when the file system and `/proc` allow that.
#[cfg(target_os = "linux")]
fn open_nameless(dir: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o666);
    let file = options.custom_flags(libc::O_TMPFILE).open(dir).ok()?;
    // Linking it goes by that name.
    std::fs::symlink_metadata(proc_name(&file)).ok()?;
    Some(file)
}

#[cfg(not(target_os = "linux"))]
fn open_nameless(_dir: &Path) -> Option<File> {
    None
}

/// The name by which other files of this process and its children reach an open one.
fn proc_name(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

fn open_named(dir: &Path) -> io::Result<(File, PathBuf)> {
    let mut attempts = 0;
    loop {
        let name = fresh_name(dir);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        match options.open(&name) {
            Ok(file) => return Ok((file, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < ATTEMPTS => {
                attempts += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Gives the file behind `from` the name `to`; an existing name is an error.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    let from = CString::new(from.as_os_str().as_bytes())?;
    let to = CString::new(to.as_os_str().as_bytes())?;
    // SAFETY: both are C strings that live during the call.
    let done = unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Spool {
    /// An empty file, in the file system of `dir` when it has to be one.
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            memory: Vec::new(),
            file: None,
            closed: false,
            name: None,
            size: 0,
        }
    }

    /// The file on disk, made when there is none yet.
    fn on_disk(&mut self) -> io::Result<&mut File> {
        if self.closed {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        if self.file.is_none() {
            let (mut file, name) = match open_nameless(&self.dir) {
                Some(file) => (file, None),
                None => {
                    let (file, name) = open_named(&self.dir)?;
                    (file, Some(name))
                }
            };
            self.name = name;
            let written = file.write_all(&self.memory);
            self.file = Some(file);
            written?;
            self.memory = Vec::new();
        }
        let missing = || io::Error::from_raw_os_error(libc::EBADF);
        self.file.as_mut().ok_or_else(missing)
    }

    /// Appends all of `bytes`; blocks as files do.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && !self.closed && self.memory.len() + bytes.len() <= SMALL {
            self.memory.extend_from_slice(bytes);
        } else {
            self.on_disk()?.write_all(bytes)?;
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Fills `room` from `offset` on; how many bytes there were.
    fn read_at(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(file) = &self.file {
            return file.read_at(room, offset);
        }
        let from =
            usize::try_from(offset).map_or(self.memory.len(), |at| at.min(self.memory.len()));
        let count = room.len().min(self.memory.len() - from);
        room[..count].copy_from_slice(&self.memory[from..from + count]);
        Ok(count)
    }

    /// Bytes that were written.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The path of a file that is on disk.
    fn path(&self) -> PathBuf {
        let of_descriptor = || self.file.as_ref().map(proc_name);
        self.name.clone().or_else(of_descriptor).unwrap_or_default()
    }

    /// Gives the file a second name, which stays.
    fn link(&mut self, to: &Path, replace: bool) -> io::Result<()> {
        self.on_disk()?;
        let from = self.path();
        if !replace {
            return link(&from, to);
        }
        // A link does not replace, a rename does, at once.
        let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty());
        let between = fresh_name(dir.unwrap_or(Path::new(".")));
        link(&from, &between)?;
        let moved = std::fs::rename(&between, to);
        // It is still there after a failure, and when `to` is a name of this very file already.
        let _ = std::fs::remove_file(&between);
        moved
    }

    fn close(&mut self) {
        self.closed = true;
        self.memory = Vec::new();
        self.file = None;
        if let Some(name) = self.name.take() {
            // Somebody else may have removed it, which is as well.
            let _ = std::fs::remove_file(name);
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Object for Spool {
    const NAME: &'static CStr = c"lio.http.spool";
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"write", write),
        (c"read", read),
        (c"size", size),
        (c"path", path),
        (c"link", link_to),
        (c"close", close),
    ];
}

unsafe fn path_argument<'a>(state: *mut lua_State, index: c_int) -> &'a Path {
    // SAFETY: the argument stays on the stack while the caller runs.
    Path::new(OsStr::from_bytes(unsafe { args::bytes(state, index) }))
}

/// The open file at argument 1.
unsafe fn check<'a>(state: *mut lua_State) -> &'a mut Spool {
    // SAFETY: the argument stays on the stack; nothing that needs `Drop` is alive.
    unsafe {
        let spool = object::check::<Spool>(state, 1);
        if (*spool).closed {
            raise(state, closed_text("the file"));
        }
        &mut *spool
    }
}

unsafe fn push_done(state: *mut lua_State, done: Result<(), Fault>) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        match done {
            Ok(()) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `http.spool(dir)` → an empty temporary file, in the file system of `dir` as soon as it is more than a little.
///
/// # Safety
/// Called by Lua.
pub(crate) unsafe extern "C-unwind" fn new(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the file is owned by Lua before anything can raise.
    unsafe {
        let dir = path_argument(state, 1);
        let Ok(_) = object::push_new(state, || Ok::<_, Infallible>(Spool::new(dir)));
        1
    }
}

/// `file:write(bytes)` → true, or nil, message, code.
unsafe extern "C-unwind" fn write(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let bytes = args::bytes(state, 2);
        let spool = check(state);
        let done = guard(|| Ok(spool.write(bytes).map_err(|e| Fault::io("store", &e))));
        let done = settle(state, done);
        push_done(state, done)
    }
}

/// `file:read(offset, count)` → up to `count` bytes (1 to 1 MiB) from `offset` on, `""` at the end; or nil,
/// message, code.
unsafe extern "C-unwind" fn read(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; the buffer belongs to Lua, so that a raise loses nothing.
    unsafe {
        let offset = args::integer_in(state, 2, 0, i64::MAX, "offset") as u64;
        let count = args::integer_in(state, 3, 1, READ_MOST, "count") as usize;
        check(state);
        let room: *mut u8 = ffi::lua_newuserdatauv(state, count, 0).cast();
        room.write_bytes(0, count);
        let room = std::slice::from_raw_parts_mut(room, count);
        // Looked up behind what allocates.
        let spool = check(state);
        let done = guard(|| {
            let done = spool.read_at(room, offset);
            Ok(done.map_err(|e| Fault::io("read", &e)))
        });
        match settle(state, done) {
            Ok(count) => {
                push_bytes(state, &room[..count]);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `file:size()` → bytes that were written.
unsafe extern "C-unwind" fn size(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let spool = object::check::<Spool>(state, 1);
        ffi::lua_pushinteger(state, (*spool).size() as i64);
        1
    }
}

/// `file:path()` → a path by which this process and its children can open the file until it is closed; or nil,
/// message, code when it cannot be stored.
unsafe extern "C-unwind" fn path(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; a named file's path is the spool's own, the other one is short.
    unsafe {
        let spool = check(state);
        let stored = guard(|| {
            let stored = spool.on_disk().map(|_| ());
            Ok(stored.map_err(|e| Fault::io("store", &e)))
        });
        if let Err(fault) = settle(state, stored) {
            return fault.push(state);
        }
        if let Some(name) = &spool.name {
            push_bytes(state, name.as_os_str().as_bytes());
            return 1;
        }
        let number = spool.file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let pid = std::process::id() as c_int;
        ffi::lua_pushfstring(state, c"/proc/%d/fd/%d".as_ptr(), pid, number);
        1
    }
}

/// `file:link(path [, replace])`: gives the file a name that stays → true; or nil, message, code:
/// `"exists"`, unless what is there is to be replaced; `"other device"` for another file system.
unsafe extern "C-unwind" fn link_to(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let to = path_argument(state, 2);
        let replace = ffi::lua_toboolean(state, 3) != 0;
        let spool = check(state);
        let done = guard(|| {
            Ok(spool.link(to, replace).map_err(|error| {
                match error.raw_os_error() {
                    Some(libc::EXDEV) => Fault::word("move", "another file system", "other device"),
                    // A path with NUL in it has no errno.
                    None => Fault::os("move", libc::EINVAL),
                    _ => Fault::io("move", &error),
                }
            }))
        });
        let done = settle(state, done);
        push_done(state, done)
    }
}

/// `file:close()`: the file is gone, unless it was linked. Idempotent.
unsafe extern "C-unwind" fn close(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let spool = object::check::<Spool>(state, 1);
        settle(state, guard(|| Ok((*spool).close())));
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(spool: &Spool) -> Vec<u8> {
        let mut all = vec![0; spool.size() as usize + 1];
        let count = spool.read_at(&mut all, 0).expect("read");
        all.truncate(count);
        all
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
        assert_eq!(
            std::fs::read(spool.path()).expect("by its path"),
            b"one two"
        );
        let kept = dir.join("kept");
        spool.link(&kept, false).expect("link");
        let again = spool.link(&kept, false).expect_err("exists");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        spool.link(&kept, true).expect("replace");
        drop(spool);
        assert_eq!(std::fs::read(&kept).expect("stays"), b"one two");
        let left = std::fs::read_dir(dir).expect("list").count();
        assert_eq!(left, 1, "nothing but the linked file is left");
        std::fs::remove_dir_all(dir).expect("remove");
    }

    #[test]
    fn a_file_goes_with_its_owner_unless_it_was_linked() {
        let dir = folder("nameless");
        check_one(Spool::new(&dir), &dir);
    }

    #[test]
    fn a_file_system_without_nameless_files_has_named_ones_that_are_removed() {
        let dir = folder("named");
        let (file, name) = open_named(&dir).expect("create");
        let mut spool = Spool::new(&dir);
        (spool.file, spool.name) = (Some(file), Some(name));
        check_one(spool, &dir);
    }

    #[test]
    fn what_is_small_has_no_file_and_what_is_not_has_all_of_it() {
        let dir = folder("small");
        let mut spool = Spool::new(&dir);
        let mut all = vec![b'a'; SMALL];
        spool.write(&all).expect("write");
        assert!(spool.file.is_none());
        spool.write(b"b").expect("write");
        all.push(b'b');
        assert!(spool.file.is_some() && spool.memory.is_empty());
        assert_eq!(content(&spool), all);
        spool.close();
        assert!(spool.write(b"c").is_err(), "closed");
        std::fs::remove_dir_all(dir).expect("remove");
    }
}
