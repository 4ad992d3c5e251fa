//! `http.responses`: the responses of a connection, and their heads, for `lualib/lio/http/client`. No function waits:
//! a call that would block returns `false`, with the connection armed for reading.

use super::fields::{joined_table, strings};
use super::limit::{NO_LIMIT, limit};
use crate::codec::http1::fields::{Fields, MAX_FIELDS, NO_FIELDS};
use crate::codec::http1::reject::Reject;
use crate::codec::http1::response_head::RequestKind;
use crate::codec::http1::stored_section;
use crate::http::client::{Data, ResponseHead, ResponseRead, Responses};
use crate::lua::{
    BytesOf, Call, Fault, Field, Function, FunctionTable, NewTailed, NewWith, Nil, Object, TailedSource, Value,
    functions, results,
};
use crate::modules::stream::connection::Connection;
use crate::modules::stream::tls::failure_of;
use crate::stream::Stream;
use std::borrow::Cow;
use std::cell::RefCell;

impl Object for Responses {
    const NAME: &'static str = "lio.http.responses";
    const USER_VALUES: i32 = 1;
    const METHODS: FunctionTable = functions! {
        expect, head, piece, body, trailers, has_begun, is_complete, is_reusable, is_quiet,
    };
}

/// The user value of `Responses` that refers to its connection.
const STREAM: Field<Responses> = Field::new(1);

/// The table for parsing heads, one for each VM.
pub(super) struct Table(pub(super) RefCell<Box<Fields>>);

impl Default for Table {
    fn default() -> Self {
        Table(RefCell::new(Box::new(NO_FIELDS)))
    }
}

/// The Lua object of a head; its bytes follow in memory.
#[derive(Clone, Copy)]
pub(crate) struct HeadObject {
    version: u8,
}

impl Object for HeadObject {
    const NAME: &'static str = "lio.http.response_head";
    const METHODS: FunctionTable = functions! { reason, version, field, field_all, fields, field_list };
}

impl TailedSource for ResponseHead {
    type Object = HeadObject;
    fn size(&self) -> usize {
        self.bytes.len()
    }
    fn create(&mut self, bytes: &mut [u8]) -> Option<HeadObject> {
        bytes.copy_from_slice(&self.bytes);
        Some(HeadObject { version: self.version })
    }
}

results! {
    /// The result of a read.
    enum Reply {
        Head((i64, NewTailed<ResponseHead, 0>)),
        Lent(BytesOf<Connection>),
        Bytes(Vec<u8>),
        End(Nil),
        WouldBlock(bool),
        Refused((Nil, &'static str, &'static str)),
    }
}

/// `http.responses(stream, bytes, fields)`: returns the responses of a connection. `bytes` and `fields` limit a header
/// section: its size in bytes, and its number of fields (at most 256).
pub(crate) const NEW: Function = Function::new(|call: &mut Call<'_>| {
    call.object::<Connection>(1)?;
    let bytes = call.integer_in(2, 1..=1 << 30, "header limit")? as usize;
    let fields = call.integer_in(3, 1..=MAX_FIELDS as i64, "fields limit")? as usize;
    Ok(NewWith::new(Responses::new((bytes, fields)), [(STREAM, 1)]))
});

/// Returns the responses at argument 1, their stream, and the stream's stack index.
fn responses_of<'c>(call: &'c mut Call<'_>) -> Result<(&'c mut Responses, &'c mut Stream, i32), Fault> {
    call.object::<Responses>(1)?;
    let index = call.field(1, STREAM)?;
    match call.object_pair::<Responses, Connection>(1, index) {
        Ok((responses, connection)) => Ok((responses, connection, index)),
        Err(_) => Err(Fault::message("the responses object has no connection")),
    }
}

/// `x:expect(is_head)`: expects the response to a new request, whose method is HEAD if `is_head` is true.
fn expect(call: &mut Call<'_>) -> Result<(), Fault> {
    let request = if call.is_true(2) { RequestKind::Head } else { RequestKind::Other };
    responses_of(call)?.0.expect(request);
    Ok(())
}

/// `x:head()`: returns the status and the head of the next response, including interim responses; `false` if it would
/// block; or `nil, message, code`: `"truncated"`, `"protocol"`, `"too long"`, or the code of a system error.
fn head(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let table = call.shared::<Table>()?;
    let (responses, stream, _) = responses_of(call)?;
    let found = responses.head(stream, &mut table.0.borrow_mut());
    Ok(match found.map_err(|error| failure_of("recv", &error))? {
        ResponseRead::Ready(source) => Reply::Head((source.status.into(), NewTailed { source, fields: [] })),
        other => reply(other),
    })
}

/// Lends body data to Lua as the result. The bytes before the data are discarded.
fn lend(stream: &mut Stream, index: i32, Data { data, consume }: Data) -> Reply {
    stream.consume(data.start);
    stream.lend(data.len(), consume - data.start);
    Reply::Lent(BytesOf::at(index))
}

/// `x:piece([limit])`: returns the next piece of the body; `nil` at its end; `false` if it would block; or `nil,
/// message, code` as for `head`, and `"too long"` if the body has or announces more than `limit` bytes.
fn piece(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let limit = limit(call, 2, NO_LIMIT)?;
    let (responses, stream, index) = responses_of(call)?;
    Ok(match responses.piece(stream, limit).map_err(|error| failure_of("recv", &error))? {
        ResponseRead::Ready(data) => lend(stream, index, data),
        other => reply(other),
    })
}

/// `x:body([limit])`: returns the rest of the body as one string; otherwise returns the same as `piece`.
fn body(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let limit = limit(call, 2, NO_LIMIT)?;
    let (responses, stream, index) = responses_of(call)?;
    Ok(match responses.whole(stream, limit).map_err(|error| failure_of("recv", &error))? {
        ResponseRead::Ready(data) => lend(stream, index, data),
        ResponseRead::End => Reply::Bytes(responses.take_collected()),
        other => reply(other),
    })
}

/// `x:trailers()`: returns the trailer section of a chunked body, after the body has been read: a table that maps
/// lower-case names to values; repeated fields are joined.
fn trailers(call: &mut Call<'_>) -> Result<Value, Fault> {
    Ok(joined_table(responses_of(call)?.0.trailers()))
}

/// `x:has_begun()`: returns whether bytes of a response have arrived since `expect`.
fn has_begun(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (responses, stream, _) = responses_of(call)?;
    Ok(responses.has_begun(stream))
}

/// `x:is_complete()`: returns whether the final response has arrived and its body has been read completely.
fn is_complete(call: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(responses_of(call)?.0.is_complete())
}

/// `x:is_reusable()`: returns whether another request can be sent.
fn is_reusable(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (responses, stream, _) = responses_of(call)?;
    Ok(responses.is_reusable(stream))
}

/// `x:is_quiet()`: returns whether the peer has neither sent anything nor closed its sending side, according to the
/// system; if so, the connection is armed for reading.
fn is_quiet(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (_, stream, _) = responses_of(call)?;
    Ok(!stream.is_closed() && stream.is_quiet())
}

/// Returns the reason phrase of the head at argument 1, and its header section.
fn reason_and_section<'c>(call: &'c Call<'_>) -> Result<(&'c [u8], &'c [u8]), Fault> {
    let (_, bytes) = call.tail::<HeadObject>(1)?;
    let end = memchr::memchr(b'\r', bytes).unwrap_or(bytes.len());
    Ok((&bytes[..end], &bytes[end..]))
}

/// `head:reason()`: returns the reason phrase, which may be empty.
fn reason(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(reason_and_section(call)?.0.to_vec())
}

/// `head:version()`: returns `"1.0"` or `"1.1"`.
fn version(call: &mut Call<'_>) -> Result<&'static str, Fault> {
    Ok(if call.object::<HeadObject>(1)?.version == 10 { "1.0" } else { "1.1" })
}

/// `head:field(name)`: returns the value of the field, with several values joined by `, `, or nil. Names are
/// case-insensitive.
fn field(call: &mut Call<'_>) -> Result<Option<Vec<u8>>, Fault> {
    let name = call.bytes(2)?;
    Ok(stored_section::joined(reason_and_section(call)?.1, name).map(Cow::into_owned))
}

/// `head:field_all(name)`: returns a list of the field's values, in order.
fn field_all(call: &mut Call<'_>) -> Result<Value, Fault> {
    let name = call.bytes(2)?;
    Ok(strings(stored_section::values(reason_and_section(call)?.1, name)))
}

/// `head:fields()`: returns a table that maps lower-case names to values; repeated fields are joined.
fn fields(call: &mut Call<'_>) -> Result<Value, Fault> {
    Ok(joined_table(reason_and_section(call)?.1))
}

/// `head:field_list()`: returns a flat list of names and values, as sent and in order.
fn field_list(call: &mut Call<'_>) -> Result<Value, Fault> {
    let fields = stored_section::fields(reason_and_section(call)?.1);
    Ok(strings(fields.flat_map(|(name, value)| [name, value])))
}

/// Converts a result without data: `false`, `nil`, or `nil, message, code`.
fn reply<T>(found: ResponseRead<T>) -> Reply {
    let (message, code) = match found {
        ResponseRead::Ready(_) | ResponseRead::End => return Reply::End(Nil),
        ResponseRead::WouldBlock => return Reply::WouldBlock(false),
        ResponseRead::Truncated => ("the connection ended within the response", "truncated"),
        ResponseRead::Refused(Reject { status: 413 | 431, reason }) => (reason, "too long"),
        ResponseRead::Refused(Reject { reason, .. }) => (reason, "protocol"),
    };
    Reply::Refused((Nil, message, code))
}
