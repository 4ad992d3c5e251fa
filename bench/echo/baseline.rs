//! `echo_baseline PORT`: the minimal server that echo servers are compared with. It has one thread, uses raw
//! level-triggered epoll, calls `recv` and `send` once per readiness event, and allocates nothing unless a client reads
//! slowly. SIGINT and SIGTERM end it. Invariant: a connection with unsent bytes is not read until they are sent.

#[path = "../epoll.rs"]
mod epoll;
#[cfg(test)]
mod load;
#[path = "../process.rs"]
mod process;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use epoll::{Epoll, NO_EVENT};

const READ_SIZE: usize = 64 * 1024;

/// A connection, and the bytes that have not been sent yet.
struct Echo {
    stream: TcpStream,
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
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|word| word.parse::<u16>().ok());
    let Some(port) = port else {
        eprintln!("usage: echo_baseline PORT   (0: the system chooses one)");
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
        Ok(Server { epoll: Epoll::new()?, listener, connections: Vec::new(), input: vec![0; READ_SIZE] })
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
        let unsent = Vec::new();
        self.connections[index] = Some(Echo { stream, unsent });
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
            Ok(count) => echo.send(&self.input[..count], &self.epoll),
            Err(error) => after_error(&error),
        }
    }
}

impl Echo {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::time::Duration;

    use load::Load;

    /// Starts a server on a free port. Returns its address and a pipe: the server ends when the pipe is dropped.
    fn serve() -> (SocketAddr, io::PipeWriter) {
        let (end, writer) = io::pipe().unwrap();
        let mut server = Server::new(0).unwrap();
        let address = server.listener.local_addr().unwrap();
        std::thread::spawn(move || server.run(&end.into()));
        (address, writer)
    }

    fn drive(address: SocketAddr, connections: usize, size: usize) -> load::Seen {
        let time = Duration::from_millis(50);
        Load::of_echoes(address, connections, size, time).run().unwrap()
    }

    #[test]
    fn echoes_every_byte_of_every_connection() {
        let (address, _end) = serve();
        for (connections, size) in [(1, 1), (1, 64), (8, 64), (8, 65536), (2, 8 << 20)] {
            let seen = drive(address, connections, size);
            assert!(seen.latencies.len() >= connections, "{connections} of {size}");
            assert!(seen.elapsed >= Duration::from_millis(50));
        }
    }

    #[test]
    fn the_client_fails_if_the_server_closes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 64]).unwrap();
        });
        let load = Load::of_echoes(address, 1, 64, Duration::from_secs(1));
        let error = load.run().err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
    }

    #[test]
    fn the_client_fails_if_other_bytes_arrive() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 64]).unwrap();
            stream.write_all(&[9; 64]).unwrap();
            stream
        });
        let load = Load::of_echoes(address, 1, 64, Duration::from_secs(1));
        let error = load.run().err().unwrap();
        assert!(error.to_string().contains("differ from the sent bytes"), "{error}");
        drop(server.join());
    }

    #[test]
    fn a_percentile_is_a_value_of_the_list() {
        let sorted: Vec<u32> = (1..=200).collect();
        assert_eq!(load::percentile(&sorted, 0.5), 100);
        assert_eq!(load::percentile(&sorted, 0.99), 198);
        assert_eq!(load::percentile(&sorted, 1.0), 200);
        assert_eq!(load::percentile(&[7], 0.5), 7);
        assert_eq!(load::percentile(&[], 0.5), 0);
    }
}
