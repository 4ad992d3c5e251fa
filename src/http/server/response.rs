//! A response as a handler specifies it, and the result of responding.

use crate::codec::http1::write;
use bytes::Bytes;

/// A whole response, without the fields of its draft.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// The status code: 200 to 599.
    pub(crate) status: u16,
    pub(crate) media_type: MediaType<'a>,
    pub(crate) body: Body<'a>,
}

/// The media type of a body; ignored if a field sets it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MediaType<'a> {
    Text,
    Json,
    Given(&'a [u8]),
    None,
}

#[derive(Debug)]
pub(crate) enum Body<'a> {
    None,
    Bytes(&'a [u8]),
    /// Bytes that many queues share.
    Shared(Bytes),
}

/// The result of responding to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Responded {
    /// The whole response is queued.
    Done,
    /// The body is long, and this number of its bytes was sent. The caller sends the rest; see [`super::Server::send`].
    Rest(usize),
    /// The response has already begun, or the request has ended; the call has no effect.
    Late,
}

/// The state of the queue after a piece was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queued {
    pub(crate) bytes: usize,
    /// Whether the connection has failed: the peer receives no further data.
    pub(crate) failed: bool,
}

impl Body<'_> {
    pub(super) fn length(&self) -> usize {
        match self {
            Body::None => 0,
            Body::Bytes(bytes) => bytes.len(),
            Body::Shared(bytes) => bytes.len(),
        }
    }
}

impl<'a> MediaType<'a> {
    pub(super) fn name(self) -> Option<&'a [u8]> {
        match self {
            MediaType::Text => Some(write::DefaultType::Text.name()),
            MediaType::Json => Some(write::DefaultType::Json.name()),
            MediaType::Given(name) => Some(name),
            MediaType::None => None,
        }
    }
}
