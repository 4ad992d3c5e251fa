//! `baseline PORT [KIND]`: the floor that `lio.webserver` is measured against. One thread, raw level-triggered epoll,
//! one `recv` and one `send` per readiness, and a constant answer for each blank line received; `floor.rs` has the
//! kinds. But for the length of a body to be echoed it parses nothing, and it allocates nothing per request, so
//! whatever a real server needs beyond it is the price of being one.
//! Invariant: a connection that owes bytes is not read until they are sent.

mod epoll;
mod floor;
mod process;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};

use epoll::{Epoll, NO_EVENT};
use floor::{Floor, Manner};
use socket2::{Domain, Socket, Type};

const READ_SIZE: usize = 16 * 1024;
const BACKLOG: i32 = 4096;

/// Progress of one connection, indexed by its descriptor.
#[derive(Default)]
struct Connection {
    /// Bytes of the blank line `\r\n\r\n` seen at the end of the input so far, 0 to 3.
    matched: u8,
    /// Bytes of answers not sent yet.
    owed: usize,
    /// Where in the answer the next byte to send stands.
    offset: usize,
    /// Registered for writability instead of readability.
    blocked: bool,
    /// Of an echo: a request whose end has not come yet.
    begun: Vec<u8>,
    /// Of an echo: the answers that are being sent.
    echoes: Vec<u8>,
}

/// Whether the connection goes on after a step.
#[derive(PartialEq)]
enum Step {
    Open,
    Close,
}

struct Server {
    epoll: Epoll,
    connections: Vec<Connection>,
    floor: Floor,
    input: Vec<u8>,
    requests: u64,
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let port = words.first().and_then(|word| word.parse::<u16>().ok());
    let floor = Floor::of(words.get(1).map_or("hello", String::as_str));
    let (Some(port), Some(floor)) = (port, floor) else {
        eprintln!("usage: baseline PORT [KIND]   (port 0: one chosen by the system; kinds: floor.rs)");
        std::process::exit(2);
    };
    process::raise_descriptor_limit()?;
    let signals = process::termination_signals()?;
    let listener = listen(port)?;
    println!("listening on {}", listener.local_addr()?);
    io::stdout().flush()?;

    let mut server =
        Server { epoll: Epoll::new()?, connections: Vec::new(), floor, input: vec![0; READ_SIZE], requests: 0 };
    server.run(listener.as_raw_fd(), signals.as_raw_fd())?;
    println!("served {} requests", server.requests);
    Ok(())
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl Server {
    /// Serves until `signals` becomes readable.
    fn run(&mut self, listener: RawFd, signals: RawFd) -> io::Result<()> {
        for fd in [listener, signals] {
            self.epoll.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, fd as u64)?;
        }
        let mut events = [NO_EVENT; 256];
        loop {
            let count = self.epoll.wait(&mut events, -1)?;
            for event in &events[..count] {
                let fd = event.u64 as RawFd;
                if fd == signals {
                    return Ok(());
                } else if fd == listener {
                    self.accept(listener)?;
                } else if self.ready(fd) == Step::Close {
                    // SAFETY: `fd` is a connection that `accept` opened, and is closed here alone.
                    unsafe { libc::close(fd) };
                }
            }
        }
    }

    /// Takes one connection; level-triggered readiness brings us back for the next.
    fn accept(&mut self, listener: RawFd) -> io::Result<()> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: null address pointers say that the peer's address is not wanted.
        let fd = unsafe { libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            // Out of descriptors: better to stop than to measure a loop that spins on its listener.
            return match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => Err(error),
                _ => Ok(()),
            };
        }
        let on: libc::c_int = 1;
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the option's value is an int that lives through the call.
        unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const on).cast(), size) };
        let index = fd as usize;
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, Connection::default);
        }
        self.connections[index] = Connection::default();
        self.epoll.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, fd as u64)
    }

    fn ready(&mut self, fd: RawFd) -> Step {
        if self.connections[fd as usize].blocked {
            return self.send(fd);
        }
        // SAFETY: `input` is writable for its whole length.
        let got = unsafe { libc::recv(fd, self.input.as_mut_ptr().cast(), self.input.len(), 0) };
        if got == 0 {
            return Step::Close;
        }
        if got < 0 {
            return after_error();
        }
        if self.floor.manner == Manner::Echo {
            return self.echo(fd, got as usize);
        }
        let connection = &mut self.connections[fd as usize];
        let complete = count_blank_lines(&mut connection.matched, &self.input[..got as usize]);
        if complete == 0 {
            return Step::Open;
        }
        self.requests += complete as u64;
        connection.owed = complete * self.floor.length;
        self.send(fd)
    }

    /// Sends back the bodies of the requests that the last `got` bytes of input have completed.
    fn echo(&mut self, fd: RawFd, got: usize) -> Step {
        let connection = &mut self.connections[fd as usize];
        let Connection { begun, echoes, .. } = connection;
        let fresh = &self.input[..got];
        let whole = begun.is_empty();
        if !whole {
            begun.extend_from_slice(fresh);
        }
        let input = if whole { fresh } else { begun.as_slice() };
        let mut from = 0;
        echoes.clear();
        while let Some((head, end)) = floor::request(&input[from..]) {
            let body = &input[from + head..from + end];
            echoes.extend_from_slice(&self.floor.answers);
            write!(echoes, "{}\r\n\r\n", body.len()).expect("memory takes what is written");
            echoes.extend_from_slice(body);
            self.requests += 1;
            from += end;
        }
        if whole {
            begun.extend_from_slice(&fresh[from..]);
        } else {
            begun.drain(..from);
        }
        connection.owed = connection.echoes.len();
        self.send(fd)
    }

    /// Sends what is owed: one call, unless the pipeline is longer than the prepared copies.
    fn send(&mut self, fd: RawFd) -> Step {
        let connection = &mut self.connections[fd as usize];
        let (source, cycle) = match self.floor.manner {
            Manner::Echo => (&connection.echoes, connection.echoes.len()),
            Manner::Keep | Manner::Close => (&self.floor.answers, self.floor.length),
        };
        while connection.owed > 0 {
            let end = source.len().min(connection.offset + connection.owed);
            let piece = &source[connection.offset..end];
            // SAFETY: `piece` is readable for its whole length.
            let sent = unsafe { libc::send(fd, piece.as_ptr().cast(), piece.len(), libc::MSG_NOSIGNAL) };
            if sent < 0 {
                if after_error() == Step::Close {
                    return Step::Close;
                }
                connection.blocked = true;
                return self.watch(fd, libc::EPOLLOUT);
            }
            connection.owed -= sent as usize;
            connection.offset = (connection.offset + sent as usize) % cycle;
        }
        if self.floor.manner == Manner::Close {
            return Step::Close;
        }
        if !connection.blocked {
            return Step::Open;
        }
        connection.blocked = false;
        self.watch(fd, libc::EPOLLIN)
    }

    fn watch(&self, fd: RawFd, interest: libc::c_int) -> Step {
        match self.epoll.control(libc::EPOLL_CTL_MOD, fd, interest, fd as u64) {
            Ok(()) => Step::Open,
            Err(_) => Step::Close,
        }
    }
}

/// What a failed `recv` or `send` means: come back later, or close.
fn after_error() -> Step {
    match io::Error::last_os_error().kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Step::Open,
        _ => Step::Close,
    }
}

/// Counts the `\r\n\r\n` that end in `bytes`. `matched` carries a blank line begun in an earlier read.
fn count_blank_lines(matched: &mut u8, bytes: &[u8]) -> usize {
    let mut count = 0;
    for &byte in bytes {
        *matched = match (*matched, byte) {
            (2, b'\r') => 3,
            (_, b'\r') => 1,
            (1, b'\n') => 2,
            (3, b'\n') => {
                count += 1;
                0
            }
            _ => 0,
        };
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_pipelined_requests() {
        let mut matched = 0;
        assert_eq!(count_blank_lines(&mut matched, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\nGET"), 2);
        assert_eq!(matched, 0);
    }

    #[test]
    fn finds_a_blank_line_split_at_every_place() {
        let request = b"GET / HTTP/1.1\r\nHost: x\r\r\n\r\n";
        for cut in 0..=request.len() {
            let mut matched = 0;
            let first = count_blank_lines(&mut matched, &request[..cut]);
            assert_eq!(first + count_blank_lines(&mut matched, &request[cut..]), 1, "cut at {cut}");
        }
    }
}
