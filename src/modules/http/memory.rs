//! `server:connect`: the client's end of a connection in memory, for lualib/lio/testing/client.lua. No function waits:
//! a call that would block returns `false`. Each call reports the resulting events to the server, and the caller then
//! lets the server do its work.

use super::client::Table;
use super::fields::joined_table;
use super::limit::{NO_LIMIT, limit};
use super::machine::{Machine, ServerObject};
use super::transport::AnyTransport;
use crate::codec::http1::fields::MAX_FIELDS;
use crate::codec::http1::response_head::RequestKind;
use crate::http::client::{Data, Input, ResponseHead, ResponseRead, Responses};
use crate::http::memory::{self, ClientEnd};
use crate::http::server::{ConnectionId, Readiness};
use crate::lua::{
    Call, Fault, Function, FunctionTable, New, NewTailed, Nil, Object, Value, failed, functions, results,
};
use crate::socket::address::parse_ip;
use socket2::SockAddr;
use std::rc::Rc;

/// The client's end of a connection, and its responses.
pub(crate) struct MemoryClient {
    machine: Rc<Machine>,
    id: ConnectionId,
    end: ClientEnd,
    responses: Responses,
}

impl Object for MemoryClient {
    const NAME: &'static str = "lio.http.memory_client";
    const METHODS: FunctionTable = functions! {
        send, end_sending: END_SENDING, expect, head, piece, body, trailers, may_read: MAY_READ,
        is_complete: IS_COMPLETE, is_reusable: IS_REUSABLE, pump: PUMP, number: NUMBER, close: CLOSE,
    };
}

impl MemoryClient {
    /// Reports the events that the server has requested to the server.
    fn pump(&self) {
        let events = self.end.take_events();
        if events != Readiness::default() {
            let clock = self.machine.clock();
            self.machine.server.borrow_mut().ready(self.id, events, clock);
        }
    }
}

results! {
    /// The result of a read.
    enum Reply {
        Head((i64, NewTailed<ResponseHead, 0>)),
        Bytes(Vec<u8>),
        End(Nil),
        WouldBlock(bool),
        Refused((Nil, &'static str, &'static str)),
    }
}

/// Converts a result without data, as `responses` does.
fn reply<T>(found: ResponseRead<T>) -> Reply {
    let refused = |message, code| Reply::Refused((Nil, message, code));
    match found {
        ResponseRead::Ready(_) | ResponseRead::End => Reply::End(Nil),
        ResponseRead::WouldBlock => Reply::WouldBlock(false),
        ResponseRead::Truncated => refused("the server closed the connection within the response", "truncated"),
        ResponseRead::Refused(reject) if matches!(reject.status, 413 | 431) => refused(reject.reason, "too long"),
        ResponseRead::Refused(reject) => refused(reject.reason, "protocol"),
    }
}

/// `server:connect(address, port, bytes, fields)`: returns a client that is connected with the server in memory.
/// `address` and `port` are what the server sees as the client's address; `bytes` and `fields` limit a header section.
/// Returns nil if the server has no room for the connection.
pub(super) const CONNECT: Function = Function::new(|call: &mut Call<'_>| {
    let machine = call.object::<ServerObject>(1)?.machine.clone();
    let port = call.integer_in(3, 0..=65535, "port")? as u16;
    let address = parse_ip(call.utf8(2)?, port).ok_or_else(|| Fault::argument(2, "IP address expected"))?;
    let bytes = call.integer_in(4, 1..=1 << 30, "header limit")? as usize;
    let fields = call.integer_in(5, 1..=MAX_FIELDS as i64, "fields limit")? as usize;
    let (end, transport) = memory::pair();
    let transport = AnyTransport::Memory(transport, SockAddr::from(address));
    let id = machine.server.borrow_mut().accept(transport);
    Ok(id.map(|id| New::of(MemoryClient { machine, id, end, responses: Responses::new((bytes, fields)) })))
});

/// `c:send(bytes)`: sends bytes. Returns true; false if the connection is closed.
fn send(call: &mut Call<'_>) -> Result<bool, Fault> {
    let client = call.object::<MemoryClient>(1)?;
    let sent = client.end.send(call.bytes(2)?);
    client.pump();
    Ok(sent)
}

/// `c:end_sending()`: closes the sending side.
const END_SENDING: Function = Function::method(|client: &MemoryClient| {
    client.end.end_sending();
    client.pump();
});

/// `c:close()`: closes the connection. Idempotent.
const CLOSE: Function = Function::method(|client: &MemoryClient| {
    client.end.close();
    client.pump();
});

/// `c:pump()`: reports events to the server. Must be called after the server's queues were flushed. Returns whether a
/// read would not block.
const PUMP: Function = Function::method(|client: &MemoryClient| {
    client.pump();
    client.end.may_read()
});

/// `c:may_read()`: returns whether a read would not block.
const MAY_READ: Function = Function::method(|client: &MemoryClient| client.end.may_read());

/// `c:number()`: returns the number of the connection in its server. The number of a request on this connection has the
/// same slot.
const NUMBER: Function = Function::method(|client: &MemoryClient| client.id.number() as i64);

/// `c:expect(is_head)`: expects the response to a new request, whose method is HEAD if `is_head` is true.
fn expect(call: &mut Call<'_>) -> Result<(), Fault> {
    let request = if call.is_true(2) { RequestKind::Head } else { RequestKind::Other };
    call.object_mut::<MemoryClient>(1)?.responses.expect(request);
    Ok(())
}

/// `c:head()`: returns the status and the head of the next response; otherwise the same as `head` of `http.responses`.
fn head(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let table = call.shared::<Table>()?;
    let client = call.object_mut::<MemoryClient>(1)?;
    let found = client.responses.head(&mut client.end, &mut table.0.borrow_mut());
    client.pump();
    Ok(match found.map_err(failed("recv"))? {
        ResponseRead::Ready(source) => Reply::Head((source.status.into(), NewTailed { source, fields: [] })),
        other => reply(other),
    })
}

/// Copies body data, and removes it from the input.
fn take(end: &mut ClientEnd, Data { data, consume }: Data) -> Reply {
    let bytes = end.buffered()[data].to_vec();
    end.consume(consume);
    Reply::Bytes(bytes)
}

/// `c:piece([limit])`: returns the next piece of the body, as `piece` of `http.responses` does.
fn piece(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let limit = limit(call, 2, NO_LIMIT)?;
    let client = call.object_mut::<MemoryClient>(1)?;
    let found = client.responses.piece(&mut client.end, limit).map_err(failed("recv"))?;
    let result = match found {
        ResponseRead::Ready(data) => take(&mut client.end, data),
        other => reply(other),
    };
    client.pump();
    Ok(result)
}

/// `c:body([limit])`: returns the rest of the body as one string; otherwise returns the same as `piece`.
fn body(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let limit = limit(call, 2, NO_LIMIT)?;
    let client = call.object_mut::<MemoryClient>(1)?;
    let found = client.responses.whole(&mut client.end, limit).map_err(failed("recv"))?;
    let result = match found {
        ResponseRead::Ready(data) => take(&mut client.end, data),
        ResponseRead::End => Reply::Bytes(client.responses.take_collected()),
        other => reply(other),
    };
    client.pump();
    Ok(result)
}

/// `c:trailers()`: returns the trailer section of the last body, as `trailers` of `http.responses` does.
fn trailers(call: &mut Call<'_>) -> Result<Value, Fault> {
    Ok(joined_table(call.object::<MemoryClient>(1)?.responses.trailers()))
}

/// `c:is_complete()`: returns whether the final response has arrived and its body has been read completely.
const IS_COMPLETE: Function = Function::method(|client: &MemoryClient| client.responses.is_complete());

/// `c:is_reusable()`: returns whether another request can be sent.
const IS_REUSABLE: Function = Function::method(|client: &MemoryClient| client.responses.is_reusable(&client.end));
