//! Targets of fuzzers: `request_head` and `chunked_body`. The target `client_response` is in `http/client`.

pub(crate) mod chunked_body;
pub(crate) mod model;
pub(crate) mod request_head;
