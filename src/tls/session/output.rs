//! The transport below a session, as a destination of its records. Used by `session`.

use crate::socket::Attempt;
use crate::tls::lower::Lower;
use std::io::{self, IoSlice, Write};

/// The transport as a destination of the session's records.
pub(super) struct Output<'a, L> {
    pub(super) to: &'a mut L,
    /// Whether the transport has accepted only a part of the bytes.
    pub(super) is_blocked: bool,
}

impl<L: Lower> Output<'_, L> {
    fn accepted(&mut self, result: io::Result<Attempt<usize>>, total: usize) -> io::Result<usize> {
        match result? {
            Attempt::Done(count) => {
                self.is_blocked = count < total;
                Ok(count)
            }
            Attempt::WouldBlock => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<L: Lower> Write for Output<'_, L> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let sent = self.to.send(data);
        self.accepted(sent, data.len())
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [only] = pieces {
            return self.write(only);
        }
        let sent = self.to.send_pieces(pieces);
        self.accepted(sent, pieces.iter().map(|piece| piece.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
