//! A connection of the torture program: its socket and its current case. Also creates new connections. Used by
//! `client.rs`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::exchange::Exchange;

pub(crate) struct Slot {
    pub(crate) stream: Option<TcpStream>,
    pub(crate) exchange: Exchange,
    /// The number of bytes of the case that have been sent.
    pub(crate) sent: usize,
    /// The number of turns of the loop until the RST.
    pub(crate) turns: u32,
    /// True if the socket's buffer is full and the connection is registered for writability.
    pub(crate) blocked: bool,
    pub(crate) busy: bool,
    pub(crate) began: Instant,
    /// The number of connections that this slot has had, so that events of earlier connections can be ignored.
    pub(crate) generation: u32,
}

impl Slot {
    /// Creates a slot without a connection and without a case.
    pub(crate) fn new() -> Slot {
        Slot {
            stream: None,
            exchange: Exchange::new(),
            sent: 0,
            turns: 0,
            blocked: false,
            busy: false,
            began: Instant::now(),
            generation: 0,
        }
    }

    /// Returns the epoll token of this slot's current connection. `index` is the index of the slot.
    pub(crate) fn token(&self, index: usize) -> u64 {
        u64::from(self.generation) << 32 | index as u64
    }
}

/// Starts to connect. On loopback the source address depends on `number`, so that connections that the client has ended
/// with FIN do not use up the ports of one address. Closing the connection sends RST.
pub(crate) fn connect(address: SocketAddr, number: u32) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_linger(Some(Duration::ZERO))?;
    if address.ip() == Ipv4Addr::LOCALHOST {
        let [_, _, high, low] = (number % 4096).to_be_bytes();
        socket.bind(&SocketAddr::from(([127, 1 + high, low, 1], 0)).into())?;
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}
