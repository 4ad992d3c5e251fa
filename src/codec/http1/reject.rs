//! Refusals of messages, for all parsers.

/// A refusal of a message. If the message is a request, a response with `status` is sent before the connection is
/// closed.
///
/// Only the status is part of the contract; the reason is for the log and for the body of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reject {
    /// The status code of the response, 400..=599.
    pub(crate) status: u16,
    /// A short description of the fault.
    pub(crate) reason: &'static str,
}

impl Reject {
    /// Returns a refusal with this status code (400..=599).
    pub(crate) const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }

    /// Returns a refusal with status 400, for a malformed message.
    pub(crate) const fn bad(reason: &'static str) -> Self {
        Self::new(400, reason)
    }
}
