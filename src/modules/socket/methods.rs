//! The methods of `lio.socket` objects, except for sending and receiving, which are in `send_receive.rs`.

use super::endpoint::{self, Endpoint};
use super::reply::open;
use super::send_receive;
use crate::codec::suggestion;
use crate::lua::{Call, Either, Fault, FunctionTable, Kind, Light, New, Object, Stack, failed, functions};
use crate::socket::address::Side;
use crate::socket::option::{self, Value};
use crate::socket::{Attempt, Phase, Socket, stale_file};
use std::io;
use std::net::Shutdown;

impl Object for Socket {
    const NAME: &'static str = "lio.socket";
    const METHODS: FunctionTable = functions! {
        connect, bind, _bind_over = bind_over, listen, accept, send_receive::recv, send_receive::send, send_receive::sendv,
        send_receive::recvfrom, send_receive::sendto, shutdown, status, info, option, handle, detach, close,
    };
    const META: FunctionTable = functions! { __close = close, __tostring = to_string };
    fn collected(&mut self) {
        self.close();
    }
}

/// Converts the result of the system call `call` to `true` or a failure.
fn done(call: &'static str, result: io::Result<()>) -> Result<bool, Fault> {
    result.map(|()| true).map_err(failed(call))
}

/// `s:connect(endpoint)`, `(host, port)` or `(path)`: returns `true` if the socket is connected, `false` if connecting
/// is in progress.
fn connect(call: &mut Call<'_>) -> Result<Attempt<bool>, Fault> {
    let address = endpoint::argument(call, 2)?;
    let connected = open(call)?.0.connect(&address).map_err(failed("connect"))?;
    Ok(connected.map(|()| true))
}

/// `s:bind(…)`, with the arguments of `connect`: returns `true`.
fn bind(call: &mut Call<'_>) -> Result<bool, Fault> {
    let address = endpoint::argument(call, 2)?;
    let socket = open(call)?.0.raw();
    done("bind", socket.and_then(|socket| socket.bind(&address)))
}

/// `s:bind(…)` of `bee.socket`: if a unix socket's file exists at the path and no socket uses it, the file is removed
/// first.
fn bind_over(call: &mut Call<'_>) -> Result<bool, Fault> {
    let address = endpoint::argument(call, 2)?;
    let socket = open(call)?.0.raw();
    let bound = socket.and_then(|socket| match socket.bind(&address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match stale_file::remove(&address)? {
            true => socket.bind(&address),
            false => Err(error),
        },
        bound => bound,
    });
    done("bind", bound)
}

/// `s:listen([backlog = 1024])`: returns `true`.
fn listen(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (socket, stack) = open(call)?;
    let range = 0..=i64::from(i32::MAX);
    let backlog = stack.optional(2, |stack, at| stack.integer_in(at, range, "backlog"))?;
    done("listen", socket.listen(backlog.unwrap_or(1024) as i32))
}

/// `s:accept()`: returns a connected socket, or `false` if there is none.
fn accept(call: &mut Call<'_>) -> Result<Attempt<New<Socket>>, Fault> {
    let accepted = open(call)?.0.accept().map_err(failed("accept"))?;
    Ok(accepted.map(New::of))
}

/// `s:shutdown(["r"|"w"|"rw"])`: ends one direction, or both. Returns `true`.
fn shutdown(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (socket, stack) = open(call)?;
    let how = direction(stack)?;
    done("shutdown", socket.raw().and_then(|raw| raw.shutdown(how)))
}

/// Returns the direction that argument 2 names: "r", "w", or "rw" (default).
pub(crate) fn direction(stack: &Stack) -> Result<Shutdown, Fault> {
    match stack.optional(2, Stack::bytes)? {
        Some(b"r") => Ok(Shutdown::Read),
        Some(b"w") => Ok(Shutdown::Write),
        Some(b"rw") | None => Ok(Shutdown::Both),
        _ => Err(Fault::argument(2, "'r', 'w' or 'rw' expected")),
    }
}

/// `s:status()`: clears the pending error (SO_ERROR) and returns it as `nil, message, code`; returns `true` if there is
/// none.
fn status(call: &mut Call<'_>) -> Result<bool, Fault> {
    done("connect", open(call)?.0.take_error())
}

/// `s:info("peer"|"socket")`: returns an endpoint.
fn info(call: &mut Call<'_>) -> Result<New<Endpoint>, Fault> {
    let (socket, stack) = open(call)?;
    let side = match stack.bytes(2)? {
        b"peer" => Side::Peer,
        b"socket" => Side::Local,
        _ => return Err(Fault::argument(2, "'peer' or 'socket' expected")),
    };
    let address = socket.address(side).map_err(failed("info"))?;
    Ok(New::of(Endpoint(address)))
}

/// The value of an option, or `true` after it was set.
pub(crate) type Setting = Either<bool, i64>;

/// `s:option(name, value)` sets an option and returns `true`; `s:option(name)` returns a boolean or an integer.
fn option(call: &mut Call<'_>) -> Result<Setting, Fault> {
    let (socket, stack) = open(call)?;
    set_or_get(socket, stack)
}

/// Sets or returns an option of any socket, as [`option()`] does.
pub(crate) fn set_or_get(socket: &Socket, stack: &Stack) -> Result<Setting, Fault> {
    let given = stack.bytes(2)?;
    let name = option::Name::parse(given).ok_or_else(|| unknown_option(given))?;
    let result = if stack.count() > 2 {
        let value = match stack.kind(3) {
            Kind::Boolean => Value::Flag(stack.is_true(3)),
            _ => Value::Number(stack.integer(3)?),
        };
        option::set(socket, name, value).map(|()| Value::Flag(true))
    } else {
        option::get(socket, name)
    };
    Ok(match result.map_err(failed("option"))? {
        Value::Flag(flag) => Either::One(flag),
        Value::Number(number) => Either::Other(number),
    })
}

/// How many bytes of an unknown name a message shows.
const MAX_SHOWN: usize = 40;

#[cold]
fn unknown_option(name: &[u8]) -> Fault {
    let all = option::Name::all();
    let name = name[..name.len().min(MAX_SHOWN)].escape_ascii().to_string();
    let hint = suggestion::hint(&name, &all);
    Fault::argument(2, format_args!("unknown option '{name}'{hint}; the options are {}", all.join(", ")))
}

/// Returns a descriptor as a lightuserdata.
pub(crate) fn light(number: i32) -> Light {
    Light(number as isize as usize)
}

/// `s:handle()`: returns the descriptor as a lightuserdata.
fn handle(call: &mut Call<'_>) -> Result<Light, Fault> {
    Ok(light(open(call)?.0.handle()))
}

/// `s:detach()`: returns the descriptor as a lightuserdata and gives up its ownership. The descriptor is removed from
/// selectors, and this object counts as closed.
fn detach(call: &mut Call<'_>) -> Result<Light, Fault> {
    Ok(light(open(call)?.0.detach().unwrap_or(-1)))
}

/// `s:close()`: closes the socket and removes it from selectors. Idempotent. Returns `true`.
fn close(call: &mut Call<'_>) -> Result<bool, Fault> {
    call.object_mut::<Socket>(1)?.close();
    Ok(true)
}

fn to_string(call: &mut Call<'_>) -> Result<String, Fault> {
    let socket = call.object::<Socket>(1)?;
    let protocol = socket.protocol().name();
    if socket.is_closed() {
        return Ok(format!("socket ({protocol}, closed)"));
    }
    let phase = match socket.phase {
        Phase::Open => "open",
        Phase::Listening => "listening",
        Phase::Connecting => "connecting",
        Phase::Connected => "connected",
    };
    Ok(format!("socket ({}, {protocol}, {phase})", socket.number()))
}
