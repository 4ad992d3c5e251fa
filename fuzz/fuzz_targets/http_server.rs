//! See `lio::fuzzing::HTTP_SERVER`.

#![no_main]

lio_fuzz::target!(HTTP_SERVER);
