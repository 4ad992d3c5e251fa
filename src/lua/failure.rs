//! Failures that are no errors, as Lua sees them: `nil, message, code`.
//!
//! The message names the call and the system's text, the code is one short word that a program can test.

use super::function::Flow;
use super::returns::sealed::Sealed;
use super::returns::{Nil, Push, Pusher, Returns};
use crate::raw;
use std::io;

/// What a call of the system, or one of ours, failed for. It takes little room where it is one of several results, since
/// most calls do not fail.
pub(crate) struct Failure(Box<raw::Fault>);

/// The message of a failure: `call: what happened`.
pub(crate) struct Message(Box<raw::Fault>);

impl Failure {
    /// What the system said.
    #[cold]
    pub(crate) fn io(call: &'static str, error: &io::Error) -> Self {
        Failure(Box::new(raw::Fault::io(call, error)))
    }

    /// A failure that is ours.
    #[cold]
    pub(crate) fn word(call: &'static str, message: &'static str, code: &'static str) -> Self {
        Failure(Box::new(raw::Fault::word(call, message, code)))
    }

    pub(crate) fn message(self) -> Message {
        Message(self.0)
    }

    /// The short word for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.0.code()
    }
}

impl Sealed for Message {}
impl Push for Message {
    #[cold]
    fn push(&mut self, to: Pusher<'_>) {
        super::returns::push_bytes(self.0.message().as_bytes(), to);
    }
}

impl Returns for Failure {
    #[cold]
    fn give(self, to: Pusher<'_>) -> Flow {
        let code = self.code();
        (Nil, self.message(), code).give(to)
    }
}
