//! What `lio.socket` objects can do; `bytes.rs` has what they send and receive.

use super::bytes;
use super::endpoint::{self, Endpoint};
use super::reply::{Reply, open};
use crate::lua::{Call, Failure, Fault, Function, Light, New, Object, Stack, results};
use crate::socket::address::Side;
use crate::socket::option::{self, Value};
use crate::socket::{Phase, Socket, resolve};
use std::ffi::CStr;
use std::io;
use std::net::Shutdown;

impl Object for Socket {
    const NAME: &'static CStr = c"lio.socket";
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"connect", Function::new(connect)),
        (c"bind", Function::new(bind)),
        (c"_bind_over", Function::new(bind_over)),
        (c"listen", Function::new(listen)),
        (c"accept", Function::new(accept)),
        (c"recv", Function::new(bytes::recv)),
        (c"send", Function::new(bytes::send)),
        (c"sendv", Function::new(bytes::sendv)),
        (c"recvfrom", Function::new(bytes::recvfrom)),
        (c"sendto", Function::new(bytes::sendto)),
        (c"shutdown", Function::new(shutdown)),
        (c"status", Function::new(status)),
        (c"info", Function::new(info)),
        (c"option", Function::new(option)),
        (c"handle", Function::new(handle)),
        (c"detach", Function::new(detach)),
        (c"close", Function::new(close)),
    ];
    const META: &'static [(&'static CStr, Function)] = &[
        (c"__close", Function::new(close)),
        (c"__tostring", Function::new(to_string)),
    ];
    fn collected(&mut self) {
        self.close();
    }
}

/// `true`, or why not.
type Done = Result<bool, Failure>;

fn done(call: &'static str, result: io::Result<()>) -> Done {
    result
        .map(|()| true)
        .map_err(|error| Failure::io(call, &error))
}

/// `s:connect(endpoint)`, `(host, port)` or `(path)` → `true` at once, `false` in progress.
fn connect(call: &mut Call<'_>) -> Result<Result<Reply<bool>, Failure>, Fault> {
    let address = endpoint::argument(call, 2)?;
    let (socket, _) = open(call)?;
    Ok(address.map(|address| {
        let connected = socket.connect(&address);
        Reply::of("connect", connected.map(|moved| moved.map(|()| true)))
    }))
}

/// `s:bind(…)` in the same forms → `true`.
fn bind(call: &mut Call<'_>) -> Result<Done, Fault> {
    let address = endpoint::argument(call, 2)?;
    let (socket, _) = open(call)?;
    Ok(address.and_then(|address| {
        let bound = socket.raw().and_then(|raw| raw.bind(&address));
        done("bind", bound)
    }))
}

/// `s:bind(…)` of `bee.socket`: a unix path at which a socket's file lies that no process listens to is bound after the
/// file is removed.
fn bind_over(call: &mut Call<'_>) -> Result<Done, Fault> {
    let address = endpoint::argument(call, 2)?;
    let (socket, _) = open(call)?;
    Ok(address.and_then(|address| {
        let bound = socket.raw().and_then(|raw| match raw.bind(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                match resolve::remove_stale(&address)? {
                    true => raw.bind(&address),
                    false => Err(error),
                }
            }
            bound => bound,
        });
        done("bind", bound)
    }))
}

/// `s:listen([backlog = 1024])` → `true`.
fn listen(call: &mut Call<'_>) -> Result<Done, Fault> {
    let (socket, stack) = open(call)?;
    let backlog = match stack.is_none(2) {
        true => 1024,
        false => stack.integer_in(2, 0..=i64::from(i32::MAX), "backlog")? as i32,
    };
    Ok(done("listen", socket.listen(backlog)))
}

/// `s:accept()` → a connected socket, `false` when nobody is there.
fn accept(call: &mut Call<'_>) -> Result<Reply<New<Socket>>, Fault> {
    let accepted = open(call)?.0.accept();
    Ok(Reply::of(
        "accept",
        accepted.map(|moved| moved.map(New::of)),
    ))
}

/// `s:shutdown(["r"|"w"|"rw"])`: ends one direction, or both → `true`.
fn shutdown(call: &mut Call<'_>) -> Result<Done, Fault> {
    let (socket, stack) = open(call)?;
    shut(socket, stack)
}

/// [`shutdown`] of any socket, in the direction at argument 2.
pub(crate) fn shut(socket: &Socket, stack: &Stack) -> Result<Done, Fault> {
    let how = match stack.is_none(2) {
        true => Shutdown::Both,
        false => match stack.bytes(2)? {
            b"r" => Shutdown::Read,
            b"w" => Shutdown::Write,
            b"rw" => Shutdown::Both,
            _ => return Err(Fault::argument(2, "'r', 'w' or 'rw' expected")),
        },
    };
    let shut = socket.raw().and_then(|raw| raw.shutdown(how));
    Ok(done("shutdown", shut))
}

/// `s:status()` → `true`, or `nil, message, code` of the pending error (SO_ERROR), which it takes.
fn status(call: &mut Call<'_>) -> Result<Done, Fault> {
    Ok(done("connect", open(call)?.0.take_error()))
}

/// `s:info("peer"|"socket")` → endpoint.
fn info(call: &mut Call<'_>) -> Result<Result<New<Endpoint>, Failure>, Fault> {
    let (socket, stack) = open(call)?;
    let side = match stack.bytes(2)? {
        b"peer" => Side::Peer,
        b"socket" => Side::Local,
        _ => return Err(Fault::argument(2, "'peer' or 'socket' expected")),
    };
    let found = socket.address(side);
    Ok(found
        .map(|address| New::of(Endpoint(address)))
        .map_err(|error| Failure::io("info", &error)))
}

results! {
    /// What an option is, or that it was set.
    pub(crate) enum Setting {
        Flag(bool),
        Number(i64),
        Failed(Failure),
    }
}

/// `s:option(name, value)` sets → `true`; `s:option(name)` gets → boolean or integer.
fn option(call: &mut Call<'_>) -> Result<Setting, Fault> {
    let (socket, stack) = open(call)?;
    set_or_get(socket, stack)
}

/// [`option`] of any socket.
pub(crate) fn set_or_get(socket: &Socket, stack: &Stack) -> Result<Setting, Fault> {
    let Some(name) = option::Name::parse(stack.bytes(2)?) else {
        return Err(Fault::argument(2, "unknown option"));
    };
    let result = if stack.count() > 2 {
        let value = match stack.kind(3) {
            crate::lua::Kind::Boolean => Value::Flag(stack.is_true(3)),
            _ => Value::Number(stack.integer(3)?),
        };
        option::set(socket, name, value).map(|()| Value::Flag(true))
    } else {
        option::get(socket, name)
    };
    Ok(match result {
        Ok(Value::Flag(flag)) => Setting::Flag(flag),
        Ok(Value::Number(number)) => Setting::Number(number),
        Err(error) => Setting::Failed(Failure::io("option", &error)),
    })
}

/// A descriptor as a lightuserdata.
pub(crate) fn light(number: i32) -> Light {
    Light(number as isize as usize)
}

/// `s:handle()` → the descriptor as a lightuserdata.
fn handle(call: &mut Call<'_>) -> Result<Light, Fault> {
    Ok(light(open(call)?.0.handle()))
}

/// `s:detach()` → the descriptor as a lightuserdata, no longer ours: selectors forget it, and this
/// object reads as closed.
fn detach(call: &mut Call<'_>) -> Result<Light, Fault> {
    Ok(light(open(call)?.0.detach().unwrap_or(-1)))
}

/// `s:close()` → `true`. Idempotent; selectors forget the socket.
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
