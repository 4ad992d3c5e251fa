//! `require "lio.socket"`: what makes sockets.

use super::endpoint::endpoint;
use super::{Moved, Socket, methods, twin};
use crate::raw::object::{self, Object};
use crate::raw::{Fault, Function, Text, args, functions, guard, module, push_bytes, settle};
use crate::selector::descriptor::{self, Descriptor, Owned};
use mlua::ffi::{self, lua_State};
use socket2::{Domain, Type};
use std::convert::Infallible;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::raw::c_int;
use std::rc::Rc;

impl Object for Socket {
    const NAME: &'static CStr = c"lio.socket";
    const METHODS: &'static [(&'static CStr, Function)] = methods::METHODS;
    const META: &'static [(&'static CStr, Function)] = functions![
        (c"__close", methods::close),
        (c"__tostring", methods::to_string),
    ];
    fn collected(&mut self) {
        self.close();
    }
    unsafe fn finish_metatable(state: *mut lua_State) {
        // SAFETY: the metatable is on top.
        unsafe { descriptor::mark(state, descriptor_of) }
    }
}

unsafe fn descriptor_of(state: *mut lua_State, index: c_int) -> Descriptor {
    // SAFETY: only objects with this metatable get here.
    unsafe {
        let socket = object::check::<Socket>(state, index);
        (*socket).descriptor()
    }
}

impl Socket {
    /// What the selector needs to know; the number is -1 once closed.
    pub(crate) fn descriptor(&self) -> Descriptor {
        Descriptor {
            number: self.number(),
            watch: Rc::as_ptr(self.watch()),
            kind: self.kind(),
        }
    }
}

/// Pushes a socket, or `nil, message, code`; returns how many values.
///
/// # Safety
/// As for [`object::push_new`].
pub(crate) unsafe fn push(
    state: *mut lua_State,
    call: &'static str,
    make: impl FnOnce() -> io::Result<Socket>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match object::push_new(state, || make().map_err(|error| Fault::io(call, &error))) {
            Ok(_) => 1,
            Err(fault) => fault.push(state),
        }
    }
}

/// `socket.create(protocol)`: `"tcp"`, `"udp"`, `"tcp6"`, `"udp6"` or `"unix"`. A socket, or
/// `nil, message, code`.
unsafe extern "C-unwind" fn create(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the socket is owned by Lua before anything can raise.
    unsafe {
        let (domain, kind) = match args::bytes(state, 1) {
            b"tcp" => (Domain::IPV4, Type::STREAM),
            b"udp" => (Domain::IPV4, Type::DGRAM),
            b"tcp6" => (Domain::IPV6, Type::STREAM),
            b"udp6" => (Domain::IPV6, Type::DGRAM),
            b"unix" => (Domain::UNIX, Type::STREAM),
            _ => {
                let message = "'tcp', 'udp', 'tcp6', 'udp6' or 'unix' expected";
                args::argument_error(state, 1, Text::new(message))
            }
        };
        let owned = &*descriptor::owned(state);
        push(state, "socket", || Socket::create(domain, kind, owned))
    }
}

/// The second end of a pair, while the userdata that it is for is made.
struct SecondEnd(Option<Socket>);

impl Object for SecondEnd {
    const NAME: &'static CStr = c"lio.second end of a pair";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
}

/// `socket.pair()` → two connected sockets, or `nil, message, code`.
unsafe extern "C-unwind" fn pair(state: *mut lua_State) -> c_int {
    // SAFETY: the second end waits in a userdata of its own from the start, so neither is ever lost.
    unsafe {
        let owned = &*descriptor::owned(state);
        let Ok(second) = object::push_new(state, || Ok::<_, Infallible>(SecondEnd(None)));
        let first = push(state, "socketpair", || {
            let (left, right) = Socket::pair(owned)?;
            (*second).0 = Some(right);
            Ok(left)
        });
        if (*second).0.is_none() {
            return first;
        }
        1 + push(state, "socketpair", || {
            let socket = (*second).0.take();
            socket.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
        })
    }
}

/// The descriptor at argument 1 (a lightuserdata or an integer), and whether argument 2 lets the object own it. A
/// descriptor that lio has lent to this VM is never owned.
unsafe fn handle_argument(state: *mut lua_State, owned: &Owned) -> (c_int, bool) {
    // SAFETY: as for `create`.
    unsafe {
        let number = match ffi::lua_type(state, 1) {
            ffi::LUA_TLIGHTUSERDATA => ffi::lua_touserdata(state, 1) as isize as i64,
            _ => ffi::luaL_checkinteger(state, 1),
        };
        match c_int::try_from(number) {
            Ok(number) if number >= 0 => {
                let borrowed = ffi::lua_toboolean(state, 2) != 0;
                (number, !borrowed && !owned.is_lent(number))
            }
            _ => args::argument_error(state, 1, Text::new("not a descriptor")),
        }
    }
}

/// `socket.fd(handle [, no_ownership])`: a socket of a descriptor made elsewhere (a lightuserdata or an
/// integer). It becomes non-blocking and close-on-exec. With `no_ownership` closing leaves it open.
unsafe extern "C-unwind" fn fd(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`; the caller gives the descriptor away unless it passes `no_ownership`.
    unsafe {
        let owned = &*descriptor::owned(state);
        let (number, owns) = handle_argument(state, owned);
        push(state, "fd", || Socket::from_descriptor(number, owns, owned))
    }
}

/// `socket._identity(handle)` → an integer that no other socket has as long as the system runs; nil where the system has
/// none.
unsafe extern "C-unwind" fn identity(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work; the number is not kept.
    unsafe {
        let (number, _) = handle_argument(state, &*descriptor::owned(state));
        match twin::identity(&number) {
            Ok(identity) => ffi::lua_pushinteger(state, identity as i64),
            Err(_) => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `socket._twin(handle, identity)` → a socket with a descriptor of its own for the listening socket of another VM of this
/// process; `nil, message, code` when the handle is that socket's no longer.
unsafe extern "C-unwind" fn open_twin(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`; the copy is this function's own until the socket has it.
    unsafe {
        let owned = &*descriptor::owned(state);
        let (number, _) = handle_argument(state, owned);
        let identity = ffi::luaL_checkinteger(state, 2) as u64;
        push(state, "twin", || {
            let copy = twin::open(number, identity)?;
            let socket = Socket::from_descriptor(copy.as_raw_fd(), true, owned)?;
            // The socket has it now.
            let _ = copy.into_raw_fd();
            Ok(socket)
        })
    }
}

/// `socket._fd_of_any(handle [, no_ownership])`: as `fd`, for `bee.socket`: a descriptor that is no socket gives an
/// object too, for selectors, `handle`, `detach` and `close`.
unsafe extern "C-unwind" fn fd_of_any(state: *mut lua_State) -> c_int {
    // SAFETY: as for `fd`.
    unsafe {
        let owned = &*descriptor::owned(state);
        let (number, owns) = handle_argument(state, owned);
        push(state, "fd", || {
            match Socket::from_descriptor(number, owns, owned) {
                Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => {
                    Socket::from_other(number, owns, owned)
                }
                taken => taken,
            }
        })
    }
}

/// `socket.gethostname()` → the host's name, or `nil, message, code`.
unsafe extern "C-unwind" fn gethostname(state: *mut lua_State) -> c_int {
    let mut buffer = [0u8; 256];
    // SAFETY: the last byte stays NUL; the rest as for `create`.
    unsafe {
        if libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) != 0 {
            return Fault::io("gethostname", &io::Error::last_os_error()).push(state);
        }
        ffi::lua_pushstring(state, buffer.as_ptr().cast());
        1
    }
}

/// `socket.chmod(path, mode)`: permission bits of a unix socket's file (chmod(2)) → `true`, or
/// `nil, message, code`.
unsafe extern "C-unwind" fn chmod(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`; Lua's strings end in NUL.
    unsafe {
        let path = ffi::luaL_checklstring(state, 1, std::ptr::null_mut());
        let mode = args::integer_in(state, 2, 0, 0o7777, "mode") as libc::mode_t;
        if libc::chmod(path, mode) != 0 {
            return Fault::io("chmod", &io::Error::last_os_error()).push(state);
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// The result of a transfer: `push` for what was done, `false` when it would block.
///
/// # Safety
/// As for [`push_bytes`]; `T` is plain data.
pub(crate) unsafe fn finish<T: Copy>(
    state: *mut lua_State,
    call: &'static str,
    inner: impl FnOnce() -> io::Result<Moved<T>>,
    push: impl FnOnce(T) -> c_int,
) -> c_int {
    // SAFETY: the io::Error is reduced to plain data inside `guard`.
    unsafe {
        let result = guard(|| Ok(inner().map_err(|error| Fault::io(call, &error))));
        match settle(state, result) {
            Ok(Moved::Done(value)) => push(value),
            Ok(Moved::WouldBlock) => {
                ffi::lua_pushboolean(state, 0);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// Opens `lio.socket`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(
            state,
            functions![
                (c"create", create),
                (c"pair", pair),
                (c"fd", fd),
                (c"_fd_of_any", fd_of_any),
                (c"_identity", identity),
                (c"_twin", open_twin),
                (c"endpoint", endpoint),
                (c"gethostname", gethostname),
                (c"chmod", chmod),
            ],
        );
        push_bytes(state, b"lio.socket");
        ffi::lua_setfield(state, -2, c"_NAME".as_ptr());
        1
    }
}
