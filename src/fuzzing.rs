//! The targets of the fuzzers in `fuzz/`, and random input that is divided into numbers and bytes. This module exists only
//! in tests and with the feature `fuzzing`.
//!
//! A target gets any bytes, and panics if an invariant is violated. It returns a value that describes what has happened,
//! so that the unit tests can check that its seeds reach what they are made for.

use crate::codec::websocket::fuzz as websocket;
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
