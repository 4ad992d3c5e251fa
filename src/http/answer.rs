//! Answers as Lua gives them: status, fields, body, into the stream's write queue.
//!
//! The queue belongs to the stream's userdata, so a raise in the middle loses nothing; what was begun
//! of the answer is cut off then. Content-Length, Date and Connection are right by themselves.

mod field;

pub(crate) use field::fault_of;
use field::{Seen, Writer};

use super::connection::{Connection, check};
use super::exchange::{Exchange, Workspace};
use crate::codec::date::DateCache;
use crate::codec::http1::write::{self, Kind, Persistence};
use crate::event::clock::unix_seconds;
use crate::raw::{Text, args, guard, may_be_finalizer, push_bytes, raise, settle, shield};
use crate::stream::Stream;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// A body up to this size is copied behind its head; a longer one is sent from where it is.
pub(super) const INLINE: usize = 16 * 1024;

/// A body up to this size is answered with natively; a longer one has a task wait while the peer does not read it.
const AT_ONCE: usize = 256 * 1024;

/// How the body of an answer is framed.
#[derive(Clone, Copy)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
    None,
}

/// The status at argument 2.
unsafe fn status_of(state: *mut lua_State) -> u16 {
    // SAFETY: a thin shell.
    unsafe { args::integer_in(state, 2, 200, 599, "status") as u16 }
}

/// Begins an answer: status line and the handler's fields (arguments `list` and `list + 1`).
unsafe fn begin(state: *mut lua_State, status: u16, list: c_int) -> Writer {
    // SAFETY: a thin shell; the queue belongs to the stream.
    unsafe {
        let connection: *mut Connection = check(state);
        if (*connection).exchange.head_from.is_some() && may_be_finalizer(state) {
            raise(
                state,
                Text::new("the exchange is busy: another call writes an answer"),
            );
        }
        let (exchange, stream) = (*connection).parts();
        if exchange.answered {
            raise(state, Text::new("the request is answered already"));
        }
        let begun = guard(|| {
            if !exchange.take_back(stream) {
                exchange.hand_over();
                return Err(Text::new("the request is answered already, in part"));
            }
            let begin = stream.written + stream.queued() as u64;
            write::start(stream.queue(), status);
            Ok(begin)
        });
        let begin = settle(state, begun);
        // Until all fields are written: a number among them is made a string, which may run a finalizer, or fail.
        (*connection).exchange.head_from = Some(begin);
        let mut writer = Writer {
            state,
            connection,
            stream,
            begin,
            seen: Seen::default(),
        };
        if ffi::lua_type(state, list) == ffi::LUA_TTABLE {
            writer.list(list);
        }
        if ffi::lua_type(state, list + 1) == ffi::LUA_TTABLE {
            writer.map(list + 1);
        }
        (*connection).exchange.head_from = None;
        writer
    }
}

/// Writes what follows the handler's fields, up to the blank line.
unsafe fn end(
    state: *mut lua_State,
    writer: &Writer,
    content_type: Option<&[u8]>,
    framing: Framing,
) {
    // SAFETY: as for `begin`.
    unsafe {
        let connection = &mut *writer.connection;
        let space = connection.space();
        let seen = writer.seen;
        let ended = guard(|| {
            let (exchange, stream) = connection.parts();
            if seen.close || matches!(framing, Framing::UntilClose) {
                exchange.close_after();
            }
            let keep_alive = exchange.settle_keep_alive(stream);
            let out = stream.queue();
            if let Some(kind) = content_type.filter(|_| !seen.content_type) {
                write::content_type(out, kind);
            }
            match framing {
                Framing::Length(length) => write::content_length(out, length),
                Framing::Chunked => write::chunked(out),
                Framing::UntilClose | Framing::None => {}
            }
            let date = (!seen.date).then_some(&mut (*space).date);
            end_head(exchange, stream, date, keep_alive);
            Ok(())
        });
        settle(state, ended);
    }
}

/// Ends a head with what is right by itself; the body follows. `date` is `None` when the handler has set its own.
pub(super) fn end_head(
    exchange: &mut Exchange,
    stream: &mut Stream,
    date: Option<&mut DateCache>,
    keep_alive: bool,
) {
    let out = stream.queue();
    if let Some(cache) = date {
        write::date(out, cache, unix_seconds());
    }
    write::connection(out, keep_alive, exchange.version());
    write::finish(out);
    exchange.body_from = Some(stream.written + stream.queued() as u64);
}

unsafe fn content_type<'a>(state: *mut lua_State, index: c_int) -> Option<&'a [u8]> {
    // SAFETY: as for `begin`.
    unsafe {
        if args::is_none(state, index) {
            return None;
        }
        Some(args::bytes(state, index))
    }
}

/// `x:answer(status, content_type, body, list, map)`: queues a whole answer. `content_type` is used when
/// the fields name none; `list` is a flat list of names and values, `map` a table of them; each may be
/// nil. → true; false when the body is long and the caller has to send it behind the queue.
pub(super) unsafe extern "C-unwind" fn answer(state: *mut lua_State) -> c_int {
    // SAFETY: as for `begin`; the body stays on the stack.
    unsafe {
        ffi::lua_settop(state, 6);
        let kind = content_type(state, 3);
        let body = match args::is_none(state, 4) {
            true => &[][..],
            false => args::bytes(state, 4),
        };
        let status = status_of(state);
        let writer = begin(state, status, 5);
        let inline = end_whole(state, &writer, status, kind, body);
        ffi::lua_pushboolean(state, inline.into());
        1
    }
}

/// Ends the head of a whole answer, and queues the body unless it is long: false, and the caller has to send it.
unsafe fn end_whole(
    state: *mut lua_State,
    writer: &Writer,
    status: u16,
    kind: Option<&[u8]>,
    body: &[u8],
) -> bool {
    // SAFETY: as for `begin`; the body is kept by the caller.
    unsafe {
        let head_only = (*writer.connection).exchange.is_head();
        let body = match write::body_is_empty(status) {
            true => &[][..],
            false => body,
        };
        let framing = match write::body_allowed(status) {
            true if write::body_is_empty(status) => Framing::Length(0),
            true if head_only && body.is_empty() => writer
                .seen
                .length
                .map_or(Framing::Length(0), Framing::Length),
            true => Framing::Length(body.len() as u64),
            false => Framing::None,
        };
        let kind = kind.filter(|_| !matches!(framing, Framing::None) && !body.is_empty());
        end(state, writer, kind, framing);
        let sends = !head_only && matches!(framing, Framing::Length(_));
        let inline = !sends || body.len() <= INLINE;
        if sends && inline {
            let (_, stream) = (*writer.connection).parts();
            let queued = guard(|| {
                stream.queue().extend_from_slice(body);
                Ok(())
            });
            settle(state, queued);
        }
        inline
    }
}

/// Called with an exchange, a response and what its handler returned, a string or a table: queues that with the status,
/// the fields and the type that were set before. → true; false, with nothing queued, when that is long or not to be
/// had.
pub(super) unsafe extern "C-unwind" fn touched(state: *mut lua_State) -> c_int {
    // SAFETY: as for `begin`; the string stays on the stack, and nothing uses the workspace's text before it is queued.
    unsafe {
        ffi::lua_settop(state, 3);
        let is_table = ffi::lua_type(state, 3) == ffi::LUA_TTABLE;
        if !is_table && ffi::lua_rawlen(state, 3) > INLINE {
            return 0;
        }
        for name in [c"code", c"kind", c"fields"] {
            ffi::lua_pushstring(state, name.as_ptr());
            ffi::lua_rawget(state, 2);
        }
        ffi::lua_pushnil(state);
        let status = match ffi::lua_type(state, 4) {
            ffi::LUA_TNIL => 200,
            _ => args::integer_in(state, 4, 200, 599, "status") as u16,
        };
        let untyped = ffi::lua_type(state, 5) == ffi::LUA_TBOOLEAN;
        let writer = begin(state, status, 6);
        let done = match is_table {
            false => {
                let kind = (!untyped).then_some(Kind::Text.name());
                end_whole(state, &writer, status, kind, args::bytes(state, 3))
            }
            true => {
                let space = (*writer.connection).space();
                let made = guard(|| Ok(json_text(&mut (*space).scratch, state, 3)));
                let made = settle(state, made);
                if made {
                    end_whole(
                        state,
                        &writer,
                        status,
                        Some(Kind::Json.name()),
                        &(*space).scratch,
                    );
                } else {
                    (*writer.stream).unqueue(writer.begin);
                }
                made
            }
        };
        ffi::lua_pushboolean(state, done.into());
        1
    }
}

/// Fills `scratch` with the value at `index` as JSON; false when that is long or not to be had.
unsafe fn json_text(scratch: &mut Vec<u8>, state: *mut lua_State, index: c_int) -> bool {
    scratch.clear();
    // SAFETY: as for `returned`, inside `guard`. // bridge
    let made = unsafe {
        crate::lua::Call::bridge(state, |call| {
            crate::modules::json::append(call, index, scratch)
        })
    } && scratch.len() <= INLINE;
    if !made {
        // A large text is sent from a string, and its memory is not kept here.
        *scratch = Vec::new();
    }
    made
}

/// Puts a body behind the queue: a long one is sent from where it is, and only what the system does not take is
/// copied. That the peer is gone shows when the queue is sent next.
fn put_body(stream: &mut Stream, body: &[u8]) {
    let mut sent = 0;
    if body.len() > INLINE {
        let _ = stream.send(&[body], &mut sent);
    }
    let rest = &body[sent..];
    if !rest.is_empty() {
        stream.queue().extend_from_slice(rest);
    }
}

/// Queues the answer 200 with what a handler returned, a string or a table at `index`, as its body. False, with
/// nothing queued, when that is long, cannot be sent, or the request is answered already.
///
/// # Safety
/// The connection's userdata and the value stay on the stack, which has 4 free slots.
pub(super) unsafe fn returned(
    state: *mut lua_State,
    connection: *mut Connection,
    index: c_int,
) -> bool {
    // SAFETY: the caller's promise; the workspace and the stream have no other user now.
    unsafe {
        let space = (*connection).space();
        let is_table = ffi::lua_type(state, index) == ffi::LUA_TTABLE;
        let body = match is_table {
            true => &[][..],
            false => args::bytes(state, index),
        };
        if (*connection).exchange.answered || body.len() > AT_ONCE {
            return false;
        }
        shield(state, || {
            let Workspace { scratch, date, .. } = &mut *space;
            let (kind, body) = match is_table {
                true if !json_text(scratch, state, index) => return false,
                true => (Kind::Json, &scratch[..]),
                false => (Kind::Text, body),
            };
            let (exchange, stream) = (*connection).parts();
            let persists = Persistence {
                keep_alive: exchange.settle_keep_alive(stream),
                version: exchange.version(),
            };
            let head_only = exchange.is_head();
            let date = date.get(unix_seconds());
            write::plain(stream.queue(), kind, body.len(), persists, date);
            exchange.body_from = Some(stream.written + stream.queued() as u64);
            if !head_only {
                exchange.weigh(body.len());
                put_body(stream, body);
            }
            true
        })
    }
}

/// Whether an answer of unknown length goes out in chunks.
fn framing_of(exchange: &Exchange, status: u16, seen: Seen) -> Framing {
    if !write::body_allowed(status) {
        return Framing::None;
    }
    if write::body_is_empty(status) {
        return Framing::Length(0);
    }
    match (seen.length, exchange.version()) {
        (Some(length), _) => Framing::Length(length),
        (None, 10) if exchange.is_head() => Framing::None,
        (None, 10) => Framing::UntilClose,
        _ => Framing::Chunked,
    }
}

/// `x:start(status, content_type, list, map)`: queues the head of an answer whose body follows in
/// pieces. → `"length"` and the number when the fields gave a Content-Length, `"chunked"`, `"close"`
/// (HTTP/1.0: the end of the connection ends it), or `"none"` when there is to be no body.
pub(super) unsafe extern "C-unwind" fn start(state: *mut lua_State) -> c_int {
    // SAFETY: as for `begin`.
    unsafe {
        ffi::lua_settop(state, 5);
        let kind = content_type(state, 3);
        let status = status_of(state);
        let writer = begin(state, status, 4);
        let (exchange, _) = check(state).parts();
        let framing = framing_of(exchange, status, writer.seen);
        let head_only = exchange.is_head() || write::body_is_empty(status);
        let bodied = write::body_allowed(status) && !write::body_is_empty(status);
        let kind = kind.filter(|_| bodied);
        end(state, &writer, kind, framing);
        let name: &[u8] = match framing {
            _ if head_only => b"none",
            Framing::Length(_) => b"length",
            Framing::Chunked => b"chunked",
            Framing::UntilClose => b"close",
            Framing::None => b"none",
        };
        push_bytes(state, name);
        match framing {
            Framing::Length(length) if !head_only => {
                ffi::lua_pushinteger(state, length as i64);
                2
            }
            _ => 1,
        }
    }
}

/// `x:chunk(data, chunked)` → bytes queued, and whether the last send failed: queues a piece of a body, as a chunk or as
/// it is.
pub(super) unsafe extern "C-unwind" fn chunk(state: *mut lua_State) -> c_int {
    // SAFETY: as for `begin`.
    unsafe {
        let data = args::bytes(state, 2);
        let chunked = ffi::lua_toboolean(state, 3) != 0;
        let (_, stream) = check(state).parts();
        let queued = guard(|| {
            match chunked {
                true => write::chunk(stream.queue(), data),
                false => stream.queue().extend_from_slice(data),
            }
            Ok((stream.queued(), stream.send_failed()))
        });
        let (queued, failed) = settle(state, queued);
        ffi::lua_pushinteger(state, queued as i64);
        ffi::lua_pushboolean(state, c_int::from(failed));
        2
    }
}

/// `x:last_chunk()`: queues the end of a chunked body.
pub(super) unsafe extern "C-unwind" fn last_chunk(state: *mut lua_State) -> c_int {
    // SAFETY: as for `begin`.
    unsafe {
        let (_, stream) = check(state).parts();
        let queued = guard(|| {
            stream.queue().extend_from_slice(write::LAST_CHUNK);
            Ok(())
        });
        settle(state, queued);
        0
    }
}
