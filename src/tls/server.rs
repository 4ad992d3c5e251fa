//! TLS of a server: options, certificates that are read again when their files change, sessions.

use super::error::TlsError;
use super::identity::{Certificates, Identity};
use super::pem::Source;
use super::session::Session;
use super::tickets;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The default of the minimum time between two checks whether the files have changed. There is no check without a new connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The options of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerOptions {
    /// At least one; the first is the default.
    pub(crate) identities: Vec<Identity>,
    /// Protocols for ALPN (RFC 7301), the preferred one first; empty: none.
    pub(crate) alpn: Vec<Vec<u8>>,
    /// The authorities of client certificates; empty: clients need no certificate.
    pub(crate) client_ca: Vec<Source>,
    /// Whether clients without a certificate are accepted too.
    pub(crate) client_optional: bool,
    /// Lists of revoked client certificates.
    pub(crate) crl: Vec<Source>,
    pub(crate) version: MinVersion,
}

/// The lowest accepted version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MinVersion {
    Tls12,
    Tls13,
}

static ONLY_TLS13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

impl MinVersion {
    pub(super) fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            MinVersion::Tls12 => rustls::ALL_VERSIONS,
            MinVersion::Tls13 => &ONLY_TLS13,
        }
    }
}

/// TLS of the connections that one listener accepts.
pub(crate) struct TlsServer {
    options: ServerOptions,
    config: RefCell<Arc<ServerConfig>>,
    /// When the files were last changed, as far as this server knows.
    modified: RefCell<Vec<Option<SystemTime>>>,
    checked: Cell<Instant>,
    check_interval: Cell<Duration>,
}

impl TlsServer {
    /// Reads the files of the options.
    ///
    /// # Errors
    /// The description of what is wrong with which option.
    pub(crate) fn new(options: ServerOptions) -> Result<TlsServer, TlsError> {
        let modified = modified(&options);
        let config = RefCell::new(configure(&options)?);
        Ok(TlsServer {
            options,
            config,
            modified: RefCell::new(modified),
            checked: Cell::new(Instant::now()),
            check_interval: Cell::new(CHECK_INTERVAL),
        })
    }

    /// Reads the files again, for later connections.
    ///
    /// # Errors
    /// As [`TlsServer::new`]; the server then keeps the certificates that it has.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let modified = modified(&self.options);
        self.checked.set(Instant::now());
        // A file with an error is not read again until it changes.
        self.modified.replace(modified);
        self.config.replace(configure(&self.options)?);
        Ok(())
    }

    /// Sets the minimum time between two checks whether the files have changed; for tests.
    pub(crate) fn set_check_interval(&self, interval: Duration) {
        self.check_interval.set(interval);
    }

    /// Reads the files again if they have changed. Checks the files at most once in the check interval.
    ///
    /// # Errors
    /// As [`TlsServer::reload`].
    pub(crate) fn reload_if_changed(&self) -> Result<bool, TlsError> {
        if self.checked.get().elapsed() < self.check_interval.get() {
            return Ok(false);
        }
        self.checked.set(Instant::now());
        if *self.modified.borrow() == modified(&self.options) {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }

    /// Returns the session of a new connection.
    pub(crate) fn session(&self) -> Result<Session, TlsError> {
        Ok(Session::new(ServerConnection::new(self.config.borrow().clone())?.into()))
    }
}

/// Returns when each file of the options was last changed.
fn modified(options: &ServerOptions) -> Vec<Option<SystemTime>> {
    let identities = options.identities.iter().flat_map(|identity| [&identity.chain, &identity.key]);
    identities.chain(&options.client_ca).chain(&options.crl).map(Source::modified).collect()
}

fn configure(options: &ServerOptions) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let certificates = Certificates::load(&options.identities)?;
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(options.version.versions())?;
    let builder = match verifier(options, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(certificates));
    config.alpn_protocols = options.alpn.clone();
    config.ticketer = tickets::shared(&format!("{options:?}"), options.client_ca.iter().chain(&options.crl))?;
    // Clients keep the state of their sessions, in tickets.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // The strongest cipher suite that both sides support, not the client's favourite.
    config.ignore_client_order = true;
    config.key_log = Arc::new(rustls::KeyLogFile::new());
    Ok(Arc::new(config))
}

fn verifier(
    options: &ServerOptions, provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    if options.client_ca.is_empty() {
        return Ok(None);
    }
    let roots = roots(&options.client_ca, "client_ca")?;
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    for list in &options.crl {
        builder = builder.with_crls(list.revocation_lists()?);
    }
    if options.client_optional {
        builder = builder.allow_unauthenticated();
    }
    let verifier = builder.build().map_err(|error| TlsError::new(error.to_string()))?;
    Ok(Some(verifier))
}

/// Reads the certificates of authorities from `sources`, the values of the option `what`.
pub(super) fn roots(sources: &[Source], what: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for source in sources {
        for certificate in source.certificates(what)? {
            roots.add(certificate).map_err(|error| source.error(what, &TlsError::from(error).to_string()))?;
        }
    }
    Ok(roots)
}
