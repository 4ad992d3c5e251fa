//! The functions of `http.request` for the response. The response to a request that has ended counts as begun, and no
//! call changes it.

use super::request::served;
use super::transport::AnyTransport;
use crate::codec::http1::body::Framing;
use crate::codec::http1::write::{BadField, check_field};
use crate::file::OpenFile;
use crate::http::server::draft::Draft;
use crate::http::server::{Body, HandlerEffect, MediaType, Queued, RequestId, Responded, Response, Server};
use crate::lua::{Call, Either, Fault, Function, Kind, Maybe, New, Nil, Returns, Stack, results};
use crate::modules::socket::endpoint::shown;
use crate::modules::stream::connection::Connection;
use crate::stream::{Pool, Stream, queue};

/// Creates a function that returns the result of `ask` for the request at argument 1.
const fn of_request<F, R>(ask: F) -> Function
where
    F: Fn(&mut Server<AnyTransport>, RequestId) -> R + Copy + 'static,
    R: Returns,
{
    Function::new(move |call: &mut Call<'_>| {
        let (machine, id) = served(call, 1)?;
        let mut server = machine.server.borrow_mut();
        Ok(ask(&mut server, id))
    })
}

fn already_answered() -> Fault {
    Fault::message("the request has already been answered")
}

/// `request.record_effect(req [, needs_lua])`: records that the handler changes the response. If `needs_lua` is true,
/// only Lua code can complete the response. Returns whether the response has begun.
pub(super) const RECORD_EFFECT: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let effect = if call.is_true(2) { HandlerEffect::NeedsLua } else { HandlerEffect::Fields };
    let mut server = machine.server.borrow_mut();
    Ok(!server.record_effect(id, effect))
});

/// `request.set_field(req, name, value)`: sets a field, which replaces all fields with that name. Returns true. Changes
/// nothing and returns false in cases that Lua code must handle: unexpected types or numbers of arguments, a response
/// that has begun, or a field that cannot be sent.
pub(super) const SET_FIELD: Function = Function::new(|call: &mut Call<'_>| {
    let is_text = |kind| matches!(kind, Kind::String | Kind::Number);
    let is_simple = call.count() == 3 && call.kind(2) == Kind::String && is_text(call.kind(3));
    if !is_simple {
        return Ok(false);
    }
    call.bytes(3)?;
    let Ok((machine, id)) = served(call, 1) else {
        return Ok(false);
    };
    let mut server = machine.server.borrow_mut();
    if !server.record_effect(id, HandlerEffect::Fields) {
        return Ok(false);
    }
    let Some(draft) = server.draft(id) else {
        return Ok(false);
    };
    Ok(draft.set(call.bytes(2)?, call.bytes(3)?).is_ok())
});

/// `http.check_field(name, value)`: raises if the field cannot be sent, so that the error points to the code that set
/// it.
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

/// `request.add_field(req, name, value)`: adds a field. Returns nil, or the reason why the field cannot be sent.
pub(super) const ADD_FIELD: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let (name, value) = (call.bytes(2)?, call.bytes(3)?);
    let mut server = machine.server.borrow_mut();
    server.record_effect(id, HandlerEffect::Fields);
    let added = server.draft(id).ok_or_else(already_answered)?.add(name, value);
    Ok(added.err().map(problem))
});

/// Creates a function that calls `change` with the fields that were set for the request at argument 1, if they can
/// still be changed.
const fn changing(change: impl Fn(&mut Draft) + Copy + 'static) -> Function {
    of_request(move |server, id| {
        if let Some(draft) = server.existing_draft(id) {
            change(draft);
        }
    })
}

/// `request.remove_field(req, name)`: removes all fields with this name.
pub(super) const REMOVE_FIELD: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let name = call.bytes(2)?;
    if let Some(draft) = machine.server.borrow_mut().existing_draft(id) {
        draft.remove(name);
    }
    Ok(())
});

/// `request.get_field(req, name)`: returns the value of the first field with this name, or nil.
pub(super) const GET_FIELD: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let name = call.bytes(2)?;
    let mut server = machine.server.borrow_mut();
    Ok(server.existing_draft(id).and_then(|draft| draft.get(name).map(<[u8]>::to_vec)))
});

/// `request.save_fields(req)`: saves the current fields, which are kept if the handler fails.
pub(super) const SAVE_FIELDS: Function = changing(Draft::save);

/// `request.restore_fields(req)`: restores the saved fields.
pub(super) const RESTORE_FIELDS: Function = changing(Draft::restore);

/// `request.clear_fields(req)`: removes all fields; saved fields stay saved.
pub(super) const CLEAR_FIELDS: Function = changing(Draft::clear);

/// `request.drop_body_fields(req)`: removes the fields that describe a body.
pub(super) const DROP_BODY_FIELDS: Function = changing(Draft::remove_body_fields);

/// Reads the status at argument 2. Returns `None` for a value that is not a status: the field `code` of a response can
/// have any value, and Lua code raises the error that names the field.
fn status(stack: &Stack) -> Option<u16> {
    stack.integer_in(2, 200..=599, "status").ok().map(|status| status as u16)
}

/// Reads the media type of a body at argument 3; if it is nil, the body has no media type.
fn media_type(stack: &Stack) -> Result<MediaType<'_>, Fault> {
    if stack.is_none(3) { Ok(MediaType::None) } else { stack.bytes(3).map(MediaType::Given) }
}

/// `request.respond(req, status, media_type, body)`: responds. Returns true if the whole response is queued; otherwise
/// the number of bytes of the body that were sent, and the caller has to send the rest; nil for an invalid status.
/// Raises if the response has begun.
pub(super) const RESPOND: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let Some(status) = status(call) else {
        return Ok(Maybe(None));
    };
    let body = if call.is_none(4) { Body::None } else { Body::Bytes(call.bytes(4)?) };
    let response = Response { status, media_type: media_type(call)?, body };
    let mut server = machine.server.borrow_mut();
    match server.respond(id, response, machine.clock()) {
        Responded::Done => Ok(Maybe(Some(Either::One(true)))),
        Responded::Rest(sent) => Ok(Maybe(Some(Either::Other(sent as i64)))),
        Responded::Late => Err(already_answered()),
    }
});

/// `request.begin_body(req, status, media_type)`: queues the head of a response whose body follows in pieces. Returns
/// `"length"` and the length if a field has set Content-Length, `"chunked"`, `"close"` (HTTP/1.0: the body ends with
/// the connection), or `"none"` if there is no body; nil for an invalid status. Raises if the response has begun.
pub(super) const BEGIN_BODY: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let Some(status) = status(call) else {
        return Ok(Maybe(None));
    };
    let media_type = media_type(call)?;
    let mut server = machine.server.borrow_mut();
    Ok(Maybe(Some(match server.begin_body(id, status, media_type, machine.clock()).ok_or_else(already_answered)? {
        Framing::Length(length) => ("length", Some(length as i64)),
        Framing::Chunked => ("chunked", None),
        Framing::UntilClose => ("close", None),
        Framing::None => ("none", None),
    })))
});

/// Returns the number of queued bytes, and whether the peer has failed.
fn queue_length(queued: Option<Queued>) -> (i64, bool) {
    queued.map_or((0, true), |queued| (queued.bytes as i64, queued.failed))
}

/// `request.queue_chunk(req, data)`: queues a piece of a body that was started. Returns the number of queued bytes, and
/// whether the peer will receive nothing more.
pub(super) const QUEUE_CHUNK: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let data = call.bytes(2)?;
    let mut server = machine.server.borrow_mut();
    Ok(queue_length(server.queue_chunk(id, data)))
});

/// `request.end_body(req [, trailers])`: completes the body that was started. `trailers` is a string of field lines
/// that follow the body. Returns the same as `queue_chunk`.
pub(super) const END_BODY: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let trailers = if call.is_none(2) { &[] } else { call.bytes(2)? };
    let mut server = machine.server.borrow_mut();
    Ok(queue_length(server.end_body(id, trailers)))
});

/// `request.queued(req)`: returns the same as `queue_chunk`.
pub(super) const QUEUED: Function = of_request(|server, id| queue_length(server.queued(id)));

results! {
    enum SendReply {
        All(bool),
        Part(i64),
        Failed((Nil, &'static str)),
    }
}

/// `request.send(req, data, sent)`: sends the queue, and then `data`, of which `sent` bytes were sent before.
/// Returns true if everything was sent; otherwise the number of bytes of `data` that were sent; or nil and `"closed"`,
/// or `"truncated"` if a file has become shorter.
pub(super) const SEND: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let data = call.bytes(2)?;
    let mut sent = call.integer_in(3, 0..=data.len() as i64, "sent")? as usize;
    let mut server = machine.server.borrow_mut();
    Ok(match server.send(id, data, &mut sent) {
        Some(queue::Sent::All) => SendReply::All(true),
        Some(queue::Sent::Blocked | queue::Sent::BudgetSpent) => SendReply::Part(sent as i64),
        Some(queue::Sent::FileTooShort) => SendReply::Failed((Nil, "truncated")),
        None => SendReply::Failed((Nil, "closed")),
    })
});

/// `request.queue_file(req, file, offset, length)`: queues a range of a file. Returns false if the file is closed or no
/// body was started.
pub(super) const QUEUE_FILE: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let offset = call.integer_in(3, 0..=i64::MAX, "offset")? as u64;
    let length = call.integer_in(4, 0..=i64::MAX, "length")? as u64;
    let Some(file) = call.object::<OpenFile>(2)?.share() else {
        return Ok(false);
    };
    let mut server = machine.server.borrow_mut();
    Ok(server.queue_file(id, file, offset, length))
});

/// `request.sent(req, accepted)`: returns the number of bytes of the response after its head, including framing; if
/// `accepted` is true, counts only the bytes that the system has accepted.
pub(super) const SENT: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let server = machine.server.borrow();
    Ok(server.sent(id, !call.is_true(2)) as i64)
});

/// `request.response_has_begun(req)`: returns whether the response has begun.
pub(super) const RESPONSE_HAS_BEGUN: Function = of_request(Server::is_answered);

/// `request.is_head(req)`: returns whether the method is HEAD.
pub(super) const IS_HEAD: Function = of_request(Server::is_head);

/// `request.is_open(req)`: returns whether the request is being handled.
pub(super) const IS_OPEN: Function = of_request(|server, id| server.queued(id).is_some());

/// `request.close_after(req)`: makes the server close the connection after the response.
pub(super) const CLOSE_AFTER: Function = of_request(Server::close_after);

/// `request.detach(req)`: detaches the connection from the server and returns it, unregistered; nil if the request
/// has ended. Raises if the connection is in memory, because it has no socket.
pub(super) const DETACH: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let pool = call.shared::<Pool>()?;
    let mut server = machine.server.borrow_mut();
    if server.transport(id).is_some_and(AnyTransport::is_in_memory) {
        return Err(Fault::message("a connection of app:test() has no socket"));
    }
    if server.holds_part(id) {
        return Err(Fault::message("a part of the body was read: read the rest before"));
    }
    let Some(detached) = server.detach(id) else {
        return Ok(None);
    };
    let Some(link) = detached.transport.into_link() else {
        return Ok(None);
    };
    if let Some(source) = link.socket().source() {
        source.release(true);
    }
    let mut stream = Stream::over(link, &pool);
    stream.unread(&detached.input);
    if !detached.output.is_empty() {
        stream.queue().append(|out| out.extend_from_slice(&detached.output));
    }
    Ok(Some(New::of(Connection::from(stream))))
});

/// `request.address(req)`: returns the IP address, the port and the family of the client: that of the PROXY
/// protocol, otherwise that of the peer. Returns nothing if the connection is closed.
pub(super) const ADDRESS: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let server = machine.server.borrow();
    if let Some(proxied) = server.proxied(id) {
        return Ok(Maybe(Some(shown(&proxied.client.into()))));
    }
    let address = server.transport(id).map(AnyTransport::peer);
    Ok(Maybe(address.and_then(Result::ok).map(|address| shown(&address))))
});
