//! The progress of a response, and the fields that its handler has set.

use super::connection::{NextRequest, ResponseState};
use super::draft::Draft;
use super::{HandlerEffect, RequestId, Server, Transport, handling_connection};
use crate::codec::http1::head::Method;

impl<T: Transport> Server<T> {
    /// Records that the handler does more than return; see [`HandlerEffect`]. Returns whether the response can still be
    /// changed.
    pub(crate) fn record_effect(&mut self, id: RequestId, new: HandlerEffect) -> bool {
        let handling = self.handling(id);
        let Some(ResponseState::Open { effect, .. }) = handling.map(|handling| &mut handling.response_state) else {
            return false;
        };
        *effect = new.max(*effect);
        true
    }

    /// Returns what the handler has done so far; `None` if the response has begun, or the request has ended.
    #[inline]
    pub(crate) fn effect(&mut self, id: RequestId) -> Option<HandlerEffect> {
        match &self.handling(id)?.response_state {
            ResponseState::Open { effect, .. } => Some(*effect),
            _ => None,
        }
    }

    /// Whether the whole response to a request is queued.
    pub(crate) fn is_whole(&mut self, id: RequestId) -> bool {
        self.handling(id).is_some_and(|handling| matches!(handling.response_state, ResponseState::Whole))
    }

    /// Returns the fields that a handler has set; `None` if there are none, or they can no longer be changed.
    pub(crate) fn existing_draft(&mut self, id: RequestId) -> Option<&mut Draft> {
        self.handling(id)?.response_state.draft()?.as_deref_mut()
    }

    /// Returns the fields of the response, so that they can be changed; `None` if the response has begun, or the
    /// request has ended.
    pub(crate) fn draft(&mut self, id: RequestId) -> Option<&mut Draft> {
        let draft = handling_connection(&mut self.connections, id)?.handling()?.response_state.draft()?;
        Some(draft.get_or_insert_with(|| self.spare_drafts.pop().unwrap_or_default()))
    }

    /// Whether the response to a request has begun; true for a request that has ended.
    pub(crate) fn is_answered(&mut self, id: RequestId) -> bool {
        self.effect(id).is_none()
    }

    /// Whether the method of a request is HEAD.
    pub(crate) fn is_head(&mut self, id: RequestId) -> bool {
        self.handling(id).is_some_and(|handling| handling.method == Method::Head)
    }

    /// Makes the connection close after the response to this request. Has no effect once the response has begun.
    pub(crate) fn close_after(&mut self, id: RequestId) {
        if let Some(handling) = self.handling(id) {
            handling.next = NextRequest::None;
        }
    }
}
