//! Shared writers: connections to which other VMs of the process can write, in addition to the owner. `lio.net.remote`
//! sends through a shared writer, so that no other thread has to be woken.
//!
//! Every VM finds a shared writer by its number. Invariant: the descriptor is used only under the writer's lock. Before
//! the socket closes or detaches the descriptor, it removes the descriptor from the writer under the same lock.

use crate::event::adopt;
use rustc_hash::FxHashMap;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

/// The descriptor of a connection for other VMs; `None` once the socket is closed or detached.
pub(crate) struct SharedWriter(Mutex<Option<RawFd>>);

/// The shared writer of a socket. Dropping this value closes the writer.
pub(super) struct OwnedWriter {
    number: u64,
    writer: Arc<SharedWriter>,
}

struct SharedWriters {
    last: u64,
    open: FxHashMap<u64, Weak<SharedWriter>>,
}

static SHARED_WRITERS: LazyLock<Mutex<SharedWriters>> = LazyLock::new(|| {
    // If a process contains the library twice, the copies use different numbers.
    let first = (&raw const SHARED_WRITERS).addr() as u64;
    Mutex::new(SharedWriters { last: first << 16 >> 1, open: FxHashMap::default() })
});

impl Drop for OwnedWriter {
    fn drop(&mut self) {
        lock(&SHARED_WRITERS).open.remove(&self.number);
        *lock(&self.writer.0) = None;
    }
}

impl OwnedWriter {
    /// Creates a shared writer for the connected socket `descriptor`, which must stay open until this value is dropped.
    pub(super) fn new(descriptor: RawFd) -> OwnedWriter {
        let writer = Arc::new(SharedWriter(Mutex::new(Some(descriptor))));
        let mut all = lock(&SHARED_WRITERS);
        all.last += 1;
        let number = all.last;
        all.open.insert(number, Arc::downgrade(&writer));
        drop(all);
        OwnedWriter { number, writer }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl SharedWriter {
    /// Returns the writer with this number; `None` if the connection is closed.
    pub(crate) fn find(number: u64) -> Option<Arc<SharedWriter>> {
        lock(&SHARED_WRITERS).open.get(&number)?.upgrade()
    }

    /// Sends `pieces`. Returns the number of bytes that the system has accepted, which may be 0; `None` if the socket
    /// is closed.
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
        let number = near.shared_writer().unwrap();
        assert_eq!(near.shared_writer(), Some(number));
        let writer = SharedWriter::find(number).unwrap();
        let pieces = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
        assert_eq!(writer.send(&pieces).unwrap(), Some(3));
        assert_eq!(received(&far), 3);
    }

    #[test]
    fn an_outlet_is_closed_with_its_socket() {
        let (mut near, _far) = pair();
        let number = near.shared_writer().unwrap();
        let writer = SharedWriter::find(number).unwrap();
        let mut moved = near.take();
        assert!(near.shared_writer().is_none());
        assert_eq!(writer.send(&[IoSlice::new(b"x")]).unwrap(), Some(1));
        moved.close();
        assert_eq!(writer.send(&[IoSlice::new(b"x")]).unwrap(), None);
        assert!(SharedWriter::find(number).is_none());
    }

    #[test]
    fn an_outlet_is_closed_when_its_socket_is_given_away() {
        let (mut near, _far) = pair();
        let writer = SharedWriter::find(near.shared_writer().unwrap()).unwrap();
        let parts = near.take_parts().unwrap();
        assert_eq!(writer.send(&[IoSlice::new(b"x")]).unwrap(), None);
        drop(parts);
    }

    #[test]
    fn a_full_socket_accepts_no_bytes() {
        let (mut near, _far) = pair();
        let writer = SharedWriter::find(near.shared_writer().unwrap()).unwrap();
        let block = vec![0; 1 << 20];
        let mut last = usize::MAX;
        while last != 0 {
            last = writer.send(&[IoSlice::new(&block)]).unwrap().unwrap();
        }
    }
}
