//! Addresses as Lua objects, and as arguments.

use super::reply::open;
use crate::lua::{Call, Either, Failure, Fault, Function, FunctionTable, New, Object, Stack, failed, functions};
use crate::socket::address::{self, Parts, Refusal};
use socket2::{Domain, SockAddr};

/// An address as a Lua object.
pub(crate) struct Endpoint(pub(crate) SockAddr);

impl Object for Endpoint {
    const NAME: &'static str = "lio.endpoint";
    const METHODS: FunctionTable = functions! { value: VALUE };
    const META: FunctionTable = functions! { __tostring: TO_STRING, __eq = equal };
}

/// Converts a refusal to a failure.
fn refused(refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Word(call, message, code) => Failure::new(call, message, code).into(),
        Refusal::System(call, error) => failed(call)(error),
    }
}

/// Reads `endpoint`, `host, port` or `path` from argument `index` on, for the open socket at argument 1. A host that is
/// not a numeric address is resolved, which blocks.
pub(super) fn argument(call: &mut Call<'_>, index: i32) -> Result<SockAddr, Fault> {
    let domain = open(call)?.0.protocol().domain();
    if let Some(endpoint) = call.as_object::<Endpoint>(index) {
        return Ok(endpoint.0.clone());
    }
    if domain == Domain::UNIX {
        return address::unix(call.bytes(index)?).map_err(refused);
    }
    let (host, port) = (call.utf8(index)?, port(call, index + 1)?);
    let numeric = address::parse_ip(host, port).map(SockAddr::from);
    let found = numeric.map_or_else(|| address::look_up(host, port, Some(domain)), Ok);
    found.map_err(refused)
}

/// Reads a port, 0 to 65535, at `index`.
fn port(stack: &Stack, index: i32) -> Result<u16, Fault> {
    Ok(stack.integer_in(index, 0..=65535, "port")? as u16)
}

/// `socket.endpoint(kind, …)`, with `("inet"|"inet6", ip, port)`, `("hostname", name, port [, family])` or
/// `("unix", path)`: returns an endpoint, or `nil, message, code`.
pub(super) fn endpoint(call: &mut Call<'_>) -> Result<New<Endpoint>, Fault> {
    let formed = match call.bytes(1)? {
        b"unix" => address::unix(call.bytes(2)?),
        b"inet" => address::numeric(call.utf8(2)?, port(call, 3)?, Domain::IPV4),
        b"inet6" => address::numeric(call.utf8(2)?, port(call, 3)?, Domain::IPV6),
        b"hostname" => {
            let (name, port) = (call.utf8(2)?, port(call, 3)?);
            let family = call.optional(4, family)?;
            match address::parse_ip(name, port) {
                Some(address) if family.is_none_or(|f| f == Domain::for_address(address)) => Ok(address.into()),
                _ => address::look_up(name, port, family),
            }
        }
        _ => return Err(Fault::argument(1, "'inet', 'inet6', 'hostname' or 'unix' expected")),
    };
    Ok(New::of(Endpoint(formed.map_err(refused)?)))
}

fn family(stack: &Stack, index: i32) -> Result<Domain, Fault> {
    match stack.bytes(index)? {
        b"inet" => Ok(Domain::IPV4),
        b"inet6" => Ok(Domain::IPV6),
        _ => Err(Fault::argument(index, "'inet' or 'inet6' expected")),
    }
}

/// The parts of an IP address, or of a unix address.
pub(crate) type Shown = Either<(Vec<u8>, i64, &'static str), (Vec<u8>, &'static str, &'static str)>;

/// Returns the parts of an address as `endpoint:value()` does.
pub(crate) fn shown(address: &SockAddr) -> Shown {
    let Parts { name, port, kind, family } = address::parts(address);
    match port {
        Some(port) => Either::One((name, port.into(), family)),
        None => Either::Other((name, kind, family)),
    }
}

/// `endpoint:value()`: returns the IP address, the port, and `"inet"` or `"inet6"`. For a unix address: the path,
/// `"path"`, `"abstract"` (then the path begins with NUL) or `"unnamed"`, and `"unix"`.
const VALUE: Function = Function::method(|endpoint: &Endpoint| shown(&endpoint.0));

/// Returns the address and the port as a string. For a unix address, returns the bytes of the path, or `@name` if the
/// address is abstract.
const TO_STRING: Function = Function::method(|endpoint: &Endpoint| address::text(&endpoint.0));

fn equal(call: &mut Call<'_>) -> Result<bool, Fault> {
    let left = call.as_object::<Endpoint>(1);
    let right = call.as_object::<Endpoint>(2);
    Ok(left.zip(right).is_some_and(|(left, right)| left.0 == right.0))
}
