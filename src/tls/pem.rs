//! Certificates, keys and revocation lists in PEM (RFC 7468), from files or from texts.

use super::error::TlsError;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::SystemTime;

/// The maximum size of a file, in bytes. A larger file is not a certificate.
const MAX_FILE: u64 = 16 << 20;

/// Where a certificate, a key or a list comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File(PathBuf),
    Text(Vec<u8>),
}

impl Source {
    /// Returns the source that an option names: a text in PEM, or the path of a file.
    pub(crate) fn of(option: &[u8]) -> Source {
        match memchr::memmem::find(option, b"-----BEGIN ") {
            Some(_) => Source::Text(option.to_vec()),
            None => Source::File(PathBuf::from(std::ffi::OsStr::from_bytes(option))),
        }
    }

    /// Returns the time of the file's last change; `None` for a text, or if the file does not exist.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        match self {
            Source::File(path) => fs::metadata(path).ok()?.modified().ok(),
            Source::Text(_) => None,
        }
    }

    /// Returns all certificates, in order; at least one.
    pub(super) fn certificates(&self, what: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        self.all(what, "certificate")
    }

    /// Returns all revocation lists; at least one.
    pub(super) fn revocation_lists(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
        self.all("crl", "revocation list (X509 CRL)")
    }

    /// Returns the private key.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let text = self.read("key")?;
        let is_encrypted =
            contains(&text, b"BEGIN ENCRYPTED PRIVATE KEY") || contains(&text, b"Proc-Type: 4,ENCRYPTED");
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            _ if is_encrypted => {
                self.error("key", "the key is encrypted; decrypt it first, for example with `openssl pkey`")
            }
            pem::Error::NoItemsFound => self.error("key", "there is no private key in PEM"),
            error => self.error("key", &error.to_string()),
        })
    }

    fn all<T: PemObject>(&self, what: &str, kind: &str) -> Result<Vec<T>, TlsError> {
        let text = self.read(what)?;
        let all: Result<Vec<T>, pem::Error> = T::pem_slice_iter(&text).collect();
        let all = all.map_err(|error| self.error(what, &error.to_string()))?;
        if all.is_empty() { Err(self.error(what, &format!("there is no {kind} in PEM"))) } else { Ok(all) }
    }

    fn read(&self, what: &str) -> Result<Vec<u8>, TlsError> {
        match self {
            Source::Text(text) => Ok(text.clone()),
            Source::File(path) => read_file(path).map_err(|error| self.error(what, &error.to_string())),
        }
    }

    /// Returns the content; nothing if the file cannot be read.
    pub(super) fn content(&self) -> Vec<u8> {
        self.read("").unwrap_or_default()
    }

    /// Returns an error about the source, which is the option `what`.
    pub(super) fn error(&self, what: &str, text: &str) -> TlsError {
        TlsError::new(match self {
            Source::File(path) => format!("{what} '{}': {text}", path.display()),
            Source::Text(_) => format!("{what}: {text}"),
        })
    }
}

fn read_file(path: &PathBuf) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a file"));
    }
    if metadata.len() > MAX_FILE {
        return Err(io::Error::other("the file is too large"));
    }
    fs::read(path)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}
