//! `lio.tls.core`: TLS of servers and of clients, and certificates for development. `lualib/lio/tls.lua` checks the
//! arguments of the calls. `src/modules/stream/tls.rs` puts TLS on connections.

use crate::lua::{Call, Failure, Fault, Function, FunctionTable, Module, New, Object, functions};
use crate::tls::development::{self, Authority, Issued, Request};
use crate::tls::pem::Source;
use crate::tls::{ClientOptions, Identity, MinVersion, ServerOptions, TlsClient, TlsError, TlsServer};
use std::rc::Rc;

/// TLS of a server.
pub(crate) struct ServerObject(pub(crate) Rc<TlsServer>);

/// TLS of a client.
pub(crate) struct ClientObject(pub(crate) TlsClient);

impl Object for ServerObject {
    const NAME: &'static str = "lio.tls.server";
    const METHODS: FunctionTable = functions! { reload, reload_if_changed };
}

impl Object for ClientObject {
    const NAME: &'static str = "lio.tls.client";
}

impl Object for Authority {
    const NAME: &'static str = "lio.tls.authority";
    const METHODS: FunctionTable = functions! { certificate: CERTIFICATE, issue };
}

/// Returns the failure `nil, message, "tls"` of the call.
pub(super) fn failure(call: &'static str, error: &TlsError) -> Failure {
    Failure::composed(call, error.to_string(), "tls")
}

/// Returns the strings in the list at `index`.
fn strings(call: &mut Call<'_>, index: i32) -> Result<Vec<Vec<u8>>, Fault> {
    let count = call.raw_length(index) as i64;
    let mut found = Vec::new();
    for number in 1..=count {
        let at = call.element(index, number)?;
        found.push(call.bytes(at)?.to_vec());
        call.drop_to(at - 1);
    }
    Ok(found)
}

fn sources(call: &mut Call<'_>, index: i32) -> Result<Vec<Source>, Fault> {
    Ok(strings(call, index)?.iter().map(|option| Source::of(option)).collect())
}

/// Returns the certificates in the list at `index`, in which each chain is followed by its key.
fn identities(call: &mut Call<'_>, index: i32) -> Result<Vec<Identity>, Fault> {
    let all = sources(call, index)?;
    let (pairs, _) = all.as_chunks::<2>();
    Ok(pairs.iter().cloned().map(|[chain, key]| Identity { chain, key }).collect())
}

fn version(call: &Call<'_>, index: i32) -> Result<MinVersion, Fault> {
    Ok(match call.bytes(index)? {
        b"1.3" => MinVersion::Tls13,
        _ => MinVersion::Tls12,
    })
}

/// `core.server(identities, alpn, client_ca, client_optional, crl, version)`: returns TLS of a server, or `nil, message,
/// "tls"`. The arguments but `client_optional` and `version` are lists of strings.
fn server(call: &mut Call<'_>) -> Result<New<ServerObject>, Fault> {
    let options = ServerOptions {
        identities: identities(call, 1)?,
        alpn: strings(call, 2)?,
        client_ca: sources(call, 3)?,
        client_optional: call.is_true(4),
        crl: sources(call, 5)?,
        version: version(call, 6)?,
    };
    let made = TlsServer::new(options).map_err(|error| failure("tls.server", &error))?;
    Ok(New::of(ServerObject(Rc::new(made))))
}

/// `server:reload()`: reads the files again, for later connections. Returns `true`, or `nil, message, "tls"`; the server
/// then keeps its certificates.
fn reload(call: &mut Call<'_>) -> Result<bool, Fault> {
    let server = call.object::<ServerObject>(1)?.0.clone();
    server.reload().map_err(|error| failure("reload", &error))?;
    Ok(true)
}

/// `server:reload_if_changed()`: like `reload`, if one of the files has changed; the files are checked at most every
/// five seconds. Returns whether the files were read again, or `nil, message, "tls"`.
fn reload_if_changed(call: &mut Call<'_>) -> Result<bool, Fault> {
    let server = call.object::<ServerObject>(1)?.0.clone();
    Ok(server.reload_if_changed().map_err(|error| failure("reload", &error))?)
}

/// `core.set_check_interval(server, seconds)`: sets the minimum time between two checks of `reload_if_changed`; for
/// tests.
fn set_check_interval(call: &mut Call<'_>) -> Result<(), Fault> {
    let seconds = call.number(2)?;
    let interval = std::time::Duration::try_from_secs_f64(seconds)
        .map_err(|_| Fault::message("set_check_interval: seconds must be a number of at least 0"))?;
    call.object::<ServerObject>(1)?.0.set_check_interval(interval);
    Ok(())
}

/// `core.client(ca, crl, pins, identity, alpn, server_name, skips_verification, version)`: returns TLS of a client, or
/// `nil, message, "tls"`. `pins` are digests of 32 bytes; `server_name` may be nil.
fn client(call: &mut Call<'_>) -> Result<New<ClientObject>, Fault> {
    let options = ClientOptions {
        ca: sources(call, 1)?,
        crl: sources(call, 2)?,
        pins: strings(call, 3)?.into_iter().filter_map(|pin| pin.try_into().ok()).collect(),
        identity: identities(call, 4)?.pop(),
        alpn: strings(call, 5)?,
        server_name: call.optional(6, |stack, at| Ok(stack.utf8(at)?.to_owned()))?,
        skips_verification: call.is_true(7),
        version: version(call, 8)?,
    };
    let made = TlsClient::new(&options).map_err(|error| failure("tls.client", &error))?;
    Ok(New::of(ClientObject(made)))
}

// Certificates for development ---------------------------------------------------------------------------------------

/// `core.authority(name, days)`: returns an authority that exists only in this process.
fn authority(call: &mut Call<'_>) -> Result<New<Authority>, Fault> {
    let days = call.integer_in(2, 1..=36500, "days")? as u32;
    let made = Authority::new(call.utf8(1)?, days).map_err(|error| failure("tls.authority", &error))?;
    Ok(New::of(made))
}

/// `authority:certificate()`: returns the authority's own certificate, in PEM.
const CERTIFICATE: Function = Function::method(|authority: &Authority| authority.certificate());

/// Reads the request from the arguments from `first` on: names, subject, from, until.
fn request(call: &mut Call<'_>, first: i32) -> Result<Request, Fault> {
    let names = strings(call, first)?;
    let names = names.into_iter().map(|name| String::from_utf8_lossy(&name).into_owned()).collect();
    Ok(Request {
        names,
        subject: call.utf8(first + 1)?.to_owned(),
        from: call.integer(first + 2)?,
        until: call.integer(first + 3)?,
    })
}

/// `authority:issue(names, subject, from, until)`: returns a certificate and its key, in PEM, or `nil, message, "tls"`.
/// `from` and `until` are in seconds from now.
fn issue(call: &mut Call<'_>) -> Result<(String, String), Fault> {
    let request = request(call, 2)?;
    let issued = call.object::<Authority>(1)?.issue(&request);
    texts(issued, "issue")
}

/// `core.self_signed(names, subject, from, until)`: like `issue`, without an authority.
fn self_signed(call: &mut Call<'_>) -> Result<(String, String), Fault> {
    let request = request(call, 1)?;
    texts(development::self_signed(&request), "tls.self_signed")
}

fn texts(issued: Result<Issued, TlsError>, call: &'static str) -> Result<(String, String), Fault> {
    let Issued { certificate, key } = issued.map_err(|error| failure(call, &error))?;
    Ok((certificate, key))
}

const FUNCTIONS: FunctionTable = functions! { server, client, set_check_interval, authority, self_signed };

/// Opens `lio.tls.core`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS)));
