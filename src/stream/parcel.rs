//! Streams that are sent from one VM to another, as parcels, for `net.transfer`.
//!
//! A stream that is sent leaves its socket and its bytes here as a parcel, whose number is sent in a message. The first
//! VM to take the number owns the connection: the receiver, or the sender again if the message failed. Invariant: each
//! parcel is taken once, so no descriptor has two owners. A parcel that was not taken is closed with the stream that
//! sent it.

use super::{Pool, Stream};
use crate::socket::Table;
use crate::tls::{Link, LinkParts};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The parts of a stream that do not belong to a VM. Dropping a parcel closes the socket.
struct Parcel {
    link: LinkParts,
    data: Data,
}

/// The data that a stream has received, and the data that it still has to send.
struct Data {
    input: Vec<u8>,
    output: Vec<u8>,
    ended: bool,
}

#[derive(Default)]
struct Parcels {
    last: u64,
    waiting: FxHashMap<u64, Parcel>,
}

static PARCELS: LazyLock<Mutex<Parcels>> = LazyLock::new(Mutex::default);

impl Stream {
    /// Detaches the socket and the bytes as a parcel, which any VM can take by the returned number. This stream is then
    /// closed. Returns `None` if the stream was already closed. `number`: 0 for a new parcel; to put a stream back, the
    /// number of the parcel from which it was taken.
    pub(crate) fn make_parcel(&mut self, number: u64) -> Option<u64> {
        self.leave_wide_buffer();
        let parcel = Parcel {
            link: self.link.take_parts()?,
            data: Data { input: self.input.release_unread(), output: self.take_output(), ended: self.ended },
        };
        self.ended = true;
        self.searched = 0;
        self.last_delimiter = Vec::new();
        let left = store(parcel, number);
        if number == 0 {
            self.parcel = left;
        }
        Some(left)
    }

    /// Returns the transport, the unread bytes and the unsent bytes. The stream is then closed.
    pub(crate) fn take_parts(&mut self) -> (Link, Vec<u8>, Vec<u8>) {
        self.leave_wide_buffer();
        let link = self.link.take();
        let input = self.input.release_unread();
        let output = self.take_output();
        self.close();
        (link, input, output)
    }

    /// Closes the connection that this stream has sent to another VM, unless it was taken.
    pub(super) fn drop_parcel(&mut self) {
        if self.parcel != 0 {
            drop(take(std::mem::take(&mut self.parcel)));
        }
    }

    /// Takes back the connection that this stream has sent to another VM. Returns false if a VM has already taken it.
    pub(crate) fn take_back(&mut self) -> bool {
        let number = std::mem::take(&mut self.parcel);
        let Some(parcel) = take(number) else { return false };
        self.link.restore(parcel.link);
        if self.link.held() > 0 {
            self.queue();
        }
        self.restore_data(parcel.data);
        true
    }

    /// Takes the stream that was sent with this number; `None` if the stream was already taken.
    pub(crate) fn from_parcel(number: u64, pool: &Rc<Pool>, table: &Rc<Table>) -> Option<Stream> {
        let parcel = take(number)?;
        let mut stream = Stream::over(Link::from_parts(parcel.link, table), pool);
        stream.restore_data(parcel.data);
        Some(stream)
    }

    fn restore_data(&mut self, data: Data) {
        self.input.adopt(data.input.into());
        if !data.output.is_empty() {
            self.queue().append(|out| *out = data.output);
        }
        self.ended = data.ended;
        self.untried = true;
        (self.reads, self.messages) = (0, 0);
    }
}

/// Stores a parcel and returns its number. `number` is the previous number of the parcel, or 0 for a new parcel.
fn store(parcel: Parcel, number: u64) -> u64 {
    let mut all = parcels();
    let number = match number {
        0 => {
            all.last += 1;
            all.last
        }
        known => known,
    };
    all.waiting.insert(number, parcel);
    number
}

/// Takes a parcel, unless it was taken before.
fn take(number: u64) -> Option<Parcel> {
    parcels().waiting.remove(&number)
}

fn parcels() -> MutexGuard<'static, Parcels> {
    PARCELS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{Attempt, Socket};

    fn pair() -> (Stream, Socket) {
        let table = Rc::new(Table::default());
        let (near, far) = Socket::pair(&table).unwrap();
        let stream = Stream::new(near, &Rc::new(Pool::default()));
        (stream, far)
    }

    fn received(socket: &Socket) -> Vec<u8> {
        let mut room = Vec::with_capacity(256);
        let Ok(Attempt::Done(_)) = socket.receive(&mut room) else {
            panic!("no data");
        };
        room
    }

    #[test]
    fn a_stream_arrives_with_its_bytes_in_another_vm() {
        let (mut stream, far) = pair();
        stream.unread(b"abcdef");
        stream.consume(2);
        stream.unread(b"B");
        stream.queue().append(|out| out.extend_from_slice(b"queued"));
        let number = stream.make_parcel(0).unwrap();
        assert!(stream.is_closed() && stream.buffered().is_empty());
        let (pool, table) = (Rc::new(Pool::default()), Rc::new(Table::default()));
        let mut other = Stream::from_parcel(number, &pool, &table).unwrap();
        assert_eq!(other.buffered(), b"Bcdef");
        assert!(other.send(&[b", sent"], &mut 0).unwrap());
        assert_eq!(received(&far), b"queued, sent");
        assert!(Stream::from_parcel(number, &pool, &table).is_none());
        assert!(!stream.take_back());
    }

    #[test]
    fn a_parcel_that_was_not_taken_is_taken_back_or_closed_with_the_stream() {
        let (mut stream, far) = pair();
        stream.unread(b"kept");
        stream.make_parcel(0).unwrap();
        assert!(stream.take_back());
        assert_eq!(stream.buffered(), b"kept");
        stream.make_parcel(0).unwrap();
        drop(stream);
        assert_eq!(received(&far), b"");
    }

    #[test]
    fn a_closed_stream_cannot_become_a_parcel() {
        let (mut stream, _far) = pair();
        stream.close();
        assert!(stream.make_parcel(0).is_none());
    }
}
