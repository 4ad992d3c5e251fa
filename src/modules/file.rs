//! `lio.file`: files that `lualib/lio/web/`, `net.sendfile` and programs read.
//!
//! Failures are `nil, message, code`. Calls wait for nothing but the disk.

use crate::file::folder::Folder;
use crate::file::{Kind, Metadata, OpenFile, Refusal, read_at};
use crate::lua::{
    Call, Failure, Fault, Function, FunctionTable, Light, Module, New, Object, Stack, Value, failed, functions,
};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

/// The maximum number of bytes in one read.
const MAX_READ: i64 = 1 << 30;
/// A read can always request this number of bytes, even if the file was smaller when it was opened.
const MIN_READ: u64 = 64 * 1024;
/// The default limit on the number of listed entries.
const DEFAULT_ENTRIES: usize = 10_000;

impl Object for OpenFile {
    const NAME: &'static str = "lio.file";
    const METHODS: FunctionTable =
        functions! { stat: STAT, kind: KIND, size: SIZE, read, handle, close: CLOSE, is_closed: IS_CLOSED };
    const META: FunctionTable = functions! { __close: CLOSE, __tostring = to_string };
}

impl Object for Folder {
    const NAME: &'static str = "lio.folder";
    const METHODS: FunctionTable = functions! {
        open = folder_open, list = folder_list, path: FOLDER_PATH, close: FOLDER_CLOSE, is_closed: FOLDER_IS_CLOSED,
    };
    const META: FunctionTable = functions! { __close: FOLDER_CLOSE };
}

const CLOSED: Refusal = Refusal::Word("the file is closed", "closed");

/// Converts a refusal of `call` to a failure.
#[cold]
fn failure(call: &'static str, refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Word(message, code) => Failure::new(call, message, code).into(),
        Refusal::System(error) => failed(call)(error),
    }
}

/// Converts a refusal to a failure of `open`.
pub(super) fn refused(refusal: Refusal) -> Fault {
    failure("open", refusal)
}

/// Converts the result of opening a file or folder.
fn opened<T: Object>(opened: Result<T, Refusal>) -> Result<New<T>, Fault> {
    opened.map(New::of).map_err(refused)
}

/// `file.open(path)`: opens a regular file or a directory for reading. Returns the file, or `nil, message, code`.
fn open(call: &mut Call<'_>) -> Result<New<OpenFile>, Fault> {
    opened(OpenFile::open(call.bytes(1)?))
}

/// `file.open_beneath(root, path)`: opens a file as `open` does, but only inside the folder `root`, which is a path or
/// a result of `folder`.
fn open_beneath(call: &mut Call<'_>) -> Result<New<OpenFile>, Fault> {
    if call.as_object::<Folder>(1).is_some() {
        return folder_open(call);
    }
    let root = call.bytes(1)?;
    let path = call.bytes(2)?;
    opened(Folder::open(root).and_then(|mut folder| folder.open_beneath(path)))
}

/// `file.folder(path)`: returns a folder, or `nil, message, code`.
fn folder(call: &mut Call<'_>) -> Result<New<Folder>, Fault> {
    opened(Folder::open(call.bytes(1)?))
}

/// `file.measure(f)`: returns the current size in bytes of a file that this library or `io.open` opened; `nil, message,
/// code` if the file is closed or is not a regular file.
fn measure(call: &mut Call<'_>) -> Result<i64, Fault> {
    let file = descriptor(call, 1)?.ok_or_else(|| failure("sendfile", CLOSED))?;
    let metadata = Metadata::of(file).map_err(failed("sendfile"))?;
    match metadata.kind {
        Kind::File => Ok(metadata.size as i64),
        _ => Err(failure("sendfile", Refusal::NOT_A_FILE)),
    }
}

/// Returns the descriptor of the file at `index`, which this library or `io.open` opened; `None` if the file is closed.
fn descriptor<'c>(call: &'c Call<'_>, index: i32) -> Result<Option<BorrowedFd<'c>>, Fault> {
    if let Some(file) = call.as_object::<OpenFile>(index) {
        return Ok(file.descriptor());
    }
    call.standard_file(index).ok_or_else(|| Fault::expected(index, "file"))
}

/// `folder:open(path)`: returns a file, or `nil, message, code`.
fn folder_open(call: &mut Call<'_>) -> Result<New<OpenFile>, Fault> {
    let (folder, stack) = call.object_and_stack::<Folder>(1)?;
    opened(folder.open_beneath(stack.bytes(2)?))
}

/// Returns the fields that describe a file.
fn record(metadata: &Metadata) -> Vec<(&'static str, Value)> {
    vec![
        ("kind", Value::Name(metadata.kind.name())),
        ("size", Value::Integer(metadata.size as i64)),
        ("mtime", Value::Integer(metadata.seconds)),
        ("mtime_ns", Value::Integer(metadata.nanoseconds.into())),
        ("inode", Value::Integer(metadata.inode as i64)),
        ("device", Value::Integer(metadata.device as i64)),
    ]
}

/// `folder:list([path [, most]])`: returns a list of tables with `name` and the fields of `stat`, and whether there are
/// more than `most` entries (by default 10,000). Directories come before files; both are sorted by name. On failure,
/// returns `nil, message, code`.
fn folder_list(call: &mut Call<'_>) -> Result<(Value, bool), Fault> {
    let (folder, stack) = call.object_and_stack::<Folder>(1)?;
    let path = stack.optional(2, Stack::bytes)?.unwrap_or_default();
    let most = stack.optional(3, |stack, at| stack.integer_in(at, 1..=1 << 24, "most"))?;
    let most = most.map_or(DEFAULT_ENTRIES, |most| most as usize);
    let (entries, more) = folder.list(path, most).map_err(refused)?;
    let entries = entries.into_iter().map(|entry| {
        let mut fields = record(&entry.metadata);
        fields.push(("name", Value::String(entry.name)));
        Value::Record(fields)
    });
    Ok((Value::List(entries.collect()), more))
}

/// `folder:path()`: returns the absolute path of the folder.
const FOLDER_PATH: Function = Function::method(|folder: &Folder| folder.path().as_os_str().as_bytes().to_vec());

/// `folder:close()`: closes the folder. Idempotent.
const FOLDER_CLOSE: Function = Function::method_mut(Folder::close);

/// `folder:is_closed()`: returns whether the folder is closed.
const FOLDER_IS_CLOSED: Function = Function::method(Folder::is_closed);

/// `f:stat()`: returns a table with `kind`, `size`, `mtime`, `mtime_ns`, `inode` and `device`, as they were when the
/// file was opened. Makes no system call.
const STAT: Function = Function::method(|file: &OpenFile| Value::Record(record(file.metadata())));

/// `f:kind()`: returns `"file"` or `"directory"`.
const KIND: Function = Function::method(|file: &OpenFile| file.metadata().kind.name());

/// `f:size()`: returns the size in bytes that the file had when it was opened.
const SIZE: Function = Function::method(|file: &OpenFile| file.metadata().size as i64);

/// `f:read(offset, count)`: returns up to `count` bytes from `offset` (0 is the first byte), `""` at the end of the
/// file; or `nil, message, code`.
fn read(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let offset = call.integer_in(2, 0..=i64::MAX, "offset")? as u64;
    let count = call.integer_in(3, 0..=MAX_READ, "count")? as usize;
    let file = call.object::<OpenFile>(1)?;
    let descriptor = file.descriptor().ok_or_else(|| failure("read", CLOSED))?;
    // A large `count` alone costs no memory: a read asks for at most the number of bytes that the file had after
    // `offset` when it was opened. Some files report no size, so this limit is never below `MIN_READ`.
    let there = file.metadata().size.saturating_sub(offset);
    let count = count.min(there.max(MIN_READ) as usize);
    let mut bytes = Vec::new();
    read_at(descriptor, &mut bytes, count, offset).map_err(failed("read"))?;
    Ok(bytes)
}

/// `f:handle()`: returns the descriptor as a lightuserdata; nil if the file is closed.
fn handle(call: &mut Call<'_>) -> Result<Option<Light>, Fault> {
    let descriptor = call.object::<OpenFile>(1)?.descriptor();
    Ok(descriptor.map(|descriptor| Light(descriptor.as_raw_fd() as usize)))
}

/// `f:close()`: closes the file. Idempotent.
const CLOSE: Function = Function::method_mut(OpenFile::close);

/// `f:is_closed()`: returns whether the file is closed.
const IS_CLOSED: Function = Function::method(|file: &OpenFile| file.descriptor().is_none());

fn to_string(call: &mut Call<'_>) -> Result<String, Fault> {
    Ok(match call.object::<OpenFile>(1)?.descriptor() {
        None => "file (closed)".to_string(),
        Some(descriptor) => format!("file ({})", descriptor.as_raw_fd()),
    })
}

/// Opens `lio.file`.
pub(crate) const OPEN: Function =
    Function::new(|_: &mut Call<'_>| Ok(Module(functions! { open, open_beneath, folder, measure })));
