//! `lio.resolver`: name resolution on another thread, and the classification of addresses. `lualib/lio/net/` uses it.

use crate::lua::{
    Call, Either, Failure, Fault, Function, FunctionTable, Maybe, Module, New, Nil, Object, Value, failed, functions,
};
use crate::socket::resolve::Resolver;
use crate::socket::{address, stale_file};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Object for Resolver {
    const NAME: &'static str = "lio.resolver";
    const METHODS: FunctionTable = functions! { query, answer };
}

/// `resolver.new(waker)`: returns a resolver whose answers wake the selector of `waker`.
fn new(call: &mut Call<'_>) -> Result<New<Resolver>, Fault> {
    let waker = super::waker::argument(call, 1)?;
    Ok(New::of(Resolver::new(waker)))
}

/// `resolver:query(name)`: starts resolving a name. Returns an id, with which `answer` returns the result later; or
/// `nil, message, code`.
fn query(call: &mut Call<'_>) -> Result<i64, Fault> {
    let (resolver, stack) = call.object_and_stack::<Resolver>(1)?;
    let name = std::str::from_utf8(stack.bytes(2)?);
    let unknown = |_| Failure::new("resolve", "not a host name", "unresolved");
    resolver.query(name.map_err(unknown)?).map_err(failed("resolve"))
}

type Answer = Either<(i64, Value), (i64, Nil, String)>;

/// `resolver:answer()`: returns the id of a query and its result: a list of addresses (strings, in the order of
/// getaddrinfo), or nil and a message. Returns nothing if no answer has arrived.
fn answer(call: &mut Call<'_>) -> Result<Maybe<Answer>, Fault> {
    let text = |address: &SocketAddr| Value::String(address::ip_text(address).into_bytes());
    Ok(Maybe(call.object::<Resolver>(1)?.answer().map(|(id, found)| match found {
        Ok(list) => Either::One((id, Value::List(list.iter().map(text).collect()))),
        Err(message) => Either::Other((id, Nil, message)),
    })))
}

/// `resolver.is_numeric(address)`: returns the address in its canonical form, and its family; nothing if `address` is a
/// name.
fn is_numeric(call: &mut Call<'_>) -> Result<Maybe<(String, &'static str)>, Fault> {
    let text = std::str::from_utf8(call.bytes(1)?).unwrap_or_default();
    let address = address::parse_ip(text, 0);
    Ok(Maybe(address.map(|address| (address::ip_text(&address), address::family(&address)))))
}

/// `resolver.is_stale(path)`: returns whether the file of a unix socket was left by a process that has ended.
fn is_stale(call: &mut Call<'_>) -> Result<bool, Fault> {
    let path = Path::new(OsStr::from_bytes(call.bytes(1)?));
    Ok(stale_file::is_stale(path).unwrap_or(false))
}

/// Opens `lio.resolver`.
pub(crate) const OPEN: Function =
    Function::new(|_: &mut Call<'_>| Ok(Module(functions! { new, is_numeric, is_stale })));
