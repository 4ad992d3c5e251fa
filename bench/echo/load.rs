//! The load that the echo client puts on a server, a closed loop: connections on one epoll instance, each with one
//! round trip at a time. Used by `client.rs`, and by the tests of `baseline.rs`. Invariant: a connection is registered
//! for writability only while a send is not complete.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::epoll::{Epoll, NO_EVENT};

/// The load fails if the server sends nothing for this long.
const TIMEOUT: Duration = Duration::from_secs(5);
const READ_SIZE: usize = 256 * 1024;

/// A load on a server.
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    /// The bytes that a connection sends and receives before the first round trip: the request, and the end of the response.
    pub(crate) opening: Option<(&'static str, &'static [u8])>,
    /// The bytes that a round trip sends, and the bytes with which the server must answer.
    pub(crate) message: Vec<u8>,
    pub(crate) reply: Vec<u8>,
    /// The time during which new round trips begin.
    pub(crate) time: Duration,
}

/// The results of a load.
pub(crate) struct Seen {
    /// The duration of each round trip, in nanoseconds.
    pub(crate) latencies: Vec<u32>,
    pub(crate) elapsed: Duration,
}

/// Returns the percentile `share` (0 to 1) of a sorted list, or 0 if the list is empty.
pub(crate) fn percentile(sorted: &[u32], share: f64) -> u32 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0)
}

/// One connection and its round trip.
struct Trip {
    stream: TcpStream,
    begun: Instant,
    sent: usize,
    received: usize,
    /// True if the connection is also registered for writability.
    blocked: bool,
}

impl Load {
    /// Returns a load of messages of `size` bytes, which the server must echo.
    #[allow(dead_code, reason = "the WebSocket client does not call it")]
    pub(crate) fn of_echoes(address: SocketAddr, connections: usize, size: usize, time: Duration) -> Load {
        let message: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        Load { address, connections, opening: None, reply: message.clone(), message, time }
    }

    /// Runs the load until its time has passed, or until an error occurs.
    pub(crate) fn run(&self) -> io::Result<Seen> {
        let epoll = Epoll::new()?;
        let message = &self.message;
        let mut trips = self.connect(&epoll)?;
        let mut latencies = Vec::new();
        let mut input = vec![0; READ_SIZE];
        let mut events = [NO_EVENT; 256];

        let start = Instant::now();
        let mut last_event = start;
        for (index, trip) in trips.iter_mut().enumerate() {
            trip.begin(start);
            trip.send(message, &epoll, index)?;
        }
        let mut open = trips.len();
        while open > 0 {
            let count = epoll.wait(&mut events, TIMEOUT.as_millis() as i32)?;
            let now = Instant::now();
            if count > 0 {
                last_event = now;
            } else if now - last_event >= TIMEOUT {
                return Err(silent(open));
            }
            for event in &events[..count] {
                let index = event.u64 as usize;
                let trip = &mut trips[index];
                if trip.sent < message.len() {
                    trip.send(message, &epoll, index)?;
                }
                if !trip.receive(&mut input, &self.reply)? {
                    continue;
                }
                let now = Instant::now();
                let nanos = (now - trip.begun).as_nanos();
                latencies.push(u32::try_from(nanos).unwrap_or(u32::MAX));
                if now - start >= self.time {
                    open -= 1;
                } else {
                    trip.begin(now);
                    trip.send(message, &epoll, index)?;
                }
            }
        }
        Ok(Seen { latencies, elapsed: start.elapsed() })
    }

    fn connect(&self, epoll: &Epoll) -> io::Result<Vec<Trip>> {
        let mut trips = Vec::with_capacity(self.connections);
        for index in 0..self.connections {
            let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)
                .map_err(|error| io::Error::new(error.kind(), format!("connection {}: {error}", index + 1)))?;
            stream.set_nodelay(true)?;
            if let Some((request, end)) = self.opening {
                open(&stream, request, end)?;
            }
            stream.set_nonblocking(true)?;
            let fd = stream.as_raw_fd();
            epoll.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, index as u64)?;
            trips.push(Trip { stream, begun: Instant::now(), sent: 0, received: 0, blocked: false });
        }
        Ok(trips)
    }
}

impl Trip {
    fn begin(&mut self, now: Instant) {
        self.begun = now;
        self.sent = 0;
        self.received = 0;
    }

    /// Sends as much of the message as the socket accepts. Registers the connection for writability while bytes are
    /// left.
    fn send(&mut self, message: &[u8], epoll: &Epoll, index: usize) -> io::Result<()> {
        while self.sent < message.len() {
            match self.stream.write(&message[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if would_block(&error) => break,
                Err(error) => return Err(error),
            }
        }
        let blocked = self.sent < message.len();
        if blocked == self.blocked {
            return Ok(());
        }
        self.blocked = blocked;
        let interest = match blocked {
            true => libc::EPOLLIN | libc::EPOLLOUT,
            false => libc::EPOLLIN,
        };
        let fd = self.stream.as_raw_fd();
        epoll.control(libc::EPOLL_CTL_MOD, fd, interest, index as u64)
    }

    /// Receives available bytes, and compares them with the reply. Returns true if the reply is complete.
    fn receive(&mut self, input: &mut [u8], reply: &[u8]) -> io::Result<bool> {
        let count = match self.stream.read(input) {
            Ok(0) => return Err(ended(self.received)),
            Ok(count) => count,
            Err(error) if would_block(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        let end = self.received + count;
        if reply.get(self.received..end) != Some(&input[..count]) {
            return Err(io::Error::other("the received bytes differ from the sent bytes"));
        }
        self.received = end;
        Ok(end == reply.len())
    }
}

/// Sends the request, and receives the response up to `end`, byte by byte, because messages may follow it.
fn open(mut stream: &TcpStream, request: &str, end: &[u8]) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    let mut byte = [0];
    while !response.ends_with(end) {
        stream.read_exact(&mut byte)?;
        response.push(byte[0]);
    }
    Ok(())
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn silent(open: usize) -> io::Error {
    let text = format!("{open} connections received nothing for {TIMEOUT:?}");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

fn ended(received: usize) -> io::Error {
    let text = format!("the server closed a connection after {received} bytes of an echo");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}
