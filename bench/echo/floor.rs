//! `echo_floor PORT`: the floor that the echo servers are measured against. One thread, raw level-triggered epoll, one
//! `recv` and one `send` per readiness, nothing allocated unless a client reads slowly. Ends at SIGINT and SIGTERM.
//! Invariant: a connection that owes bytes is not read until they are sent.

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

/// A connection, and what it has still to be sent.
struct Echo {
    stream: TcpStream,
    owed: Vec<u8>,
}

/// Whether the connection goes on after a step.
#[derive(PartialEq)]
enum Step {
    Open,
    Close,
}

struct Server {
    epoll: Epoll,
    listener: TcpListener,
    /// Indexed by descriptor.
    connections: Vec<Option<Echo>>,
    input: Vec<u8>,
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|word| word.parse::<u16>().ok());
    let Some(port) = port else {
        eprintln!("usage: echo_floor PORT   (0: a port chosen by the system)");
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

    /// Takes one connection; level-triggered readiness brings us back for the next.
    fn accept(&mut self) -> io::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            // Out of descriptors: better to stop than to measure a loop that spins on its listener.
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
        let owed = Vec::new();
        self.connections[index] = Some(Echo { stream, owed });
        self.epoll.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, fd as u64)
    }

    fn ready(&mut self, fd: RawFd) -> Step {
        let Some(echo) = &mut self.connections[fd as usize] else {
            return Step::Open;
        };
        if !echo.owed.is_empty() {
            return echo.send_owed(&self.epoll);
        }
        match echo.stream.read(&mut self.input) {
            Ok(0) => Step::Close,
            Ok(count) => echo.send(&self.input[..count], &self.epoll),
            Err(error) => after(&error),
        }
    }
}

impl Echo {
    fn send(&mut self, bytes: &[u8], epoll: &Epoll) -> Step {
        let sent = match self.stream.write(bytes) {
            Ok(count) => count,
            Err(error) if after(&error) == Step::Open => 0,
            Err(_) => return Step::Close,
        };
        if sent == bytes.len() {
            return Step::Open;
        }
        self.owed.extend_from_slice(&bytes[sent..]);
        self.watch(epoll, libc::EPOLLOUT)
    }

    fn send_owed(&mut self, epoll: &Epoll) -> Step {
        match self.stream.write(&self.owed) {
            Ok(count) => drop(self.owed.drain(..count)),
            Err(error) => return after(&error),
        }
        if !self.owed.is_empty() {
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

/// What a failed `read` or `write` means: come back later, or close.
fn after(error: &io::Error) -> Step {
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

    /// A floor on a port of its own; it ends when the writing side of the pipe is dropped.
    fn serve() -> (SocketAddr, io::PipeWriter) {
        let (end, writer) = io::pipe().unwrap();
        let mut server = Server::new(0).unwrap();
        let address = server.listener.local_addr().unwrap();
        std::thread::spawn(move || server.run(&end.into()));
        (address, writer)
    }

    fn drive(address: SocketAddr, connections: usize, size: usize) -> load::Seen {
        let time = Duration::from_millis(50);
        let load = Load { address, connections, size, time };
        load.run().unwrap()
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
    fn a_server_that_closes_is_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 64]).unwrap();
        });
        let load = Load { address, connections: 1, size: 64, time: Duration::from_secs(1) };
        let error = load.run().err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
    }

    #[test]
    fn other_bytes_are_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 64]).unwrap();
            stream.write_all(&[9; 64]).unwrap();
            stream
        });
        let load = Load { address, connections: 1, size: 64, time: Duration::from_secs(1) };
        let error = load.run().err().unwrap();
        assert!(error.to_string().contains("not what was sent"), "{error}");
        drop(server.join());
    }

    #[test]
    fn percentiles_are_values_of_the_list() {
        let sorted: Vec<u32> = (1..=200).collect();
        assert_eq!(load::percentile(&sorted, 0.5), 100);
        assert_eq!(load::percentile(&sorted, 0.99), 198);
        assert_eq!(load::percentile(&sorted, 1.0), 200);
        assert_eq!(load::percentile(&[7], 0.5), 7);
        assert_eq!(load::percentile(&[], 0.5), 0);
    }
}
