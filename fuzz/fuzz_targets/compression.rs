//! See `lio::fuzzing::COMPRESSION`.

#![no_main]

lio_fuzz::target!(COMPRESSION);
