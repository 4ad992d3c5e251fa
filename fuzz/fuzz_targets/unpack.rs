//! See `lio::fuzzing::UNPACK`.

#![no_main]

lio_fuzz::target!(UNPACK);
