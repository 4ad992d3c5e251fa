//! The state machine of a server, shared by the bindings, and its Lua object.

use super::transport::AnyTransport;
use crate::event::clock::VmClock;
use crate::event::{self, Inbox};
use crate::http::server::{Clock, Server};
use crate::lua::{ByteSource, Call, Fault, Work};
use crate::tls::TlsServer;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::SystemTime;

/// The clock is read again after this number of requests.
const READ_CLOCK: u32 = 16;

/// A server, and the parts of the event loop that it uses.
pub(super) struct Machine {
    pub(super) server: RefCell<Server<AnyTransport>>,
    pub(super) selector: Rc<event::Selector>,
    pub(super) inbox: Rc<Inbox>,
    /// An empty list. Its memory is reused for the events of the inbox.
    pub(super) arrived: Cell<Vec<(u64, u8)>>,
    pub(super) vm_clock: Rc<VmClock>,
    /// The time of the current round; `None` until it is read.
    pub(super) clock: Cell<Option<Clock>>,
    /// The number of requests since the clock was read.
    pub(super) served: Cell<u32>,
    /// A serving task handles many requests without waiting.
    pub(super) work: Rc<Work>,
    /// The time at which the loop's timer for this server fires; `u64::MAX` if it is not set.
    pub(super) timer: Cell<u64>,
    /// TLS of accepted connections.
    pub(super) tls: RefCell<Option<Rc<TlsServer>>>,
    /// The maximum number of bytes of a body, unless a call sets another limit.
    pub(super) body_limit: u64,
}

/// The Lua object of the server.
pub(crate) struct ServerObject {
    pub(super) machine: Rc<Machine>,
    /// The bytes of a body that are being returned to Lua.
    pub(super) body: Vec<u8>,
}

impl ByteSource for ServerObject {
    fn bytes_to_push(&self) -> &[u8] {
        &self.body
    }

    fn bytes_pushed(&mut self) {
        self.body.clear();
        // The memory of a large body is freed.
        self.body.shrink_to(1 << 16);
    }
}

impl Machine {
    /// Returns the time of the current round.
    pub(super) fn clock(&self) -> Clock {
        match self.clock.get() {
            Some(clock) => clock,
            None => self.read_clock(),
        }
    }

    #[inline(never)]
    pub(super) fn read_clock(&self) -> Clock {
        let unix = self.vm_clock.wall().duration_since(SystemTime::UNIX_EPOCH);
        let clock = Clock { now: self.vm_clock.nanos(), unix: unix.map_or(0, |span| span.as_secs()) };
        self.clock.set(Some(clock));
        self.served.set(0);
        clock
    }

    /// Called when a handler begins. The clock is read again after [`READ_CLOCK`] requests, because handlers take time.
    #[inline]
    pub(super) fn count_request(&self) {
        let served = self.served.get() + 1;
        self.served.set(served);
        if served == READ_CLOCK {
            self.clock.set(None);
        }
    }
}

/// Returns the machine of the server at argument 1.
pub(super) fn machine<'c>(call: &'c Call<'_>) -> Result<&'c Machine, Fault> {
    Ok(&call.object::<ServerObject>(1)?.machine)
}
