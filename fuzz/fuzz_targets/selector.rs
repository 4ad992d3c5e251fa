//! See `lio::fuzzing::SELECTOR`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lio::fuzzing::SELECTOR;

fuzz_target!(init: lio_fuzz::write(&SELECTOR), |data: &[u8]| (SELECTOR.run)(data));
