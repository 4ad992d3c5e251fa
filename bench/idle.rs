//! `idle ADDR COUNT [--send-first]`: opens COUNT keep-alive connections and holds them until standard input closes or
//! a signal comes, so that another program can measure what idle connections cost. With `--send-first` each has been
//! answered once. Prints `ready N` when all stand, and at the end how many of them the server closed.

#[allow(dead_code, reason = "a warm-up needs the status and the framing, not the headers")]
mod answer;
mod epoll;
mod process;

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use answer::{Asked, Input};
use epoll::{Epoll, NO_EVENT};
use socket2::{Domain, Socket, Type};

/// Fewer than the ephemeral ports that one source address has; the next thousands come from the next address.
const PER_SOURCE: usize = 25_000;
const PATIENCE: Duration = Duration::from_secs(10);
const STDIN: u64 = u64::MAX;
const SIGNAL: u64 = u64::MAX - 1;

#[derive(PartialEq)]
enum Warmth {
    Cold,
    AnsweredOnce,
}

#[derive(Default)]
struct Tally {
    closed: usize,
    reset: usize,
    unexpected_bytes: usize,
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((address, count, warmth)) = options(&words) else {
        eprintln!("usage: idle ADDR COUNT [--send-first]   (ADDR: 127.0.0.1:8080)");
        std::process::exit(2);
    };
    process::raise_descriptor_limit()?;
    let signals = process::termination_signals()?;
    let epoll = Epoll::new()?;
    epoll.control(libc::EPOLL_CTL_ADD, signals.as_raw_fd(), libc::EPOLLIN, SIGNAL)?;
    // A file or /dev/null cannot be watched: then only a signal ends the program.
    let _ = epoll.control(libc::EPOLL_CTL_ADD, io::stdin().as_fd().as_raw_fd(), libc::EPOLLIN, STDIN);

    let mut connections = Vec::with_capacity(count);
    for index in 0..count {
        let stream = open(address, index, &warmth)
            .map_err(|error| io::Error::new(error.kind(), format!("connection {}: {error}", index + 1)))?;
        let interest = libc::EPOLLIN | libc::EPOLLRDHUP;
        epoll.control(libc::EPOLL_CTL_ADD, stream.as_raw_fd(), interest, index as u64)?;
        connections.push(Some(stream));
    }
    println!("ready {count}");
    io::stdout().flush()?;

    let tally = hold(&epoll, &mut connections)?;
    println!(
        "held {} of {count}; the server closed {} and reset {}; {} unexpected bytes",
        count - tally.closed - tally.reset,
        tally.closed,
        tally.reset,
        tally.unexpected_bytes
    );
    Ok(())
}

fn options(words: &[String]) -> Option<(SocketAddr, usize, Warmth)> {
    let warmth = match words.get(2).map(String::as_str) {
        None => Warmth::Cold,
        Some("--send-first") => Warmth::AnsweredOnce,
        Some(_) => return None,
    };
    Some((words.first()?.parse().ok()?, words.get(1)?.parse().ok()?, warmth))
}

/// Opens one connection, has it answered once if `warmth` says so, and makes it non-blocking.
fn open(address: SocketAddr, index: usize, warmth: &Warmth) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    let source = index / PER_SOURCE;
    if source > 0 && address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        let last = u8::try_from(source + 1).map_err(|_| io::Error::other("too many connections"))?;
        socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into())?;
    }
    socket.connect_timeout(&address.into(), PATIENCE)?;
    let stream = TcpStream::from(socket);
    if *warmth == Warmth::AnsweredOnce {
        warm_up(&stream, address)?;
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Asks for `/` and reads the whole answer, which must be a 200 that keeps the connection.
fn warm_up(mut stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.extend_from_slice(&piece[..count]);
        let Some(answer) = answer::parse(&received, Asked::Body, Input::Open).map_err(io::Error::other)? else {
            continue;
        };
        return match answer.status {
            200 if !answer.close => Ok(()),
            status => Err(io::Error::other(format!("answered {status}, close: {}", answer.close))),
        };
    }
}

/// Watches the connections until standard input ends or a signal comes.
fn hold(epoll: &Epoll, connections: &mut [Option<TcpStream>]) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut events = [NO_EVENT; 256];
    let mut piece = [0; 4096];
    loop {
        let count = epoll.wait(&mut events, -1)?;
        for event in &events[..count] {
            match event.u64 {
                SIGNAL => return Ok(tally),
                STDIN => {
                    if io::stdin().read(&mut piece)? == 0 {
                        return Ok(tally);
                    }
                }
                index => tally.look_at(&mut connections[index as usize], &mut piece),
            }
        }
    }
}

impl Tally {
    /// Reads from a connection that became readable, and drops it when the server has closed it.
    fn look_at(&mut self, connection: &mut Option<TcpStream>, piece: &mut [u8]) {
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
