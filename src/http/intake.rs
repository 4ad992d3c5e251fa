//! A request's body as Lua reads it: whole, in pieces, dropped; and the fields behind it. Methods of the
//! exchange, used by lualib/lio/web/connection.lua and part.lua. Nothing here waits: a call that would block
//! returns `false` with the stream armed.

use super::connection::{Connection, check, check_at};
use super::exchange::Piece;
use super::life;
use super::request;
use super::step::push_refusal;
use crate::codec::http1::chunked::{self as coding, MAX_TRAILER_FIELDS};
use crate::codec::http1::fields::Field;
use crate::raw::stream::hand_over;
use crate::raw::{Fault, args, guard, object, push_bytes, push_emptied, settle};
use crate::stream::Filled;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

unsafe fn limit(state: *mut lua_State) -> u64 {
    // SAFETY: a thin shell.
    unsafe {
        match args::is_none(state, 2) {
            true => u64::MAX >> 1,
            false => args::integer_in(state, 2, 0, i64::MAX, "limit") as u64,
        }
    }
}

/// Pushes what reading the body came to. What is pushed is consumed before Lua allocates: the exchange has counted it,
/// so that what follows would be taken for it, after a memory error or in a finalizer.
unsafe fn push_piece(
    state: *mut lua_State,
    result: Result<Piece, Fault>,
    connection: *mut Connection,
) -> c_int {
    // SAFETY: a thin shell; the connection is on the stack, and no reference into it is held.
    unsafe {
        match result {
            Ok(Piece::Data { consume: 0, .. }) => {
                push_emptied(state, (*connection).exchange.collected());
                if object::is_alive(connection) {
                    (*connection).exchange.free_collected();
                }
                1
            }
            Ok(Piece::Data { from, to, consume }) => {
                hand_over(state, (*connection).stream, from, to, consume);
                1
            }
            Ok(Piece::WouldBlock) => {
                ffi::lua_pushboolean(state, 0);
                1
            }
            Ok(Piece::End) => {
                ffi::lua_pushnil(state);
                1
            }
            Ok(Piece::Truncated) => {
                ffi::lua_pushnil(state);
                ffi::lua_pushinteger(state, 400);
                push_bytes(state, b"closed");
                3
            }
            Ok(Piece::Refused(reject)) => push_refusal(state, reject),
            Err(fault) => {
                ffi::lua_pushnil(state);
                ffi::lua_pushinteger(state, 400);
                push_bytes(state, fault.code().as_bytes());
                3
            }
        }
    }
}

/// `x:body([limit])` → the rest of the body as one string; `false` would block; `nil, status, reason`
/// when it is over the limit (413, before it is read), malformed, or ends early.
pub(super) unsafe extern "C-unwind" fn body(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; what is pushed belongs to the stream or the exchange.
    unsafe {
        let limit = limit(state);
        read_whole(state, 1, limit)
    }
}

/// `http.body_of(head [, limit])` → as `x:body` of the exchange that the head came by, with the app's limit where none
/// is given. The body is kept with the head, and given again by later calls.
pub(super) unsafe extern "C-unwind" fn body_of(state: *mut lua_State) -> c_int {
    // SAFETY: as for `body`.
    unsafe {
        object::check::<crate::modules::http::request::Request>(state, 1);
        ffi::lua_settop(state, 2);
        if request::push_body(state, 1) {
            return 1;
        }
        ffi::lua_settop(state, 2);
        request::push_exchange(state, 1);
        if ffi::lua_toboolean(state, 2) == 0 {
            life::push_table(state, 3);
            for name in [c"app", c"settings", c"body"] {
                ffi::lua_getfield(state, -1, name.as_ptr());
            }
            ffi::lua_replace(state, 2);
        }
        let limit = limit(state);
        let count = read_whole(state, 3, limit);
        if ffi::lua_type(state, -1) == ffi::LUA_TSTRING && count == 1 {
            ffi::lua_pushvalue(state, -1);
            request::keep_body(state, 1);
        }
        count
    }
}

/// Pushes what `x:body` returns, `x` being at `index`; how many values.
unsafe fn read_whole(state: *mut lua_State, index: c_int, limit: u64) -> c_int {
    // SAFETY: a thin shell; what is pushed belongs to the stream or the exchange.
    unsafe {
        let connection: *mut Connection = check_at(state, index);
        let result = guard(|| {
            let (exchange, stream) = (*connection).parts();
            let piece = exchange.whole(stream, limit);
            Ok(piece.map_err(|error| Fault::io("recv", &error)))
        });
        let result = settle(state, result);
        // A wait for more, or a refusal, is not over with the handler's return.
        if !matches!(result, Ok(Piece::Data { .. } | Piece::End)) {
            (*connection).special = true;
        }
        push_piece(state, result, connection)
    }
}

/// `x:piece([limit])` → the next piece of the body; `nil` at its end; `false` would block;
/// `nil, status, reason` as for `body`.
pub(super) unsafe extern "C-unwind" fn piece(state: *mut lua_State) -> c_int {
    // SAFETY: as for `body`.
    unsafe {
        let limit = limit(state);
        let connection: *mut Connection = check(state);
        (*connection).special = true;
        let result = guard(|| {
            let (exchange, stream) = (*connection).parts();
            let piece = exchange.piece(stream, limit);
            Ok(piece.map_err(|error| Fault::io("recv", &error)))
        });
        let result = settle(state, result);
        push_piece(state, result, connection)
    }
}

/// `x:received()` → bytes of the current body that were received.
pub(super) unsafe extern "C-unwind" fn received(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let connection = check(state);
        let (exchange, stream) = connection.parts();
        let count = exchange.received() + stream.buffered().len() as u64;
        ffi::lua_pushinteger(state, count as i64);
        1
    }
}

/// `x:discard()`: reads and drops what the peer still sends. `false` would block, `nil` at its end.
pub(super) unsafe extern "C-unwind" fn discard(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let connection = check(state);
        let done = guard(|| {
            let (_, stream) = connection.parts();
            // A peer that never stops does not hold the loop: `fill` says that it would block now and then.
            loop {
                let there = stream.buffered().len();
                stream.consume(there);
                match stream.fill(0) {
                    Ok(Filled::Some) => {}
                    Ok(Filled::WouldBlock) => return Ok(false),
                    _ => return Ok(true),
                }
            }
        });
        match settle(state, done) {
            true => ffi::lua_pushnil(state),
            false => ffi::lua_pushboolean(state, 0),
        }
        1
    }
}

/// `x:trailers()` → table of lower-case name to value of the fields behind a chunked body (RFC 9112
/// section 7.1.2), once it was read; of a repeated one the last.
pub(super) unsafe extern "C-unwind" fn trailers(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; a copy of the section stays on the stack.
    unsafe {
        push_bytes(state, check(state).exchange.trailers());
        let section = args::bytes(state, -1);
        let mut found = [Field::default(); MAX_TRAILER_FIELDS];
        let parsed = guard(|| Ok(coding::trailers(section, &mut found).unwrap_or(0)));
        let count = settle(state, parsed);
        ffi::lua_createtable(state, 0, count as c_int);
        for field in &found[..count] {
            push_lower(state, field.name.of(section));
            push_bytes(state, field.value.of(section));
            ffi::lua_rawset(state, -3);
        }
        1
    }
}

/// Pushes a field name in lower case.
///
/// # Safety
/// As for [`push_bytes`].
unsafe fn push_lower(state: *mut lua_State, name: &[u8]) {
    let mut lower = [0u8; 256];
    // SAFETY: the caller's promise.
    unsafe {
        let Some(lower) = lower.get_mut(..name.len()) else {
            push_bytes(state, name);
            return;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        push_bytes(state, lower);
    }
}
