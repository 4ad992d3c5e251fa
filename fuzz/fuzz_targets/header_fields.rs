//! See `lio::fuzzing::HEADER_FIELDS`.

#![no_main]

lio_fuzz::target!(HEADER_FIELDS);
