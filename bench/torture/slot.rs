//! One of the torture program's connections: its socket, the case that it is busy with, and how a new one is made.
//! `client.rs` drives it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::exchange::Exchange;

pub(crate) struct Slot {
    pub(crate) stream: Option<TcpStream>,
    pub(crate) exchange: Exchange,
    /// Bytes of the case that went out.
    pub(crate) sent: usize,
    /// Turns until a due RST.
    pub(crate) turns: u32,
    /// Bytes are waiting for room in the socket's buffer.
    pub(crate) blocked: bool,
    pub(crate) busy: bool,
    pub(crate) began: Instant,
    /// Counts this slot's connections, so that an event of an earlier one is known for what it is.
    pub(crate) generation: u32,
}

impl Slot {
    /// Without a connection and without a case.
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

    /// What the epoll instance returns for this slot's present connection; `index` is the slot's own.
    pub(crate) fn token(&self, index: usize) -> u64 {
        u64::from(self.generation) << 32 | index as u64
    }
}

/// Begins a connection. On loopback the source address changes with `number`, so that connections which ended by
/// the client's FIN cannot use up the ports of one address. Closing it sends RST.
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
