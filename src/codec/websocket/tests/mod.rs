//! Tests of the WebSocket codec that need several of its files.
