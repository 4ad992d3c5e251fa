//! The keys of session tickets (RFC 8446 section 4.6.1, RFC 5077), shared by the workers of a process.
//!
//! A client that returns to another worker can resume its session there. The keys change by themselves every few hours.
//! Servers share keys only if they have the same options: otherwise, a session of a server that accepts any client
//! could be resumed at a server that requires a certificate. The certificate of a client is not verified again when its
//! session is resumed, so the keys also depend on the content of the files with which clients are verified.

use super::error::TlsError;
use super::pem::Source;
use rustc_hash::FxHashMap;
use rustls::crypto::ring;
use rustls::server::ProducesTickets;
use sha2::{Digest, Sha256};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// The keys by the digest of the options.
type Ticketers = FxHashMap<[u8; 32], Weak<dyn ProducesTickets>>;

static TICKETERS: LazyLock<Mutex<Ticketers>> = LazyLock::new(Mutex::default);

/// Returns the keys for servers with these options, in a text that contains all of them. `verifying`: the files with which
/// clients are verified.
pub(super) fn shared<'s>(
    options: &str, verifying: impl Iterator<Item = &'s Source>,
) -> Result<Arc<dyn ProducesTickets>, TlsError> {
    let mut digest = Sha256::new_with_prefix(options);
    for source in verifying {
        digest.update(Sha256::digest(source.content()));
    }
    let key: [u8; 32] = digest.finalize().into();
    let mut all = TICKETERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = all.get(&key).and_then(Weak::upgrade) {
        return Ok(found);
    }
    all.retain(|_, ticketer| ticketer.strong_count() > 0);
    let made = ring::Ticketer::new()?;
    all.insert(key, Arc::downgrade(&made));
    Ok(made)
}
