//! `lio.resolver`: names looked up off-thread, and what an address is; used by `lualib/lio/net/`.

use crate::lua::{Call, Failure, Fault, Function, Module, New, Nil, Object, Value, failed, results};
use crate::socket::address;
use crate::socket::resolve::{self, Resolver};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Object for Resolver {
    const NAME: &'static CStr = c"lio.resolver";
    const METHODS: &'static [(&'static CStr, Function)] =
        &[(c"query", Function::new(query)), (c"answer", Function::new(answer))];
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

results! {
    enum Answer {
        Addresses((i64, Value)),
        Failed((i64, Nil, String)),
        None(()),
    }
}

/// `resolver:answer()` → id and a list of addresses (text, as getaddrinfo ordered them), or id, nil and
/// a message; nothing when no answer is there.
fn answer(call: &mut Call<'_>) -> Result<Answer, Fault> {
    let text = |address| Value::String(address::ip_text(address).into_bytes());
    Ok(match call.object::<Resolver>(1)?.answer() {
        Some((id, Ok(list))) => {
            let list = list.iter().map(text).collect();
            Answer::Addresses((id, Value::List(list)))
        }
        Some((id, Err(message))) => Answer::Failed((id, Nil, message)),
        None => Answer::None(()),
    })
}

results! {
    enum Numeric {
        Address((String, &'static str)),
        Name(()),
    }
}

/// `resolver.is_numeric(address)` → the address in its usual form and its family, or nothing when it is
/// a name.
fn is_numeric(call: &mut Call<'_>) -> Result<Numeric, Fault> {
    let text = std::str::from_utf8(call.bytes(1)?).unwrap_or_default();
    Ok(match address::parse_ip(text, 0) {
        Some(ip) => Numeric::Address((address::ip_text(&ip), address::family(&ip))),
        None => Numeric::Name(()),
    })
}

/// `resolver.is_stale(path)` → whether a unix socket's file is left from a process that is gone.
fn is_stale(call: &mut Call<'_>) -> Result<bool, Fault> {
    let path = Path::new(OsStr::from_bytes(call.bytes(1)?));
    Ok(resolve::is_stale(path).unwrap_or(false))
}

const FUNCTIONS: &[(&CStr, Function)] =
    &[(c"new", Function::new(new)), (c"is_numeric", Function::new(is_numeric)), (c"is_stale", Function::new(is_stale))];

/// Opens `lio.resolver`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS)));
