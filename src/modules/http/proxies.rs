//! The proxies that an app trusts: `http.networks()`, the fields with which proxies forward their clients, and the
//! PROXY protocol. Used by lualib/lio/web/trust_proxy.lua and lualib/lio/web/listening.lua.

use super::machine::machine;
use super::request::served;
use crate::codec::forwarded::{self, Element};
use crate::codec::networks::Networks;
use crate::http::server::proxied::ProxyPolicy;
use crate::lua::{Call, Fault, Function, FunctionTable, New, Object, Stack, functions};
use crate::modules::stream::tls::table_of;
use std::net::IpAddr;

impl Object for Networks {
    const NAME: &'static str = "lio.http.networks";
    const METHODS: FunctionTable = functions! { add, contains, client_of_forwarded, client_of_lists };
}

/// `http.networks()`: returns an empty list of networks.
pub(super) const NEW: Function = Function::new(|_: &mut Call<'_>| Ok::<_, Fault>(New::of(Networks::default())));

/// `networks:add(text)`: adds an address, a network such as `"10.0.0.0/8"`, or one of the names `"loopback"`,
/// `"private"` and `"unix:"`. Returns whether the text is one of these.
fn add(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (networks, stack) = call.object_and_stack::<Networks>(1)?;
    let text = std::str::from_utf8(stack.bytes(2)?);
    Ok(text.is_ok_and(|text| networks.add(text)))
}

/// `networks:contains(peer)`: returns whether the list contains `peer`, an IP address or `"unix:"`.
fn contains(call: &mut Call<'_>) -> Result<bool, Fault> {
    let networks = call.object::<Networks>(1)?;
    let text = std::str::from_utf8(call.bytes(2)?).unwrap_or_default();
    if text == "unix:" {
        return Ok(networks.contains(None));
    }
    // An address may have a scope, which is not part of the network.
    let ip = text.split('%').next().and_then(|ip| ip.parse().ok());
    Ok(ip.is_some_and(|ip| networks.contains(Some(ip))))
}

/// The client that proxies have forwarded: its address and port, whether it has used TLS, and the host that it has
/// requested. Each is nil if it is unknown.
type Client = (Option<String>, Option<i64>, Option<bool>, Option<Vec<u8>>);

/// Whether a `Forwarded` field is well-formed, and its client.
type ForwardedClient = (bool, Option<String>, Option<i64>, Option<bool>, Option<Vec<u8>>);

/// Returns the position of the client, and its address and port, if they are known.
fn client(networks: &Networks, nodes: &[Option<(IpAddr, Option<u16>)>]) -> (usize, Option<String>, Option<i64>) {
    match forwarded::client(nodes, |ip| networks.contains(Some(ip))) {
        Some((at, ip, port)) => (at, Some(ip.to_string()), port.map(i64::from)),
        None => (nodes.len().saturating_sub(1), None, None),
    }
}

/// `networks:client_of_forwarded(field)`: returns the client of a `Forwarded` field, whose last element was added by a
/// trusted proxy. The first result is false, and the others are nil, if the field is malformed: then its last element
/// may be a part of what the client has sent.
fn client_of_forwarded(call: &mut Call<'_>) -> Result<ForwardedClient, Fault> {
    let networks = call.object::<Networks>(1)?;
    let Some(elements) = forwarded::elements(call.bytes(2)?) else { return Ok((false, None, None, None, None)) };
    let nodes: Vec<_> = elements.iter().map(|one| forwarded::node(one.node.as_deref()?)).collect();
    let (at, ip, port) = client(networks, &nodes);
    let Some(Element { proto, host, .. }) = elements.get(at) else { return Ok((true, None, None, None, None)) };
    let is_tls = proto.as_deref().and_then(forwarded::is_secure);
    Ok((true, ip, port, is_tls, host.as_deref().and_then(forwarded::host).map(<[u8]>::to_vec)))
}

/// `networks:client_of_lists(addresses, schemes, hosts)`: returns the client of the lists of `X-Forwarded-For`,
/// `X-Forwarded-Proto` and `X-Forwarded-Host`, whose last elements were added by a trusted proxy. Each list may be nil.
fn client_of_lists(call: &mut Call<'_>) -> Result<Client, Fault> {
    let networks = call.object::<Networks>(1)?;
    let addresses = call.optional(2, Stack::bytes)?;
    let nodes: Vec<_> = addresses.map(forwarded::list).unwrap_or_default().into_iter().map(forwarded::node).collect();
    let (at, ip, port) = client(networks, &nodes);
    // If each proxy has added to both lists, they have the same length. Otherwise, the last proxy has set the field.
    let beside = |index: i32| -> Result<Option<&[u8]>, Fault> {
        let Some(field) = call.optional(index, Stack::bytes)? else { return Ok(None) };
        let list = forwarded::list(field);
        Ok(if list.len() == nodes.len() { list.get(at) } else { list.last() }.copied())
    };
    let is_tls = beside(3)?.and_then(forwarded::is_secure);
    let host = beside(4)?.and_then(forwarded::host).map(<[u8]>::to_vec);
    Ok((ip, port, is_tls, host))
}

/// `S:expect_proxy_header(required [, networks])`: makes the server read a header of the PROXY protocol at the start of
/// each connection; with `networks`, only of connections from these.
pub(super) fn expect_proxy_header(call: &mut Call<'_>) -> Result<(), Fault> {
    let required = call.is_true(2);
    let proxies = call.optional(3, |_, _| Ok(()))?.map(|()| call.object::<Networks>(3).cloned()).transpose()?;
    machine(call)?.server.borrow_mut().expect_proxy_header(ProxyPolicy { required, proxies });
    Ok(())
}

/// `request.used_tls(req)`: returns whether the client uses TLS on this connection, or has used TLS according to the
/// PROXY protocol.
pub(super) const USED_TLS: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let server = machine.server.borrow();
    let is_encrypted = server.transport(id).is_some_and(|transport| transport.tls().is_some());
    Ok(is_encrypted || server.proxied(id).is_some_and(|proxied| proxied.is_tls))
});

/// `request.tls(req)`: returns a table that describes TLS on the connection, as `c:tls()` does; nil if it is not
/// encrypted.
pub(super) const TLS: Function = Function::new(|call: &mut Call<'_>| {
    let (machine, id) = served(call, 1)?;
    let server = machine.server.borrow();
    let tls = server.transport(id).and_then(|transport| transport.tls()?.describe());
    Ok(tls.map(table_of))
});
