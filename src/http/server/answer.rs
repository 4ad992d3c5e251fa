//! How far the answer to a request is, and what its handler has set of it.

use super::connection::{Answer, Connection, NextRequest, State};
use super::draft::Draft;
use super::{Intent, RequestId, Server, Transport};
use crate::codec::http1::head::Method;

impl<T: Transport> Server<T> {
    /// The handler does more than return; see [`Intent`]. → whether the answer to its request can still be set something
    /// of
    pub(crate) fn touch(&mut self, id: RequestId, done: Intent) -> bool {
        match self.in_work(id).and_then(Connection::handling) {
            Some(handling) => match &mut handling.answer {
                Answer::Open { intent, .. } => {
                    *intent = done.max(*intent);
                    true
                }
                _ => false,
            },
            None => false,
        }
    }

    /// What the handler has done so far; `None` when the answer has begun, or the request is over.
    #[inline]
    pub(crate) fn intent(&mut self, id: RequestId) -> Option<Intent> {
        match &self.in_work(id)?.handling()?.answer {
            Answer::Open { intent, .. } => Some(*intent),
            _ => None,
        }
    }

    /// Whether all of the answer to a request is queued.
    pub(crate) fn is_whole(&mut self, id: RequestId) -> bool {
        let handling = self.in_work(id).and_then(Connection::handling);
        matches!(handling.map(|handling| &handling.answer), Some(Answer::Whole))
    }

    /// Whether a handler has set a field of its answer, which can still be changed.
    pub(crate) fn has_draft(&mut self, id: RequestId) -> bool {
        let handling = self.in_work(id).and_then(Connection::handling);
        let answer = handling.map(|handling| &handling.answer);
        matches!(answer, Some(Answer::Open { draft: Some(_), .. }))
    }

    /// What a handler sets of its answer; `None` when that has begun, or the request is over.
    pub(crate) fn draft(&mut self, id: RequestId) -> Option<&mut Draft> {
        self.intent(id)?;
        let spare = self.drafts.pop();
        let handling = self.in_work(id)?.handling()?;
        let Answer::Open { draft, .. } = &mut handling.answer else {
            return None;
        };
        match (draft.is_some(), spare) {
            (true, Some(spare)) => self.drafts.push(spare),
            (false, spare) => *draft = Some(spare.unwrap_or_default()),
            (true, None) => {}
        }
        let handling = self.in_work(id)?.handling()?;
        match &mut handling.answer {
            Answer::Open { draft, .. } => draft.as_deref_mut(),
            _ => None,
        }
    }

    /// Whether the answer to a request has begun; true for one that is over.
    pub(crate) fn is_answered(&mut self, id: RequestId) -> bool {
        self.intent(id).is_none()
    }

    pub(super) fn is_head_at(&self, slot: usize) -> bool {
        matches!(&self.connections[slot].state, State::Handling(handling) if handling.method == Method::Head)
    }

    /// Whether a request is HEAD.
    pub(crate) fn is_head(&mut self, id: RequestId) -> bool {
        self.in_work(id).is_some() && self.is_head_at(id.slot())
    }

    /// The connection closes after the answer to this request, if that has not begun.
    pub(crate) fn close_after(&mut self, id: RequestId) {
        if let Some(handling) = self.in_work(id).and_then(Connection::handling) {
            handling.next = NextRequest::None;
        }
    }
}
