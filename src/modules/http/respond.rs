//! What is done with the answer to one request: methods of `http.server`, whose first argument behind it is the request's
//! number. A request that is over has an answer that has begun, to which nothing happens.

use super::machine::{Handle, machine, request};
use super::transport::Plain;
use crate::codec::http1::body::Framing;
use crate::codec::http1::write::{BadField, check_field};
use crate::file::OpenFile;
use crate::http::server::draft::Draft;
use crate::http::server::{Body, Intent, Kind as BodyKind, Queued, RequestId, Responded, Response, Server};
use crate::lua::{Call, Either, Fault, Function, Kind, Maybe, New, Nil, Returns, Stack, results};
use crate::modules::socket::endpoint::shown;
use crate::modules::stream::connection::Connection;
use crate::socket::address::Side;
use crate::stream::{Pool, Stream, queue};
use std::cell::RefMut;

/// The machine, for a call on the request at argument 2.
fn parts<'c>(call: &'c Call<'_>) -> Result<(RefMut<'c, Server<Plain>>, RequestId), Fault> {
    let id = request(call, 2)?;
    Ok((machine(call)?.server.borrow_mut(), id))
}

/// A method that only gives what `ask` finds of the request at argument 2.
const fn of_request<F, R>(ask: F) -> Function
where
    F: Fn(&mut Server<Plain>, RequestId) -> R + Copy + 'static,
    R: Returns,
{
    Function::new(move |call: &mut Call<'_>| {
        let (mut server, id) = parts(call)?;
        Ok(ask(&mut server, id))
    })
}

fn already() -> Fault {
    Fault::message("the request is answered already")
}

/// `S:touch(id [, special])` → whether the answer has begun: the handler sets something of it. With `special` it does
/// something that only Lua knows how to conclude.
pub(super) const TOUCH: Function = Function::new(|call: &mut Call<'_>| {
    let intent = if call.is_true(3) { Intent::Special } else { Intent::Set };
    let (mut server, id) = parts(call)?;
    Ok(!server.touch(id, intent))
});

/// `http.set_field(res, name, value)` → true: the response's field is set, in the place of all of that name. False, with
/// nothing done, when that is not so simple: no other three values, an answer that has begun, what cannot be sent.
pub(crate) const SET_FIELD: Function = Function::new(|call: &mut Call<'_>| {
    let is_text = |kind| matches!(kind, Kind::String | Kind::Number);
    let is_simple = call.count() == 3 && call.kind(2) == Kind::String && is_text(call.kind(3));
    if !is_simple {
        return Ok(false);
    }
    call.bytes(3)?;
    let (server, id) = (call.element(1, 1)?, call.element(1, 2)?);
    let (Some(server), Some(id)) = (call.as_object::<Handle>(server), call.as_integer(id)) else {
        return Ok(false);
    };
    let mut server = server.machine.server.borrow_mut();
    let id = RequestId::from_number(id as u64).filter(|id| server.touch(*id, Intent::Set));
    let Some(draft) = id.and_then(|id| server.draft(id)) else {
        return Ok(false);
    };
    Ok(draft.set(call.bytes(2)?, call.bytes(3)?).is_ok())
});

/// `http.check_field(name, value)`: raises when either could not be sent, so that the error points to who set it.
pub(crate) const CHECK_FIELD: Function = Function::new(|call: &mut Call<'_>| {
    let (name, value) = (call.bytes(1)?, call.bytes(2)?);
    check_field(name, value).map_err(|bad| Fault::message(problem(bad)))
});

fn problem(error: BadField) -> &'static str {
    match error {
        BadField::Name => "the header name has characters that are not allowed",
        BadField::Value => "the header value contains CR, LF or NUL",
        BadField::Forbidden => "Transfer-Encoding is set by the server itself",
    }
}

/// `S:add_field(id, name, value)` → nil, or why the field cannot be sent: adds one more.
pub(super) const ADD_FIELD: Function = Function::new(|call: &mut Call<'_>| {
    let (name, value) = (call.bytes(3)?, call.bytes(4)?);
    let (mut server, id) = parts(call)?;
    server.touch(id, Intent::Set);
    let added = server.draft(id).ok_or_else(already)?.add(name, value);
    Ok(added.err().map(problem))
});

/// Has `change` change what was set for a request, if that can still be.
fn change(call: &Call<'_>, change: impl FnOnce(&mut Draft)) -> Result<(), Fault> {
    let (mut server, id) = parts(call)?;
    server.drafted(id).map(change);
    Ok(())
}

/// `S:remove_field(id, name)`: all fields of that name.
pub(super) const REMOVE_FIELD: Function = Function::new(|call: &mut Call<'_>| {
    let name = call.bytes(3)?;
    change(call, |draft| draft.remove(name))
});

/// `S:get_field(id, name)` → the value of the first field of that name, or nil.
pub(super) const GET_FIELD: Function = Function::new(|call: &mut Call<'_>| {
    let name = call.bytes(3)?;
    let mut value = None;
    change(call, |draft| value = draft.get(name).map(<[u8]>::to_vec))?;
    Ok(value)
});

/// `S:keep_fields(id)`: what is set now stays when the handler fails.
pub(super) const KEEP_FIELDS: Function = Function::new(|call: &mut Call<'_>| change(call, Draft::keep));

/// `S:restore_fields(id)`: only what was kept is set from now on.
pub(super) const RESTORE_FIELDS: Function = Function::new(|call: &mut Call<'_>| change(call, Draft::restore));

/// `S:clear_fields(id)`: nothing is set from now on; what was kept stays kept.
pub(super) const CLEAR_FIELDS: Function = Function::new(|call: &mut Call<'_>| change(call, Draft::forget));

/// `S:drop_body_fields(id)`: removes the fields that describe a body.
pub(super) const DROP_BODY_FIELDS: Function =
    Function::new(|call: &mut Call<'_>| change(call, Draft::remove_body_fields));

fn status(stack: &Stack) -> Result<u16, Fault> {
    Ok(stack.integer_in(3, 200..=599, "status")? as u16)
}

/// The type of a body at argument 4; nil for none.
fn kind(stack: &Stack) -> Result<BodyKind<'_>, Fault> {
    if stack.is_none(4) { Ok(BodyKind::None) } else { stack.bytes(4).map(BodyKind::Given) }
}

/// `S:answer(id, status, kind, body)` → true when all of it is queued; else how many bytes of the body are gone, and the
/// caller has to send the rest. Raises when the answer has begun.
pub(super) const ANSWER: Function = Function::new(|call: &mut Call<'_>| {
    let body = if call.is_none(5) { Body::None } else { Body::Bytes(call.bytes(5)?) };
    let response = Response { status: status(call)?, kind: kind(call)?, body };
    let clock = machine(call)?.clock();
    let (mut server, id) = parts(call)?;
    match server.respond(id, response, clock) {
        Responded::Done => Ok(Either::One(true)),
        Responded::Rest(taken) => Ok(Either::Other(taken as i64)),
        Responded::Late => Err(already()),
    }
});

/// `S:start(id, status, kind)`: queues the head of an answer whose body follows in pieces. → `"length"` and the number
/// when a field gave a Content-Length, `"chunked"`, `"close"` (HTTP/1.0: the end of the connection ends it), or `"none"`
/// when there is to be no body. Raises when the answer has begun.
pub(super) const START: Function = Function::new(|call: &mut Call<'_>| {
    let (status, kind) = (status(call)?, kind(call)?);
    let clock = machine(call)?.clock();
    let (mut server, id) = parts(call)?;
    Ok(match server.start(id, status, kind, clock).ok_or_else(already)? {
        Framing::Length(length) => ("length", Some(length as i64)),
        Framing::Chunked => ("chunked", None),
        Framing::UntilClose => ("close", None),
        Framing::None => ("none", None),
    })
});

/// Bytes that are queued, and whether the peer takes no more.
fn how_much(queued: Option<Queued>) -> (i64, bool) {
    queued.map_or((0, true), |queued| (queued.bytes as i64, queued.failed))
}

/// `S:chunk(id, data)` → bytes queued, whether the peer takes no more: queues a piece of a body that was started.
pub(super) const CHUNK: Function = Function::new(|call: &mut Call<'_>| {
    let data = call.bytes(3)?;
    let (mut server, id) = parts(call)?;
    Ok(how_much(server.chunk(id, data)))
});

/// `S:finish(id [, trailers])` → as `chunk`: the body that was started is complete. `trailers`: field lines behind it.
pub(super) const FINISH: Function = Function::new(|call: &mut Call<'_>| {
    let trailers = if call.is_none(3) { &[] } else { call.bytes(3)? };
    let (mut server, id) = parts(call)?;
    Ok(how_much(server.finish(id, trailers)))
});

/// `S:queued(id)` → as `chunk`.
pub(super) const QUEUED: Function = of_request(|server, id| how_much(server.queued(id)));

results! {
    enum Sent {
        All(bool),
        Part(i64),
        Failed((Nil, &'static str)),
    }
}

/// `S:send(id, data, taken)`: sends what is queued, and behind it `data`, of which `taken` bytes are gone already. → true
/// when all is taken; else how many bytes of `data` are; nil and `"closed"`, or `"truncated"` for a file that has become
/// shorter.
pub(super) const SEND: Function = Function::new(|call: &mut Call<'_>| {
    let data = call.bytes(3)?;
    let mut taken = call.integer_in(4, 0..=data.len() as i64, "taken")? as usize;
    let (mut server, id) = parts(call)?;
    Ok(match server.send(id, data, &mut taken) {
        Some(queue::Sent::All) => Sent::All(true),
        Some(queue::Sent::Blocked | queue::Sent::Turn) => Sent::Part(taken as i64),
        Some(queue::Sent::Short) => Sent::Failed((Nil, "truncated")),
        None => Sent::Failed((Nil, "closed")),
    })
});

/// `S:push_file(id, file, offset, length)` → whether the file is open and the body was started: queues a range of it.
pub(super) const PUSH_FILE: Function = Function::new(|call: &mut Call<'_>| {
    let offset = call.integer_in(4, 0..=i64::MAX, "offset")? as u64;
    let length = call.integer_in(5, 0..=i64::MAX, "length")? as u64;
    let Some(file) = call.object::<OpenFile>(3)?.share() else {
        return Ok(false);
    };
    let (mut server, id) = parts(call)?;
    Ok(server.push_file(id, file, offset, length))
});

/// `S:sent(id, gone)` → bytes of the answer behind its head, framing included; with `gone` only what the system took.
pub(super) const SENT: Function = Function::new(|call: &mut Call<'_>| {
    let (server, id) = parts(call)?;
    Ok(server.sent(id, !call.is_true(3)) as i64)
});

/// `S:is_answered(id)` → whether the answer has begun.
pub(super) const IS_ANSWERED: Function = of_request(Server::is_answered);

/// `S:is_head(id)` → whether the request is HEAD.
pub(super) const IS_HEAD: Function = of_request(Server::is_head);

/// `S:is_open(id)` → whether a handler works on the request.
pub(super) const IS_OPEN: Function = of_request(|server, id| server.queued(id).is_some());

/// `S:close_after(id)`: the connection closes after the answer.
pub(super) const CLOSE_AFTER: Function = of_request(Server::close_after);

/// `S:hand_over(id)` → the connection, which is no selector's: the server forgets it. nil when the request is over.
pub(super) const HAND_OVER: Function = Function::new(|call: &mut Call<'_>| {
    let pool = call.shared::<Pool>()?;
    let (mut server, id) = parts(call)?;
    let Some(handed) = server.hand_over(id) else {
        return Ok(None);
    };
    let socket = handed.transport.into_socket();
    if let Some(source) = socket.source() {
        source.release(true);
    }
    let mut stream = Stream::new(socket, &pool);
    stream.unread(&handed.input);
    if !handed.output.is_empty() {
        stream.queue().append(|out| out.extend_from_slice(&handed.output));
    }
    Ok(Some(New::of(Connection::from(stream))))
});

/// `S:address(id)` → ip, port, family of the peer; nothing once its connection is gone.
pub(super) const ADDRESS: Function = Function::new(|call: &mut Call<'_>| {
    let (server, id) = parts(call)?;
    let address = server.transport(id).map(|found| found.socket().address(Side::Peer));
    Ok(Maybe(address.and_then(Result::ok).map(|address| shown(&address))))
});
