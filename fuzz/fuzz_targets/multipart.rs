//! See `lio::fuzzing::MULTIPART`.

#![no_main]

lio_fuzz::target!(MULTIPART);
