//! `lio.stream`: streams as `lualib/lio/net.lua` uses them. Nothing here waits but `recv` and `send` of `transfer.rs`:
//! a call that would block returns `false` (or how much was sent) with the stream armed, and the Lua side waits and
//! calls again.
//!
//! Failures are `nil, message, partial, code` where part of something was received or sent before.

mod broadcast;
pub(super) mod connection;
mod file;
mod make;
mod pump;
mod transfer;
mod turns;

use self::connection::Connection;
use crate::event::{CLOSED, READ, WRITE};
use crate::lua::{
    Call, Fault, Function, FunctionTable, Metatable, Methods, ModuleWith, Object, Value, failed, functions,
};
use crate::modules::socket::endpoint::{Shown, shown};
use crate::modules::socket::methods::{Setting, light, set_or_get, shut};
use crate::socket::address::Side;

impl Object for Connection {
    const NAME: &'static str = "lio.connection";
    const METHODS: FunctionTable = functions! {
        take: transfer::TAKE, put: transfer::PUT, file::put_file, file::queue_file, arm, release, cut, buffered: BUFFERED,
        is_closed: IS_CLOSED, is_over: IS_OVER, address, set_option, handle: HANDLE, send_off: SEND_OFF, unread,
        outlet: OUTLET,
    };
    const META: FunctionTable = functions! { __tostring = to_string };
}

/// `s:arm(events)`: asks the loop for events once: 1 reading, 2 writing, 4 the peer's end. `true`, or
/// `nil, message, code` when none will come.
fn arm(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let all = i64::from(READ | WRITE | CLOSED);
    let armed = stream.arm(stack.integer_in(2, 1..=all, "events")? as u8);
    armed.map_err(failed("arm"))?;
    Ok(true)
}

/// `s:release()` → whether it was open: closes the descriptor, buffers go back to the pool.
fn release(call: &mut Call<'_>) -> Result<bool, Fault> {
    let stream = call.object_mut::<Connection>(1)?;
    let was_open = !stream.is_closed();
    stream.close();
    Ok(was_open)
}

/// `s:cut(["r"|"w"|"rw"])`: shutdown(2) → `true`, or `nil, message, code`.
fn cut(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    shut(stream.socket(), stack)
}

/// `s:buffered()` → how many bytes were read from the peer and not taken yet.
const BUFFERED: Function = Function::method(|stream: &Connection| stream.buffered().len() as i64);

/// `s:is_closed()` → whether this side has closed it.
const IS_CLOSED: Function = Function::method(|stream: &Connection| stream.is_closed());

/// `s:is_over()` → whether the peer has ended its side, or the connection failed, as far as the loop
/// has heard. No system call.
const IS_OVER: Function = Function::method(|stream: &Connection| stream.is_over());

/// `s:address("peer"|"socket")` → ip, port, family (page of `lio.socket`'s `endpoint:value()`), or
/// `nil, message, code`.
fn address(call: &mut Call<'_>) -> Result<Shown, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let side = match stack.bytes(2)? {
        b"peer" => Side::Peer,
        _ => Side::Local,
    };
    let address = stream.socket().address(side).map_err(failed("address"))?;
    Ok(shown(&address))
}

/// `s:set_option(name [, value])`: as `lio.socket`'s `option`.
fn set_option(call: &mut Call<'_>) -> Result<Setting, Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    set_or_get(stream.socket(), stack)
}

/// `s:handle()` → the descriptor as a lightuserdata.
const HANDLE: Function = Function::method_mut(|stream: &mut Connection| light(stream.handle()));

/// `s:send_off()` → the number under which any VM of the process can take the connection, with its
/// buffers; this stream reads as closed then. nil when it is closed.
const SEND_OFF: Function =
    Function::method_mut(|stream: &mut Connection| stream.send_off(0).map(|number| number as i64));

/// `s:unread(bytes)`: puts bytes before what is buffered.
fn unread(call: &mut Call<'_>) -> Result<(), Fault> {
    let (stream, stack) = call.object_and_stack::<Connection>(1)?;
    let bytes = stack.bytes(2)?;
    if !stream.is_closed() {
        stream.unread(bytes);
    }
    Ok(())
}

/// `s:outlet()` → the number under which other VMs of the process can write to the connection; nil while
/// bytes are queued, or when it is closed.
const OUTLET: Function = Function::method_mut(|stream: &mut Connection| stream.outlet().map(|number| number as i64));

fn to_string(call: &mut Call<'_>) -> Result<String, Fault> {
    let stream = call.object::<Connection>(1)?;
    Ok(match stream.is_closed() {
        true => "connection (closed)".into(),
        false => format!("connection ({})", stream.socket().number()),
    })
}

const FUNCTIONS: FunctionTable = functions! {
    make::new, make::accept, make::watch, register: make::REGISTER, make::adopt, make::take_back, pump::pump,
    broadcast::broadcast, turns::waiting, turns::set_turn, turns::has_turn, turns::queue_up, turns::limit,
    turns::book,
};

/// Opens `lio.stream`. `net.lua` adds to the methods what waits, and `__close`, which wakes who waits.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let methods = call.create(Methods::<Connection>::of())?;
    let metatable = call.create(Metatable::<Connection>::of())?;
    Ok(ModuleWith {
        functions: FUNCTIONS,
        values: vec![("methods", Value::Argument(methods)), ("metatable", Value::Argument(metatable))],
    })
});
