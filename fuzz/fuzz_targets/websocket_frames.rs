//! See `lio::fuzzing::WEBSOCKET_FRAMES`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lio::fuzzing::WEBSOCKET_FRAMES;

fuzz_target!(init: lio_fuzz::write(&WEBSOCKET_FRAMES), |data: &[u8]| (WEBSOCKET_FRAMES.run)(data));
