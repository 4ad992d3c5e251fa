//! See `lio::fuzzing::HTTP_SERVER`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lio::fuzzing::HTTP_SERVER;

fuzz_target!(init: lio_fuzz::write(&HTTP_SERVER), |data: &[u8]| (HTTP_SERVER.run)(data));
