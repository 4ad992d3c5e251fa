//! Compressed copies beside a file, `.br` and `.gz`: which of them a client gets. Used by [`super::site`], and by
//! `res:file` of lualib/lio/web/file.lua.
//!
//! Invariant: a copy that is older than its file is not what the file is now, and is not sent.

use super::request;
use crate::codec::accept_encoding;
use crate::codec::http1::request::RequestHead;
use crate::file::folder::Folder;
use crate::file::{Facts, Kind, OpenFile, Refusal};
use crate::raw::{args, object};
use mlua::ffi::{self, lua_State};
use std::collections::HashMap;
use std::ffi::c_int;

/// Seconds that a copy which is not there is not looked for again, and of how many paths.
const ABSENT_FOR: f64 = 2.0;
const ABSENT_MOST: usize = 1000;

/// The codings that the client of a request takes, the one that it likes best first.
pub(super) fn accepted(request: RequestHead<'_>) -> [Option<&'static str>; 2] {
    match request.joined(b"accept-encoding") {
        Some(field) => accept_encoding::accepted(&field),
        None => [None; 2],
    }
}

/// The copy that the client likes best, and its coding.
pub(super) fn find(
    mut open: impl FnMut(&[u8]) -> Result<OpenFile, Refusal>,
    path: &[u8],
    original: &Facts,
    accepted: [Option<&'static str>; 2],
) -> Option<(OpenFile, &'static str)> {
    let mut name = Vec::with_capacity(path.len() + 3);
    for coding in accepted.into_iter().flatten() {
        name.clear();
        name.extend_from_slice(path);
        name.extend_from_slice(if coding == "br" { b".br" } else { b".gz" });
        let Ok(copy) = open(&name) else { continue };
        let facts = copy.facts();
        if facts.kind == Kind::File && facts.seconds >= original.seconds {
            return Some((copy, coding));
        }
    }
    None
}

/// The paths of which no copy was found lately, and until when (seconds of `lio.now`) that is believed.
#[derive(Default)]
pub(super) struct Absent(HashMap<Box<[u8]>, f64>);

impl Absent {
    pub(super) fn has(&self, path: &[u8], clock: f64) -> bool {
        self.0.get(path).is_some_and(|until| clock < *until)
    }

    pub(super) fn note(&mut self, path: &[u8], clock: f64) {
        if self.0.len() >= ABSENT_MOST && !self.0.contains_key(path) {
            self.0.clear();
        }
        self.0.insert(path.into(), clock + ABSENT_FOR);
    }
}

/// Pushes what `search` finds: the copy and its coding, or nothing. Returns how many values.
///
/// # Safety
/// As for [`object::push_new`].
pub(super) unsafe fn push(
    state: *mut lua_State,
    search: impl FnOnce() -> Option<(OpenFile, &'static str)>,
) -> c_int {
    let mut found = "";
    // SAFETY: the caller's promise.
    unsafe {
        let pushed = object::push_new(state, || {
            let (copy, coding) = search().ok_or(())?;
            found = coding;
            Ok::<_, ()>(copy)
        });
        if pushed.is_err() {
            return 0;
        }
        crate::raw::push_bytes(state, found.as_bytes());
        2
    }
}

/// `http.compressed(folder, path, file, head)` → the copy beside `file`, whose path in the folder that is, and its
/// coding; nothing for none. Without a folder the path is the program's own.
pub(super) unsafe extern "C-unwind" fn compressed(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell: what owns memory lives inside `push_new` alone.
    unsafe {
        let folder = match ffi::lua_type(state, 1) {
            ffi::LUA_TNIL => None,
            _ => Some(object::check::<Folder>(state, 1)),
        };
        let path = args::bytes(state, 2);
        let facts = crate::raw::file::facts(state, 3);
        let request = request::head(state, 4);
        push(state, || {
            let accepted = accepted(request);
            match folder {
                Some(folder) => {
                    let folder = object::living(folder)?;
                    find(|name| folder.open_beneath(name), path, &facts, accepted)
                }
                None => find(OpenFile::open, path, &facts, accepted),
            }
        })
    }
}
