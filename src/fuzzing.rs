//! The targets of the fuzzers in `fuzz/`, and random input that is divided into numbers and bytes. This module exists only
//! in tests and with the feature `fuzzing`.
//!
//! A target gets any bytes, and panics if an invariant is violated. It returns a value that describes what has happened,
//! so that the unit tests can check that its seeds reach what they are made for.

#[cfg(not(feature = "module"))]
mod tasks;

use crate::codec::websocket::fuzz as websocket;
use crate::event::fuzz as event;
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
