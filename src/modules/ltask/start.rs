//! Starts a service when it gets its first message, which root sends. This is Rust code to save memory: the code runs
//! only once in each service, and would be the larger part of the service's Lua code.

use super::arguments::service;
use super::handlers::add_handlers;
use crate::file::supervisor_link;
use crate::lua::library::embedded;
use crate::lua::{Argument, Call, Chunk, Fault, Kind, Next, Outcome, Stack, StoredInTable, then};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The system message `init`. Its argument is a table with `name`, `args` (a list, with or without `n`), and either
/// `source` and `chunkname`, the code of the service's file, or `service_path`, where to search for the file. Optional:
/// `lua_path`, `lua_cpath`, `preload` (Lua code), `generation`. Runs the file. If the file returns a table, the fields
/// of the table are the request handlers.
pub(super) fn init(call: &mut Call<'_>) -> Result<Next, Fault> {
    call.expect(1, Kind::Table, "table")?;
    set_path(call, "lua_path", "path")?;
    set_path(call, "lua_cpath", "cpath")?;
    let field = call.raw_field(1, "generation")?;
    if call.kind(field) == Kind::Number {
        let generation = call.integer_value(field).unwrap_or(0);
        service(call)?.library.is_first_generation = generation <= 1;
    }
    let preload = call.raw_field(1, "preload")?;
    if call.kind(preload) == Kind::String {
        let text = owned_string(call, preload);
        call.create(Chunk::Text(&text, c"=preload"))?;
        call.start_collector();
        // `preload` runs before the service's file is searched for.
        return Ok(Next::call(0, then(|call: &mut Call<'_>, _: Outcome| find_file(call)), 0));
    }
    find_file(call)
}

/// Continues after the service's file has returned.
fn started(call: &mut Call<'_>, outcome: Outcome) -> Result<(), Fault> {
    if call.kind(outcome.first) == Kind::Table {
        add_handlers(call, outcome.first)?;
    }
    let service = service(call)?;
    service.library.is_starting = false;
    service.release_held();
    Ok(())
}

/// Returns a copy of the string at `index`.
fn owned_string(stack: &Stack, index: i32) -> Vec<u8> {
    stack.string(index).unwrap_or_default().to_vec()
}

/// Sets `package[field]` to the field `name` of the table at argument 1, if that field is a string.
fn set_path(call: &mut Call<'_>, name: &'static str, field: &'static str) -> Result<(), Fault> {
    let value = call.raw_field(1, name)?;
    if call.kind(value) == Kind::String {
        let package = call.loaded("package")?;
        let key = call.create(field)?;
        call.create(StoredInTable::new(package, key, Argument(value)))?;
    }
    call.drop_to(1);
    Ok(())
}

/// Calls the service's main chunk, or raises an error with the names of the files that were tried.
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
        let (text, shown) = (owned_string(call, source), owned_string(call, shown));
        let shown = CString::new(shown).unwrap_or_default();
        let main = call.create(Chunk::Text(&text, &shown))?;
        return call_main(call, main);
    }
    call.expect(name, Kind::String, "string")?;
    let bytes = owned_string(call, name);
    if bytes.contains(&0) {
        return Err(Fault::message("a service's name must not contain a zero byte"));
    }
    let path = call.raw_field(1, "service_path")?;
    if let Some(main) = search_path(call, &bytes, path)? {
        return call_main(call, main);
    }
    if let Some(main) = push_built_in(call, &bytes)? {
        return call_main(call, main);
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

/// Raises an error with the names of the files that `package.searchpath` has tried.
fn not_found(call: &mut Call<'_>, outcome: Outcome) -> Result<(), Fault> {
    let name = call.raw_field(1, "name")?;
    let text = |index| String::from_utf8_lossy(call.string(index).unwrap_or_default());
    let tried = text(outcome.first + 1);
    let message = format!("cannot find service '{}':\n\t{}", text(name), tried.trim_start());
    let message = call.create(message)?;
    Err(Fault::value(message))
}

/// Calls the main chunk at `index` with the service's arguments.
fn call_main(call: &mut Call<'_>, index: i32) -> Result<Next, Fault> {
    let list = call.raw_field(1, "args")?;
    let length = call.raw_field(list, "n")?;
    let count = match call.kind(length) {
        Kind::Number => call.integer_value(length).unwrap_or(0),
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

/// Tries each template of the service path, which is at `path`. Returns the index of the chunk; None if no file exists.
fn search_path(call: &mut Call<'_>, name: &[u8], path: i32) -> Result<Option<i32>, Fault> {
    let name: Vec<u8> = name.iter().map(|&byte| if byte == b'.' { b'/' } else { byte }).collect();
    let Some(templates) = call.string(path).map(<[u8]>::to_vec) else { return Ok(None) };
    for template in templates.split(|&byte| byte == b';') {
        let parts: Vec<_> = template.split(|&byte| byte == b'?').collect();
        let file = CString::new(parts.join(&name[..])).unwrap_or_default();
        let is_there = || Path::new(OsStr::from_bytes(file.to_bytes())).exists();
        if supervisor_link::is_watched() && is_there() {
            supervisor_link::report_load(file.to_bytes());
        }
        // The file is opened once: loading it shows whether it exists.
        let height = call.count();
        match call.create(Chunk::File(Some(&file))) {
            Ok(index) => return Ok(Some(index)),
            Err(fault) if is_there() => return Err(fault),
            Err(_) => call.drop_to(height),
        }
    }
    Ok(None)
}

/// Pushes the main chunk of a service that comes with lio: `ltask.service.NAME`, or `NAME.service`. Returns its index;
/// None if there is no such service.
fn push_built_in(call: &mut Call<'_>, name: &[u8]) -> Result<Option<i32>, Fault> {
    let ours = [b"ltask.service.", name].concat();
    let file = embedded(&ours).or_else(|| embedded(&[name, b".service"].concat()));
    file.map(|file| call.create(Chunk::Text(file.text, file.chunk))).transpose()
}
