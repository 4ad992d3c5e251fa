//! See `lio::fuzzing::FILE_PATH`.

#![no_main]

lio_fuzz::target!(FILE_PATH);
