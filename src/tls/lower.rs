//! The calls of the transport below a TLS session.

use crate::socket::Attempt;
use std::io::{self, IoSlice};

/// The transport below TLS. The methods are those of `Link`.
pub(crate) trait Lower {
    fn receive_into(&mut self, room: &mut [u8]) -> io::Result<Attempt<usize>>;
    fn may_read(&self) -> bool;
    fn has_plaintext(&self) -> bool;
    fn send(&mut self, data: &[u8]) -> io::Result<Attempt<usize>>;
    fn send_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Attempt<usize>>;
    fn flush(&mut self) -> io::Result<bool>;
    fn held(&self) -> usize;
    fn end_sending(&mut self) -> io::Result<()>;
    fn is_closed(&self) -> bool;
    fn close(&mut self);
}
