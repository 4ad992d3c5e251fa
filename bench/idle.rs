//! `idle ADDR COUNT [--send-first]`: opens COUNT keep-alive connections and keeps them open until standard input ends
//! or a signal arrives, so that another program can measure the cost of idle connections. With `--send-first` it makes
//! one request on each connection. Prints `ready N` when all connections are open, and at the end the numbers of
//! connections that the server has kept, closed and reset.

mod epoll;
mod process;
#[allow(dead_code, reason = "this program does not read header fields")]
mod response;

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use epoll::{Epoll, NO_EVENT};
use response::{Input, Method};
use socket2::{Domain, Socket, Type};

/// The number of connections per source address. It is less than the number of ephemeral ports of an address.
const PER_SOURCE: usize = 25_000;
const TIMEOUT: Duration = Duration::from_secs(10);
const STDIN: u64 = u64::MAX;
const SIGNAL: u64 = u64::MAX - 1;

#[derive(PartialEq)]
enum FirstRequest {
    No,
    Yes,
}

/// The numbers of events while the connections were kept open.
#[derive(Default)]
struct Counts {
    closed: usize,
    reset: usize,
    unexpected_bytes: usize,
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((address, count, first_request)) = options(&words) else {
        eprintln!("usage: idle ADDR COUNT [--send-first]   (ADDR: 127.0.0.1:8080)");
        std::process::exit(2);
    };
    process::raise_descriptor_limit()?;
    let signals = process::termination_signals()?;
    let epoll = Epoll::new()?;
    epoll.control(libc::EPOLL_CTL_ADD, signals.as_raw_fd(), libc::EPOLLIN, SIGNAL)?;
    // If standard input is a file or /dev/null, it cannot be registered, and only a signal ends the program.
    let _ = epoll.control(libc::EPOLL_CTL_ADD, io::stdin().as_fd().as_raw_fd(), libc::EPOLLIN, STDIN);

    let mut connections = Vec::with_capacity(count);
    for index in 0..count {
        let stream = open(address, index, &first_request)
            .map_err(|error| io::Error::new(error.kind(), format!("connection {}: {error}", index + 1)))?;
        let interest = libc::EPOLLIN | libc::EPOLLRDHUP;
        epoll.control(libc::EPOLL_CTL_ADD, stream.as_raw_fd(), interest, index as u64)?;
        connections.push(Some(stream));
    }
    println!("ready {count}");
    io::stdout().flush()?;

    let counts = hold(&epoll, &mut connections)?;
    println!(
        "held {} of {count}; the server closed {} and reset {}; {} unexpected bytes",
        count - counts.closed - counts.reset,
        counts.closed,
        counts.reset,
        counts.unexpected_bytes
    );
    Ok(())
}

fn options(words: &[String]) -> Option<(SocketAddr, usize, FirstRequest)> {
    let first_request = match words.get(2).map(String::as_str) {
        None => FirstRequest::No,
        Some("--send-first") => FirstRequest::Yes,
        Some(_) => return None,
    };
    Some((words.first()?.parse().ok()?, words.get(1)?.parse().ok()?, first_request))
}

/// Opens connection number `index`, makes a request if `first_request` is `Yes`, and makes the connection non-blocking.
fn open(address: SocketAddr, index: usize, first_request: &FirstRequest) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    let source = index / PER_SOURCE;
    if source > 0 && address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        let last = u8::try_from(source + 1).map_err(|_| io::Error::other("too many connections"))?;
        socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into())?;
    }
    socket.connect_timeout(&address.into(), TIMEOUT)?;
    let stream = TcpStream::from(socket);
    if *first_request == FirstRequest::Yes {
        make_request(&stream, address)?;
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Requests `/` and reads the response, which must have the status 200 and keep the connection open.
fn make_request(mut stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.extend_from_slice(&piece[..count]);
        let Some(response) = response::parse(&received, Method::Other, Input::Open).map_err(io::Error::other)? else {
            continue;
        };
        return match response.status {
            200 if !response.close => Ok(()),
            status => Err(io::Error::other(format!("response with status {status}, close: {}", response.close))),
        };
    }
}

/// Keeps the connections open until standard input ends or a signal arrives. Returns the counts of their events.
fn hold(epoll: &Epoll, connections: &mut [Option<TcpStream>]) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let mut events = [NO_EVENT; 256];
    let mut piece = [0; 4096];
    loop {
        let count = epoll.wait(&mut events, -1)?;
        for event in &events[..count] {
            match event.u64 {
                SIGNAL => return Ok(counts),
                STDIN => {
                    if io::stdin().read(&mut piece)? == 0 {
                        return Ok(counts);
                    }
                }
                index => counts.read(&mut connections[index as usize], &mut piece),
            }
        }
    }
}

impl Counts {
    /// Reads from a readable connection and counts the result. Drops the connection if the server has closed it.
    fn read(&mut self, connection: &mut Option<TcpStream>, piece: &mut [u8]) {
        let Some(mut stream) = connection.as_ref() else {
            return;
        };
        match stream.read(piece) {
            Ok(0) => self.closed += 1,
            Ok(count) => {
                self.unexpected_bytes += count;
                return;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => self.reset += 1,
        }
        *connection = None;
    }
}
