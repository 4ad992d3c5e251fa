//! See `lio::fuzzing::CLIENT_RESPONSE`.

#![no_main]

lio_fuzz::target!(CLIENT_RESPONSE);
