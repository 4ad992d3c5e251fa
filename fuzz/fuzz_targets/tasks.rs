//! See `lio::fuzzing::TASKS`.

#![no_main]

lio_fuzz::target!(TASKS);
