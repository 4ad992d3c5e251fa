//! `lio.resolver`: names looked up off-thread (getaddrinfo(3) blocks), and what an address is; used by
//! `lualib/lio/net/`.
//!
//! Each query is one job for a small set of threads that live while there is work. An answer is queued
//! and rings the selector's bell. The threads own nothing of the VM: when that is gone they finish on
//! their own.

use crate::raw::object::{self, Object};
use crate::raw::{
    Fault, Function, args, functions, guard, may_be_finalizer, module, push_bytes, settle,
};
use crate::selector::{Bell, bell_argument};
use mlua::ffi::{self, lua_State};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::raw::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many look-ups run at once.
const THREADS: usize = 8;

type Answer = (i64, Result<Vec<SocketAddr>, String>);

#[derive(Default)]
struct Work {
    jobs: VecDeque<(i64, String)>,
    answers: VecDeque<Answer>,
    threads: usize,
}

struct Shared {
    work: Mutex<Work>,
    bell: Arc<Bell>,
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Resolver {
    shared: Arc<Shared>,
    /// The answer that is being handed over: owned here, so that nothing is lost when Lua raises.
    current: Option<Answer>,
    /// It is being handed over at this moment.
    busy: bool,
    last: i64,
}

impl Object for Resolver {
    const NAME: &'static CStr = c"lio.resolver";
    const METHODS: &'static [(&'static CStr, Function)] =
        functions![(c"query", query), (c"answer", answer)];
}

fn look_up(name: &str) -> Result<Vec<SocketAddr>, String> {
    let found = (name, 0u16).to_socket_addrs();
    let mut list: Vec<SocketAddr> = Vec::new();
    for address in found.map_err(|error| error.to_string())? {
        if !list.contains(&address) {
            list.push(address);
        }
    }
    match list.is_empty() {
        true => Err("the name has no address".into()),
        false => Ok(list),
    }
}

fn work(shared: &Shared) {
    loop {
        let (id, name) = {
            let mut work = shared.work();
            match work.jobs.pop_front() {
                Some(job) => job,
                None => {
                    work.threads -= 1;
                    return;
                }
            }
        };
        let found = look_up(&name);
        shared.work().answers.push_back((id, found));
        // The selector may be gone: then nobody waits for the answer.
        let _ = shared.bell.ring();
    }
}

/// `resolver.new(waker)` → a resolver whose answers wake the selector of `waker`.
unsafe extern "C-unwind" fn new(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; what is made is owned by Lua before anything can raise.
    unsafe {
        let bell = bell_argument(state, 1);
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(Resolver {
                shared: Arc::new(Shared {
                    work: Mutex::default(),
                    bell: (*bell).clone(),
                }),
                current: None,
                busy: false,
                last: 0,
            })
        });
        1
    }
}

/// `resolver:query(name)` → id. The answer comes later through `answer`.
unsafe extern "C-unwind" fn query(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; owned values live inside `guard` only.
    unsafe {
        object::check::<Resolver>(state, 1);
        let Ok(name) = std::str::from_utf8(args::bytes(state, 2)) else {
            return Fault::word("resolve", "not a host name", "unresolved").push(state);
        };
        let resolver = &mut *object::check::<Resolver>(state, 1);
        let queued = guard(|| {
            resolver.last += 1;
            let mut work = resolver.shared.work();
            work.jobs.push_back((resolver.last, name.to_owned()));
            if work.threads >= THREADS {
                return Ok(Ok(resolver.last));
            }
            let shared = resolver.shared.clone();
            let thread = std::thread::Builder::new().name("lio-resolve".into());
            if let Err(error) = thread.spawn(move || self::work(&shared)) {
                if work.threads == 0 {
                    work.jobs.pop_back();
                    return Ok(Err(Fault::io("resolve", &error)));
                }
            } else {
                work.threads += 1;
            }
            Ok(Ok(resolver.last))
        });
        match settle(state, queued) {
            Ok(id) => {
                ffi::lua_pushinteger(state, id);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `resolver:answer()` → id and a list of addresses (text, as getaddrinfo ordered them), or id, nil and
/// a message; nothing when no answer is there, or to a finalizer while one is handed over.
unsafe extern "C-unwind" fn answer(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; the answer stays in the userdata while its parts are pushed.
    unsafe {
        let resolver = object::check::<Resolver>(state, 1);
        if (*resolver).busy && may_be_finalizer(state) {
            return 0;
        }
        (*resolver).busy = false;
        let taken = guard(|| {
            let next = (*resolver).shared.work().answers.pop_front();
            (*resolver).current = next;
            Ok(())
        });
        settle(state, taken);
        let Some((id, found)) = &(*resolver).current else {
            return 0;
        };
        ffi::lua_pushinteger(state, *id);
        match found {
            Ok(list) => {
                (*resolver).busy = true;
                ffi::lua_createtable(state, list.len() as c_int, 0);
                // Looked up one by one: a finalizer may drop the resolver.
                let mut index = 0;
                while let Some(resolver) = object::living(resolver)
                    && let Some((_, Ok(list))) = &resolver.current
                    && let Some(address) = list.get(index).copied()
                {
                    push_bytes(state, super::endpoint::ip_text(&address).as_bytes());
                    index += 1;
                    ffi::lua_rawseti(state, -2, index as i64);
                }
                if let Some(resolver) = object::living(resolver) {
                    resolver.busy = false;
                }
                2
            }
            Err(message) => {
                ffi::lua_pushnil(state);
                push_bytes(state, message.as_bytes());
                3
            }
        }
    }
}

/// `resolver.is_numeric(address)` → the address in its usual form and its family, or nothing when it is
/// a name.
unsafe extern "C-unwind" fn is_numeric(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let text = std::str::from_utf8(args::bytes(state, 1)).unwrap_or_default();
        let Some(address) = super::endpoint::parse_ip(text, 0) else {
            return 0;
        };
        push_bytes(state, super::endpoint::ip_text(&address).as_bytes());
        let family: &[u8] = if address.is_ipv4() { b"inet" } else { b"inet6" };
        push_bytes(state, family);
        2
    }
}

/// Whether `path` is a unix socket's file (not what a link leads to) to which no socket belongs any more.
/// A listener there notices nothing: asked by a datagram socket, it is merely of the wrong type.
fn is_stale(path: &[u8]) -> std::io::Result<bool> {
    use std::os::unix::{ffi::OsStrExt, fs::FileTypeExt};
    let path = std::ffi::OsStr::from_bytes(path);
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let probe = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None)?;
    probe.set_nonblocking(true)?;
    let refused = |error: std::io::Error| error.raw_os_error() == Some(libc::ECONNREFUSED);
    let asked = probe.connect(&socket2::SockAddr::unix(path)?);
    Ok(asked.err().is_some_and(refused))
}

/// Removes the file of a unix socket to which no socket belongs any more. False when `address` is none such.
pub(super) fn remove_stale(address: &socket2::SockAddr) -> std::io::Result<bool> {
    use std::os::unix::ffi::OsStrExt;
    let Some(path) = address.as_pathname() else {
        return Ok(false);
    };
    if !is_stale(path.as_os_str().as_bytes()).unwrap_or(false) {
        return Ok(false);
    }
    std::fs::remove_file(path)?;
    Ok(true)
}

/// `resolver.is_stale(path)` → whether a unix socket's file is left from a process that is gone.
unsafe extern "C-unwind" fn stale(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; owned values live inside `guard` only.
    unsafe {
        let path = args::bytes(state, 1);
        let stale = settle(state, guard(|| Ok(is_stale(path).unwrap_or(false))));
        ffi::lua_pushboolean(state, stale.into());
        1
    }
}

/// Opens `lio.resolver`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(
            state,
            functions![
                (c"new", new),
                (c"is_numeric", is_numeric),
                (c"is_stale", stale),
            ],
        );
        1
    }
}
