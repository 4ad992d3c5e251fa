//! `lio.file`: files for serving, as `lualib/lio/web/` and `net.sendfile` use them, and programs.
//!
//! Failures are `nil, message, code`; nothing here waits but on the disk.

use super::folder::{Entry, Folder};
use super::{Facts, OpenFile, read_at};
use crate::raw::object::{self, Object};
use crate::raw::{Fault, Function, Text, args, functions, guard, module, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

/// So many bytes are read at once at most.
const MOST: i64 = 1 << 30;
/// At least so many bytes are asked for, when the caller wants them.
const LITTLE: u64 = 64 * 1024;
/// So many entries are listed unless told otherwise.
const ENTRIES: i64 = 10_000;

impl Object for OpenFile {
    const NAME: &'static CStr = c"lio.file";
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"stat", stat),
        (c"kind", kind),
        (c"size", size),
        (c"read", read),
        (c"handle", handle),
        (c"close", close),
        (c"is_closed", is_closed),
    ];
    const META: &'static [(&'static CStr, Function)] =
        functions![(c"__close", close), (c"__tostring", to_string)];
}

impl Object for Folder {
    const NAME: &'static CStr = c"lio.folder";
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"open", folder_open),
        (c"list", folder_list),
        (c"path", folder_path),
        (c"close", folder_close),
        (c"is_closed", folder_is_closed),
    ];
    const META: &'static [(&'static CStr, Function)] = functions![(c"__close", folder_close)];
}

/// A listing on its way to a Lua table: what owns memory while Lua may raise.
struct Listing(Vec<Entry>);

impl Object for Listing {
    const NAME: &'static CStr = c"lio.listing";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
}

/// The file at argument `index`.
///
/// # Safety
/// Nothing that needs `Drop` may be alive; only one reference may be in use at a time.
pub(crate) unsafe fn check<'a>(state: *mut lua_State, index: c_int) -> &'a mut OpenFile {
    // SAFETY: the argument stays on the stack while the caller runs.
    unsafe { &mut *object::check::<OpenFile>(state, index) }
}

unsafe fn check_folder<'a>(state: *mut lua_State, index: c_int) -> &'a mut Folder {
    // SAFETY: as for `check`.
    unsafe { &mut *object::check::<Folder>(state, index) }
}

/// How the standard library's files begin, in both versions of Lua.
#[repr(C)]
struct Handle {
    file: *mut libc::FILE,
    /// Null once it is closed.
    close: *const c_void,
}

/// What can be read by position: a file of ours, or one of `io.open`. → its descriptor, and its facts.
///
/// # Safety
/// As for [`check`].
pub(crate) unsafe fn source(
    state: *mut lua_State,
    index: c_int,
    call: &'static str,
) -> Result<RawFd, Fault> {
    // SAFETY: the blocks are told by their metatables, and stay on the stack.
    unsafe {
        let closed = Fault::word(call, "the file is closed", "closed");
        if let Some(file) = object::test::<OpenFile>(state, index) {
            return (*file).number().ok_or(closed);
        }
        let handle: *const Handle = ffi::luaL_testudata(state, index, c"FILE*".as_ptr()).cast();
        if handle.is_null() {
            args::type_error(state, index, c"file");
        }
        if (*handle).close.is_null() || (*handle).file.is_null() {
            return Err(closed);
        }
        Ok(libc::fileno((*handle).file))
    }
}

/// `file.measure(f)` → the size now, of a file of ours or of `io.open`; `nil, message, code` when it is no
/// regular file.
unsafe extern "C-unwind" fn measure(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        let measured = source(state, 1, "sendfile").and_then(|number| {
            let mut status: libc::stat = std::mem::zeroed();
            if libc::fstat(number, &mut status) != 0 {
                return Err(Fault::io("sendfile", &std::io::Error::last_os_error()));
            }
            match status.st_mode & libc::S_IFMT {
                libc::S_IFREG => Ok(status.st_size as i64),
                _ => Err(Fault::word("sendfile", "not a regular file", "not a file")),
            }
        });
        match measured {
            Ok(size) => {
                ffi::lua_pushinteger(state, size);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// Pushes what `make` opens, or `nil, message, code`.
unsafe fn opened<T: Object>(
    state: *mut lua_State,
    make: impl FnOnce() -> Result<T, Fault>,
) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        match object::push_new(state, make) {
            Ok(_) => 1,
            Err(fault) => fault.push(state),
        }
    }
}

/// `file.open(path)` → file, for reading: a regular file or a directory; `nil, message, code`.
unsafe extern "C-unwind" fn open(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        let path = args::bytes(state, 1);
        opened(state, || OpenFile::open(path))
    }
}

/// The folder, unless a finalizer that has run since it was looked up has dropped it.
unsafe fn living<'a>(folder: *mut Folder) -> Result<&'a mut Folder, Fault> {
    // SAFETY: the folder's userdata is an argument; nothing of Lua's is called while it is in use.
    let found = unsafe { object::living(folder) };
    found.ok_or(Fault::word("open", "the folder is closed", "closed"))
}

/// `file.open_beneath(root, path)` → file, as `open`, but nothing outside the folder `root` (a path, or
/// what `folder` gave).
unsafe extern "C-unwind" fn open_beneath(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        if let Some(folder) = object::test::<Folder>(state, 1) {
            let path = args::bytes(state, 2);
            return opened(state, || living(folder)?.open_beneath(path));
        }
        let root = args::bytes(state, 1);
        let path = args::bytes(state, 2);
        opened(state, || Folder::open(root)?.open_beneath(path))
    }
}

/// `file.folder(path)` → folder; `nil, message, code`.
unsafe extern "C-unwind" fn folder(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        let path = args::bytes(state, 1);
        opened(state, || Folder::open(path))
    }
}

/// `folder:open(path)` → file; `nil, message, code`.
unsafe extern "C-unwind" fn folder_open(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        let folder = object::check::<Folder>(state, 1);
        let path = args::bytes(state, 2);
        opened(state, || living(folder)?.open_beneath(path))
    }
}

/// Sets the fields of the table on top that tell about a file.
unsafe fn set_facts(state: *mut lua_State, facts: &Facts) {
    // SAFETY: plain stack work.
    unsafe {
        push_bytes(state, facts.kind.name().as_bytes());
        ffi::lua_setfield(state, -2, c"kind".as_ptr());
        let numbers = [
            (c"size", facts.size as i64),
            (c"mtime", facts.seconds),
            (c"mtime_ns", i64::from(facts.nanoseconds)),
            (c"inode", facts.inode as i64),
            (c"device", facts.device as i64),
        ];
        for (name, number) in numbers {
            ffi::lua_pushinteger(state, number);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
    }
}

/// `folder:list([path [, most]])` → list of tables with `name` and the fields of `stat`; and whether there
/// is more than `most` (10,000). Directories first, then by name. `nil, message, code`.
unsafe extern "C-unwind" fn folder_list(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`; the entries belong to a userdata while the table is made.
    unsafe {
        let folder = object::check::<Folder>(state, 1);
        let path = match args::is_none(state, 2) {
            true => &[][..],
            false => args::bytes(state, 2),
        };
        let most = match args::is_none(state, 3) {
            true => ENTRIES,
            false => args::integer_in(state, 3, 1, 1 << 24, "most"),
        } as usize;
        let mut more = false;
        let made = object::push_new(state, || {
            living(folder)?.list(path, most).map(|(entries, rest)| {
                more = rest;
                Listing(entries)
            })
        });
        let listing = match made {
            Ok(listing) => listing,
            Err(fault) => return fault.push(state),
        };
        let count = (*listing).0.len();
        ffi::lua_createtable(state, count as c_int, 0);
        for index in 0..count {
            let entry = &(&(*listing).0)[index];
            ffi::lua_createtable(state, 0, 7);
            push_bytes(state, &entry.name);
            ffi::lua_setfield(state, -2, c"name".as_ptr());
            set_facts(state, &entry.facts);
            ffi::lua_rawseti(state, -2, index as i64 + 1);
        }
        ffi::lua_pushboolean(state, more.into());
        2
    }
}

/// `folder:path()` → its absolute path.
unsafe extern "C-unwind" fn folder_path(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        push_bytes(state, check_folder(state, 1).path().as_os_str().as_bytes());
        1
    }
}

/// `folder:close()`. Idempotent.
unsafe extern "C-unwind" fn folder_close(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        let folder = check_folder(state, 1);
        settle(state, guard(|| Ok(folder.close())));
        0
    }
}

/// `folder:is_closed()`.
unsafe extern "C-unwind" fn folder_is_closed(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        ffi::lua_pushboolean(state, check_folder(state, 1).is_closed().into());
        1
    }
}

/// `f:stat()` → table with `kind`, `size`, `mtime`, `mtime_ns`, `inode`, `device`, as they were when the
/// file was opened. No system call.
unsafe extern "C-unwind" fn stat(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        let facts = *check(state, 1).facts();
        ffi::lua_createtable(state, 0, 6);
        set_facts(state, &facts);
        1
    }
}

/// `f:kind()` → `"file"` or `"directory"`.
unsafe extern "C-unwind" fn kind(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        push_bytes(state, check(state, 1).facts().kind.name().as_bytes());
        1
    }
}

/// `f:size()` → bytes, as it was when the file was opened.
unsafe extern "C-unwind" fn size(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        ffi::lua_pushinteger(state, check(state, 1).facts().size as i64);
        1
    }
}

/// `f:read(offset, count)` → up to `count` bytes from `offset` (0 is the first), `""` at the end;
/// `nil, message, code`.
unsafe extern "C-unwind" fn read(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`; the bytes go into a buffer that Lua owns.
    unsafe {
        let offset = args::integer_in(state, 2, 0, i64::MAX, "offset") as u64;
        let count = args::integer_in(state, 3, 0, MOST, "count") as usize;
        // A large `count` costs no memory by itself: what is asked for is what there was at the opening, or
        // a little, for files that tell no size.
        let there = check(state, 1).facts().size.saturating_sub(offset);
        let count = count.min(there.max(LITTLE) as usize);
        let mut buffer = std::mem::MaybeUninit::<ffi::luaL_Buffer>::uninit();
        let room = ffi::luaL_buffinitsize(state, buffer.as_mut_ptr(), count);
        let room = std::slice::from_raw_parts_mut(room.cast(), count);
        // A finalizer may have closed it while the buffer was made.
        let Some(number) = check(state, 1).number() else {
            return Fault::word("read", "the file is closed", "closed").push(state);
        };
        let result =
            guard(|| Ok(read_at(number, room, offset).map_err(|error| Fault::io("read", &error))));
        match settle(state, result) {
            Ok(got) => {
                ffi::luaL_pushresultsize(buffer.as_mut_ptr(), got);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `f:handle()` → the descriptor as a lightuserdata; nil once closed.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        match check(state, 1).number() {
            Some(number) => ffi::lua_pushlightuserdata(state, number as isize as *mut c_void),
            None => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `f:close()`. Idempotent.
unsafe extern "C-unwind" fn close(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        let file = check(state, 1);
        settle(state, guard(|| Ok(file.close())));
        0
    }
}

/// `f:is_closed()`.
unsafe extern "C-unwind" fn is_closed(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        ffi::lua_pushboolean(state, check(state, 1).number().is_none().into());
        1
    }
}

unsafe extern "C-unwind" fn to_string(state: *mut lua_State) -> c_int {
    // SAFETY: as for `measure`.
    unsafe {
        let text = match check(state, 1).number() {
            None => Text::new("file (closed)"),
            Some(number) => Text::format(format_args!("file ({number})")),
        };
        push_bytes(state, text.as_bytes());
        1
    }
}

/// Opens `lio.file`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(
            state,
            functions![
                (c"open", open),
                (c"open_beneath", open_beneath),
                (c"folder", folder),
                (c"measure", measure),
            ],
        );
        1
    }
}
