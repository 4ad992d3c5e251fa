//! The loop of `lio.net` in a service that owns no loop: when the service must run a round of it.
//!
//! The service runs a round at the end of a slice (`modules/ltask/dispatch.rs`) if the I/O thread or a timer has posted
//! an IO message, or if a task has left work for the next round. Invariant: while the selector is not armed, every
//! slice of the service runs a round; the selector is armed after a round in which no task became ready. So a busy
//! service takes its events without the I/O thread, and an idle one loses none.

use super::message::{IO_TIMER, ServiceId};
use super::watcher::Watcher;
use crate::event::Selector;
use crate::lua::VmOwned;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// The state of the loop.
pub(crate) struct ServiceIo {
    service: ServiceId,
    watcher: Arc<Watcher>,
    selector: VmOwned<Rc<Selector>>,
    /// Whether the I/O thread will post a message when the selector has events.
    is_armed: bool,
    /// Whether the next slice must run a round, even if the selector is armed and has recorded no events.
    is_requested: bool,
    /// Whether the error of a failed [`ServiceIo::arm`] has been returned.
    has_failed: bool,
}

impl ServiceIo {
    /// Makes the I/O thread of `watcher` watch the service's selector. The first round must run soon, because tasks may
    /// have used the selector before.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn new(
        service: ServiceId, watcher: Arc<Watcher>, selector: VmOwned<Rc<Selector>>,
    ) -> io::Result<ServiceIo> {
        watcher.add(selector.descriptor(), service)?;
        Ok(ServiceIo { service, watcher, selector, is_armed: true, is_requested: true, has_failed: false })
    }

    /// Requests a round before the service sleeps.
    pub(crate) fn request(&mut self) {
        self.is_requested = true;
    }

    /// Records that the service has read an IO message with this session.
    pub(super) fn record_message(&mut self, session: i64) {
        self.is_requested = true;
        if session != IO_TIMER {
            self.is_armed = false;
        }
    }

    /// Whether the service must run a round before it sleeps.
    pub(crate) fn wants_round(&self) -> bool {
        self.is_requested || !self.is_armed || self.selector.has_remembered()
    }

    /// Called when a round begins.
    pub(crate) fn begin_round(&mut self) {
        self.is_requested = false;
    }

    /// Called after a round in which no task became ready. If the system refuses, the selector stays unarmed, so the
    /// service polls it in slice after slice; the first error is returned.
    pub(crate) fn arm(&mut self) -> Option<io::Error> {
        if self.is_armed {
            return None;
        }
        let result = self.watcher.arm(self.selector.descriptor(), self.service);
        self.is_armed = result.is_ok();
        result.err().filter(|_| !std::mem::replace(&mut self.has_failed, true))
    }
}

impl Drop for ServiceIo {
    fn drop(&mut self) {
        self.watcher.remove(self.selector.descriptor());
    }
}
