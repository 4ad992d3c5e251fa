//! Outlets: connections that other VMs of the process may write to, beside the one that owns them. What
//! `lio.net.remote` sends goes out through one, so that no thread has to be woken for it.
//!
//! An outlet has a number, under which every VM finds it. Invariant: the descriptor is used under the outlet's
//! lock only, and the socket takes it out of there, under the same lock, before it closes it or gives it away.

use crate::event::adopt;
use rustc_hash::FxHashMap;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

/// See the file's head.
pub(crate) struct Outlet(Mutex<Option<RawFd>>);

/// A socket's own outlet: goes with it.
pub(super) struct Opened {
    number: u64,
    outlet: Arc<Outlet>,
}

struct Outlets {
    last: u64,
    open: FxHashMap<u64, Weak<Outlet>>,
}

static OUTLETS: LazyLock<Mutex<Outlets>> = LazyLock::new(|| {
    // Where a process has the library twice, each has its own numbers.
    let first = (&raw const OUTLETS).addr() as u64;
    Mutex::new(Outlets { last: first << 16 >> 1, open: FxHashMap::default() })
});

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Opened {
    fn drop(&mut self) {
        lock(&OUTLETS).open.remove(&self.number);
        *lock(&self.outlet.0) = None;
    }
}

impl Opened {
    /// An outlet to the connected socket `descriptor`, which stays open as long.
    pub(super) fn new(descriptor: RawFd) -> Opened {
        let outlet = Arc::new(Outlet(Mutex::new(Some(descriptor))));
        let mut all = lock(&OUTLETS);
        all.last += 1;
        let number = all.last;
        all.open.insert(number, Arc::downgrade(&outlet));
        drop(all);
        Opened { number, outlet }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Outlet {
    /// The outlet with that number; `None` when the connection is gone.
    pub(crate) fn find(number: u64) -> Option<Arc<Outlet>> {
        lock(&OUTLETS).open.get(&number)?.upgrade()
    }

    /// How many bytes the system took; `None` when the socket is gone.
    pub(crate) fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let number = lock(&self.0);
        let Some(open) = *number else { return Ok(None) };
        // The socket does not close it while the lock is held.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{Moved, Socket, Table};
    use std::rc::Rc;

    fn pair() -> (Socket, Socket) {
        Socket::pair(&Rc::new(Table::default())).unwrap()
    }

    fn received(socket: &Socket) -> usize {
        match socket.receive_into(&mut [0; 256]).unwrap() {
            Moved::Done(count) => count,
            Moved::WouldBlock => panic!("nothing came"),
        }
    }

    #[test]
    fn what_is_sent_through_an_outlet_arrives() {
        let (mut near, far) = pair();
        let number = near.outlet().unwrap();
        assert_eq!(near.outlet(), Some(number));
        let outlet = Outlet::find(number).unwrap();
        let pieces = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
        assert_eq!(outlet.send(&pieces).unwrap(), Some(3));
        assert_eq!(received(&far), 3);
    }

    #[test]
    fn an_outlet_goes_with_its_socket() {
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
    fn an_outlet_does_not_follow_a_socket_that_is_given_away() {
        let (mut near, _far) = pair();
        let outlet = Outlet::find(near.outlet().unwrap()).unwrap();
        let parts = near.part().unwrap();
        assert_eq!(outlet.send(&[IoSlice::new(b"x")]).unwrap(), None);
        drop(parts);
    }

    #[test]
    fn a_full_socket_takes_nothing() {
        let (mut near, _far) = pair();
        let outlet = Outlet::find(near.outlet().unwrap()).unwrap();
        let block = vec![0; 1 << 20];
        let mut last = usize::MAX;
        while last != 0 {
            last = outlet.send(&[IoSlice::new(&block)]).unwrap().unwrap();
        }
    }
}
