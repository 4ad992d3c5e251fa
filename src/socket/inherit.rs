//! `lio.systemd()`: the sockets that the process was started with, after sd_listen_fds(3).
//!
//! Invariant: the inherited descriptors themselves stay open and are never given away; each call hands out
//! duplicates. So every VM of the process, and each call, gets the same sockets, whoever closed them before.

use super::Socket;
use super::lua::push;
use crate::raw::{guard, push_bytes, settle};
use crate::selector::descriptor;
use mlua::ffi::{self, lua_State};
use std::env;
use std::io;
use std::os::fd::RawFd;
use std::os::raw::c_int;
use std::sync::OnceLock;

/// The first inherited descriptor.
const FIRST: RawFd = 3;
/// A sane bound for `LISTEN_FDS`.
const MOST: i32 = 4096;

struct Inherited {
    number: RawFd,
    name: String,
}

/// What the environment told at the first call. Variables are not removed, which threads that read the
/// environment would not survive: `LISTEN_PID` keeps children from taking them for theirs.
fn inherited() -> &'static [Inherited] {
    static ALL: OnceLock<Vec<Inherited>> = OnceLock::new();
    ALL.get_or_init(|| {
        let number = |name| env::var(name).ok()?.trim().parse::<i32>().ok();
        if number("LISTEN_PID").and_then(|pid| u32::try_from(pid).ok()) != Some(std::process::id())
        {
            return Vec::new();
        }
        let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let names = names.split(':').chain(std::iter::repeat(""));
        let all = (FIRST..FIRST + count).zip(names).map(|(number, name)| {
            let name = if name.is_empty() { "unknown" } else { name };
            Inherited {
                number,
                name: name.to_owned(),
            }
        });
        all.filter(|one| keep_from_children(one.number)).collect()
    })
}

/// False when there is no such descriptor.
fn keep_from_children(number: RawFd) -> bool {
    // SAFETY: fcntl on a number that may be closed fails cleanly.
    unsafe {
        let flags = libc::fcntl(number, libc::F_GETFD);
        flags >= 0 && libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) >= 0
    }
}

fn is_socket(number: RawFd) -> bool {
    // SAFETY: `stat` is plain data, written by the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(number, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
    }
}

/// `lio.systemd()` → the inherited sockets as a list of `lio.socket`, whose field `names` has the name of
/// each; empty when there are none. `nil, message, code` when one cannot be duplicated.
///
/// # Safety
/// Called by Lua.
pub(crate) unsafe extern "C-unwind" fn systemd(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; each socket is owned by Lua before anything can raise.
    unsafe {
        let all = settle(state, guard(|| Ok(inherited())));
        let owned = &*descriptor::owned(state);
        ffi::lua_settop(state, 0);
        ffi::lua_createtable(state, all.len() as c_int, 1);
        ffi::lua_createtable(state, all.len() as c_int, 0);
        let mut place = 0;
        for one in all.iter().filter(|one| is_socket(one.number)) {
            let made = push(state, "systemd", || duplicate(one.number, owned));
            if made != 1 {
                return made;
            }
            place += 1;
            ffi::lua_rawseti(state, 1, place);
            push_bytes(state, one.name.as_bytes());
            ffi::lua_rawseti(state, 2, place);
        }
        ffi::lua_setfield(state, 1, c"names".as_ptr());
        1
    }
}

fn duplicate(number: RawFd, owned: &std::rc::Rc<descriptor::Owned>) -> io::Result<Socket> {
    // SAFETY: the inherited descriptor stays open; the duplicate is nobody else's.
    unsafe {
        let copy = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, FIRST);
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        Socket::from_descriptor(copy, true, owned).inspect_err(|_| {
            libc::close(copy);
        })
    }
}
