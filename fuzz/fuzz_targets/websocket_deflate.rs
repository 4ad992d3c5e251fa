//! See `lio::fuzzing::WEBSOCKET_DEFLATE`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lio::fuzzing::WEBSOCKET_DEFLATE;

fuzz_target!(init: lio_fuzz::write(&WEBSOCKET_DEFLATE), |data: &[u8]| (WEBSOCKET_DEFLATE.run)(data));
