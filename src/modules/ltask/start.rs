//! A service's start: what root asks of it first. In Rust, since it runs in each service once and would
//! otherwise be most of the Lua code there.

use super::arguments::service;
use super::handlers::add_handlers;
use crate::file::reload;
use crate::lua::library::embedded;
use crate::lua::{Argument, Call, Chunk, Entry, Fault, Kind, Next, Outcome, Stack, then};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The system message `init`. Argument: a table with `name`, `args` (a list, with `n` or without), and where
/// the service's file is found: `source` and `chunkname`, or `service_path`; also `lua_path`, `lua_cpath`,
/// `preload` (Lua text), `generation`. Runs the file; the table that it returns are the request handlers.
pub(super) fn init(call: &mut Call<'_>) -> Result<Next, Fault> {
    call.expect(1, Kind::Table, "table")?;
    set_path(call, "lua_path", "path")?;
    set_path(call, "lua_cpath", "cpath")?;
    let field = call.raw_field(1, "generation")?;
    if call.kind(field) == Kind::Number {
        let generation = call.whole(field).unwrap_or(0);
        service(call)?.library.is_first_generation = generation <= 1;
    }
    let preload = call.raw_field(1, "preload")?;
    if call.kind(preload) == Kind::String {
        let text = owned(call, preload);
        call.create(Chunk::Text(&text, c"=preload"))?;
        call.start_collector();
        // What is to be loaded before the service's file.
        return Ok(Next::call(0, then(|call: &mut Call<'_>, _: Outcome| find_file(call)), 0));
    }
    find_file(call)
}

/// The service's file has run.
fn started(call: &mut Call<'_>, outcome: Outcome) -> Result<(), Fault> {
    if call.kind(outcome.first) == Kind::Table {
        add_handlers(call, outcome.first)?;
    }
    service(call)?.library.starting = false;
    Ok(())
}

/// A copy of the string at `index`.
fn owned(stack: &Stack, index: i32) -> Vec<u8> {
    stack.string(index).unwrap_or_default().to_vec()
}

/// `package[field]` becomes what the table has under `name`, if anything.
fn set_path(call: &mut Call<'_>, name: &'static str, field: &'static str) -> Result<(), Fault> {
    let value = call.raw_field(1, name)?;
    if call.kind(value) == Kind::String {
        let package = call.loaded("package")?;
        let key = call.create(field)?;
        call.create(Entry(package, key, Argument(value)))?;
    }
    call.drop_to(1);
    Ok(())
}

/// Calls the service's main chunk, or says where it was looked for.
fn find_file(call: &mut Call<'_>) -> Result<Next, Fault> {
    call.drop_to(1);
    let chunk = call.raw_field(1, "chunkname")?;
    let name = call.raw_field(1, "name")?;
    let source = call.raw_field(1, "source")?;
    if call.kind(source) == Kind::String {
        let shown = match call.kind(chunk) {
            Kind::String => chunk,
            _ => name,
        };
        let (text, shown) = (owned(call, source), owned(call, shown));
        let shown = CString::new(shown).unwrap_or_default();
        let main = call.create(Chunk::Text(&text, &shown))?;
        return run(call, main);
    }
    call.expect(name, Kind::String, "string")?;
    let bytes = owned(call, name);
    if bytes.contains(&0) {
        return Err(Fault::message("a service's name with a zero byte"));
    }
    let path = call.raw_field(1, "service_path")?;
    if let Some(main) = search(call, &bytes, path)? {
        return run(call, main);
    }
    if let Some(main) = built_in(call, &bytes)? {
        return run(call, main);
    }
    let package = call.loaded("package")?;
    call.raw_field(package, "searchpath")?;
    call.push(Argument(name))?;
    match call.kind(path) {
        Kind::String => call.push(Argument(path))?,
        _ => call.create("")?,
    };
    Ok(Next::call(2, then(not_found), 0))
}

/// The names of the files that were tried are there.
fn not_found(call: &mut Call<'_>, outcome: Outcome) -> Result<(), Fault> {
    let name = call.raw_field(1, "name")?;
    let text = |index| String::from_utf8_lossy(call.string(index).unwrap_or_default());
    let tried = text(outcome.first + 1);
    let message = format!("cannot find service '{}':{tried}", text(name));
    let message = call.create(message)?;
    Err(Fault::value(message))
}

/// Calls the main chunk at `index` with the service's arguments.
fn run(call: &mut Call<'_>, index: i32) -> Result<Next, Fault> {
    let list = call.raw_field(1, "args")?;
    let length = call.raw_field(list, "n")?;
    let count = match call.kind(length) {
        Kind::Number => call.whole(length).unwrap_or(0),
        _ => call.raw_length(list) as i64,
    };
    let count = count.clamp(0, 1_000_000);
    call.push(Argument(index))?;
    for number in 1..=count {
        call.element(list, number)?;
    }
    call.start_collector();
    Ok(Next::call(count as i32, then(started), 0))
}

/// Tries each template of the service path, at `path`. → the index of the chunk
fn search(call: &mut Call<'_>, name: &[u8], path: i32) -> Result<Option<i32>, Fault> {
    let name: Vec<u8> = name.iter().map(|&byte| if byte == b'.' { b'/' } else { byte }).collect();
    let Some(templates) = call.string(path).map(<[u8]>::to_vec) else { return Ok(None) };
    for template in templates.split(|&byte| byte == b';') {
        let parts: Vec<_> = template.split(|&byte| byte == b'?').collect();
        let file = CString::new(parts.join(&name[..])).unwrap_or_default();
        let is_there = || Path::new(OsStr::from_bytes(file.to_bytes())).exists();
        if reload::is_watched() && is_there() {
            reload::report_load(file.to_bytes());
        }
        // Opened once: whether it is there, loading it tells.
        let height = call.count();
        match call.create(Chunk::File(Some(&file))) {
            Ok(index) => return Ok(Some(index)),
            Err(fault) if is_there() => return Err(fault),
            Err(_) => call.drop_to(height),
        }
    }
    Ok(None)
}

/// Pushes the main chunk of a service that comes with lio: `ltask.service.NAME`, or `NAME.service`. → its index
fn built_in(call: &mut Call<'_>, name: &[u8]) -> Result<Option<i32>, Fault> {
    let ours = [b"ltask.service.", name].concat();
    let file = embedded(&ours).or_else(|| embedded(&[name, b".service"].concat()));
    file.map(|file| call.create(Chunk::Text(file.text, file.chunk))).transpose()
}
