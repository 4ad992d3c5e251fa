//! Descriptions of certificates and of TLS connections, for programs and for messages.

use super::session::{Lower, TlsLink};
use rustls::pki_types::CertificateDer;
use rustls::{Connection, HandshakeKind, ProtocolVersion};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;

/// The properties of a TLS connection.
pub(crate) struct Description {
    /// `"1.2"` or `"1.3"`.
    pub(crate) version: &'static str,
    /// The name of the cipher suite, as IANA lists it.
    pub(crate) cipher: String,
    /// The protocol that was agreed on with ALPN.
    pub(crate) alpn: Option<Vec<u8>>,
    /// The name that the client has requested; known to the server only.
    pub(crate) server_name: Option<String>,
    /// Whether an earlier session was resumed.
    pub(crate) resumed: bool,
    /// The peer's certificate.
    pub(crate) peer: Option<PeerCertificate>,
}

/// A certificate of a peer.
pub(crate) struct PeerCertificate {
    /// The distinguished names (RFC 4514).
    pub(crate) subject: String,
    pub(crate) issuer: String,
    /// The host names and IP addresses.
    pub(crate) names: Vec<String>,
    /// The serial number, in hexadecimal.
    pub(crate) serial: String,
    /// The time of validity, in seconds since 1970.
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    /// The SHA-256 digest of the certificate, in hexadecimal.
    pub(crate) fingerprint: String,
    /// The certificate in DER.
    pub(crate) der: Vec<u8>,
}

impl<L: Lower> TlsLink<L> {
    /// Describes the connection, whose handshake must be complete; `None` if it is not.
    pub(crate) fn describe(&self) -> Option<Description> {
        let session = self.tls();
        if session.is_handshaking() {
            return None;
        }
        let version = match session.protocol_version()? {
            ProtocolVersion::TLSv1_3 => "1.3",
            _ => "1.2",
        };
        let server_name = match session {
            Connection::Server(server) => server.server_name().map(str::to_owned),
            Connection::Client(_) => None,
        };
        Some(Description {
            version,
            cipher: session.negotiated_cipher_suite().map(cipher_name).unwrap_or_default(),
            alpn: session.alpn_protocol().map(<[u8]>::to_vec),
            server_name,
            resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
            peer: session.peer_certificates().and_then(|chain| chain.first()).and_then(PeerCertificate::of),
        })
    }
}

fn cipher_name(suite: rustls::SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    // rustls marks the suites of TLS 1.3 in their names; IANA does not.
    name.replacen("TLS13_", "TLS_", 1)
}

impl PeerCertificate {
    fn of(der: &CertificateDer<'_>) -> Option<PeerCertificate> {
        let certificate = Certificate::from_der(der).ok()?;
        let content = certificate.tbs_certificate();
        let validity = content.validity();
        let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs() as i64;
        Some(PeerCertificate {
            subject: content.subject().to_string(),
            issuer: content.issuer().to_string(),
            names: alternative_names(&certificate),
            serial: hex(content.serial_number().as_bytes()),
            not_before: seconds(validity.not_before),
            not_after: seconds(validity.not_after),
            fingerprint: hex(&Sha256::digest(der)),
            der: der.to_vec(),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(bytes)
}

/// Returns the subject's alternative names of a certificate (RFC 5280 section 4.2.1.6).
fn general_names(certificate: &Certificate) -> Vec<GeneralName> {
    let found = certificate.tbs_certificate().get_extension::<SubjectAltName>();
    found.ok().flatten().map(|(_, names)| names.0).unwrap_or_default()
}

/// Returns the host names of a certificate.
pub(super) fn dns_names(certificate: &Certificate) -> Vec<String> {
    let names = general_names(certificate).into_iter();
    names.filter_map(|name| if let GeneralName::DnsName(name) = name { Some(name.to_string()) } else { None }).collect()
}

/// Returns the host names and IP addresses of a certificate.
fn alternative_names(certificate: &Certificate) -> Vec<String> {
    let text = |name| match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => ip(bytes.as_bytes()).map(|ip| ip.to_string()),
        _ => None,
    };
    general_names(certificate).into_iter().filter_map(text).collect()
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// Returns whether a certificate was issued by its own subject.
pub(super) fn is_self_signed(certificate: &Certificate) -> bool {
    let content = certificate.tbs_certificate();
    content.subject().to_der().ok() == content.issuer().to_der().ok()
}

/// Returns the common name in a distinguished name, or the whole name if it has none.
pub(super) fn common_name(name: &Name) -> String {
    let text = name.to_string();
    let found = text.split(',').find_map(|part| part.trim().strip_prefix("CN="));
    found.map_or_else(|| text.clone(), |found| format!("'{found}'"))
}
