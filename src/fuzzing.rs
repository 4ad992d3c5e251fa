//! The targets of the fuzzers in `fuzz/`, and random input that is divided into numbers and bytes. This module exists only
//! in tests and with the feature `fuzzing`.
//!
//! A target gets any bytes, and panics if an invariant is violated. It returns a value that describes what has happened,
//! so that the unit tests can check that its seeds reach what they are made for.

#[cfg(not(feature = "module"))]
mod tasks;

use crate::codec::compression::fuzz as compression;
use crate::codec::fuzz_fields as fields;
use crate::codec::http1::fuzz::{chunked_body, request_head};
use crate::codec::json::fuzz as json;
use crate::codec::multipart::fuzz as multipart;
use crate::codec::pack::fuzz as pack;
use crate::codec::websocket::fuzz as websocket;
use crate::event::fuzz as event;
use crate::http::client::fuzz as client;
use crate::http::files::fuzz as files;
use crate::http::server::fuzz as http_server;
use crate::ltask::fuzz as ltask;
use crate::tls::fuzz as tls;

/// A target: its name, its function and its seeds.
pub struct Target {
    /// The name of the file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Runs the target with one input.
    pub run: fn(&[u8]),
    /// Returns inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Frames of a WebSocket peer, in any pieces.
pub const WEBSOCKET_FRAMES: Target =
    Target { name: "websocket_frames", run: |data| _ = websocket::frames(data), seeds: websocket::frames_seeds };

/// Compressed messages of WebSocket.
pub const WEBSOCKET_DEFLATE: Target =
    Target { name: "websocket_deflate", run: |data| _ = websocket::deflate(data), seeds: websocket::deflate_seeds };

/// Bytes of a TLS peer, and TLS connections whose records an attacker changes.
pub const TLS_HANDSHAKE: Target =
    Target { name: "tls_handshake", run: |data| _ = tls::handshake(data), seeds: tls::seeds };

// The state machines.

/// The HTTP server as a whole: several clients, handlers and time.
pub const HTTP_SERVER: Target =
    Target { name: "http_server", run: |data| _ = http_server::machine(data), seeds: http_server::seeds };

/// Tasks in a VM: forks, waits, wakeups, errors, kills and nested coroutines.
#[cfg(not(feature = "module"))]
pub const TASKS: Target = Target { name: "tasks", run: |data| _ = tasks::tasks(data), seeds: tasks::seeds };

/// The selector on real descriptors, compared with poll(2), and the timers.
pub const SELECTOR: Target = Target { name: "selector", run: event::readiness, seeds: event::seeds };

/// The mailbox and the tables of the scheduler.
pub const MAILBOX: Target = Target { name: "mailbox", run: |data| _ = ltask::scheduler(data), seeds: ltask::seeds };

/// Requests that arrive one after another, in any pieces.
pub const REQUEST_HEAD: Target =
    Target { name: "request_head", run: |data| _ = request_head::request_head(data), seeds: request_head::seeds };

/// Chunked bodies, in any pieces.
pub const CHUNKED_BODY: Target =
    Target { name: "chunked_body", run: |data| _ = chunked_body::chunked_body(data), seeds: chunked_body::seeds };

/// Responses to the requests of a client, in any pieces.
pub const CLIENT_RESPONSE: Target =
    Target { name: "client_response", run: |data| _ = client::client_response(data), seeds: client::seeds };

/// Forms with files, in any pieces.
pub const MULTIPART: Target =
    Target { name: "multipart", run: |data| _ = multipart::multipart(data), seeds: multipart::seeds };

/// Paths and queries of URLs, and the files that they name.
pub const FILE_PATH: Target = Target { name: "file_path", run: |data| _ = files::file_path(data), seeds: files::seeds };

/// Small fields of messages, and the PROXY protocol.
pub const HEADER_FIELDS: Target =
    Target { name: "header_fields", run: |data| _ = fields::header_fields(data), seeds: fields::seeds };

/// JSON texts.
pub const JSON: Target = Target { name: "json", run: |data| _ = json::json(data), seeds: json::seeds };

/// Packed Lua values.
pub const UNPACK: Target = Target { name: "unpack", run: |data| _ = pack::unpack(data), seeds: pack::seeds };

/// Compressed bodies, in any pieces.
pub const COMPRESSION: Target =
    Target { name: "compression", run: |data| _ = compression::compression(data), seeds: compression::seeds };
