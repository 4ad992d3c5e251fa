//! `lio.stream`: streams as `lualib/lio/net.lua` uses them. Nothing here waits: a call that would block
//! returns `false` (or how much was sent) with the stream armed, and the Lua side waits and calls again.
//!
//! Failures are `nil, message, partial, code`, where `partial` is what was received or sent before.

use super::receive::{Form, Received};
use super::{Pool, Stream, Transport};
use crate::lua::object::{self, Key, Object, key};
use crate::lua::{Fault, Function, Text, args, guard, module, push_bytes, settle};
use crate::selector::descriptor::{self, Descriptor};
use crate::selector::{CLOSED, Mode, READ, WRITE};
use crate::socket::{Moved, Socket, endpoint, lua as socket_lua, methods};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::io;
use std::os::raw::{c_int, c_void};
use std::rc::Rc;

/// So many strings of one `put` are gathered on the stack.
const FEW: usize = 8;

impl Object for Stream {
    const NAME: &'static CStr = c"lio.connection";
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"take", take),
        (c"put", put),
        (c"arm", arm),
        (c"release", release),
        (c"cut", cut),
        (c"buffered", buffered),
        (c"is_closed", is_closed),
        (c"is_over", is_over),
        (c"address", address),
        (c"set_option", option),
        (c"handle", handle),
    ];
    const META: &'static [(&'static CStr, Function)] = &[(c"__tostring", to_string)];
    fn key() -> &'static Key {
        key!()
    }
    unsafe fn finish_metatable(state: *mut lua_State) {
        // SAFETY: the metatable is on top.
        unsafe { descriptor::mark(state, descriptor_of) }
    }
}

unsafe fn descriptor_of(state: *mut lua_State, index: c_int) -> Descriptor {
    // SAFETY: only objects with this metatable get here.
    unsafe {
        (*object::check::<Stream>(state, index))
            .transport
            .socket()
            .descriptor()
    }
}

struct PoolHolder(Rc<Pool>);

impl Object for PoolHolder {
    const NAME: &'static CStr = c"lio.buffers of this VM";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
    fn key() -> &'static Key {
        key!()
    }
}

/// The stream at argument `index`.
///
/// # Safety
/// Nothing that needs `Drop` may be alive; only one reference may be in use at a time.
pub(crate) unsafe fn check<'a>(state: *mut lua_State, index: c_int) -> &'a mut Stream {
    // SAFETY: the argument stays on the stack while the caller runs.
    unsafe { &mut *object::check::<Stream>(state, index) }
}

/// The VM's buffer pool, which upvalue 1 of the module's functions holds.
unsafe fn pool<'a>(state: *mut lua_State) -> &'a Rc<Pool> {
    // SAFETY: the upvalue lives as long as the running function.
    unsafe { &(*object::check::<PoolHolder>(state, ffi::lua_upvalueindex(1))).0 }
}

/// Registers the stream on top of the stack with the selector at index 1; returns how many results.
/// One that is refused is closed at once: nobody could wait on it.
unsafe fn register(state: *mut lua_State) -> c_int {
    // SAFETY: a stream is on top.
    unsafe {
        let at = ffi::lua_gettop(state);
        let descriptor = descriptor_of(state, at);
        ffi::lua_pushvalue(state, at);
        match crate::selector::lua::attach(state, 1, at, descriptor, 0, Mode::Once) {
            Ok(()) => 1,
            Err(fault) => {
                let stream = check(state, at);
                settle(state, guard(|| Ok(stream.close())));
                fault.push(state)
            }
        }
    }
}

/// `stream.watch(selector, socket)`: registers a listener, a datagram socket or one that is connecting,
/// asking for nothing; `selector:arm` and `accept` ask for one event at a time. `true`, or
/// `nil, message, code`.
unsafe extern "C-unwind" fn watch(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let descriptor = (*object::check::<Socket>(state, 2)).descriptor();
        if descriptor.number < 0 {
            args::argument_error(state, 2, Text::new("socket is already closed"));
        }
        ffi::lua_pushvalue(state, 2);
        match crate::selector::lua::attach(state, 1, 2, descriptor, 0, Mode::Once) {
            Ok(()) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `stream.new(selector, socket)` → a stream that has taken the socket over; the socket object reads as
/// closed then. `nil, message, code` when the selector refuses it, which closes it.
unsafe extern "C-unwind" fn new(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the socket moves from one userdata to another with nothing between.
    unsafe {
        let pool = pool(state);
        let socket = object::check::<Socket>(state, 2);
        if (*socket).is_closed() {
            args::argument_error(state, 2, Text::new("socket is already closed"));
        }
        (*socket).watch().release(true);
        let Ok(_) = object::push_new(state, || {
            let transport = Transport::Plain((*socket).take());
            Ok::<_, std::convert::Infallible>(Stream::new(transport, pool))
        });
        register(state)
    }
}

/// `stream.accept(selector, listener)` → a stream; `false` when nobody is there, the listener being
/// armed; `nil, message, code` on failure.
unsafe extern "C-unwind" fn accept(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let pool = pool(state);
        let listener = &*object::check::<Socket>(state, 2);
        let mut blocked = false;
        let accepted = object::push_new(state, || match listener.accept() {
            Ok(Moved::Done(socket)) => Ok(Stream::new(Transport::Plain(socket), pool)),
            Ok(Moved::WouldBlock) => {
                blocked = true;
                Err(Fault::os("accept", libc::EAGAIN))
            }
            Err(error) => Err(Fault::io("accept", &error)),
        });
        match accepted {
            Ok(_) => register(state),
            Err(_) if blocked => {
                settle(state, guard(|| Ok(listener.watch().arm(READ))));
                ffi::lua_pushboolean(state, 0);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

unsafe fn limit(state: *mut lua_State, index: c_int) -> usize {
    // SAFETY: as for `new`.
    unsafe {
        match args::is_none(state, index) {
            true => usize::MAX,
            false => args::integer_in(state, index, 0, i64::MAX, "limit") as usize,
        }
    }
}

unsafe fn form<'a>(state: *mut lua_State) -> Form<'a> {
    // SAFETY: as for `new`; the delimiter is an argument, which stays on the stack.
    unsafe {
        match ffi::lua_type(state, 2) {
            ffi::LUA_TNONE | ffi::LUA_TNIL => return Form::Any,
            ffi::LUA_TNUMBER => {
                let count = args::integer_in(state, 2, 0, i64::MAX / 2, "size");
                return Form::Exactly(count as usize);
            }
            _ => {}
        }
        match args::bytes(state, 2) {
            b"line" => Form::Line {
                limit: limit(state, 3),
            },
            b"all" => Form::All {
                limit: limit(state, 3),
            },
            b"until" => {
                let delimiter = args::bytes(state, 3);
                if delimiter.is_empty() {
                    args::argument_error(state, 3, Text::new("the delimiter is empty"));
                }
                let limit = limit(state, 4);
                Form::Until { delimiter, limit }
            }
            _ => {
                let message = "a size, 'line', 'until' or 'all' expected";
                args::argument_error(state, 2, Text::new(message))
            }
        }
    }
}

/// Pushes `nil, message, partial, code`, with what is on top of the stack as `partial`.
unsafe fn failed(state: *mut lua_State, message: &[u8], code: &[u8]) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushnil(state);
        push_bytes(state, message);
        ffi::lua_rotate(state, -3, 2);
        push_bytes(state, code);
        4
    }
}

/// `s:take([form …])` → a string; `false` would block, the stream is armed; `nil` at the end for the
/// form without arguments; else `nil, message, partial, code`. The forms are those of `net.recv`.
unsafe extern "C-unwind" fn take(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; the buffer belongs to the userdata, so nothing is lost when pushing raises.
    unsafe {
        let stream = check(state, 1);
        let form = form(state);
        if stream.is_closed() {
            ffi::lua_pushnil(state);
            return failed(state, b"closed", b"closed");
        }
        let result = guard(|| {
            Ok(stream
                .receive(form)
                .map_err(|error| Fault::io("recv", &error)))
        });
        match settle(state, result) {
            Ok(Received::Ready { length, consume }) => {
                push_bytes(state, &stream.buffered()[..length]);
                stream.consume(consume);
                1
            }
            Ok(Received::WouldBlock) => {
                ffi::lua_pushboolean(state, 0);
                1
            }
            Ok(Received::Ended) if matches!(form, Form::Any) => {
                ffi::lua_pushnil(state);
                1
            }
            Ok(Received::Ended) => {
                push_rest(state, stream);
                failed(state, b"closed", b"closed")
            }
            Ok(Received::TooLong) => {
                ffi::lua_pushnil(state);
                failed(state, b"too long", b"too long")
            }
            Err(fault) => {
                push_rest(state, stream);
                let message = fault.message();
                failed(state, message.as_bytes(), fault.code().as_bytes())
            }
        }
    }
}

/// Pushes and consumes what is buffered.
unsafe fn push_rest(state: *mut lua_State, stream: &mut Stream) {
    // SAFETY: as for `take`.
    unsafe {
        push_bytes(state, stream.buffered());
        let length = stream.buffered().len();
        stream.consume(length);
    }
}

/// Whether `put` has been given strings only; numbers become strings. Raises for anything else, with the
/// argument's number as the caller of `net.send` counts, to whom `sent` is unknown.
unsafe fn check_strings(state: *mut lua_State, last: c_int) {
    // SAFETY: as for `new`.
    unsafe {
        for index in 3..=last {
            match ffi::lua_type(state, index) {
                ffi::LUA_TSTRING => {}
                ffi::LUA_TNUMBER => {
                    args::bytes(state, index);
                }
                _ => {
                    let actual = CStr::from_ptr(ffi::luaL_typename(state, index));
                    let message = Text::format(format_args!(
                        "string expected, got {}",
                        actual.to_str().unwrap_or("?")
                    ));
                    args::argument_error(state, index - 1, message)
                }
            }
        }
    }
}

/// The string at `index`; never raises.
unsafe fn string<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    // SAFETY: `check_strings` has made it a string, which stays on the stack.
    unsafe {
        let mut length = 0;
        let start = ffi::lua_tolstring(state, index, &mut length);
        std::slice::from_raw_parts(start.cast(), length)
    }
}

/// Sends the strings from index 3 to `last`. Never raises.
unsafe fn send_strings(
    state: *mut lua_State,
    last: c_int,
    stream: &mut Stream,
    sent: &mut usize,
) -> io::Result<bool> {
    // SAFETY: as for `string`.
    unsafe {
        let count = (last - 2) as usize;
        if count > FEW {
            let pieces: Vec<&[u8]> = (3..=last).map(|index| string(state, index)).collect();
            return stream.send(&pieces, sent);
        }
        let mut pieces: [&[u8]; FEW] = [&[]; FEW];
        for (piece, index) in pieces.iter_mut().zip(3..=last) {
            *piece = string(state, index);
        }
        stream.send(&pieces[..count], sent)
    }
}

/// `s:put(sent, data, …)`: sends what is queued and the strings, of which `sent` bytes are gone already.
/// `true` when all is taken by the system; the new `sent` when it would block, or when others have to
/// get their turn, the stream being armed; `nil, message, sent, code` on failure.
unsafe extern "C-unwind" fn put(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; the slices point into arguments, which stay on the stack.
    unsafe {
        let stream = check(state, 1);
        let mut sent = args::integer_in(state, 2, 0, i64::MAX, "sent") as usize;
        let last = ffi::lua_gettop(state);
        check_strings(state, last);
        if stream.is_closed() {
            ffi::lua_pushinteger(state, sent as i64);
            return failed(state, b"closed", b"closed");
        }
        let result = guard(|| {
            // Nothing to add means that somebody only flushes, and may not come back.
            if sent == 0 && last > 2 && !stream.begin_message() {
                return Ok(Ok(false));
            }
            let done = send_strings(state, last, stream, &mut sent);
            Ok(done.map_err(|error| Fault::io("send", &error)))
        });
        match settle(state, result) {
            Ok(true) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Ok(false) => {
                ffi::lua_pushinteger(state, sent as i64);
                1
            }
            Err(fault) => {
                ffi::lua_pushinteger(state, sent as i64);
                let message = fault.message();
                failed(state, message.as_bytes(), fault.code().as_bytes())
            }
        }
    }
}

/// `s:arm(events)`: asks the loop for events once: 1 reading, 2 writing, 4 the peer's end.
unsafe extern "C-unwind" fn arm(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let stream = check(state, 1);
        let all = i64::from(READ | WRITE | CLOSED);
        let bits = args::integer_in(state, 2, 1, all, "events") as u8;
        settle(state, guard(|| Ok(stream.transport.arm(bits))));
        0
    }
}

/// `s:release()` → whether it was open: closes the descriptor, buffers go back to the pool.
unsafe extern "C-unwind" fn release(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let stream = check(state, 1);
        let open = !stream.is_closed();
        settle(state, guard(|| Ok(stream.close())));
        ffi::lua_pushboolean(state, open.into());
        1
    }
}

/// `s:cut(["r"|"w"|"rw"])`: shutdown(2) → `true`, or `nil, message, code`.
unsafe extern "C-unwind" fn cut(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let stream = check(state, 1);
        let how = methods::shutdown_argument(state, 2);
        let shut = || {
            stream
                .transport
                .socket()
                .raw()?
                .shutdown(how)
                .map(Moved::Done)
        };
        socket_lua::finish(state, "shutdown", shut, |()| {
            ffi::lua_pushboolean(state, 1);
            1
        })
    }
}

/// `s:buffered()` → how many bytes were read from the peer and not taken yet.
unsafe extern "C-unwind" fn buffered(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        ffi::lua_pushinteger(state, check(state, 1).buffered().len() as i64);
        1
    }
}

/// `s:is_closed()` → whether this side has closed it.
unsafe extern "C-unwind" fn is_closed(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        ffi::lua_pushboolean(state, check(state, 1).is_closed().into());
        1
    }
}

/// `s:is_over()` → whether the peer has ended its side, or the connection failed, as far as the loop
/// has heard. No system call.
unsafe extern "C-unwind" fn is_over(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let stream = check(state, 1);
        let over = stream.is_closed()
            || stream.has_ended()
            || stream.transport.socket().watch().peer_is_over();
        ffi::lua_pushboolean(state, over.into());
        1
    }
}

/// `s:address("peer"|"socket")` → ip, port, family (page of `lio.socket`'s `endpoint:value()`), or
/// `nil, message, code`.
unsafe extern "C-unwind" fn address(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; addresses are plain data.
    unsafe {
        let stream = check(state, 1);
        let peer = args::bytes(state, 2) == b"peer";
        let found = stream
            .transport
            .socket()
            .raw()
            .and_then(|raw| endpoint::of(raw, peer));
        match found.map_err(|error: io::Error| Fault::io("address", &error)) {
            Ok(address) => {
                endpoint::push_parts(state, &address);
                3
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `s:set_option(name [, value])`: as `lio.socket`'s `option`.
unsafe extern "C-unwind" fn option(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let stream = check(state, 1);
        methods::option_call(state, stream.transport.socket(), 2)
    }
}

/// `s:handle()` → the descriptor as a lightuserdata.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let number = check(state, 1).transport.socket().number();
        ffi::lua_pushlightuserdata(state, number as isize as *mut c_void);
        1
    }
}

unsafe extern "C-unwind" fn to_string(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let stream = check(state, 1);
        let text = match stream.is_closed() {
            true => Text::new("connection (closed)"),
            false => {
                let number = stream.transport.socket().number();
                Text::format(format_args!("connection ({number})"))
            }
        };
        push_bytes(state, text.as_bytes());
        1
    }
}

/// Opens `lio.stream`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(state, &[]);
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(PoolHolder(Rc::default()))
        });
        let functions: [(&CStr, Function); 3] =
            [(c"new", new), (c"accept", accept), (c"watch", watch)];
        for (name, function) in functions {
            ffi::lua_pushvalue(state, -1);
            ffi::lua_pushcclosure(state, function, 1);
            ffi::lua_setfield(state, -3, name.as_ptr());
        }
        ffi::lua_pop(state, 1);
        // What waits is added to the methods by net.lua, and `__close`, which wakes who waits.
        object::push_metatable::<Stream>(state);
        ffi::lua_getfield(state, -1, c"__index".as_ptr());
        ffi::lua_setfield(state, -3, c"methods".as_ptr());
        ffi::lua_setfield(state, -2, c"metatable".as_ptr());
        1
    }
}
