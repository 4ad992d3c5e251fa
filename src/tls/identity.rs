//! Certificates with their keys, and which of them a server presents.

use super::error::TlsError;
use super::pem::Source;
use rustc_hash::FxHashMap;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// A certificate chain and its private key.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) chain: Source,
    pub(crate) key: Source,
}

impl Identity {
    /// Reads the chain and the key, and checks that they belong together.
    pub(super) fn load(&self) -> Result<CertifiedKey, TlsError> {
        let chain = self.chain.certificates("cert")?;
        let key = any_supported_type(&self.key.key()?).map_err(|error| self.key.error("key", &error.to_string()))?;
        let identity = CertifiedKey::new(chain, key);
        match identity.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(identity),
            Err(rustls::Error::InconsistentKeys(_)) => {
                Err(self.key.error("key", "the key does not belong to the certificate"))
            }
            Err(error) => Err(self.chain.error("cert", &error.to_string())),
        }
    }
}

/// The certificates of a server. A client gets a certificate for the name that it requests; without a name, or if no
/// certificate has this name, the first one.
#[derive(Debug)]
pub(super) struct Certificates {
    all: Vec<Arc<CertifiedKey>>,
    /// The numbers of the certificates with a name, in lower case.
    exact: FxHashMap<Box<str>, Vec<usize>>,
    /// The numbers of the certificates for `*.name`, by `name`.
    wildcard: FxHashMap<Box<str>, Vec<usize>>,
}

impl Certificates {
    /// Reads the certificates of `identities`, of which there must be at least one.
    pub(super) fn load(identities: &[Identity]) -> Result<Certificates, TlsError> {
        let mut loaded = Certificates { all: Vec::new(), exact: FxHashMap::default(), wildcard: FxHashMap::default() };
        for identity in identities {
            let certified = identity.load()?;
            let leaf = Certificate::from_der(&certified.cert[0]);
            let leaf = leaf.map_err(|error| identity.chain.error("cert", &error.to_string()))?;
            for name in super::description::dns_names(&leaf) {
                loaded.add_name(&name);
            }
            loaded.all.push(Arc::new(certified));
        }
        Ok(loaded)
    }

    /// Records that the certificate that is added next has this name.
    fn add_name(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        let number = self.all.len();
        match name.strip_prefix("*.") {
            Some(rest) => self.wildcard.entry(rest.into()).or_default().push(number),
            None => self.exact.entry(name.into()).or_default().push(number),
        }
    }

    /// Returns the numbers of the certificates for a name, the best first.
    fn for_name(&self, name: &str) -> &[usize] {
        let name = name.to_ascii_lowercase();
        let exact = self.exact.get(name.as_str());
        let wildcard = || self.wildcard.get(name.split_once('.')?.1);
        exact.or_else(wildcard).map_or(&[], |found| found)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().map_or(&[][..], |name| self.for_name(name));
        let any = 0..self.all.len();
        // The client must support the kind of key, such as RSA or ECDSA.
        let is_usable = |number: &usize| self.all[*number].key.choose_scheme(hello.signature_schemes()).is_some();
        // If no certificate is usable, rustls refuses the first one with the right alert: handshake_failure.
        let found = named.iter().copied().chain(any).find(is_usable).unwrap_or(0);
        self.all.get(found).cloned()
    }
}
