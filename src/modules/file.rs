//! `lio.file`: files for serving, as `lualib/lio/web/` and `net.sendfile` use them, and programs.
//!
//! Failures are `nil, message, code`; nothing here waits but on the disk.

use crate::file::folder::Folder;
use crate::file::{Facts, Kind, OpenFile, Refusal, read_at};
use crate::lua::{Call, Failure, Fault, Function, Light, Module, New, Object, Stack, Value, failed};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

/// So many bytes are read at once at most.
const MOST: i64 = 1 << 30;
/// At least so many bytes are asked for, when the caller wants them.
const LITTLE: u64 = 64 * 1024;
/// So many entries are listed unless told otherwise.
const ENTRIES: usize = 10_000;

impl Object for OpenFile {
    const NAME: &'static CStr = c"lio.file";
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"stat", Function::new(stat)),
        (c"kind", Function::new(kind)),
        (c"size", Function::new(size)),
        (c"read", Function::new(read)),
        (c"handle", Function::new(handle)),
        (c"close", CLOSE),
        (c"is_closed", Function::new(is_closed)),
    ];
    const META: &'static [(&'static CStr, Function)] =
        &[(c"__close", CLOSE), (c"__tostring", Function::new(to_string))];
}

impl Object for Folder {
    const NAME: &'static CStr = c"lio.folder";
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"open", Function::new(folder_open)),
        (c"list", Function::new(folder_list)),
        (c"path", Function::new(folder_path)),
        (c"close", FOLDER_CLOSE),
        (c"is_closed", Function::new(folder_is_closed)),
    ];
    const META: &'static [(&'static CStr, Function)] = &[(c"__close", FOLDER_CLOSE)];
}

const CLOSED: (&str, &str) = ("the file is closed", "closed");
const NOT_A_FILE: (&str, &str) = ("not a regular file", "not a file");

#[cold]
fn failure(call: &'static str, (message, code): (&'static str, &'static str)) -> Fault {
    Failure::word(call, message, code).into()
}

/// What hinders the opening of a file, in one word for programs.
#[cold]
pub(super) fn refused(refusal: Refusal) -> Fault {
    let words = match refusal {
        Refusal::NotAFile => NOT_A_FILE,
        Refusal::HasNul => ("the path has a NUL", "not found"),
        Refusal::NameTooLong => ("the name is too long", "not found"),
        Refusal::TooManyLinks => ("too many links", "not found"),
        Refusal::Outside => ("the path leaves the folder", "outside"),
        Refusal::Closed => ("the folder is closed", "closed"),
        Refusal::System(error) => return failed("open")(error),
    };
    failure("open", words)
}

fn opened<T: Object>(opened: Result<T, Refusal>) -> Result<New<T>, Fault> {
    opened.map(New::of).map_err(refused)
}

/// `file.open(path)` → file, for reading: a regular file or a directory; `nil, message, code`.
fn open(call: &mut Call<'_>) -> Result<New<OpenFile>, Fault> {
    opened(OpenFile::open(call.bytes(1)?))
}

/// `file.open_beneath(root, path)` → file, as `open`, but nothing outside the folder `root` (a path, or
/// what `folder` gave).
fn open_beneath(call: &mut Call<'_>) -> Result<New<OpenFile>, Fault> {
    if call.as_object::<Folder>(1).is_some() {
        return folder_open(call);
    }
    let root = call.bytes(1)?;
    let path = call.bytes(2)?;
    opened(Folder::open(root).and_then(|mut folder| folder.open_beneath(path)))
}

/// `file.folder(path)` → folder; `nil, message, code`.
fn folder(call: &mut Call<'_>) -> Result<New<Folder>, Fault> {
    opened(Folder::open(call.bytes(1)?))
}

/// `file.measure(f)` → the size now, of a file of ours or of `io.open`; `nil, message, code` when it is no
/// regular file.
fn measure(call: &mut Call<'_>) -> Result<i64, Fault> {
    let file = descriptor(call, 1)?.ok_or_else(|| failure("sendfile", CLOSED))?;
    let facts = Facts::of(file).map_err(failed("sendfile"))?;
    match facts.kind {
        Kind::File => Ok(facts.size as i64),
        _ => Err(failure("sendfile", NOT_A_FILE)),
    }
}

/// The descriptor of the file at `index`, of ours or of `io.open`; `None` once it is closed.
fn descriptor<'c>(call: &'c Call<'_>, index: i32) -> Result<Option<BorrowedFd<'c>>, Fault> {
    if let Some(file) = call.as_object::<OpenFile>(index) {
        return Ok(file.descriptor());
    }
    call.standard_file(index).ok_or_else(|| Fault::expected(index, "file"))
}

/// `folder:open(path)` → file; `nil, message, code`.
fn folder_open(call: &mut Call<'_>) -> Result<New<OpenFile>, Fault> {
    let (folder, stack) = call.split::<Folder>(1)?;
    opened(folder.open_beneath(stack.bytes(2)?))
}

/// The fields that tell about a file.
fn record(facts: &Facts) -> Vec<(&'static str, Value)> {
    vec![
        ("kind", Value::Name(facts.kind.name())),
        ("size", Value::Integer(facts.size as i64)),
        ("mtime", Value::Integer(facts.seconds)),
        ("mtime_ns", Value::Integer(facts.nanoseconds.into())),
        ("inode", Value::Integer(facts.inode as i64)),
        ("device", Value::Integer(facts.device as i64)),
    ]
}

/// `folder:list([path [, most]])` → list of tables with `name` and the fields of `stat`; and whether there
/// is more than `most` (10,000). Directories first, then by name. `nil, message, code`.
fn folder_list(call: &mut Call<'_>) -> Result<(Value, bool), Fault> {
    let (folder, stack) = call.split::<Folder>(1)?;
    let path = stack.optional(2, Stack::bytes)?.unwrap_or_default();
    let most = stack.optional(3, |stack, at| stack.integer_in(at, 1..=1 << 24, "most"))?;
    let most = most.map_or(ENTRIES, |most| most as usize);
    let (entries, more) = folder.list(path, most).map_err(refused)?;
    let entries = entries.into_iter().map(|entry| {
        let mut fields = record(&entry.facts);
        fields.push(("name", Value::String(entry.name)));
        Value::Record(fields)
    });
    Ok((Value::List(entries.collect()), more))
}

/// `folder:path()` → its absolute path.
fn folder_path(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let folder = call.object::<Folder>(1)?;
    Ok(folder.path().as_os_str().as_bytes().to_vec())
}

/// `folder:close()`. Idempotent.
const FOLDER_CLOSE: Function = Function::new(|call: &mut Call<'_>| {
    call.object_mut::<Folder>(1)?.close();
    Ok(())
});

/// `folder:is_closed()`.
fn folder_is_closed(call: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(call.object::<Folder>(1)?.is_closed())
}

/// `f:stat()` → table with `kind`, `size`, `mtime`, `mtime_ns`, `inode`, `device`, as they were when the
/// file was opened. No system call.
fn stat(call: &mut Call<'_>) -> Result<Value, Fault> {
    let file = call.object::<OpenFile>(1)?;
    Ok(Value::Record(record(file.facts())))
}

/// `f:kind()` → `"file"` or `"directory"`.
fn kind(call: &mut Call<'_>) -> Result<&'static str, Fault> {
    Ok(call.object::<OpenFile>(1)?.facts().kind.name())
}

/// `f:size()` → bytes, as it was when the file was opened.
fn size(call: &mut Call<'_>) -> Result<i64, Fault> {
    Ok(call.object::<OpenFile>(1)?.facts().size as i64)
}

/// `f:read(offset, count)` → up to `count` bytes from `offset` (0 is the first), `""` at the end;
/// `nil, message, code`.
fn read(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let offset = call.integer_in(2, 0..=i64::MAX, "offset")? as u64;
    let count = call.integer_in(3, 0..=MOST, "count")? as usize;
    let file = call.object::<OpenFile>(1)?;
    let descriptor = file.descriptor().ok_or_else(|| failure("read", CLOSED))?;
    // A large `count` costs no memory by itself: what is asked for is what there was at the opening, or
    // a little, for files that tell no size.
    let there = file.facts().size.saturating_sub(offset);
    let count = count.min(there.max(LITTLE) as usize);
    let mut bytes = Vec::new();
    read_at(descriptor, &mut bytes, count, offset).map_err(failed("read"))?;
    Ok(bytes)
}

/// `f:handle()` → the descriptor as a lightuserdata; nil once closed.
fn handle(call: &mut Call<'_>) -> Result<Option<Light>, Fault> {
    let descriptor = call.object::<OpenFile>(1)?.descriptor();
    Ok(descriptor.map(|descriptor| Light(descriptor.as_raw_fd() as usize)))
}

/// `f:close()`. Idempotent.
const CLOSE: Function = Function::new(|call: &mut Call<'_>| {
    call.object_mut::<OpenFile>(1)?.close();
    Ok(())
});

/// `f:is_closed()`.
fn is_closed(call: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(call.object::<OpenFile>(1)?.descriptor().is_none())
}

fn to_string(call: &mut Call<'_>) -> Result<String, Fault> {
    Ok(match call.object::<OpenFile>(1)?.descriptor() {
        None => "file (closed)".to_string(),
        Some(descriptor) => format!("file ({})", descriptor.as_raw_fd()),
    })
}

const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"open", Function::new(open)),
    (c"open_beneath", Function::new(open_beneath)),
    (c"folder", Function::new(folder)),
    (c"measure", Function::new(measure)),
];

/// Opens `lio.file`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS)));
