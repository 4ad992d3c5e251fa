//! Certificates made on the spot, for development and for tests: signed by themselves, or by an authority that exists
//! only in this process.

use super::error::TlsError;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use std::time::{Duration, SystemTime};

/// The content of a certificate.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Host names, with `*.` for any first label, and IP addresses.
    pub(crate) names: Vec<String>,
    /// The common name of the subject.
    pub(crate) subject: String,
    /// When the certificate becomes valid and when it expires, in seconds from now; negative numbers are in the past.
    pub(crate) from: i64,
    pub(crate) until: i64,
}

/// A certificate and its private key, in PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// An authority, which signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Creates an authority with this name, valid for `days` from now.
    pub(crate) fn new(name: &str, days: u32) -> Result<Authority, TlsError> {
        let until = i64::from(days) * 86400;
        let request = Request { names: Vec::new(), subject: name.to_owned(), from: 0, until };
        let mut content = content(&request)?;
        content.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        content.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(failed)?;
        Ok(Authority(CertifiedIssuer::self_signed(content, key).map_err(failed)?))
    }

    /// Returns the authority's own certificate, in PEM.
    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Creates a key and a certificate for it, which both servers and clients can use.
    pub(crate) fn issue(&self, request: &Request) -> Result<Issued, TlsError> {
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = leaf(request)?.signed_by(&key, &self.0).map_err(failed)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

#[cfg(test)]
impl Authority {
    /// Returns a list that revokes the certificates in `revoked`, texts in PEM.
    pub(super) fn revocation_list(&self, revoked: &[&str]) -> String {
        use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
        let serial = |text: &&str| {
            let certificate = super::testing::parsed(text);
            certificate.tbs_certificate().serial_number().as_bytes().to_vec()
        };
        let revoke = |text| RevokedCertParams {
            serial_number: SerialNumber::from(serial(text)),
            revocation_time: at(-10).into(),
            reason_code: None,
            invalidity_date: None,
        };
        let content = CertificateRevocationListParams {
            this_update: at(-10).into(),
            next_update: at(86400).into(),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(revoke).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        content.signed_by(&self.0).unwrap().pem().unwrap()
    }

    /// Creates an authority that this authority has signed. Returns it and its certificate, in PEM.
    pub(super) fn intermediate(&self, name: &str) -> (Authority, String) {
        let request = Request { names: Vec::new(), subject: name.to_owned(), from: 0, until: 86400 };
        let mut content = content(&request).unwrap();
        content.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        content.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        content.use_authority_key_identifier_extension = true;
        let issuer = CertifiedIssuer::signed_by(content, KeyPair::generate().unwrap(), &self.0).unwrap();
        let certificate = issuer.pem();
        (Authority(issuer), certificate)
    }
}

/// Creates a key and a certificate that is signed with the key itself.
pub(crate) fn self_signed(request: &Request) -> Result<Issued, TlsError> {
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = leaf(request)?.self_signed(&key).map_err(failed)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn leaf(request: &Request) -> Result<CertificateParams, TlsError> {
    let mut content = content(request)?;
    content.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    content.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    content.use_authority_key_identifier_extension = true;
    Ok(content)
}

fn content(request: &Request) -> Result<CertificateParams, TlsError> {
    let mut content = CertificateParams::new(request.names.clone()).map_err(failed)?;
    content.distinguished_name = DistinguishedName::new();
    content.distinguished_name.push(DnType::CommonName, request.subject.clone());
    content.not_before = at(request.from).into();
    content.not_after = at(request.until).into();
    Ok(content)
}

/// Returns the time in `seconds` from now; at the limits of what a certificate can express, the limit.
fn at(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs().min(MAX_SECONDS));
    let now = SystemTime::now();
    if seconds < 0 { now - distance } else { now + distance }
}

/// A hundred years.
const MAX_SECONDS: u64 = 100 * 365 * 86400;

fn failed(error: rcgen::Error) -> TlsError {
    TlsError::new(error.to_string())
}
