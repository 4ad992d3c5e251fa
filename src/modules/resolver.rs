//! `lio.resolver`: names looked up off-thread, and what an address is; used by `lualib/lio/net/`.

use crate::lua::{
    Call, Either, Failure, Fault, Function, FunctionTable, Maybe, Module, New, Nil, Object, Value, failed, functions,
};
use crate::socket::address;
use crate::socket::resolve::Resolver;
use crate::socket::stale_file;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Object for Resolver {
    const NAME: &'static str = "lio.resolver";
    const METHODS: FunctionTable = functions! { query, answer };
}

/// `resolver.new(waker)` → a resolver whose answers wake the selector of `waker`.
fn new(call: &mut Call<'_>) -> Result<New<Resolver>, Fault> {
    let waker = super::waker::argument(call, 1)?;
    Ok(New::of(Resolver::new(waker)))
}

/// `resolver:query(name)` → id. The answer comes later through `answer`.
fn query(call: &mut Call<'_>) -> Result<i64, Fault> {
    let (resolver, stack) = call.split::<Resolver>(1)?;
    let name = std::str::from_utf8(stack.bytes(2)?);
    let unknown = |_| Failure::word("resolve", "not a host name", "unresolved");
    resolver.query(name.map_err(unknown)?).map_err(failed("resolve"))
}

type Answer = Either<(i64, Value), (i64, Nil, String)>;

/// `resolver:answer()` → id and a list of addresses (text, as getaddrinfo ordered them), or id, nil and
/// a message; nothing when no answer is there.
fn answer(call: &mut Call<'_>) -> Result<Maybe<Answer>, Fault> {
    let text = |address: &SocketAddr| Value::String(address::ip_text(address).into_bytes());
    Ok(Maybe(call.object::<Resolver>(1)?.answer().map(|(id, found)| match found {
        Ok(list) => Either::One((id, Value::List(list.iter().map(text).collect()))),
        Err(message) => Either::Other((id, Nil, message)),
    })))
}

/// `resolver.is_numeric(address)` → the address in its usual form and its family, or nothing when it is
/// a name.
fn is_numeric(call: &mut Call<'_>) -> Result<Maybe<(String, &'static str)>, Fault> {
    let text = std::str::from_utf8(call.bytes(1)?).unwrap_or_default();
    let address = address::parse_ip(text, 0);
    Ok(Maybe(address.map(|address| (address::ip_text(&address), address::family(&address)))))
}

/// `resolver.is_stale(path)` → whether a unix socket's file is left from a process that is gone.
fn is_stale(call: &mut Call<'_>) -> Result<bool, Fault> {
    let path = Path::new(OsStr::from_bytes(call.bytes(1)?));
    Ok(stale_file::is_stale(path).unwrap_or(false))
}

/// Opens `lio.resolver`.
pub(crate) const OPEN: Function =
    Function::new(|_: &mut Call<'_>| Ok(Module(functions! { new, is_numeric, is_stale })));
