//! `http.multipart`: the parser of a form, for `lualib/lio/web/form.lua`. The parser gets the pieces of a body from the
//! caller or from a server's request. No function waits: a call that needs more bytes returns `false`.

use super::fields::last_value_table;
use super::limit::{NO_LIMIT, limit};
use super::machine::ServerObject;
use super::read::failure;
use super::request::{SERVER, number};
use crate::codec::http1::reject::Reject;
use crate::codec::multipart::Limits;
use crate::codec::multipart::form::{Form, FormEvent};
use crate::file::spool::Spool;
use crate::http::server::{BodyRead, HandlerEffect, ReadMode};
use crate::lua::{
    ByteSource, BytesOf, Call, Failure, Fault, Function, FunctionTable, New, Nil, Object, Value, functions, results,
};
use std::io;
use std::ops::Range;

/// A form, and the data that is being returned.
pub(crate) struct Parser {
    // The form is boxed, because the searcher in it needs a larger alignment than Lua's memory blocks have.
    form: Box<Form>,
    loan: Loan,
}

enum Loan {
    Data(Range<usize>),
    Text,
}

impl ByteSource for Parser {
    fn bytes_to_push(&self) -> &[u8] {
        match &self.loan {
            Loan::Data(range) => self.form.bytes().get(range.clone()).unwrap_or_default(),
            Loan::Text => self.form.text(),
        }
    }
    fn bytes_pushed(&mut self) {}
}

impl Object for Parser {
    const NAME: &'static str = "lio.http.multipart";
    const METHODS: FunctionTable = functions! { feed, end_body: END_BODY, pull, next, peek, piece, text, store };
}

/// `"part"`, name, file name, headers.
type PartValues = (&'static str, Vec<u8>, Option<Vec<u8>>, Value);

results! {
    /// The result of a call.
    enum Reply {
        More(bool),
        Done(bool),
        Parser(New<Parser>),
        Part(PartValues),
        Bytes(BytesOf<Parser>),
        Size(i64),
        End(Nil),
        Refused((Nil, i64, &'static str)),
        Failed((Nil, i64, String)),
    }
}

impl From<Reject> for Reply {
    fn from(reject: Reject) -> Reply {
        Reply::Refused((Nil, reject.status.into(), reject.reason))
    }
}

impl From<io::Error> for Reply {
    fn from(error: io::Error) -> Reply {
        Reply::Failed((Nil, 500, Failure::io("store", &error).message()))
    }
}

/// Converts an event: to `false` if more bytes are needed, to `nil, status, reason` if the form is refused, otherwise
/// to the result of `reply`.
fn reply<E: Into<Reply>>(event: Result<FormEvent, E>, reply: impl FnOnce(FormEvent) -> Reply) -> Result<Reply, Fault> {
    Ok(match event {
        Ok(FormEvent::More) => Reply::More(false),
        Ok(event) => reply(event),
        Err(refusal) => refusal.into(),
    })
}

fn form<'c>(call: &'c mut Call<'_>) -> Result<&'c mut Form, Fault> {
    Ok(&mut call.object_mut::<Parser>(1)?.form)
}

/// `http.multipart(content_type, parts, headers)`: returns a parser for a body with this `Content-Type`, with at most
/// `parts` parts, each with at most `headers` bytes of headers; or nil, status, reason.
pub(crate) const NEW: Function = Function::new(|call: &mut Call<'_>| {
    let content_type = call.bytes(1)?;
    let limits = Limits {
        parts: call.integer_in(2, 0..=i64::MAX, "parts limit")? as u64,
        headers: call.integer_in(3, 1..=1 << 30, "headers limit")? as usize,
    };
    Ok(match Form::new(content_type, limits) {
        Ok(form) => Reply::Parser(New::of(Parser { form: Box::new(form), loan: Loan::Text })),
        Err(reject) => reject.into(),
    })
});

/// `m:feed(piece)`: adds the next piece of the body.
fn feed(call: &mut Call<'_>) -> Result<(), Fault> {
    let (parser, stack) = call.object_and_stack::<Parser>(1)?;
    parser.form.feed(stack.bytes(2)?);
    Ok(())
}

fn end_form(form: &mut Form) -> Reply {
    match form.end() {
        Ok(()) => Reply::Done(true),
        Err(reject) => reject.into(),
    }
}

/// `m:end_body()`: ends the body. Returns true; or nil, status, reason if the form is incomplete.
const END_BODY: Function = Function::method_mut(|parser: &mut Parser| end_form(&mut parser.form));

/// `m:pull(req [, limit])`: adds the next piece of the body of a request. Returns true; `false` if it would block; or
/// nil, status, reason if the body or the form is refused or ends early.
fn pull(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let limit = limit(call, 3, NO_LIMIT)?;
    let id = number(call, 2)?;
    let server = call.field(2, SERVER)?;
    let (parser, handle) = call.object_pair::<Parser, ServerObject>(1, server)?;
    let mut server = handle.machine.server.borrow_mut();
    server.record_effect(id, HandlerEffect::NeedsLua);
    let body = &mut handle.body;
    Ok(match server.read_body(id, limit, ReadMode::Piece, body) {
        BodyRead::Data => {
            parser.form.feed(body);
            Reply::Done(true)
        }
        BodyRead::Pending => Reply::More(false),
        BodyRead::End => end_form(&mut parser.form),
        BodyRead::Refused(reject) => reject.into(),
        BodyRead::Truncated | BodyRead::Late => Reject::bad("closed").into(),
        BodyRead::Failed(kind) => failure(kind).into(),
    })
}

/// `m:next()`: advances to the next part and skips the rest of the current part. Returns `"part"`, name, filename or
/// nil, and headers by lower-case name (the last value of a repeated header); `nil` if the form is complete; `false` if
/// more bytes are needed; `nil, status, reason` if the form is refused.
fn next(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let form = form(call)?;
    let event = form.next();
    reply(event, |event| match event {
        FormEvent::Part => {
            let part = form.part();
            let name = part.disposition.name.to_vec();
            let filename = part.disposition.filename.as_ref().map(|name| name.to_vec());
            Reply::Part(("part", name, filename, last_value_table(part.fields())))
        }
        _ => Reply::End(Nil),
    })
}

/// `m:piece([limit])`: returns the next piece of the current part; `nil` at its end; `false` if more bytes are needed;
/// `nil, status, reason` if the form is refused, with status 413 if the part is larger than `limit` bytes.
fn piece(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let limit = limit(call, 2, NO_LIMIT)?;
    let parser = call.object_mut::<Parser>(1)?;
    reply(parser.form.piece(limit), |event| match event {
        FormEvent::Data(range) => {
            parser.loan = Loan::Data(range);
            Reply::Bytes(BytesOf::at(1))
        }
        _ => Reply::End(Nil),
    })
}

/// `m:peek()`: returns true if the current part has data, nil if the part is empty; `false` if more bytes are needed;
/// `nil, status, reason` if the form is refused. Must be called before data of the part is read.
fn peek(call: &mut Call<'_>) -> Result<Reply, Fault> {
    reply(form(call)?.peek(), |event| match event {
        FormEvent::Data(_) => Reply::Done(true),
        _ => Reply::End(Nil),
    })
}

/// `m:text([limit])`: returns the current part as a whole; `false` if more bytes are needed; `nil, status, reason` if
/// the form is refused.
fn text(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let limit = limit(call, 2, NO_LIMIT)?;
    let parser = call.object_mut::<Parser>(1)?;
    reply(parser.form.collect(limit), |_| {
        parser.loan = Loan::Text;
        Reply::Bytes(BytesOf::at(1))
    })
}

/// `m:store(file [, limit])`: writes the current part to a file. Returns the file's size when the part is complete;
/// `false` if more bytes are needed; `nil, status, reason` if the form is refused, with status 500 if the file cannot
/// be written.
fn store(call: &mut Call<'_>) -> Result<Reply, Fault> {
    let limit = limit(call, 3, NO_LIMIT)?;
    let (parser, spool) = call.object_pair::<Parser, Spool>(1, 2)?;
    let stored = parser.form.drain::<Reply>(limit, |data| Ok(spool.write(data)?));
    reply(stored, |_| Reply::Size(spool.size() as i64))
}
