//! HTTP over streams: the server's connections and requests, the client's answers, and what Lua sees of them. Heads,
//! fields and bodies are parsed by `codec`.
//!
//! | file | topic | RFC |
//! |---|---|---|
//! | [`router`] | patterns to routes | |
//! | [`server`] | the web server as a state machine, which the files below move to | 9112 |
//! | `exchange` | one connection's requests and answers on its stream | 9112 section 9 |
//! | `client` | the other side: responses as a client reads them | 9112 sections 4, 6 |
//! | `connection`, `state`, `intake`, `step` | an exchange as Lua holds it, and its methods | |
//! | `keeper`, `gate`, `life` | a server's connections: how they come, wait and go | |
//! | `due`, `serve`, `finish`, `tools` | from request to request, calling handlers | |
//! | [`files`] | files as answers | 9110 sections 8, 13, 14 |
//! | `request`, `list`, `lua` | the rest of what Lua sees: `lio.http` | |

#![allow(dead_code)] // bridge: the raw server, which nothing but `http.exchange` uses any more.

pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod due;
pub(crate) mod exchange;
pub(crate) mod files;
mod finish;
mod gate;
mod intake;
mod keeper;
mod life;
mod list;
pub(crate) mod request;
pub(crate) mod router;
mod serve;
pub(crate) mod server;
mod state;
mod step;
mod tools;
