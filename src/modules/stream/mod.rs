//! `lio.stream`: connections as `lualib/lio/net.lua` uses them.
//!
//! Only `recv` and `send` wait. Other calls that would block return `false` (or the number of bytes sent) with the
//! connection armed; the Lua code waits and calls again.
//!
//! Failures are `nil, message, partial, code` if a part of the data was received or sent before.
//!
//! | file | topic |
//! |---|---|
//! | `create` | connections that become objects: created, accepted, received from another VM |
//! | [`connection`] | the object |
//! | `recv`, `send` | the calls that wait, and those that do not |
//! | `form` | the form of a `recv`, from its arguments |
//! | `queued` | the calls while another task holds the connection |
//! | `failure` | failures of the calls |
//! | `file` | files |
//! | `broadcast` | one message to many connections |
//! | `holders` | which tasks hold a connection |
//! | `events` | the events of a wait |
//! | [`tls`] | TLS on a connection |

mod broadcast;
pub(super) mod connection;
mod create;
mod events;
mod failure;
mod file;
mod form;
mod holders;
mod queued;
mod recv;
mod send;
pub(crate) mod tls;

use self::connection::Connection;
use crate::event::{CLOSED, READ, WRITE};
use crate::lua::{
    Call, Fault, Function, FunctionTable, Metatable, Methods, ModuleWith, Object, Value, failed, functions,
};
use crate::modules::socket::endpoint::{Shown, shown};
use crate::modules::socket::methods::{Setting, direction, light, set_or_get};
use crate::socket::address::Side;

impl Object for Connection {
    const NAME: &'static str = "lio.connection";
    const METHODS: FunctionTable = functions! {
        try_recv: recv::TRY_RECV, try_send: send::TRY_SEND, file::try_sendfile, arm, close_now, shutdown_now,
        buffered: BUFFERED, is_closed: IS_CLOSED, is_over: IS_OVER, address, set_option, handle: HANDLE,
        make_parcel: MAKE_PARCEL, queued: QUEUED, unread, shared_writer: SHARED_WRITER,
        tls::start_tls_now, tls::handshake, tls = tls::describe, tls::has_unread,
    };
    const META: FunctionTable = functions! { __tostring = to_string };
}

/// `s:arm(events)`: requests events from the loop, once: 1 for reading, 2 for writing, 4 for the end of the peer's
/// data. Returns `true`, or `nil, message, code` if no event can arrive.
fn arm(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let all = i64::from(READ | WRITE | CLOSED);
    let armed = stream.arm(stack.integer_in(2, 1..=all, "events")? as u8);
    armed.map_err(failed("arm"))?;
    Ok(true)
}

/// `s:close_now()`: closes the descriptor and returns the buffers to the pool. Returns whether the connection was open.
fn close_now(call: &mut Call<'_>) -> Result<bool, Fault> {
    let stream = call.object_mut::<Connection>(1)?;
    let was_open = !stream.is_closed();
    stream.close();
    Ok(was_open)
}

/// `s:shutdown_now(["r"|"w"|"rw"])`: calls shutdown(2); before the sending side closes, TLS sends close_notify, or queues
/// it. Returns `true`, or `nil, message, code`.
fn shutdown_now(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let how = direction(stack)?;
    stream.shut_down(how).map_err(|error| tls::failure_of("shutdown", &error))?;
    Ok(true)
}

/// `s:buffered()`: returns the number of bytes that have been read from the peer but not consumed yet.
const BUFFERED: Function = Function::method(|stream: &Connection| stream.buffered().len() as i64);

/// `s:queued()`: returns the number of bytes that are queued for the peer and that the system has not accepted yet.
const QUEUED: Function = Function::method(|stream: &Connection| stream.queued() as i64);

/// `s:is_closed()`: returns whether this side has closed the connection.
const IS_CLOSED: Function = Function::method(|stream: &Connection| stream.is_closed());

/// `s:is_over()`: returns whether the peer has closed its sending side or the connection has failed, according to the
/// loop. Makes no system call.
const IS_OVER: Function = Function::method(|stream: &Connection| stream.end_was_reported());

/// `s:address("peer"|"socket")`: returns the IP address, the port and the family, as `endpoint:value()` of `lio.socket`
/// does, or `nil, message, code`.
fn address(call: &mut Call<'_>) -> Result<Shown, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let side = match stack.bytes(2)? {
        b"peer" => Side::Peer,
        _ => Side::Local,
    };
    let address = stream.socket().address(side).map_err(failed("address"))?;
    Ok(shown(&address))
}

/// `s:set_option(name [, value])`: does the same as `option` of `lio.socket`.
fn set_option(call: &mut Call<'_>) -> Result<Setting, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    set_or_get(stream.socket(), stack)
}

/// `s:handle()`: returns the descriptor as a lightuserdata.
const HANDLE: Function = Function::method_mut(|stream: &mut Connection| light(stream.handle()));

/// `s:make_parcel()`: detaches the connection with its buffers. Returns the number with which any VM of the process can
/// take the connection; nil if it is closed. This object is then closed.
const MAKE_PARCEL: Function =
    Function::method_mut(|stream: &mut Connection| stream.make_parcel(0).map(|number| number as i64));

/// `s:unread(bytes)`: puts bytes before the buffered bytes.
fn unread(call: &mut Call<'_>) -> Result<(), Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let bytes = stack.bytes(2)?;
    if !stream.is_closed() {
        stream.unread(bytes);
    }
    Ok(())
}

/// `s:shared_writer()`: returns the number with which other VMs of the process can write to the connection; nil while
/// bytes are queued, or if the connection is closed.
const SHARED_WRITER: Function =
    Function::method_mut(|stream: &mut Connection| stream.shared_writer().map(|number| number as i64));

fn to_string(call: &mut Call<'_>) -> Result<String, Fault> {
    let stream = call.object::<Connection>(1)?;
    Ok(match stream.is_closed() {
        true => "connection (closed)".into(),
        false => format!("connection ({})", stream.socket().number()),
    })
}

const FUNCTIONS: FunctionTable = functions! {
    create::new, create::accept, create::register_socket, register: create::REGISTER, create::from_parcel,
    create::take_back, events::events, broadcast::broadcast, holders::native_calls, holders::set_holder,
    holders::has_native_reader, holders::set_reader_queued, holders::set_recv_timeout,
};

/// Opens `lio.stream`. `net.lua` adds the methods that wait, and `__close`, which wakes waiting tasks.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let methods = call.create(Methods::<Connection>::of())?;
    let metatable = call.create(Metatable::<Connection>::of())?;
    Ok(ModuleWith {
        functions: FUNCTIONS,
        values: vec![("methods", Value::Argument(methods)), ("metatable", Value::Argument(metatable))],
    })
});
