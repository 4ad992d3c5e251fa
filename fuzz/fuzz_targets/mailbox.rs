//! See `lio::fuzzing::MAILBOX`.

#![no_main]

lio_fuzz::target!(MAILBOX);
