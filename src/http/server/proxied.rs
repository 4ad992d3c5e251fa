//! The data of the PROXY protocol: which connections begin with a header, and the reports of proxies.

use crate::codec::networks::Networks;
use std::net::SocketAddr;

/// Which connections begin with a header.
pub(crate) struct ProxyPolicy {
    /// Whether a connection without a header closes.
    pub(crate) required: bool,
    /// The addresses of the proxies; `None` if every peer is a proxy. A header from another address is not read.
    pub(crate) proxies: Option<Networks>,
}

/// The report of a proxy about the client of a connection.
pub(crate) struct Proxied {
    /// The address of the client.
    pub(crate) client: SocketAddr,
    /// Whether the client has used TLS to the proxy.
    pub(crate) is_tls: bool,
}
