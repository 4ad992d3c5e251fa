//! HTTP over sockets: the server's connections, requests and answers, and the client's responses. Heads, fields and bodies
//! are parsed by `codec`.
//!
//! | folder | topic | RFC |
//! |---|---|---|
//! | [`server`] | the web server as a state machine | 9112 |
//! | [`router`] | patterns to routes | |
//! | [`files`] | files as answers | 9110 sections 8, 13, 14 |
//! | [`client`] | the other side: responses as a client reads them | 9112 sections 4, 6 |

pub(crate) mod client;
pub(crate) mod files;
pub(crate) mod router;
pub(crate) mod server;
