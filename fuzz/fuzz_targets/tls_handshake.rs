//! See `lio::fuzzing::TLS_HANDSHAKE`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lio::fuzzing::TLS_HANDSHAKE;

fuzz_target!(init: lio_fuzz::write(&TLS_HANDSHAKE), |data: &[u8]| (TLS_HANDSHAKE.run)(data));
