//! A server's machine as the bindings share it, and as Lua holds it.

use super::transport::Plain;
use crate::event::clock::monotonic_nanos;
use crate::event::{self, Inbox};
use crate::http::server::{Clock, RequestId, Server};
use crate::lua::{ByteSource, Call, Fault};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::SystemTime;

/// After so many requests the clock is read anew.
const READ_CLOCK: u32 = 16;

/// A server of plain sockets, with what it needs of the loop.
pub(super) struct Machine {
    pub(super) server: RefCell<Server<Plain>>,
    pub(super) selector: Rc<event::Selector>,
    pub(super) inbox: Rc<Inbox>,
    /// Memory for the inbox's list.
    pub(super) arrived: Cell<Vec<(u64, u8)>>,
    /// The time, until the loop waits.
    pub(super) clock: Cell<Option<Clock>>,
    /// Requests since it was read.
    pub(super) served: Cell<u32>,
    /// When the loop's timer for it fires; the greatest: it is not set.
    pub(super) timer: Cell<u64>,
    /// How many bytes a body may have, unless a call says otherwise.
    pub(super) body_limit: u64,
}

/// The server as Lua holds it.
pub(crate) struct Handle {
    pub(super) machine: Rc<Machine>,
    /// What was read of a body, on its way to Lua.
    pub(super) body: Vec<u8>,
}

impl ByteSource for Handle {
    fn bytes_to_push(&self) -> &[u8] {
        &self.body
    }

    fn bytes_pushed(&mut self) {
        self.body.clear();
        // A large body's memory is not kept.
        self.body.shrink_to(1 << 16);
    }
}

impl Machine {
    /// The time now, or when the loop last had events.
    pub(super) fn clock(&self) -> Clock {
        match self.clock.get() {
            Some(clock) => clock,
            None => self.read_clock(),
        }
    }

    #[inline(never)]
    pub(super) fn read_clock(&self) -> Clock {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let clock = Clock { now: monotonic_nanos(), unix: unix.map_or(0, |span| span.as_secs()) };
        self.clock.set(Some(clock));
        self.served.set(0);
        clock
    }

    /// A request is handled: handlers take time.
    #[inline]
    pub(super) fn count_request(&self) {
        let served = self.served.get() + 1;
        self.served.set(served);
        if served == READ_CLOCK {
            self.clock.set(None);
        }
    }
}

/// The machine of the server at argument 1.
pub(super) fn machine<'c>(call: &'c Call<'_>) -> Result<&'c Machine, Fault> {
    Ok(&call.object::<Handle>(1)?.machine)
}

/// The request that the argument at `index` names.
pub(super) fn request(call: &Call<'_>, index: i32) -> Result<RequestId, Fault> {
    let id = RequestId::from_number(call.integer(index)? as u64);
    id.ok_or_else(|| Fault::argument(index, "request id expected"))
}
