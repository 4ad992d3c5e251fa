//! See `lio::fuzzing::TASKS`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lio::fuzzing::TASKS;

fuzz_target!(init: lio_fuzz::write(&TASKS), |data: &[u8]| (TASKS.run)(data));
