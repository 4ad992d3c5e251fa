//! `http.spool`: temporary files for uploads, for `lualib/lio/web/` and handlers.

use crate::file::spool::Spool;
use crate::lua::{Call, Failure, Fault, Function, FunctionTable, New, Object, failed, functions};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The maximum number of bytes of one `read`.
const MAX_READ: i64 = 1 << 20;

impl Object for Spool {
    const NAME: &'static str = "lio.http.spool";
    const METHODS: FunctionTable = functions! { write, read, size: SIZE, path, link, close: CLOSE };
}

/// `http.spool(dir)`: returns an empty temporary file, which will be in the file system of `dir` when it is on disk.
pub(crate) const NEW: Function = Function::new(|call: &mut Call<'_>| {
    let dir = Path::new(OsStr::from_bytes(call.bytes(1)?));
    Ok(New::of(Spool::new(dir)))
});

/// `file:write(bytes)`: appends `bytes`. Returns true, or nil, message, code.
fn write(call: &mut Call<'_>) -> Result<bool, Fault> {
    call.bytes(2)?;
    let (spool, stack) = call.object_and_stack::<Spool>(1)?;
    let written = open(spool)?.write(stack.bytes(2)?);
    written.map(|()| true).map_err(failed("store"))
}

/// `file:read(offset, count)`: returns up to `count` bytes (at most 1 MiB) from `offset` on, `""` at the end; or nil,
/// message, code.
fn read(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let offset = call.integer_in(2, 0..=i64::MAX, "offset")? as u64;
    let count = call.integer_in(3, 1..=MAX_READ, "count")? as usize;
    let spool = open(call.object_mut::<Spool>(1)?)?;
    spool.read(offset, count).map_err(failed("read"))
}

/// `file:size()`: returns the number of bytes written.
const SIZE: Function = Function::method(|spool: &Spool| spool.size() as i64);

/// `file:path()`: returns a path with which this process and its children can open the file until it is closed; or nil,
/// message, code if the file cannot be stored.
fn path(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let path = open(call.object_mut::<Spool>(1)?)?.path();
    Ok(path.map_err(failed("store"))?.into_os_string().into_vec())
}

/// `file:link(path [, replace])`: gives the file a permanent name. Returns true; or nil, message, code. The code is
/// `"exists"` if `path` exists and `replace` is not true, `"other device"` if `path` is in another file system.
fn link(call: &mut Call<'_>) -> Result<bool, Fault> {
    call.bytes(2)?;
    let (spool, stack) = call.object_and_stack::<Spool>(1)?;
    let to = Path::new(OsStr::from_bytes(stack.bytes(2)?));
    let linked = open(spool)?.link(to, stack.is_true(3));
    linked.map(|()| true).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::XDEV) => Failure::new("move", "another file system", "other device").into(),
        _ => failed("move")(error),
    })
}

/// `file:close()`: closes the file, and removes it unless it was linked. Idempotent.
const CLOSE: Function = Function::method_mut(Spool::close);

/// Raises if the file is closed.
fn open(spool: &mut Spool) -> Result<&mut Spool, Fault> {
    if spool.is_closed() { Err(Fault::message("the file is already closed")) } else { Ok(spool) }
}
