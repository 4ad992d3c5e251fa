//! Streams that are sent to another VM, as parcels, and bytes that are given back.

use super::parcel::{self, Data, Parcel};
use super::{Pool, Stream, Transport};
use crate::socket::{Socket, Table};
use std::rc::Rc;

impl Stream {
    /// Leaves socket and bytes for whoever takes the number; this stream reads as closed then. `None`
    /// when it is closed. `number`: that of the parcel it came from, to put it back; 0 for a new one.
    pub(crate) fn send_off(&mut self, number: u64) -> Option<u64> {
        self.narrow();
        self.copy_shared();
        let Transport::Plain(socket) = &mut self.transport;
        let parcel = Parcel {
            socket: socket.part()?,
            data: Data {
                input: self.input.release_unread(),
                output: std::mem::take(&mut self.output).split_off(self.output_done),
                ended: self.ended,
            },
        };
        self.output_done = 0;
        self.ended = true;
        self.searched = 0;
        self.sought = Vec::new();
        let left = parcel::leave(parcel, number);
        if number == 0 {
            self.parcel = left;
        }
        Some(left)
    }

    /// Its socket, what was read and not used, and what is to be sent; it reads as closed then.
    pub(crate) fn part(&mut self) -> (Socket, Vec<u8>, Vec<u8>) {
        self.narrow();
        let Transport::Plain(socket) = &mut self.transport;
        let socket = socket.take();
        let input = self.input.release_unread();
        let output = std::mem::take(&mut self.output).split_off(self.output_done);
        self.close();
        (socket, input, output)
    }

    fn unpack(&mut self, data: Data) {
        self.input.adopt(data.input.into());
        self.output = data.output;
        self.output_done = 0;
        self.ended = data.ended;
        self.fresh = true;
        (self.reads, self.messages) = (0, 0);
    }

    /// Is again what it was before it was sent off; false when somebody has taken that.
    pub(crate) fn take_back(&mut self) -> bool {
        let number = std::mem::take(&mut self.parcel);
        let Some(parcel) = parcel::take(number) else {
            return false;
        };
        let Transport::Plain(socket) = &mut self.transport;
        socket.restore(parcel.socket);
        self.unpack(parcel.data);
        true
    }

    /// The stream that was sent off under that number; `None` when somebody has taken it.
    pub(crate) fn of_parcel(number: u64, pool: &Rc<Pool>, table: &Rc<Table>) -> Option<Stream> {
        let parcel = parcel::take(number)?;
        let socket = Socket::from_parts(parcel.socket, table);
        let mut stream = Stream::new(Transport::Plain(socket), pool);
        stream.unpack(parcel.data);
        Some(stream)
    }

    /// Puts bytes before what is buffered, as if they had not been received yet.
    pub(crate) fn unread(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.searched = 0;
        let mut data = Vec::with_capacity(super::buffer::SIZE.max(bytes.len() + self.buffered().len()));
        data.extend_from_slice(bytes);
        data.extend_from_slice(self.buffered());
        let before = std::mem::take(&mut self.input);
        self.input.adopt(data.into());
        self.pool.put({ before }.release());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Moved;

    fn pair() -> (Stream, Socket) {
        let table = Rc::new(Table::default());
        let (near, far) = Socket::pair(&table).unwrap();
        let stream = Stream::new(Transport::Plain(near), &Rc::new(Pool::default()));
        (stream, far)
    }

    fn received(socket: &Socket) -> Vec<u8> {
        let mut room = Vec::with_capacity(256);
        let Ok(Moved::Done(_)) = socket.receive(&mut room) else {
            panic!("nothing came");
        };
        room
    }

    #[test]
    fn a_stream_arrives_with_its_bytes_in_another_vm() {
        let (mut stream, far) = pair();
        stream.unread(b"abcdef");
        stream.consume(2);
        stream.unread(b"B");
        stream.queue().extend_from_slice(b"queued");
        let number = stream.send_off(0).unwrap();
        assert!(stream.is_closed() && stream.buffered().is_empty());
        let (pool, table) = (Rc::new(Pool::default()), Rc::new(Table::default()));
        let mut other = Stream::of_parcel(number, &pool, &table).unwrap();
        assert_eq!(other.buffered(), b"Bcdef");
        assert!(other.send(&[b", sent"], &mut 0).unwrap());
        assert_eq!(received(&far), b"queued, sent");
        assert!(Stream::of_parcel(number, &pool, &table).is_none());
        assert!(!stream.take_back());
    }

    #[test]
    fn what_nobody_took_comes_back_or_is_closed_with_the_stream() {
        let (mut stream, far) = pair();
        stream.unread(b"kept");
        stream.send_off(0).unwrap();
        assert!(stream.take_back());
        assert_eq!(stream.buffered(), b"kept");
        stream.send_off(0).unwrap();
        drop(stream);
        assert_eq!(received(&far), b"");
    }

    #[test]
    fn a_closed_stream_cannot_be_sent_off() {
        let (mut stream, _far) = pair();
        stream.close();
        assert!(stream.send_off(0).is_none());
    }
}
