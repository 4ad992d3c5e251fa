//! Targets of fuzzers: `request_head` and `chunked_body`. The target `client_response` is in `http/client`.

pub(crate) mod chunked_body;
pub(crate) mod model;
pub(crate) mod request_head;

use super::reject::Reject;

/// A refusal: its status and its reason. Refusals with the same status are equal, because the reason may depend on how
/// the bytes are split.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) struct Refusal(pub(crate) u16, pub(crate) &'static str);

impl PartialEq for Refusal {
    fn eq(&self, other: &Refusal) -> bool {
        self.0 == other.0
    }
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Refusal {
        Refusal(reject.status, reject.reason)
    }
}
