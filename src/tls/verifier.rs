//! The verification of a server's certificate by a client: authorities, pins, and what is wrong.

use super::description::{common_name, is_self_signed};
use super::error::TlsError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

/// Which certificates a client accepts.
#[derive(Debug)]
pub(super) enum Trust {
    /// Certificates that an authority has issued for the name.
    Authorities(Arc<WebPkiServerVerifier>),
    /// Any certificate.
    Any,
}

/// Verifies certificates of servers.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: Trust,
    pins: Vec<[u8; 32]>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(trust: Trust, pins: Vec<[u8; 32]>, provider: &CryptoProvider) -> Verifier {
        Verifier { trust, pins, algorithms: provider.signature_verification_algorithms }
    }

    /// Checks that the chain contains a pinned key.
    fn check_pins(&self, chain: &[&CertificateDer<'_>]) -> Result<(), Error> {
        if self.pins.is_empty() || chain.iter().any(|certificate| self.is_pinned(certificate)) {
            return Ok(());
        }
        Err(refusal("no key of the certificate's chain is pinned"))
    }

    fn is_pinned(&self, certificate: &CertificateDer<'_>) -> bool {
        key_digest(certificate).is_some_and(|digest| self.pins.contains(&digest))
    }
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
        if let Trust::Authorities(verifier) = &self.trust {
            match verifier.verify_server_cert(leaf, intermediates, name, ocsp, now) {
                Ok(_) => {}
                Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                    return Err(unknown_issuer(leaf, intermediates));
                }
                Err(error) => return Err(error),
            }
            let chain: Vec<_> = std::iter::once(leaf).chain(intermediates).collect();
            self.check_pins(&chain)?;
        } else {
            // The peer need not have the keys of the other certificates.
            self.check_pins(&[leaf])?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self, message: &[u8], certificate: &CertificateDer<'_>, signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self, message: &[u8], certificate: &CertificateDer<'_>, signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
