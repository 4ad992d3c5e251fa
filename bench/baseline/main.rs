//! `baseline PORT [KIND]`: the minimal HTTP responder that `lio.webserver` is compared with. It has one thread, uses
//! raw level-triggered epoll, calls `recv` and `send` once per readiness event, and sends a constant response for each
//! blank line that it receives; `reply.rs` contains the responses. It parses only the length of a body to echo, and
//! allocates nothing per request. A real server also has the cost of parsing, routing and building responses.
//! Invariant: a connection with unsent bytes is not read until they are sent.

#[path = "../epoll.rs"]
mod epoll;
#[path = "../process.rs"]
mod process;
mod reply;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};

use epoll::{Epoll, NO_EVENT};
use reply::{Mode, Reply};
use socket2::{Domain, Socket, Type};

const READ_SIZE: usize = 16 * 1024;
const BACKLOG: i32 = 4096;

/// The state of one connection.
#[derive(Default)]
struct Connection {
    /// The number of bytes of an incomplete blank line `\r\n\r\n` at the end of the input so far, 0 to 3.
    matched: u8,
    /// The number of bytes of responses that have not been sent yet.
    unsent: usize,
    /// The position of the next byte to send in the response.
    offset: usize,
    /// True if the connection is registered for writability instead of readability.
    blocked: bool,
    /// For an echo: the received bytes of an incomplete request.
    incomplete: Vec<u8>,
    /// For an echo: the responses that are being sent.
    echoes: Vec<u8>,
}

/// The effect of a step on the connection.
#[derive(PartialEq)]
enum Step {
    Open,
    Close,
}

struct Server {
    epoll: Epoll,
    /// The connections, indexed by descriptor.
    connections: Vec<Connection>,
    reply: Reply,
    input: Vec<u8>,
    requests: u64,
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let port = words.first().and_then(|word| word.parse::<u16>().ok());
    let reply = Reply::of(words.get(1).map_or("hello", String::as_str));
    let (Some(port), Some(reply)) = (port, reply) else {
        eprintln!("usage: baseline PORT [KIND]   (port 0: the system chooses one; kinds: bench/baseline/reply.rs)");
        std::process::exit(2);
    };
    process::raise_descriptor_limit()?;
    let signals = process::termination_signals()?;
    let listener = listen(port)?;
    println!("listening on {}", listener.local_addr()?);
    io::stdout().flush()?;

    let mut server =
        Server { epoll: Epoll::new()?, connections: Vec::new(), reply, input: vec![0; READ_SIZE], requests: 0 };
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
                    // SAFETY: `fd` is a connection that `accept` opened, and only this line closes it.
                    unsafe { libc::close(fd) };
                }
            }
        }
    }

    /// Accepts one connection. Readiness is level-triggered, so the listener is reported again if more connections are
    /// waiting.
    fn accept(&mut self, listener: RawFd) -> io::Result<()> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: with null pointers the call does not store the peer's address.
        let fd = unsafe { libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            // If no descriptor is free, the listener would be reported forever, and the measurement would be wrong.
            return match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => Err(error),
                _ => Ok(()),
            };
        }
        let on: libc::c_int = 1;
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the option's value is an int that is valid during the call.
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
        if self.reply.mode == Mode::Echo {
            return self.echo(fd, got as usize);
        }
        let connection = &mut self.connections[fd as usize];
        let complete = count_blank_lines(&mut connection.matched, &self.input[..got as usize]);
        if complete == 0 {
            return Step::Open;
        }
        self.requests += complete as u64;
        connection.unsent = complete * self.reply.length;
        self.send(fd)
    }

    /// Sends back the bodies of all requests that the first `got` bytes of `input` complete.
    fn echo(&mut self, fd: RawFd, got: usize) -> Step {
        let connection = &mut self.connections[fd as usize];
        let Connection { incomplete, echoes, .. } = connection;
        let received = &self.input[..got];
        let starts_here = incomplete.is_empty();
        if !starts_here {
            incomplete.extend_from_slice(received);
        }
        let input = if starts_here { received } else { incomplete.as_slice() };
        let mut from = 0;
        echoes.clear();
        while let Some((head, end)) = reply::request(&input[from..]) {
            let body = &input[from + head..from + end];
            echoes.extend_from_slice(&self.reply.bytes);
            write!(echoes, "{}\r\n\r\n", body.len()).expect("a write to memory succeeds");
            echoes.extend_from_slice(body);
            self.requests += 1;
            from += end;
        }
        if starts_here {
            incomplete.extend_from_slice(&received[from..]);
        } else {
            incomplete.drain(..from);
        }
        connection.unsent = connection.echoes.len();
        self.send(fd)
    }

    /// Sends the unsent bytes. Needs one call of `send`, unless the unsent bytes are longer than the prepared copies of
    /// the response.
    fn send(&mut self, fd: RawFd) -> Step {
        let connection = &mut self.connections[fd as usize];
        let (source, cycle) = match self.reply.mode {
            Mode::Echo => (&connection.echoes, connection.echoes.len()),
            Mode::Keep | Mode::Close => (&self.reply.bytes, self.reply.length),
        };
        while connection.unsent > 0 {
            let end = source.len().min(connection.offset + connection.unsent);
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
            connection.unsent -= sent as usize;
            connection.offset = (connection.offset + sent as usize) % cycle;
        }
        if self.reply.mode == Mode::Close {
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

/// Returns what happens to the connection after a failed `recv` or `send`, according to the error in `errno`.
fn after_error() -> Step {
    match io::Error::last_os_error().kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Step::Open,
        _ => Step::Close,
    }
}

/// Counts the blank lines `\r\n\r\n` whose last byte is in `bytes`. `matched` is the number of bytes of an incomplete
/// blank line at the end of the earlier input; the function updates it.
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
    fn finds_a_blank_line_that_is_split_at_any_position() {
        let request = b"GET / HTTP/1.1\r\nHost: x\r\r\n\r\n";
        for cut in 0..=request.len() {
            let mut matched = 0;
            let first = count_blank_lines(&mut matched, &request[..cut]);
            assert_eq!(first + count_blank_lines(&mut matched, &request[cut..]), 1, "cut at {cut}");
        }
    }
}
