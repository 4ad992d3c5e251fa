//! A folder that is served, `http.site`: small files are answered in one go, from the path to the bytes in the
//! stream's queue. Called by lualib/lio/web/static.lua, which does the rest: directories, what is not there, several
//! ranges, long files, and requests that middleware has a say in.
//!
//! Invariant: nothing of a file is kept. For each request it is opened, looked at and read, so that an answer's bytes,
//! length and validators are of one moment.

use super::answer;
use super::connection::{Connection, check_at};
use super::files::{Absent, Choice, Validators, accepted, find_copy};
use super::request;
use crate::codec::http1::request::RequestHead;
use crate::codec::http1::write;
use crate::codec::{media, uri};
use crate::file::folder::Folder;
use crate::file::{Facts, Kind, OpenFile};
use crate::http::router::routes::RouteId;
use crate::modules::http::request::Request;
use crate::raw::object::{self, Object};
use crate::raw::{Fault, Function, args, functions, guard, settle};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};

/// Up to so many bytes are read and sent with the head by one call; the kernel copies longer ones. file.lua has the
/// same.
const READ_MOST: usize = 32 * 1024;
/// The room that a head takes about.
const HEAD: usize = 512;
/// The user value that keeps the folder.
const FOLDER: c_int = 1;
/// The parameter of the route that is the path below the prefix.
const REST: &str = "rest";

/// A folder, how it is served, and what is known of it.
pub(crate) struct Site {
    folder: *mut Folder,
    hidden: bool,
    precompressed: bool,
    /// The value of `Cache-Control`.
    cache: Option<Box<[u8]>>,
    absent: Absent,
    /// The path of the current request.
    path: Vec<u8>,
    /// A file on its way to Lua.
    opened: Option<OpenFile>,
}

impl Object for Site {
    const NAME: &'static CStr = c"lio.http.site";
    const USER_VALUES: c_int = 1;
    const METHODS: &'static [(&'static CStr, Function)] =
        functions![(c"answer", answer), (c"compressed", compressed)];
}

/// What became of a request.
#[derive(Clone, Copy)]
enum Outcome {
    /// The answer is queued.
    Done,
    /// It is Lua's from the beginning.
    Pass,
    /// It is Lua's, with what was opened in [`Site::opened`].
    Opened,
    /// Nothing could be opened.
    Failed(Fault),
}

/// What is sent of a file.
struct Representation<'a> {
    file: &'a OpenFile,
    kind: &'static str,
    coding: Option<&'static str>,
    /// Whether another client may get other bytes.
    varies: bool,
    cache: Option<&'a [u8]>,
}

/// `http.site(folder, hidden, precompressed, cache_control)` → a site: whether names that begin with a dot are served,
/// and compressed copies; the value of `Cache-Control`, or nil.
pub(crate) unsafe extern "C-unwind" fn new(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the site is owned by Lua before anything can raise.
    unsafe {
        ffi::lua_settop(state, 4);
        let folder = object::check::<Folder>(state, 1);
        let hidden = ffi::lua_toboolean(state, 2) != 0;
        let precompressed = ffi::lua_toboolean(state, 3) != 0;
        let cache = match args::is_none(state, 4) {
            true => None,
            false => Some(args::bytes(state, 4)),
        };
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(Site {
                folder,
                hidden,
                precompressed,
                cache: cache.map(Box::from),
                absent: Absent::default(),
                path: Vec::new(),
                opened: None,
            })
        });
        ffi::lua_pushvalue(state, 1);
        ffi::lua_setiuservalue(state, -2, FOLDER);
        1
    }
}

/// The site at argument 1, and its folder.
unsafe fn check(state: *mut lua_State) -> (*mut Site, *mut Folder) {
    // SAFETY: the argument stays on the stack, and its user value keeps the folder's block.
    unsafe {
        let site = object::check::<Site>(state, 1);
        if !object::is_alive((*site).folder) {
            crate::raw::raise(state, crate::raw::closed_text("the site's folder"));
        }
        (site, (*site).folder)
    }
}

/// `site:answer(head, x)` → true when the answer is queued; a file or directory that was opened, which the caller
/// answers with; `nil, message, code` when it cannot be opened; nil when the caller has to look from the beginning.
unsafe extern "C-unwind" fn answer(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell: what owns memory lives in the site, or inside `guard` alone.
    unsafe {
        let (site, folder) = check(state);
        let request = request::head(state, 2);
        let route = (*object::check::<Request>(state, 2)).route();
        let connection: *mut Connection = check_at(state, 3);
        let outcome = match (*connection).alone && !request::is_known(state, 2) {
            true => {
                let served = guard(|| {
                    let connection = &mut *connection;
                    Ok(serve(&mut *site, &mut *folder, request, route, connection))
                });
                settle(state, served)
            }
            false => Outcome::Pass,
        };
        match outcome {
            Outcome::Done => {
                (*connection).concluded = true;
                ffi::lua_pushboolean(state, 1);
                1
            }
            Outcome::Pass => 0,
            Outcome::Opened => {
                let pass = Fault::word("open", "the file is closed", "closed");
                let opened = || object::living(site).and_then(|site| site.opened.take());
                match object::push_new(state, || opened().ok_or(pass)) {
                    Ok(_) => 1,
                    Err(fault) => fault.push(state),
                }
            }
            Outcome::Failed(fault) => fault.push(state),
        }
    }
}

/// `site:compressed(path, file, head, clock)` → as `http.compressed`; that there is none is remembered for a moment.
/// `clock` is in seconds of `lio.now`.
unsafe extern "C-unwind" fn compressed(state: *mut lua_State) -> c_int {
    // SAFETY: as for `answer`.
    unsafe {
        check(state);
        let path = args::bytes(state, 2);
        let facts = crate::raw::file::facts(state, 3);
        let request = request::head(state, 4);
        let clock = ffi::luaL_checknumber(state, 5);
        let (site, folder) = check(state);
        let mut coding = "";
        let pushed = object::push_new(state, || {
            // A finalizer that has run since may have dropped one.
            let site = object::living(site).ok_or(())?;
            let folder = object::living(folder).ok_or(())?;
            let found = copy(&mut site.absent, folder, path, &facts, request, clock);
            let (copy, found) = found.ok_or(())?;
            coding = found;
            Ok::<_, ()>(copy)
        });
        if pushed.is_err() {
            return 0;
        }
        crate::raw::push_bytes(state, coding.as_bytes());
        2
    }
}

/// The compressed copy of a file for the client of a request, and its coding.
fn copy(
    absent: &mut Absent,
    folder: &mut Folder,
    path: &[u8],
    original: &Facts,
    request: RequestHead<'_>,
    clock: f64,
) -> Option<(OpenFile, &'static str)> {
    let accepted = accepted(request);
    let clock = (clock * 1e9) as u64;
    if accepted == [None; 2] || absent.has(path, clock) {
        return None;
    }
    let open = |name: &[u8]| folder.open_beneath(name);
    let found = find_copy(open, path, original, accepted);
    if found.is_none() {
        absent.note(path, clock);
    }
    found
}

impl Site {
    /// Fills in the path, when it is one that names a file.
    fn locate(
        &mut self,
        request: RequestHead<'_>,
        route: Option<RouteId>,
        connection: &Connection,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let routes = connection.routes();
        self.path.clear();
        let path = uri::normal_path(request.route_path(), scratch);
        let rest = path
            .zip(route)
            .and_then(|(path, route)| routes.value_of(path, route, REST));
        let found = rest.is_some_and(|value| {
            uri::percent_decode(value.as_bytes(), false, &mut self.path).is_ok()
        });
        let path = &self.path[..];
        let is_hidden = || path[0] == b'.' || memchr::memmem::find(path, b"/.").is_some();
        found && !path.is_empty() && !path.ends_with(b"/") && (self.hidden || !is_hidden())
    }
}

fn serve(
    site: &mut Site,
    folder: &mut Folder,
    request: RequestHead<'_>,
    route: Option<RouteId>,
    connection: &mut Connection,
) -> Outcome {
    // SAFETY: the registry keeps the workspace; nothing else uses it now.
    let space = unsafe { &mut *connection.space() };
    if connection.exchange.answered || !site.locate(request, route, connection, &mut space.scratch)
    {
        return Outcome::Pass;
    }
    let path = &site.path[..];
    let original = match folder.open_beneath(path) {
        Ok(file) => file,
        Err(refusal) => return Outcome::Failed(refusal.into()),
    };
    let facts = *original.facts();
    let queued = facts.kind == Kind::File && {
        let kind = media::of(path);
        let varies = site.precompressed && media::is_compressible(kind);
        let absent = &mut site.absent;
        let copy = match varies {
            true => copy(absent, folder, path, &facts, request, space.due.clock),
            false => None,
        };
        let chosen = Representation {
            file: copy.as_ref().map_or(&original, |(file, _)| file),
            kind,
            coding: copy.as_ref().map(|(_, coding)| *coding),
            varies,
            cache: site.cache.as_deref(),
        };
        chosen.queue(request, connection)
    };
    if queued {
        return Outcome::Done;
    }
    site.opened = Some(original);
    Outcome::Opened
}

impl Representation<'_> {
    /// Queues the answer. False, with nothing queued, when that is not so simple, or fails.
    fn queue(&self, request: RequestHead<'_>, connection: &mut Connection) -> bool {
        let space = connection.space();
        let (exchange, stream) = connection.parts();
        let facts = self.file.facts();
        let known = Validators::of(facts, self.coding, crate::event::clock::unix_seconds());
        let (status, first, length) = match known.choose(request, facts.size) {
            Choice::Parts(parts) if parts.len() == 1 => (206, parts[0].first, parts[0].length),
            Choice::Whole => (200, 0, facts.size),
            Choice::NotModified => (304, 0, 0),
            _ => return false,
        };
        let body = match status == 304 || exchange.is_head() {
            true => 0,
            false => length,
        };
        let bad = self
            .cache
            .is_some_and(|value| answer::fault_of(b"Cache-Control", value).is_some());
        let Some(file) = self.file.descriptor() else {
            return false;
        };
        if bad || body > READ_MOST as u64 || stream.queued() > READ_MOST || stream.is_closed() {
            return false;
        }
        let keep_alive = exchange.settle_keep_alive(stream);
        let out = stream.queue();
        let begin = out.len();
        out.reserve(HEAD + body as usize);
        write::start(out, status);
        if self.varies {
            out.extend_from_slice(b"Vary: Accept-Encoding\r\n");
        }
        if let Some(value) = self.cache {
            write::plain_field(out, b"Cache-Control", value);
        }
        write::plain_field(out, b"ETag", known.tag());
        write::plain_field(out, b"Last-Modified", known.date());
        if status != 304 {
            out.extend_from_slice(b"Accept-Ranges: bytes\r\n");
            if let Some(coding) = self.coding {
                write::plain_field(out, b"Content-Encoding", coding.as_bytes());
            }
            if status == 206 {
                write::content_range(out, first, length, facts.size);
            }
            let charset: &[u8] = match media::is_text(self.kind) {
                true => b"; charset=utf-8\r\n",
                false => b"\r\n",
            };
            out.extend_from_slice(b"Content-Type: ");
            out.extend_from_slice(self.kind.as_bytes());
            out.extend_from_slice(charset);
            write::content_length(out, length);
        }
        // SAFETY: the registry keeps the workspace; nothing else uses it now.
        let date = unsafe { &mut (*space).date };
        answer::end_head(exchange, stream, Some(date), keep_alive);
        if body == 0 {
            return true;
        }
        let read = stream.queue_file(file, first, body as usize);
        if !matches!(read, Ok(true)) {
            // Lua finds the same, and says so.
            stream.queue().truncate(begin);
            exchange.answered = false;
            return false;
        }
        true
    }
}
