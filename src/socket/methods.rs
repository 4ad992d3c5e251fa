//! What `lio.socket` objects can do; `bytes.rs` has what they send and receive. Raw functions: values on success,
//! `false` when it would block, `nil, message, code` on failure; misuse raises.

use super::lua::finish;
use super::{Moved, Phase, Socket, bytes, endpoint, option, resolve};
use crate::raw::object::{self, closed_text};
use crate::raw::{Fault, Function, Text, args, functions, guard, push_bytes, raise, settle};
use mlua::ffi::{self, lua_State};
use socket2::Domain;
use std::ffi::CStr;
use std::io;
use std::net::Shutdown;
use std::os::raw::{c_int, c_void};

pub(super) const METHODS: &[(&CStr, Function)] = functions![
    (c"connect", connect),
    (c"bind", bind),
    (c"_bind_over", bind_over),
    (c"listen", listen),
    (c"accept", accept),
    (c"recv", bytes::recv),
    (c"send", bytes::send),
    (c"sendv", bytes::sendv),
    (c"recvfrom", bytes::recvfrom),
    (c"sendto", bytes::sendto),
    (c"shutdown", shutdown),
    (c"status", status),
    (c"info", info),
    (c"option", option_),
    (c"handle", handle),
    (c"detach", detach),
    (c"close", close),
];

/// The open socket at argument 1; raises when it is closed.
pub(super) unsafe fn open<'a>(state: *mut lua_State) -> &'a mut Socket {
    // SAFETY: argument 1 stays on the stack; no two references are made by one call.
    unsafe {
        let socket = object::check::<Socket>(state, 1);
        if (*socket).is_closed() {
            raise(state, closed_text("socket"));
        }
        &mut *socket
    }
}

unsafe fn push_true(state: *mut lua_State) -> c_int {
    // SAFETY: a free stack slot is guaranteed to a C function.
    unsafe { ffi::lua_pushboolean(state, 1) };
    1
}

/// Runs a call that yields nothing but success.
unsafe fn simple(
    state: *mut lua_State,
    call: &'static str,
    inner: impl FnOnce() -> io::Result<()>,
) -> c_int {
    // SAFETY: as for `finish`.
    unsafe {
        finish(
            state,
            call,
            || inner().map(Moved::Done),
            |()| push_true(state),
        )
    }
}

/// `s:connect(endpoint)`, `(host, port)` or `(path)` → `true` at once, `false` in progress.
unsafe extern "C-unwind" fn connect(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; addresses are plain data, nothing is dropped by a raise.
    unsafe {
        let domain = open(state).domain();
        match endpoint::argument(state, 2, domain) {
            Ok(address) => {
                // Looked up anew: making a number a string may run a finalizer.
                let socket = open(state);
                finish(
                    state,
                    "connect",
                    || socket.connect(&address),
                    |()| push_true(state),
                )
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `s:bind(…)` in the same forms → `true`.
unsafe extern "C-unwind" fn bind(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        let domain = open(state).domain();
        match endpoint::argument(state, 2, domain) {
            Ok(address) => {
                let socket = open(state);
                simple(state, "bind", || socket.bind(&address))
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `s:bind(…)` of `bee.socket`: a unix path at which a socket's file lies that no process listens to is bound after the
/// file is removed.
unsafe extern "C-unwind" fn bind_over(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        let domain = open(state).domain();
        match endpoint::argument(state, 2, domain) {
            Ok(address) => {
                let socket = open(state);
                simple(state, "bind", || match socket.bind(&address) {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                        if !resolve::remove_stale(&address)? {
                            return Err(error);
                        }
                        socket.bind(&address)
                    }
                    bound => bound,
                })
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `s:listen([backlog = 1024])` → `true`.
unsafe extern "C-unwind" fn listen(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        let socket = open(state);
        let backlog = match args::is_none(state, 2) {
            true => 1024,
            false => args::integer_in(state, 2, 0, i64::from(i32::MAX), "backlog") as i32,
        };
        simple(state, "listen", || socket.listen(backlog))
    }
}

/// Accepts, unless a finalizer has dropped the listener.
///
/// # Safety
/// The listener was found by [`object::check`], and its userdata has not been collected.
pub(crate) unsafe fn accept_on(listener: *mut Socket) -> io::Result<Moved<Socket>> {
    // SAFETY: the caller's promise; nothing of Lua's is called.
    match unsafe { object::living(listener) } {
        Some(listener) => listener.accept(),
        None => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// `s:accept()` → a connected socket, `false` when nobody is there.
unsafe extern "C-unwind" fn accept(state: *mut lua_State) -> c_int {
    // SAFETY: the accepted socket is made after everything that may raise; `ErrorKind` is plain.
    unsafe {
        let listener: *mut Socket = open(state);
        let mut blocked = false;
        let pushed = object::push_new(state, || match accept_on(listener) {
            Ok(Moved::Done(socket)) => Ok(socket),
            Ok(Moved::WouldBlock) => {
                blocked = true;
                Err(Fault::os("accept", libc::EAGAIN))
            }
            Err(error) => Err(Fault::io("accept", &error)),
        });
        match pushed {
            Ok(_) => 1,
            Err(_) if blocked => {
                ffi::lua_pushboolean(state, 0);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `s:shutdown(["r"|"w"])`: ends one direction, or both → `true`.
unsafe extern "C-unwind" fn shutdown(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        open(state);
        let how = shutdown_argument(state, 2);
        let socket = open(state);
        simple(state, "shutdown", || socket.raw()?.shutdown(how))
    }
}

/// Reads `"r"`, `"w"`, `"rw"` or nothing.
///
/// # Safety
/// Nothing that needs `Drop` may be alive.
pub(crate) unsafe fn shutdown_argument(state: *mut lua_State, index: c_int) -> Shutdown {
    // SAFETY: the caller's promise.
    unsafe {
        if args::is_none(state, index) {
            return Shutdown::Both;
        }
        match args::bytes(state, index) {
            b"r" => Shutdown::Read,
            b"w" => Shutdown::Write,
            b"rw" => Shutdown::Both,
            _ => args::argument_error(state, index, Text::new("'r', 'w' or 'rw' expected")),
        }
    }
}

/// `s:status()` → `true`, or `nil, message, code` of the pending error (SO_ERROR), which it takes.
unsafe extern "C-unwind" fn status(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        let socket = open(state);
        simple(state, "connect", || match socket.raw()?.take_error()? {
            Some(error) => Err(error),
            None => {
                let connecting = socket.phase == Phase::Connecting;
                if connecting && socket.raw()?.peer_addr().is_ok() {
                    socket.phase = Phase::Connected;
                }
                Ok(())
            }
        })
    }
}

/// `s:info("peer"|"socket")` → endpoint.
unsafe extern "C-unwind" fn info(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`; the address is plain data.
    unsafe {
        open(state);
        let peer = match args::bytes(state, 2) {
            b"peer" => true,
            b"socket" => false,
            _ => args::argument_error(state, 2, Text::new("'peer' or 'socket' expected")),
        };
        let socket = open(state);
        let found = guard(|| {
            let address = socket.raw().and_then(|raw| endpoint::of(raw, peer));
            Ok(address.map_err(|error| Fault::io("info", &error)))
        });
        match found {
            Ok(Ok(address)) => {
                endpoint::push(state, address);
                1
            }
            Ok(Err(fault)) => fault.push(state),
            Err(message) => raise(state, message),
        }
    }
}

/// `s:option(name, value)` sets → `true`; `s:option(name)` gets → boolean or integer.
unsafe extern "C-unwind" fn option_(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        open(state);
        option_call(state, 2, || open(state))
    }
}

/// `option` on the socket that `find` gives, with the name at argument `index`. `find` is called when no argument is left
/// to be read, since that may run finalizers.
///
/// # Safety
/// Nothing that needs `Drop` may be alive.
pub(crate) unsafe fn option_call<'a>(
    state: *mut lua_State,
    index: c_int,
    find: impl FnOnce() -> &'a Socket,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(name) = option::Name::parse(args::bytes(state, index)) else {
            args::argument_error(state, index, Text::new("unknown option"))
        };
        if ffi::lua_gettop(state) > index {
            let value = match ffi::lua_type(state, index + 1) {
                ffi::LUA_TBOOLEAN => option::Value::Flag(ffi::lua_toboolean(state, index + 1) != 0),
                _ => option::Value::Number(ffi::luaL_checkinteger(state, index + 1)),
            };
            let socket = find();
            return simple(state, "option", || option::set(socket, name, value));
        }
        let socket = find();
        let get = || option::get(socket, name).map(Moved::Done);
        finish(state, "option", get, |value| {
            match value {
                option::Value::Flag(flag) => ffi::lua_pushboolean(state, flag.into()),
                option::Value::Number(number) => ffi::lua_pushinteger(state, number),
            }
            1
        })
    }
}

/// `s:handle()` → the descriptor as a lightuserdata.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        let number = open(state).number();
        ffi::lua_pushlightuserdata(state, number as isize as *mut c_void);
        1
    }
}

/// `s:detach()` → the descriptor as a lightuserdata, no longer ours: selectors forget it, and this
/// object reads as closed.
unsafe extern "C-unwind" fn detach(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        let socket = open(state);
        let number = settle(state, guard(|| Ok(socket.detach()))).unwrap_or(-1);
        ffi::lua_pushlightuserdata(state, number as isize as *mut c_void);
        1
    }
}

/// `s:close()` → `true`. Idempotent; selectors forget the socket.
pub(super) unsafe extern "C-unwind" fn close(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        let socket = object::check::<Socket>(state, 1);
        settle(
            state,
            guard(|| {
                (*socket).close();
                Ok(())
            }),
        );
        push_true(state)
    }
}

pub(super) unsafe extern "C-unwind" fn to_string(state: *mut lua_State) -> c_int {
    // SAFETY: as for `connect`.
    unsafe {
        let socket = &*object::check::<Socket>(state, 1);
        let text = describe(socket);
        push_bytes(state, text.as_bytes());
        1
    }
}

fn describe(socket: &Socket) -> Text {
    let protocol = match (socket.domain(), socket.is_stream()) {
        (Domain::UNIX, _) => "unix",
        (Domain::IPV6, true) => "tcp6",
        (Domain::IPV6, false) => "udp6",
        (_, true) => "tcp",
        _ if socket.is_other() => "no socket",
        (_, false) => "udp",
    };
    if socket.is_closed() {
        return Text::format(format_args!("socket ({protocol}, closed)"));
    }
    let phase = match socket.phase {
        Phase::Open => "open",
        Phase::Listening => "listening",
        Phase::Connecting => "connecting",
        Phase::Connected => "connected",
    };
    let number = socket.number();
    Text::format(format_args!("socket ({number}, {protocol}, {phase})"))
}
