//! `websocket_baseline PORT`: the minimal server that WebSocket servers are compared with. It has one thread, uses raw
//! level-triggered epoll, calls `recv` and `send` once per readiness event, decodes each frame and echoes its payload in
//! a new frame. It checks nothing, and has no Lua. SIGINT and SIGTERM end it. Invariant: a connection with unsent bytes is not read until they are sent.

#[path = "../epoll.rs"]
mod epoll;
mod frames;
#[path = "../process.rs"]
mod process;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use epoll::{Epoll, NO_EVENT};

const READ_SIZE: usize = 64 * 1024;

/// A connection, the bytes of an incomplete frame or request, and the bytes that have not been sent yet.
struct Echo {
    stream: TcpStream,
    /// Whether the handshake is complete.
    is_open: bool,
    incomplete: Vec<u8>,
    unsent: Vec<u8>,
}

/// The effect of a step on the connection.
#[derive(PartialEq)]
enum Step {
    Open,
    Close,
}

struct Server {
    epoll: Epoll,
    listener: TcpListener,
    /// The connections, indexed by descriptor.
    connections: Vec<Option<Echo>>,
    input: Vec<u8>,
    output: Vec<u8>,
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|word| word.parse::<u16>().ok());
    let Some(port) = port else {
        eprintln!("usage: websocket_baseline PORT   (0: the system chooses one)");
        std::process::exit(2);
    };
    process::raise_descriptor_limit()?;
    let signals = process::termination_signals()?;
    let mut server = Server::new(port)?;
    println!("listening on {}", server.listener.local_addr()?);
    io::stdout().flush()?;
    server.run(&signals)
}

impl Server {
    fn new(port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        Ok(Server {
            epoll: Epoll::new()?,
            listener,
            connections: Vec::new(),
            input: vec![0; READ_SIZE],
            output: Vec::new(),
        })
    }

    /// Serves until `end` becomes readable.
    fn run(&mut self, end: &OwnedFd) -> io::Result<()> {
        let (listener, end) = (self.listener.as_raw_fd(), end.as_raw_fd());
        for fd in [listener, end] {
            self.epoll.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, fd as u64)?;
        }
        let mut events = [NO_EVENT; 256];
        loop {
            let count = self.epoll.wait(&mut events, -1)?;
            for event in &events[..count] {
                let fd = event.u64 as RawFd;
                if fd == end {
                    return Ok(());
                } else if fd == listener {
                    self.accept()?;
                } else if self.ready(fd) == Step::Close {
                    self.connections[fd as usize] = None;
                }
            }
        }
    }

    /// Accepts one connection. Readiness is level-triggered, so the listener is reported again if more connections are
    /// waiting.
    fn accept(&mut self) -> io::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            // If no descriptor is free, the listener would be reported forever, and the measurement would be wrong.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                return Err(error);
            }
            Err(_) => return Ok(()),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let fd = stream.as_raw_fd();
        let index = fd as usize;
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, || None);
        }
        let echo = Echo { stream, is_open: false, incomplete: Vec::new(), unsent: Vec::new() };
        self.connections[index] = Some(echo);
        self.epoll.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, fd as u64)
    }

    fn ready(&mut self, fd: RawFd) -> Step {
        let Some(echo) = &mut self.connections[fd as usize] else {
            return Step::Open;
        };
        if !echo.unsent.is_empty() {
            return echo.send_rest(&self.epoll);
        }
        match echo.stream.read(&mut self.input) {
            Ok(0) => Step::Close,
            Ok(count) => {
                self.output.clear();
                echo.answer(&mut self.input[..count], &mut self.output);
                match self.output.is_empty() {
                    true => Step::Open,
                    false => echo.send(&self.output, &self.epoll),
                }
            }
            Err(error) => after_error(&error),
        }
    }
}

/// The response to the handshake with the key of the client (RFC 6455 section 1.3).
const RESPONSE: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Returns the start of the payload of the first frame, its end, and its key; `None` if the frame is incomplete.
fn frame(bytes: &[u8]) -> Option<(usize, usize, [u8; 4])> {
    let (start, length) = match bytes.get(1)? & 0x7f {
        126 => (4, u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        length => (2, length.into()),
    };
    let key = bytes.get(start..start + 4)?.try_into().ok()?;
    let end = start + 4 + usize::try_from(length).ok()?;
    (bytes.len() >= end).then_some((start + 4, end, key))
}

impl Echo {
    /// Appends the answer to received bytes to `output`.
    fn answer(&mut self, input: &mut [u8], output: &mut Vec<u8>) {
        if self.incomplete.is_empty() {
            let used = self.answer_frames(input, output);
            self.incomplete.extend_from_slice(&input[used..]);
            return;
        }
        let mut all = std::mem::take(&mut self.incomplete);
        all.extend_from_slice(input);
        let used = self.answer_frames(&mut all, output);
        all.drain(..used);
        self.incomplete = all;
    }

    /// Returns the number of bytes of complete frames.
    fn answer_frames(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> usize {
        if !self.is_open {
            if !input.ends_with(frames::HEAD_END) {
                return 0;
            }
            self.is_open = true;
            output.extend_from_slice(RESPONSE);
            return input.len();
        }
        let mut at = 0;
        while let Some((start, end, key)) = frame(&input[at..]) {
            let payload = &mut input[at + start..at + end];
            frames::mask(payload, key);
            frames::push_head(output, payload.len(), false);
            output.extend_from_slice(payload);
            at += end;
        }
        at
    }

    fn send(&mut self, bytes: &[u8], epoll: &Epoll) -> Step {
        let sent = match self.stream.write(bytes) {
            Ok(count) => count,
            Err(error) if after_error(&error) == Step::Open => 0,
            Err(_) => return Step::Close,
        };
        if sent == bytes.len() {
            return Step::Open;
        }
        self.unsent.extend_from_slice(&bytes[sent..]);
        self.watch(epoll, libc::EPOLLOUT)
    }

    fn send_rest(&mut self, epoll: &Epoll) -> Step {
        match self.stream.write(&self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(error) => return after_error(&error),
        }
        if !self.unsent.is_empty() {
            return Step::Open;
        }
        self.watch(epoll, libc::EPOLLIN)
    }

    fn watch(&self, epoll: &Epoll, interest: libc::c_int) -> Step {
        let fd = self.stream.as_raw_fd();
        match epoll.control(libc::EPOLL_CTL_MOD, fd, interest, fd as u64) {
            Ok(()) => Step::Open,
            Err(_) => Step::Close,
        }
    }
}

/// Returns what happens to the connection after a `read` or `write` has failed with `error`.
fn after_error(error: &io::Error) -> Step {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Step::Open,
        _ => Step::Close,
    }
}
