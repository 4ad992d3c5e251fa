//! HTTP: the connections, requests and responses of the server, and the responses that the client
//! receives. `codec` parses heads, fields and bodies.
//!
//! | folder, file | topic | RFC |
//! |---|---|---|
//! | [`server`] | the web server as a state machine | 9112 |
//! | [`router`] | patterns to routes | |
//! | [`files`] | files as responses | 9110 sections 8, 13, 14 |
//! | [`client`] | responses that a client receives | 9112 sections 4, 6 |
//! | [`memory`] | connections without a socket, for tests of an app | |

pub(crate) mod client;
pub(crate) mod files;
pub(crate) mod memory;
pub(crate) mod router;
pub(crate) mod server;
