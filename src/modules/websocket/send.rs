//! Sending frames: messages, pings, the close frame, and one message to many connections.
//!
//! A frame is sent or queued as a whole, so frames of several tasks are never mixed. `lualib/lio/websocket/connection.lua`
//! waits if too many bytes are queued.

use super::state::{Shared, WebSocket};
use crate::codec::websocket::Kind;
use crate::codec::websocket::broadcast::Broadcast;
use crate::codec::websocket::close::{self, CloseError};
use crate::codec::websocket::frame::{Head, MAX_HEAD, Opcode};
use crate::lua::{Call, Failure, Fault, Nil, Stack, Value, results};
use crate::modules::stream::connection::Connection;
use crate::modules::stream::tls::failure_of;
use crate::stream::Stream;
use crate::stream::broadcast::Delivery;
use bytes::Bytes;
use std::io;

/// A message of a server up to this size, in bytes, is copied behind its head, so that one simple system call sends both.
const MAX_COPIED: usize = 1024;

results! {
    /// The result of sending a frame.
    pub(super) enum Sent {
        /// The system has accepted everything.
        All(bool),
        /// The number of bytes that are queued for the peer; -1 if other tasks should run first.
        Queued(i64),
        Failed(Failure),
    }
}

/// Returns the kind of message that the value at `index` names; text if there is none.
fn kind(stack: &Stack, index: i32) -> Result<Kind, Failure> {
    match stack.string(index) {
        Some(b"text") => Ok(Kind::Text),
        Some(b"binary") => Ok(Kind::Binary),
        None if stack.is_none(index) => Ok(Kind::Text),
        _ => Err(misuse("kind must be 'text' or 'binary'")),
    }
}

/// Returns the failure of a call with an invalid argument, which Lua code raises.
fn misuse(message: &'static str) -> Failure {
    Failure::new("ws:send", message, "misuse")
}

/// Returns the message at `index`.
fn message(stack: &Stack, index: i32, kind: Kind) -> Result<&[u8], Failure> {
    let Some(message) = stack.string(index) else { return Err(misuse("message must be a string")) };
    if kind == Kind::Text && simdutf8::basic::from_utf8(message).is_err() {
        return Err(misuse("a text must be UTF-8; send other bytes with kind 'binary'"));
    }
    Ok(message)
}

/// Returns the stream and the state of a connection on which frames can be sent.
fn open(connection: &mut Connection) -> Result<(&mut Stream, &mut WebSocket), Failure> {
    match connection.parts() {
        (stream, Some(websocket)) if !(stream.is_closed() || websocket.close_sent) => Ok((stream, websocket)),
        _ => Err(Failure::new("ws:send", "the connection is closed", "closed")),
    }
}

/// Returns the result of a frame that was sent or queued.
fn sent(stream: &mut Stream, result: io::Result<bool>) -> Sent {
    match result {
        Ok(true) if stream.has_spent_turn() => Sent::Queued(-1),
        Ok(true) => Sent::All(true),
        Ok(false) => Sent::Queued(stream.queued() as i64),
        Err(error) => Sent::Failed(failure_of("ws:send", &error)),
    }
}

/// `core.send(c, message [, kind])`: sends a message, or queues what the system does not accept. Returns true; the number
/// of bytes that are queued for the peer; -1 if the message was sent, and other tasks should run first; or `nil, message,
/// code`. The code "misuse" means that an argument is invalid.
pub(super) fn send(call: &mut Call<'_>) -> Result<Sent, Fault> {
    let (connection, stack) = call.object_and_stack::<Connection>(1)?;
    Ok(match send_message(connection, stack) {
        Ok(sent) => sent,
        Err(failure) => Sent::Failed(failure),
    })
}

fn send_message(connection: &mut Connection, stack: &Stack) -> Result<Sent, Failure> {
    let (stream, websocket) = open(connection)?;
    let kind = kind(stack, 3)?;
    let message = message(stack, 2, kind)?;
    let result = match websocket.is_plain(message.len()) {
        true => send_plain(stream, kind, message),
        false => websocket.message(kind, message).and_then(|frame| stream.deliver(&[&frame])),
    };
    Ok(sent(stream, result))
}

/// Sends a message without mask and compression.
fn send_plain(stream: &mut Stream, kind: Kind, message: &[u8]) -> io::Result<bool> {
    let length = message.len() as u64;
    let head = Head { is_final: true, is_compressed: false, opcode: kind.into(), key: None, length }.encode();
    let head = head.as_slice();
    if message.len() > MAX_COPIED {
        return stream.deliver(&[head, message]);
    }
    let mut frame = [0; MAX_HEAD + MAX_COPIED];
    let size = head.len() + message.len();
    frame[..head.len()].copy_from_slice(head);
    frame[head.len()..size].copy_from_slice(message);
    stream.deliver(&[&frame[..size]])
}

/// `core.ping(c, payload)`: sends a ping. Returns the same as `send`.
pub(super) fn ping(call: &mut Call<'_>) -> Result<Sent, Fault> {
    let (connection, stack) = call.object_and_stack::<Connection>(1)?;
    let payload = match stack.string(2) {
        Some(payload) if payload.len() <= close::MAX_CONTROL => payload,
        _ => {
            return Ok(Sent::Failed(Failure::new(
                "ws:ping",
                "payload must be a string of at most 125 bytes",
                "misuse",
            )));
        }
    };
    Ok(match open(connection) {
        Ok((stream, websocket)) => {
            let result = websocket.control(stream, Opcode::Ping, payload);
            sent(stream, result)
        }
        Err(failure) => Sent::Failed(failure),
    })
}

/// `core.close(c, code, reason)`: sends a close frame, unless one was sent. Returns true, even if the frame is queued; or
/// `nil, message, code`.
pub(super) fn send_close(call: &mut Call<'_>) -> Result<Sent, Fault> {
    let (connection, stack) = call.object_and_stack::<Connection>(1)?;
    let code = stack.integer(2).ok().and_then(|code| u16::try_from(code).ok());
    let reason = stack.string(3).and_then(|reason| std::str::from_utf8(reason).ok());
    let (Some(code), Some(reason)) = (code, reason) else {
        return Ok(refused("code must be an integer, and reason a text in UTF-8"));
    };
    let payload = match close::encode(code, reason) {
        Ok(payload) => payload,
        Err(CloseError::Code) => return Ok(refused("code must be 1000 to 1003, 1007 to 1014, or 3000 to 4999")),
        Err(CloseError::Reason) => return Ok(refused("reason must have at most 123 bytes")),
    };
    let (stream, Some(websocket)) = connection.parts() else {
        return Ok(Sent::Failed(Failure::new("ws:close", "the connection is closed", "closed")));
    };
    Ok(match websocket.send_close(stream, &payload) {
        Ok(_) => Sent::All(true),
        Err(error) => Sent::Failed(failure_of("ws:close", &error)),
    })
}

fn refused(message: &'static str) -> Sent {
    Sent::Failed(Failure::new("ws:close", message, "misuse"))
}

/// `core.take_life(c)`: returns whether bytes have arrived since the last call.
pub(super) fn take_life(call: &mut Call<'_>) -> Result<bool, Fault> {
    let connection = call.object_mut::<Connection>(1)?;
    Ok(connection.parts().1.is_some_and(|websocket| std::mem::take(&mut websocket.is_alive)))
}

results! {
    /// The result of `broadcast`.
    pub(super) enum Delivered {
        /// All connections have sent the message.
        All(i64),
        Some((i64, Value, Value, Value)),
        Failed((Nil, String, &'static str)),
    }
}

/// `core.broadcast(list, message, kind, limit)`: sends a message to the connections in `list`, of which servers are one
/// end. Returns how many have accepted it; unless all have sent it, also the places of those that have queued it, of those
/// that have not accepted it, and of those of the latter whose connection has failed. Returns `nil, message, code` if the message or the kind is invalid.
pub(super) fn broadcast(call: &mut Call<'_>) -> Result<Delivered, Fault> {
    let limit = call.integer_in(4, 0..=i64::MAX, "limit")? as usize;
    let count = call.raw_length(1) as i64;
    let shared = call.shared::<Shared>()?;
    let checked = kind(call, 3).and_then(|kind| Ok((kind, Bytes::copy_from_slice(message(call, 2, kind)?))));
    let (kind, message) = match checked {
        Ok(checked) => checked,
        Err(failure) => return Ok(Delivered::Failed((Nil, failure.message(), failure.code()))),
    };
    let mut frames = Broadcast::new(kind, message.clone());
    let top = call.count();
    let (mut queued, mut missed, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for place in 1..=count {
        let index = call.element(1, place)?;
        let connection = call.object_mut::<Connection>(index)?;
        let delivery = match open(connection) {
            Ok((stream, websocket)) => {
                let frame = match websocket.server_writer() {
                    Some(writer) => Ok(writer.broadcast(&mut frames, &mut shared.compressor.borrow_mut())),
                    None => websocket.message(kind, &message),
                };
                frame.map_or(Delivery::Closed, |frame| stream.share(&frame, limit))
            }
            // No message may follow a close frame.
            Err(_) => Delivery::Full,
        };
        call.drop_to(top);
        match delivery {
            Delivery::Sent => {}
            Delivery::Queued => queued.push(Value::Integer(place)),
            Delivery::Full => missed.push(Value::Integer(place)),
            Delivery::Closed => {
                missed.push(Value::Integer(place));
                failed.push(Value::Integer(place));
            }
        }
    }
    let accepted = count - missed.len() as i64;
    Ok(match queued.is_empty() && missed.is_empty() {
        true => Delivered::All(accepted),
        false => Delivered::Some((accepted, Value::List(queued), Value::List(missed), Value::List(failed))),
    })
}
