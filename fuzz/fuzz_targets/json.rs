//! See `lio::fuzzing::JSON`.

#![no_main]

lio_fuzz::target!(JSON);
