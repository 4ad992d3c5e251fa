//! How far the answer to a request is, and what its handler has set of it.

use super::connection::{Answer, NextRequest};
use super::draft::Draft;
use super::{Intent, RequestId, Server, Transport, in_work};
use crate::codec::http1::head::Method;

impl<T: Transport> Server<T> {
    /// The handler does more than return; see [`Intent`]. → whether the answer to its request can still be set something
    /// of
    pub(crate) fn touch(&mut self, id: RequestId, done: Intent) -> bool {
        let handling = self.handling(id);
        let Some(Answer::Open { intent, .. }) = handling.map(|handling| &mut handling.answer) else {
            return false;
        };
        *intent = done.max(*intent);
        true
    }

    /// What the handler has done so far; `None` when the answer has begun, or the request is over.
    #[inline]
    pub(crate) fn intent(&mut self, id: RequestId) -> Option<Intent> {
        match &self.handling(id)?.answer {
            Answer::Open { intent, .. } => Some(*intent),
            _ => None,
        }
    }

    /// Whether all of the answer to a request is queued.
    pub(crate) fn is_whole(&mut self, id: RequestId) -> bool {
        self.handling(id).is_some_and(|handling| matches!(handling.answer, Answer::Whole))
    }

    /// What a handler has set of its answer; `None` when that is nothing, or cannot be changed any more.
    pub(crate) fn drafted(&mut self, id: RequestId) -> Option<&mut Draft> {
        self.handling(id)?.answer.draft()?.as_deref_mut()
    }

    /// What a handler sets of its answer; `None` when that has begun, or the request is over.
    pub(crate) fn draft(&mut self, id: RequestId) -> Option<&mut Draft> {
        let draft = in_work(&mut self.connections, id)?.handling()?.answer.draft()?;
        Some(draft.get_or_insert_with(|| self.drafts.pop().unwrap_or_default()))
    }

    /// Whether the answer to a request has begun; true for one that is over.
    pub(crate) fn is_answered(&mut self, id: RequestId) -> bool {
        self.intent(id).is_none()
    }

    /// Whether a request is HEAD.
    pub(crate) fn is_head(&mut self, id: RequestId) -> bool {
        self.handling(id).is_some_and(|handling| handling.method == Method::Head)
    }

    /// The connection closes after the answer to this request, if that has not begun.
    pub(crate) fn close_after(&mut self, id: RequestId) {
        if let Some(handling) = self.handling(id) {
            handling.next = NextRequest::None;
        }
    }
}
