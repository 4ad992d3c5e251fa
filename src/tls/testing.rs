//! Two TLS connections that are joined in memory, and certificates, for tests. The test decides how many bytes each
//! operation of a transport moves.

use super::client::{ClientOptions, TlsClient};
use super::development::{Authority, Issued, Request};
use super::error::TlsError;
use super::identity::Identity;
use super::pem::Source;
use super::server::{MinVersion, ServerOptions, TlsServer};
use super::session::{Handshake, Lower, Session, TlsLink};
use crate::socket::Attempt;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// The bytes that are on their way in one direction.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) bytes: VecDeque<u8>,
    pub(crate) has_ended: bool,
    /// The total number of bytes that were sent.
    pub(crate) total: usize,
}

/// One end of a connection in memory. The elements of `limits` are the numbers of bytes that successive operations may
/// move, over and over again; an operation with the limit 0 would block.
pub(crate) struct End {
    pub(crate) incoming: Rc<RefCell<Wire>>,
    pub(crate) outgoing: Rc<RefCell<Wire>>,
    limits: Vec<usize>,
    next: usize,
    is_closed: bool,
}

impl End {
    /// Sets the limits of the operations from the next one on.
    pub(crate) fn set_limits(&mut self, limits: &[usize]) {
        self.limits = limits.to_vec();
        self.next = 0;
    }

    fn limit(&mut self) -> usize {
        let limit = self.limits[self.next % self.limits.len()];
        self.next += 1;
        limit
    }
}

impl Lower for End {
    fn receive_into(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>> {
        let limit = self.limit();
        let mut wire = self.incoming.borrow_mut();
        if wire.bytes.is_empty() && wire.has_ended {
            return Ok(Attempt::Done(0));
        }
        let count = limit.min(wire.bytes.len()).min(room.len());
        if count == 0 {
            return Ok(Attempt::WouldBlock);
        }
        for (to, byte) in room.iter_mut().zip(wire.bytes.drain(..count)) {
            *to = byte;
        }
        Ok(Attempt::Done(count))
    }
    fn may_read(&self) -> bool {
        let wire = self.incoming.borrow();
        !wire.bytes.is_empty() || wire.has_ended
    }
    fn has_plaintext(&self) -> bool {
        false
    }
    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>> {
        let count = self.limit().min(data.len());
        if self.is_closed || self.outgoing.borrow().has_ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if count == 0 {
            return Ok(Attempt::WouldBlock);
        }
        let mut wire = self.outgoing.borrow_mut();
        wire.bytes.extend(&data[..count]);
        wire.total += count;
        Ok(Attempt::Done(count))
    }
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>> {
        let limit = self.limits[self.next % self.limits.len()];
        let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).take(limit).collect();
        self.send(&all)
    }
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }
    fn held(&self) -> usize {
        0
    }
    fn end_sending(&mut self) -> io::Result<()> {
        self.outgoing.borrow_mut().has_ended = true;
        Ok(())
    }
    fn is_closed(&self) -> bool {
        self.is_closed
    }
    fn close(&mut self) {
        self.is_closed = true;
        self.outgoing.borrow_mut().has_ended = true;
    }
}

/// The limits of an end that moves everything.
pub(crate) const ALL: &[usize] = &[usize::MAX];

/// Returns two ends that are joined.
pub(crate) fn ends() -> (End, End) {
    let (one, other) = (Rc::<RefCell<Wire>>::default(), Rc::<RefCell<Wire>>::default());
    let end = |incoming: &Rc<_>, outgoing: &Rc<_>| End {
        incoming: Rc::clone(incoming),
        outgoing: Rc::clone(outgoing),
        limits: ALL.to_vec(),
        next: 0,
        is_closed: false,
    };
    (end(&one, &other), end(&other, &one))
}

/// Returns a request for a certificate for these names, which is valid now.
pub(crate) fn request(names: &[&str]) -> Request {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let subject = names.first().cloned().unwrap_or_else(|| "test".into());
    Request { names, subject, from: 0, until: 86400 }
}

/// Returns an authority, and the option of a client that trusts it.
pub(crate) fn authority() -> (Authority, Source) {
    let made = Authority::new("test authority", 1).unwrap();
    let trusted = Source::of(made.certificate().as_bytes());
    (made, trusted)
}

pub(crate) fn identity(issued: &Issued) -> Identity {
    Identity { chain: Source::of(issued.certificate.as_bytes()), key: Source::of(issued.key.as_bytes()) }
}

/// Returns the content of a certificate in PEM.
pub(crate) fn parsed(certificate: &str) -> Certificate {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    Certificate::from_der(&der).unwrap()
}

/// Returns the options of a server with these certificates.
pub(crate) fn server_options(identities: Vec<Identity>) -> ServerOptions {
    ServerOptions {
        identities,
        alpn: Vec::new(),
        client_ca: Vec::new(),
        client_optional: false,
        crl: Vec::new(),
        version: MinVersion::Tls12,
    }
}

/// Returns the options of a client that trusts this authority.
pub(crate) fn client_options(ca: &Source) -> ClientOptions {
    ClientOptions {
        ca: vec![ca.clone()],
        crl: Vec::new(),
        pins: Vec::new(),
        identity: None,
        alpn: Vec::new(),
        server_name: None,
        skips_verification: false,
        version: MinVersion::Tls12,
    }
}

/// A client and a server that trust each other.
pub(crate) fn configured() -> (TlsClient, TlsServer) {
    let (authority, trusted) = authority();
    let issued = authority.issue(&request(&["localhost"])).unwrap();
    let server = TlsServer::new(server_options(vec![identity(&issued)])).unwrap();
    (TlsClient::new(&client_options(&trusted)).unwrap(), server)
}

pub(crate) fn joined(client: Session, server: Session) -> (TlsLink<End>, TlsLink<End>) {
    let (one, other) = ends();
    (TlsLink::new(one, client), TlsLink::new(other, server))
}

/// Continues both handshakes until both are complete, or until one fails.
///
/// # Errors
/// The first error of the client, and that of the server.
pub(crate) fn shake(client: &mut TlsLink<End>, server: &mut TlsLink<End>) -> Result<(), [Option<TlsError>; 2]> {
    let mut failures = [None, None];
    for _ in 0..20_000 {
        let mut done = 0;
        for (link, failure) in [(&mut *client, 0), (&mut *server, 1)] {
            match link.handshake() {
                Ok(Handshake::Done) => done += 1,
                Ok(_) => {}
                Err(error) => {
                    failures[failure] = Some(TlsError::of(&error).cloned().expect("an error of TLS"));
                }
            }
        }
        match &failures {
            [None, None] if done == 2 => return Ok(()),
            [None, None] => {}
            // A client of TLS 1.3 is ready before the server has verified its certificate.
            [None, Some(_)] if done == 1 => return Err(failures),
            [Some(_), Some(_)] => return Err(failures),
            _ => {}
        }
        if failures.iter().any(Option::is_some)
            && client.lower().incoming.borrow().bytes.is_empty()
            && server.lower().incoming.borrow().bytes.is_empty()
        {
            return Err(failures);
        }
    }
    panic!("the handshake does not end");
}

/// Receives everything that is available. Returns the bytes, and whether the stream has ended.
pub(crate) fn drain(link: &mut TlsLink<End>, room: usize) -> io::Result<(Vec<u8>, bool)> {
    let (mut all, mut room) = (Vec::new(), vec![0; room]);
    loop {
        let left = link.unread_on_wire();
        match link.receive_into(&mut room)? {
            Attempt::Done(0) => return Ok((all, true)),
            Attempt::Done(count) => all.extend_from_slice(&room[..count]),
            Attempt::WouldBlock if left == link.unread_on_wire() => return Ok((all, false)),
            // The transport was read, and has returned a part of a record.
            Attempt::WouldBlock => {}
        }
    }
}

impl TlsLink<End> {
    /// Returns the number of bytes that the session can read from its transport.
    pub(crate) fn unread_on_wire(&self) -> usize {
        self.lower().incoming.borrow().bytes.len()
    }
}

/// Accepts any certificate.
#[derive(Debug)]
struct AnyCertificate(Vec<SignatureScheme>);

/// Returns a verifier that accepts any certificate, and supports these schemes; none: all.
pub(crate) fn any_certificate(schemes: &[SignatureScheme]) -> Arc<dyn ServerCertVerifier> {
    let all = ring::default_provider().signature_verification_algorithms.supported_schemes();
    Arc::new(AnyCertificate(if schemes.is_empty() { all } else { schemes.to_vec() }))
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self, _: &CertificateDer<'_>, _: &[CertificateDer<'_>], _: &ServerName<'_>, _: &[u8], _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
