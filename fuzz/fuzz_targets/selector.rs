//! See `lio::fuzzing::SELECTOR`.

#![no_main]

lio_fuzz::target!(SELECTOR);
