//! What a `lio.socket` object sends and receives. Raw functions, methods of `methods.rs`.
//!
//! Invariant: what is received lies in a buffer of the thread's only until it is a string of Lua's; nothing else
//! runs in between.

use super::lua::finish;
use super::methods::open;
use super::{Moved, Socket, endpoint};
use crate::raw::{args, push_bytes};
use mlua::ffi::{self, lua_State};
use socket2::SockAddr;
use std::cell::UnsafeCell;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::raw::c_int;

/// What `recv` takes at most when nothing is said.
const CHUNK: usize = 16 * 1024;
/// The size of the buffer that a thread's calls share.
const SHARED: usize = 64 * 1024;
/// What one `recv` takes at most whatever is said.
const MOST: usize = 1024 * 1024;
/// What one `sendv` hands over at most.
const PIECES: usize = 64;

unsafe fn size_argument(state: *mut lua_State, default: usize) -> usize {
    // SAFETY: as for `recv`.
    unsafe {
        match args::is_none(state, 2) {
            true => default,
            false => args::integer_in(state, 2, 0, i64::MAX, "size") as usize,
        }
    }
}

thread_local! {
    /// What is received goes here first, and into a string of Lua's before anything else runs on the thread.
    static BUFFER: UnsafeCell<Vec<MaybeUninit<u8>>> = const { UnsafeCell::new(Vec::new()) };
}

/// The thread's buffer of [`SHARED`] bytes, made at first use; `None` while the thread ends. Not on the stack: what
/// checks that a large frame fits would touch each of its pages, and they all fall into the same cache lines.
fn shared_buffer() -> Option<*mut MaybeUninit<u8>> {
    let start = BUFFER.try_with(|buffer| {
        // SAFETY: no other reference to the vector is alive: each ends in here.
        let buffer = unsafe { &mut *buffer.get() };
        if buffer.capacity() < SHARED {
            buffer.reserve_exact(SHARED);
        }
        buffer.as_mut_ptr()
    });
    start.ok()
}

/// Receives up to `size` bytes on the socket at argument 1 and pushes what came: through the thread's buffer when they
/// fit, else through one that Lua owns. `push` makes the string first of all.
unsafe fn receive(
    state: *mut lua_State,
    call: &'static str,
    size: usize,
    receive: impl FnOnce(&mut Socket, &mut [MaybeUninit<u8>]) -> io::Result<Moved<usize>>,
    push: impl FnOnce(&[u8]) -> c_int,
) -> c_int {
    // SAFETY: the buffer has `size` bytes, of which `count` are initialized when the call says so. No Lua code
    // runs before the string is made of them.
    unsafe {
        let shared = if size <= SHARED {
            shared_buffer()
        } else {
            None
        };
        let start = match shared {
            Some(start) => start,
            None => ffi::lua_newuserdatauv(state, size, 0).cast(),
        };
        // Looked up anew: making a buffer may run a finalizer.
        let socket = open(state);
        finish(
            state,
            call,
            || receive(socket, std::slice::from_raw_parts_mut(start, size)),
            |count| push(std::slice::from_raw_parts(start.cast(), count)),
        )
    }
}

/// `s:recv([max])` → what is there, 1 to `max` bytes (16 KiB when absent, never over 1 MiB); `false`
/// would block; `nil` at the end of the stream; `nil, message, code` on failure. `recv(0)` is `""`.
pub(super) unsafe extern "C-unwind" fn recv(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; addresses are plain data, nothing is dropped by a raise.
    unsafe {
        let socket = open(state);
        let size = size_argument(state, CHUNK).min(MOST);
        if size == 0 {
            push_bytes(state, b"");
            return 1;
        }
        let stream = socket.is_stream();
        receive(
            state,
            "recv",
            size,
            |socket, buffer| socket.receive(buffer),
            |data| {
                match stream && data.is_empty() {
                    true => ffi::lua_pushnil(state),
                    false => push_bytes(state, data),
                }
                1
            },
        )
    }
}

/// `s:recvfrom([max = 65535])` → data, endpoint; `false` would block. A longer datagram is cut. A stream
/// has no endpoint to tell, and gives `nil` at its end.
pub(super) unsafe extern "C-unwind" fn recvfrom(state: *mut lua_State) -> c_int {
    // SAFETY: as for `recv`; the address is plain data.
    unsafe {
        let socket = open(state);
        let size = size_argument(state, 65535).min(MOST);
        let stream = socket.is_stream();
        let mut from: Option<SockAddr> = None;
        let sender = &raw mut from;
        receive(
            state,
            "recvfrom",
            size,
            |socket, buffer| {
                Ok(match socket.receive_from(buffer)? {
                    Moved::Done((count, address)) => {
                        *sender = Some(address);
                        Moved::Done(count)
                    }
                    Moved::WouldBlock => Moved::WouldBlock,
                })
            },
            |data| {
                if stream && data.is_empty() && size != 0 {
                    ffi::lua_pushnil(state);
                    return 1;
                }
                push_bytes(state, data);
                match (*sender).take() {
                    Some(address) if !stream => endpoint::push(state, address),
                    _ => ffi::lua_pushnil(state),
                }
                2
            },
        )
    }
}

/// The part of `data` that arguments `index` and `index + 1` select, as `string.sub` does.
unsafe fn part(state: *mut lua_State, data: &[u8], index: c_int) -> &[u8] {
    // SAFETY: as for `recv`.
    unsafe {
        if ffi::lua_gettop(state) < index {
            return data;
        }
        let length = data.len() as i64;
        let from = ffi::luaL_optinteger(state, index, 1);
        let to = ffi::luaL_optinteger(state, index + 1, -1);
        let from = if from < 0 {
            (length + from + 1).max(1)
        } else {
            from.max(1)
        };
        let to = if to < 0 {
            length + to + 1
        } else {
            to.min(length)
        };
        match from <= to {
            true => &data[from as usize - 1..to as usize],
            false => &[],
        }
    }
}

unsafe fn push_count(state: *mut lua_State, count: usize) -> c_int {
    // SAFETY: a free stack slot is guaranteed to a C function.
    unsafe { ffi::lua_pushinteger(state, count as i64) };
    1
}

/// `s:send(data [, from [, to]])` → bytes taken, may be fewer than given; `false` would block. An empty string is a
/// call too: it fails where any would, as after `shutdown "w"`.
pub(super) unsafe extern "C-unwind" fn send(state: *mut lua_State) -> c_int {
    // SAFETY: as for `recv`.
    unsafe {
        open(state);
        let data = part(state, args::bytes(state, 2), 3);
        // Looked up anew: making a number a string may run a finalizer.
        let socket = open(state);
        finish(
            state,
            "send",
            || socket.send(data),
            |n| push_count(state, n),
        )
    }
}

/// `s:sendv(data, …)` → bytes taken of all pieces together, in one system call; `false` would block.
pub(super) unsafe extern "C-unwind" fn sendv(state: *mut lua_State) -> c_int {
    // SAFETY: as for `recv`; the slices point into arguments, which stay on the stack.
    unsafe {
        open(state);
        let last = ffi::lua_gettop(state);
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (mut used, mut total) = (0, 0);
        for index in 2..=last {
            let data = args::bytes(state, index);
            if used < PIECES && !data.is_empty() {
                pieces[used] = IoSlice::new(data);
                used += 1;
                total += data.len();
            }
        }
        if total == 0 {
            return push_count(state, 0);
        }
        let pieces = &pieces[..used];
        let socket = open(state);
        finish(
            state,
            "sendv",
            || socket.send_pieces(pieces),
            |n| push_count(state, n),
        )
    }
}

/// `s:sendto(data, endpoint)` or `(data, host, port)` → bytes; `false` would block.
pub(super) unsafe extern "C-unwind" fn sendto(state: *mut lua_State) -> c_int {
    // SAFETY: as for `recv`.
    unsafe {
        let domain = open(state).domain();
        let data = args::bytes(state, 2);
        match endpoint::argument(state, 3, domain) {
            Ok(address) => {
                let socket = open(state);
                finish(
                    state,
                    "sendto",
                    || socket.send_to(data, &address),
                    |n| push_count(state, n),
                )
            }
            Err(fault) => fault.push(state),
        }
    }
}
