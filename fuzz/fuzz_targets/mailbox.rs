//! See `lio::fuzzing::MAILBOX`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lio::fuzzing::MAILBOX;

fuzz_target!(init: lio_fuzz::write(&MAILBOX), |data: &[u8]| (MAILBOX.run)(data));
