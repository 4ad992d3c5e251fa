//! The reason why a message is refused, for all parsers.

/// A refusal of a request: the status to respond with before the connection is closed.
///
/// Only the status is part of the contract; the text is for the log and for the body of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reject {
    /// The status code of the response, 400..=599.
    pub(crate) status: u16,
    /// The fault in a few words.
    pub(crate) reason: &'static str,
}

impl Reject {
    /// Returns a refusal with this status code (400..=599).
    pub(crate) const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }

    /// Returns a refusal with 400, for a malformed request.
    pub(crate) const fn bad(reason: &'static str) -> Self {
        Self::new(400, reason)
    }
}
