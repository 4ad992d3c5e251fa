//! See `lio::fuzzing::CHUNKED_BODY`.

#![no_main]

lio_fuzz::target!(CHUNKED_BODY);
