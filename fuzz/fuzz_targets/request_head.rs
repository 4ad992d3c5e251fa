//! See `lio::fuzzing::REQUEST_HEAD`.

#![no_main]

lio_fuzz::target!(REQUEST_HEAD);
