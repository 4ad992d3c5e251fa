//! The verification of a server's certificate by a client: authorities, pins, and what is wrong.

use super::description::{common_name, is_self_signed};
use super::error::TlsError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::asn1::AnyRef;
use x509_cert::der::{Decode, Encode, Tag};

/// Which certificates a client accepts.
#[derive(Debug)]
pub(super) enum Trust {
    /// Certificates that one of these authorities has issued for the name.
    Authorities(Arc<WebPkiServerVerifier>, Arc<RootCertStore>),
    /// Any certificate.
    Any,
}

/// Verifies certificates of servers.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: Trust,
    pins: Vec<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    pub(super) fn new(trust: Trust, pins: Vec<[u8; 32]>, provider: Arc<CryptoProvider>) -> Verifier {
        Verifier { trust, pins, provider }
    }

    /// Checks that the key of the verified certificate `leaf`, or of an authority of its chain, is pinned (RFC 7469
    /// section 2.6).
    fn check_pins(&self, leaf: &CertificateDer<'_>, others: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
        if self.pins.is_empty() || self.is_pinned(leaf) {
            return Ok(());
        }
        if let Trust::Authorities(_, roots) = &self.trust {
            // A server may send certificates that do not belong to its chain. A pinned certificate does if the leaf
            // would also be valid if it were the only trusted one.
            let mut anchors = RootCertStore::empty();
            let pinned = others.iter().filter(|other| self.is_pinned(other));
            anchors.add_parsable_certificates(pinned.map(|other| other.clone().into_owned()));
            let is_pinned = |root: &&TrustAnchor<'_>| self.pins.contains(&anchor_digest(root));
            anchors.roots.extend(roots.roots.iter().filter(is_pinned).cloned());
            if self.is_issued_by(leaf, others, &anchors, now) {
                return Ok(());
            }
        }
        Err(refusal("no key of the certificate's chain is pinned"))
    }

    fn is_pinned(&self, certificate: &CertificateDer<'_>) -> bool {
        key_digest(certificate).is_some_and(|digest| self.pins.contains(&digest))
    }

    /// Returns whether a chain leads from one of `anchors` to the certificate.
    fn is_issued_by(
        &self, leaf: &CertificateDer<'_>, others: &[CertificateDer<'_>], anchors: &RootCertStore, now: UnixTime,
    ) -> bool {
        let Ok(parsed) = ParsedCertificate::try_from(leaf) else { return false };
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, anchors, others, now, algorithms).is_ok()
    }
}

/// Returns the SHA-256 digest of the public key of an authority.
fn anchor_digest(anchor: &TrustAnchor<'_>) -> [u8; 32] {
    // The anchor has the content of the SubjectPublicKeyInfo without its tag and length.
    let content = AnyRef::new(Tag::Sequence, &anchor.subject_public_key_info);
    let encoded = content.and_then(|content| content.to_der()).unwrap_or_default();
    Sha256::digest(encoded).into()
}

/// Returns the SHA-256 digest of a certificate's public key.
fn key_digest(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let key = certificate.tbs_certificate().subject_public_key_info().to_der().ok()?;
    Some(Sha256::digest(key).into())
}

/// Returns the error of a certificate that is refused for this reason.
fn refusal(text: impl Into<Box<str>>) -> Error {
    let error = OtherError(Arc::new(TlsError::new(text)));
    Error::InvalidCertificate(CertificateError::Other(error))
}

/// Describes why the issuer of a certificate is unknown.
fn unknown_issuer(leaf: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> Error {
    let Ok(certificate) = Certificate::from_der(leaf) else { return CertificateError::UnknownIssuer.into() };
    if is_self_signed(&certificate) {
        return refusal("certificate is self-signed, and is not one of the trusted certificates");
    }
    let issuer = common_name(certificate.tbs_certificate().issuer());
    let hint = match intermediates {
        [] => ", and the server has sent no intermediate certificate",
        _ => "",
    };
    refusal(format!("certificate was issued by an unknown authority, {issuer}{hint}"))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self, leaf: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>], name: &ServerName<'_>, ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Trust::Authorities(verifier, _) = &self.trust {
            match verifier.verify_server_cert(leaf, intermediates, name, ocsp, now) {
                Ok(_) => {}
                // An authority may have the issuer's name, but another kind of key.
                Err(Error::InvalidCertificate(
                    CertificateError::UnknownIssuer
                    | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
                )) => {
                    return Err(unknown_issuer(leaf, intermediates));
                }
                Err(error) => return Err(error),
            }
        }
        self.check_pins(leaf, intermediates, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self, message: &[u8], certificate: &CertificateDer<'_>, signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self, message: &[u8], certificate: &CertificateDer<'_>, signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
