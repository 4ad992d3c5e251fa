//! TLS of a client: options, trusted authorities, sessions.

use super::error::TlsError;
use super::identity::Identity;
use super::pem::Source;
use super::server::{MinVersion, roots};
use super::session::Session;
use super::verifier::{Trust, Verifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::sync::{Arc, LazyLock};

/// The options of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientOptions {
    /// Certificates of authorities to trust instead of those of the system; empty: those of the system.
    pub(crate) ca: Vec<Source>,
    /// Lists of revoked certificates.
    pub(crate) crl: Vec<Source>,
    /// SHA-256 digests of public keys (RFC 7469 section 2.4), one of which the chain must contain; empty: no pins.
    pub(crate) pins: Vec<[u8; 32]>,
    /// The client's own certificate.
    pub(crate) identity: Option<Identity>,
    /// Protocols for ALPN (RFC 7301), the preferred one first; empty: none.
    pub(crate) alpn: Vec<Vec<u8>>,
    /// The name to request and to verify instead of the host's.
    pub(crate) server_name: Option<String>,
    /// Whether any certificate is accepted.
    pub(crate) skips_verification: bool,
    pub(crate) version: MinVersion,
}

/// TLS of outgoing connections. Sessions are resumed between connections to the same server.
#[derive(Debug)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

/// The authorities that the system trusts; Mozilla's if the system has none.
static SYSTEM_ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    // Certificates that cannot be parsed are left out, as other programs do.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Arc::new(roots)
});

impl TlsClient {
    /// Reads the files of the options.
    ///
    /// # Errors
    /// The description of what is wrong with which option.
    pub(crate) fn new(options: &ClientOptions) -> Result<TlsClient, TlsError> {
        let server_name = options.server_name.as_deref().map(server_name).transpose()?;
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Verifier::new(trust(options, &provider)?, options.pins.clone(), provider.clone()));
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(options.version.versions())?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &options.identity {
            Some(identity) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.load()?))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = options.alpn.clone();
        config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
        config.key_log = Arc::new(rustls::KeyLogFile::new());
        Ok(TlsClient { config: Arc::new(config), server_name })
    }

    /// Returns the session of a new connection to `host`, a name or an IP address; `None` if it has neither.
    ///
    /// # Errors
    /// An error if no name can be requested and verified.
    pub(crate) fn session(&self, host: Option<&str>) -> Result<Session, TlsError> {
        let name = match (&self.server_name, host) {
            (Some(name), _) => name.clone(),
            (None, Some(host)) => server_name(host)?,
            (None, None) => {
                return Err(TlsError::new("the name of the server is unknown: set the option server_name"));
            }
        };
        Ok(Session::new(ClientConnection::new(self.config.clone(), name)?.into()))
    }
}

/// The maximum number of servers whose sessions are kept.
const MAX_SESSIONS: usize = 256;

/// Parses the name of a server: a host name or an IP address.
fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    // A name that ends with a dot is absolute; certificates have no dot at the end.
    let name = host.strip_suffix('.').unwrap_or(host);
    let name = name.split_once('%').map_or(name, |(address, _)| address);
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::new(format!("'{host}' is not a valid host name")))
}

fn trust(options: &ClientOptions, provider: &Arc<CryptoProvider>) -> Result<Trust, TlsError> {
    if options.skips_verification {
        return Ok(Trust::Any);
    }
    let roots = match options.ca.is_empty() {
        true => SYSTEM_ROOTS.clone(),
        false => Arc::new(roots(&options.ca, "ca")?),
    };
    let mut builder = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone());
    for list in &options.crl {
        builder = builder.with_crls(list.revocation_lists()?);
    }
    let verifier = builder.build().map_err(|error| TlsError::new(error.to_string()))?;
    Ok(Trust::Authorities(verifier, roots))
}
