//! Outlets: connections to which other VMs of the process may write, in addition to the owner. `lio.net.remote` sends
//! through an outlet, so that no other thread has to be woken.
//!
//! Every VM finds an outlet by its number. Invariant: the descriptor is used only under the outlet's lock, and the
//! socket removes it, under the same lock, before it closes the descriptor or gives it away.

use crate::event::adopt;
use rustc_hash::FxHashMap;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

/// The descriptor of a connection for other VMs; `None` once closed.
pub(crate) struct Outlet(Mutex<Option<RawFd>>);

/// The outlet of a socket; dropping it closes the outlet.
pub(super) struct OwnedOutlet {
    number: u64,
    outlet: Arc<Outlet>,
}

struct Outlets {
    last: u64,
    open: FxHashMap<u64, Weak<Outlet>>,
}

static OUTLETS: LazyLock<Mutex<Outlets>> = LazyLock::new(|| {
    // If a process contains the library twice, each copy has different numbers.
    let first = (&raw const OUTLETS).addr() as u64;
    Mutex::new(Outlets { last: first << 16 >> 1, open: FxHashMap::default() })
});

impl Drop for OwnedOutlet {
    fn drop(&mut self) {
        lock(&OUTLETS).open.remove(&self.number);
        *lock(&self.outlet.0) = None;
    }
}

impl OwnedOutlet {
    /// Creates an outlet for the connected socket `descriptor`, which must stay open until this value is dropped.
    pub(super) fn new(descriptor: RawFd) -> OwnedOutlet {
        let outlet = Arc::new(Outlet(Mutex::new(Some(descriptor))));
        let mut all = lock(&OUTLETS);
        all.last += 1;
        let number = all.last;
        all.open.insert(number, Arc::downgrade(&outlet));
        drop(all);
        OwnedOutlet { number, outlet }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Outlet {
    /// Returns the outlet with this number; `None` if the connection is closed.
    pub(crate) fn find(number: u64) -> Option<Arc<Outlet>> {
        lock(&OUTLETS).open.get(&number)?.upgrade()
    }

    /// Sends `pieces`. Returns the number of bytes that the system has accepted; `None` if the socket is closed.
    pub(crate) fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let number = lock(&self.0);
        let Some(open) = *number else { return Ok(None) };
        // The socket does not close the descriptor while the lock is held.
        let sent = adopt::borrowed(open, |socket| {
            retry_on_intr(|| match pieces {
                [one] => send(socket, one, SendFlags::NOSIGNAL),
                many => {
                    let nothing = &mut SendAncillaryBuffer::default();
                    sendmsg(socket, many, nothing, SendFlags::NOSIGNAL)
                }
            })
        })?;
        match sent {
            Ok(count) => Ok(Some(count)),
            Err(Errno::WOULDBLOCK) => Ok(Some(0)),
            Err(error) => Err(error.into()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{Attempt, Socket, Table};
    use std::rc::Rc;

    fn pair() -> (Socket, Socket) {
        Socket::pair(&Rc::new(Table::default())).unwrap()
    }

    fn received(socket: &Socket) -> usize {
        match socket.receive_into(&mut [0; 256]).unwrap() {
            Attempt::Done(count) => count,
            Attempt::WouldBlock => panic!("no data"),
        }
    }

    #[test]
    fn bytes_sent_through_an_outlet_arrive() {
        let (mut near, far) = pair();
        let number = near.outlet().unwrap();
        assert_eq!(near.outlet(), Some(number));
        let outlet = Outlet::find(number).unwrap();
        let pieces = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
        assert_eq!(outlet.send(&pieces).unwrap(), Some(3));
        assert_eq!(received(&far), 3);
    }

    #[test]
    fn an_outlet_is_closed_with_its_socket() {
        let (mut near, _far) = pair();
        let number = near.outlet().unwrap();
        let outlet = Outlet::find(number).unwrap();
        let mut moved = near.take();
        assert!(near.outlet().is_none());
        assert_eq!(outlet.send(&[IoSlice::new(b"x")]).unwrap(), Some(1));
        moved.close();
        assert_eq!(outlet.send(&[IoSlice::new(b"x")]).unwrap(), None);
        assert!(Outlet::find(number).is_none());
    }

    #[test]
    fn an_outlet_is_closed_when_its_socket_is_given_away() {
        let (mut near, _far) = pair();
        let outlet = Outlet::find(near.outlet().unwrap()).unwrap();
        let parts = near.take_parts().unwrap();
        assert_eq!(outlet.send(&[IoSlice::new(b"x")]).unwrap(), None);
        drop(parts);
    }

    #[test]
    fn a_full_socket_accepts_no_bytes() {
        let (mut near, _far) = pair();
        let outlet = Outlet::find(near.outlet().unwrap()).unwrap();
        let block = vec![0; 1 << 20];
        let mut last = usize::MAX;
        while last != 0 {
            last = outlet.send(&[IoSlice::new(&block)]).unwrap().unwrap();
        }
    }
}
