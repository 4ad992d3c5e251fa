//! Requests as handlers get them, and `http.head`, the functions that read them.
//!
//! A request is one block of memory with the bytes of its head, which are parsed on demand. It needs no finalizer, and
//! can still be read when its connection has continued with other requests. Invariant: after a handler has stored a
//! value under a name, it reads this value under the name, even if a method or field of the request has the same name.

use super::fields::{joined_table, strings};
use super::machine::{Machine, ServerObject};
use super::pairs::{Named, Parameters, named, no_parameters};
use super::routes::AppRoutes;
use crate::codec::decoded_pairs::{InlinePairs, Pairs};
use crate::codec::http1::head::Head;
use crate::codec::http1::request::RequestHead;
use crate::codec::http1::stored_section;
use crate::codec::{cookie, uri};
use crate::http::router::routes::{RouteId, Routes};
use crate::http::server::RequestId;
use crate::lua::{
    Argument, Call, Closure, Decoded, Either, Fault, Field, Function, FunctionTable, Kind, Metatable, Next, Object,
    Outcome, StoredInTable, TableAt, TailSlice, Value, functions, then, upvalue,
};
use std::borrow::Cow;
use std::rc::Rc;

/// The head of a request; its bytes follow in memory.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    head: Head,
    /// `None` if there is no route, or if Lua code has to determine it.
    route: Option<RouteId>,
    /// The request's number in its server.
    pub(crate) id: u64,
}

/// The user value that refers to the values stored by name: a table or nil.
const STORED: Field<Request> = Field::new(1);
/// The user value that refers to the server that received the request.
pub(crate) const SERVER: Field<Request> = Field::new(2);
/// The user value that contains the whole body of the request: a string or nil.
pub(crate) const BODY: Field<Request> = Field::new(3);

impl Object for Request {
    const NAME: &'static str = "lio.request";
    const USER_VALUES: i32 = 3;
    const METHODS: FunctionTable = functions! {
        method, target, raw_path, path, raw_query, query, host, version, field, field_all, fields, cookies, upgrade,
        params, matches, route, owner, whole_body,
    };
}

impl Request {
    /// Creates the request with this head, and copies its bytes to `tail`, whose length must be [`Head::head_len`].
    pub(crate) fn copy(head: RequestHead<'_>, route: Option<RouteId>, id: u64, tail: &mut [u8]) -> Option<Request> {
        tail.copy_from_slice(head.bytes.get(..tail.len())?);
        let head = *head.head;
        (tail.len() == head.head_len).then_some(Request { head, route, id })
    }

    pub(crate) fn route(&self) -> Option<RouteId> {
        self.route
    }

    /// Returns the head of the request; `bytes` are the bytes that follow the request in memory.
    pub(crate) fn read<'b>(&'b self, bytes: &'b [u8]) -> RequestHead<'b> {
        RequestHead { head: &self.head, bytes }
    }
}

/// Returns the head of the request at `index`.
pub(crate) fn head<'c>(call: &'c Call<'_>, index: i32) -> Result<RequestHead<'c>, Fault> {
    let (request, bytes) = call.tail::<Request>(index)?;
    Ok(request.read(bytes))
}

/// Returns the number of the request at `index` in its server.
#[inline]
pub(super) fn number(call: &Call<'_>, index: i32) -> Result<RequestId, Fault> {
    let id = RequestId::from_number(call.object::<Request>(index)?.id);
    id.ok_or_else(|| Fault::message("the request is not served"))
}

/// Returns the server of the request at `index`, and the request's number in the server.
#[inline]
pub(super) fn served(call: &mut Call<'_>, index: i32) -> Result<(Rc<Machine>, RequestId), Fault> {
    let id = number(call, index)?;
    let server = call.field(index, SERVER)?;
    let machine = call.object::<ServerObject>(server)?.machine.clone();
    // The server is popped, because it may be at the index of an absent argument.
    call.drop_to(server - 1);
    Ok((machine, id))
}

/// Returns whether the request at `index` has stored values, because a handler or middleware has read or set a field of
/// the request.
pub(crate) fn has_stored_values(call: &mut Call<'_>, index: i32) -> Result<bool, Fault> {
    let stored = call.field(index, STORED)?;
    Ok(!call.is_none(stored))
}

/// A string of a request: a part of the head's bytes, another string, or nil.
type Text = Either<Option<TailSlice<Request>>, Vec<u8>>;

/// Returns the part that `find` finds in the head of the request at argument 1.
fn part(
    call: &Call<'_>, find: impl for<'h> Fn(RequestHead<'h>) -> Option<&'h [u8]>,
) -> Result<Option<TailSlice<Request>>, Fault> {
    let head = head(call, 1)?;
    Ok(find(head).map(|found| TailSlice::of(1, head.bytes, found)))
}

/// `head:method()`: returns the method as sent.
fn method(call: &mut Call<'_>) -> Result<Option<TailSlice<Request>>, Fault> {
    part(call, |head| Some(head.head.method.of(head.bytes)))
}

/// `head:target()`: returns the request target as sent.
fn target(call: &mut Call<'_>) -> Result<Option<TailSlice<Request>>, Fault> {
    part(call, |head| Some(head.head.target.of(head.bytes)))
}

/// `head:raw_query()`: returns the part of the target after the `?`, or nil.
fn raw_query(call: &mut Call<'_>) -> Result<Option<TailSlice<Request>>, Fault> {
    part(call, |head| head.query())
}

/// `head:host()`: returns `host[:port]`, or nil.
fn host(call: &mut Call<'_>) -> Result<Option<TailSlice<Request>>, Fault> {
    part(call, |head| Some(head.head.host?.of(head.bytes)))
}

/// `head:raw_path()`: returns the path as sent.
fn raw_path(call: &mut Call<'_>) -> Result<Text, Fault> {
    let head = head(call, 1)?;
    Ok(text(head, Cow::Borrowed(head.path())))
}

/// Returns `text` as a part of the head's bytes, if it is one; otherwise as a copy. Copied strings are short.
fn text(head: RequestHead<'_>, text: Cow<'_, [u8]>) -> Text {
    let bytes = head.bytes.as_ptr_range();
    match text {
        Cow::Borrowed(text) if bytes.contains(&text.as_ptr()) => Either::One(Some(TailSlice::of(1, head.bytes, text))),
        text => Either::Other(text.into_owned()),
    }
}

/// `head:path()`: returns the path, percent-decoded.
fn path(call: &mut Call<'_>) -> Result<Text, Fault> {
    let head = head(call, 1)?;
    let raw = head.path();
    let mut decoded = Vec::new();
    let is_other = uri::needs_decode(raw, false) && uri::percent_decode(raw, false, &mut decoded).is_ok();
    Ok(if is_other { Either::Other(decoded) } else { text(head, Cow::Borrowed(raw)) })
}

/// `head:query()`: returns a table of the decoded keys and values. The value of a repeated key is a list, the value of
/// a key without `=` is `""`.
fn query(call: &mut Call<'_>) -> Result<Decoded<Named<Pairs>>, Fault> {
    let query = head(call, 1)?.query().unwrap_or_default();
    Ok(named(Pairs::of_query(query)))
}

/// `head:version()`: returns `"1.0"` or `"1.1"`.
fn version(call: &mut Call<'_>) -> Result<&'static str, Fault> {
    Ok(if head(call, 1)?.head.version == 10 { "1.0" } else { "1.1" })
}

/// Returns the value of a field, with several values joined by `, ` (cookies by `; `), or nil.
fn value(head: RequestHead<'_>, name: &[u8]) -> Text {
    head.joined(name).map_or(Either::One(None), |value| text(head, value))
}

/// `head:field(name)`: returns the value of the field, with several values joined by `, ` (cookies by `; `), or nil.
/// Names are case-insensitive.
fn field(call: &mut Call<'_>) -> Result<Text, Fault> {
    let head = head(call, 1)?;
    Ok(value(head, call.bytes(2)?))
}

/// `head:field_all(name)`: returns a list of the field's values, in order.
fn field_all(call: &mut Call<'_>) -> Result<Value, Fault> {
    let head = head(call, 1)?;
    Ok(strings(stored_section::values(head.section(), call.bytes(2)?)))
}

/// `head:fields()`: returns a table that maps lower-case names to values; repeated fields are joined.
fn fields(call: &mut Call<'_>) -> Result<Value, Fault> {
    Ok(joined_table(head(call, 1)?.section()))
}

/// `head:cookies()`: returns a table that maps names to values; if a name is repeated, the first value is used.
fn cookies(call: &mut Call<'_>) -> Result<Value, Fault> {
    let field = head(call, 1)?.joined(b"cookie").unwrap_or_default();
    let cookies = cookie::pairs(&field);
    let mut found: Vec<_> = cookies.map(|(name, value)| (name.to_vec(), Value::String(value.to_vec()))).collect();
    found.reverse();
    Ok(Value::Map(found))
}

/// `head:upgrade()`: returns the protocols that the client offers to switch to, or nil.
fn upgrade(call: &mut Call<'_>) -> Result<Text, Fault> {
    let head = head(call, 1)?;
    Ok(if head.head.upgrade { value(head, b"upgrade") } else { Either::One(None) })
}

/// `head:params([routes, id])`: returns the parameters of a route by name, percent-decoded: of the given route, or of
/// the request's own route.
fn params(call: &mut Call<'_>) -> Result<Parameters, Fault> {
    let (request, bytes) = call.tail::<Request>(1)?;
    if call.is_none(2) {
        let id = request.route;
        let server = call.field(1, SERVER)?;
        let path = head(call, 1)?.route_path();
        return Ok(match call.as_object::<ServerObject>(server) {
            Some(handle) => parameters(&handle.machine.server.borrow().routes(), path, id),
            None => no_parameters(),
        });
    }
    let path = request.read(bytes).route_path();
    let id = RouteId::from_number(call.integer(3)?);
    let routes = call.object::<AppRoutes>(2)?.0.borrow();
    Ok(parameters(&routes, path, id))
}

/// Returns the values of a route's parameters in the raw `path`.
fn parameters(routes: &Routes, path: &[u8], id: Option<RouteId>) -> Parameters {
    let mut scratch = Vec::new();
    let Some((id, path)) = id.zip(uri::normal_path(path, &mut scratch)) else {
        return no_parameters();
    };
    let found = routes.with_values(path, id, |values| {
        let values = values.iter().enumerate();
        let all = values.filter_map(|(index, value)| Some((routes.name_of(id, index)?, *value)));
        match InlinePairs::of(all.clone()) {
            Some(inline) => Either::One(named(inline)),
            None => Either::Other(named(Pairs::of_parameters(all))),
        }
    });
    found.unwrap_or_else(no_parameters)
}

/// `head:matches(routes)`: returns a list of the ids of all routes whose pattern matches, regardless of method and
/// constraints, the most specific first; a 0 follows the ids of equal patterns.
fn matches(call: &mut Call<'_>) -> Result<Value, Fault> {
    let path = head(call, 1)?.route_path();
    let routes = call.object::<AppRoutes>(2)?.0.borrow();
    let (mut scratch, mut found) = (Vec::new(), Vec::new());
    if let Some(path) = uri::normal_path(path, &mut scratch) {
        routes.all(path, &mut found);
    }
    Ok(Value::List(found.into_iter().map(Value::Integer).collect()))
}

/// `head:route([id])`: sets the request's route, if `id` is given. Returns the id of the route, 0 if the request has
/// none.
fn route(call: &mut Call<'_>) -> Result<i64, Fault> {
    if !call.is_none(2) {
        let id = call.integer(2)?;
        call.object_mut::<Request>(1)?.route = RouteId::from_number(id);
    }
    Ok(call.object::<Request>(1)?.route.map_or(0, RouteId::number))
}

/// `head:owner()`: returns the server that received the request, and the request's number in the server.
fn owner(call: &mut Call<'_>) -> Result<(Argument, i64), Fault> {
    let id = call.object::<Request>(1)?.id as i64;
    Ok((Argument(call.field(1, SERVER)?), id))
}

/// `head:whole_body([text])`: stores `text` as the body, if it is given. Returns the stored body, or nil.
fn whole_body(call: &mut Call<'_>) -> Result<Argument, Fault> {
    call.object::<Request>(1)?;
    if call.count() > 1 {
        call.set_field(1, BODY, 2)?;
    }
    Ok(Argument(call.field(1, BODY)?))
}

/// `http.define_request_fields(getters, methods)`: defines the fields of the requests of this VM. A field is the value
/// stored under its name; otherwise the result of `getters[name](req)`, which is stored unless it is nil; otherwise
/// `methods[name]`.
pub(crate) const DEFINE_REQUEST_FIELDS: Function = Function::new(|call: &mut Call<'_>| {
    for index in [1, 2] {
        if call.kind(index) != Kind::Table {
            return Err(Fault::expected(index, "table"));
        }
    }
    let table = TableAt::Index(call.create(Metatable::<Request>::of())?);
    for (key, function) in [("__index", INDEX), ("__newindex", NEW_INDEX)] {
        let value = Closure(function, (Argument(1), Argument(2)));
        call.create(StoredInTable { table, key, value })?;
    }
    Ok(())
});

/// `req[key]`; upvalues 1 and 2 are the arguments of `DEFINE_REQUEST_FIELDS`.
const INDEX: Function = Function::new(|call: &mut Call<'_>| {
    let stored = call.field(1, STORED)?;
    let value = call.get(stored, 2)?;
    if !call.is_none(value) {
        return Ok(Next::returns(Argument(value)));
    }
    let getter = call.get(upvalue(1), 2)?;
    if call.is_none(getter) {
        let method = call.get(upvalue(2), 2)?;
        return Ok(Next::returns(Argument(method)));
    }
    call.push(Argument(1))?;
    Ok(Next::call(1, then(store_result), 0))
});

/// Stores the result of a getter.
fn store_result(call: &mut Call<'_>, outcome: Outcome) -> Result<Option<StoredInTable<Argument, Argument>>, Fault> {
    let has = !call.is_none(outcome.first);
    Ok(has.then(|| store(Argument(outcome.first))))
}

/// `req[key] = value`.
const NEW_INDEX: Function = Function::new(|call: &mut Call<'_>| {
    call.object::<Request>(1)?;
    Ok::<_, Fault>(store(Argument(3)))
});

/// Stores a value in the request at argument 1, under the key at argument 2.
fn store(value: Argument) -> StoredInTable<Argument, Argument> {
    StoredInTable { table: TableAt::field(1, STORED), key: Argument(2), value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::http1::head::{Limits, Parser, Progress};

    #[test]
    fn a_copy_needs_memory_of_exactly_the_size_of_the_head() {
        let bytes = b"GET /a HTTP/1.0\r\n\r\nbody";
        let mut parser = Parser::new();
        let parsed = parser.parse(bytes, &Limits::default(), &mut Progress::default());
        let head = parsed.expect("well-formed").expect("complete");
        let view = RequestHead { head, bytes };
        for size in [0, head.head_len - 1, head.head_len + 1, bytes.len() + 1] {
            assert!(Request::copy(view, None, 7, &mut vec![0; size]).is_none());
        }
        let mut tail = vec![0; head.head_len];
        let copy = Request::copy(view, RouteId::from_number(3), 7, &mut tail).expect("the size matches the head");
        assert_eq!(copy.read(&tail).path(), b"/a");
        assert_eq!((copy.route().map(RouteId::number), copy.id), (Some(3), 7));
    }
}
