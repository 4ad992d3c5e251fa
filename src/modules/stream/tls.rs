//! TLS on a connection, for `lualib/lio/net/tls.lua`.

use super::connection::Connection;
use crate::lua::{Call, Failure, Fault, Nil, Value, results};
use crate::modules::tls::{ClientObject, ServerObject, failure};
use crate::tls::description::{Description, PeerCertificate};
use crate::tls::{Handshake, TlsError};
use std::io;

/// Returns the failure of a call on a connection that may be TLS.
#[cold]
pub(crate) fn failure_of(call: &'static str, error: &io::Error) -> Failure {
    match TlsError::of(error) {
        Some(error) => failure(call, error),
        None => Failure::io(call, error),
    }
}

/// `s:start_tls_now(tls [, host])`: puts TLS on top of the connection. `tls` is a `lio.tls.server`, or a `lio.tls.client`
/// that connects to `host`. Returns `true`, or `nil, message, code`. The handshake has not begun.
pub(super) fn start_tls_now(call: &mut Call<'_>) -> Result<bool, Fault> {
    let session = match call.as_object::<ServerObject>(2) {
        Some(server) => server.0.session(),
        None => {
            let host = call.optional(3, |stack, at| stack.utf8(at))?;
            call.object::<ClientObject>(2)?.0.session(host)
        }
    };
    let session = session.map_err(|error| failure("start_tls", &error))?;
    let stream = call.object_mut::<Connection>(1)?;
    if stream.is_closed() {
        return Err(Failure::new("start_tls", "the connection is closed", "closed").into());
    }
    if stream.queued() > 0 {
        return Err(Fault::message("start_tls: bytes are queued that the peer must get before TLS starts"));
    }
    stream.start_tls(session);
    Ok(true)
}

results! {
    /// The result of `handshake`.
    pub(super) enum Progress {
        Done(bool),
        /// The event for which the connection is armed.
        Waits(&'static str),
    }
}

/// `s:handshake()`: continues the handshake. Returns `true` if it is complete; `"read"` or `"write"` if it waits, with
/// the connection armed; or `nil, message, code`.
pub(super) fn handshake(call: &mut Call<'_>) -> Result<Progress, Fault> {
    let stream = call.object_mut::<Connection>(1)?;
    if stream.is_closed() {
        return Err(Failure::new("handshake", "the connection is closed", "closed").into());
    }
    match stream.handshake() {
        Ok(Handshake::Done) => Ok(Progress::Done(true)),
        Ok(Handshake::Read) => Ok(Progress::Waits("read")),
        Ok(Handshake::Write) => Ok(Progress::Waits("write")),
        Err(error) => Err(failure_of("handshake", &error).into()),
    }
}

results! {
    /// The result of `tls`.
    pub(super) enum Described {
        Tls(Value),
        Plain(Nil),
    }
}

/// `c:tls()`: returns a table that describes TLS on the connection; nil if it is not encrypted, or if the handshake is
/// not complete.
pub(super) fn describe(call: &mut Call<'_>) -> Result<Described, Fault> {
    let stream = call.object::<Connection>(1)?;
    let description = stream.link().tls().and_then(|tls| tls.describe());
    Ok(description.map_or(Described::Plain(Nil), |found| Described::Tls(table_of(found))))
}

/// Returns the description as a table.
pub(crate) fn table_of(description: Description) -> Value {
    let Description { version, cipher, alpn, server_name, resumed, peer } = description;
    let mut fields = vec![
        ("version", Value::Name(version)),
        ("cipher", Value::String(cipher.into())),
        ("resumed", Value::Boolean(resumed)),
    ];
    let optional = [
        ("alpn", alpn.map(Value::String)),
        ("server_name", server_name.map(|name| Value::String(name.into()))),
        ("peer", peer.map(certificate)),
    ];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    Value::Record(fields)
}

fn certificate(peer: PeerCertificate) -> Value {
    let text = |text: String| Value::String(text.into());
    Value::Record(vec![
        ("subject", text(peer.subject)),
        ("issuer", text(peer.issuer)),
        ("names", Value::List(peer.names.into_iter().map(text).collect())),
        ("serial", text(peer.serial)),
        ("not_before", Value::Integer(peer.not_before)),
        ("not_after", Value::Integer(peer.not_after)),
        ("fingerprint", text(peer.fingerprint)),
        ("der", Value::String(peer.der)),
    ])
}

/// `c:has_unread()`: returns whether a `recv` returns bytes, or the end, without waiting for the socket.
pub(super) fn has_unread(call: &mut Call<'_>) -> Result<bool, Fault> {
    let stream = call.object::<Connection>(1)?;
    Ok(!stream.buffered().is_empty() || stream.link().has_plaintext())
}
