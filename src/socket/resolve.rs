//! Names looked up off-thread (getaddrinfo(3) blocks), and files of unix sockets that nobody listens to.
//!
//! Each query is one job for a small set of threads that live while there is work. An answer is queued
//! and wakes the selector. The threads own nothing of the VM: when that is gone they finish on their own.

use crate::event::Waker;
use rustix::io::Errno;
use socket2::SockAddr;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many look-ups run at once.
const THREADS: usize = 8;

/// The number of a query, and what came of it: addresses as getaddrinfo ordered them, or a message.
pub(crate) type Answer = (i64, Result<Vec<SocketAddr>, String>);

#[derive(Default)]
struct Work {
    jobs: VecDeque<(i64, String)>,
    answers: VecDeque<Answer>,
    threads: usize,
}

struct Shared {
    work: Mutex<Work>,
    waker: Arc<Waker>,
}

/// Looks names up for one VM.
pub(crate) struct Resolver {
    shared: Arc<Shared>,
    last: i64,
}

impl Resolver {
    /// One whose answers wake the selector of `waker`.
    pub(crate) fn new(waker: Arc<Waker>) -> Resolver {
        let work = Mutex::default();
        Resolver { shared: Arc::new(Shared { work, waker }), last: 0 }
    }

    /// Asks for the addresses of a name. → the number of the query; an error when no thread can be started.
    pub(crate) fn query(&mut self, name: &str) -> io::Result<i64> {
        self.last += 1;
        let mut work = self.shared.work();
        work.jobs.push_back((self.last, name.to_owned()));
        if work.threads < THREADS {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("lio-resolve".into());
            match thread.spawn(move || shared.answer_all()) {
                Ok(_) => work.threads += 1,
                Err(error) if work.threads == 0 => {
                    work.jobs.pop_back();
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        Ok(self.last)
    }

    /// The next answer, if there is one.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.shared.work().answers.pop_front()
    }
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does: answers queries until there are none.
    fn answer_all(&self) {
        loop {
            let mut work = self.work();
            let Some((id, name)) = work.jobs.pop_front() else {
                work.threads -= 1;
                return;
            };
            drop(work);
            let found = look_up(&name);
            self.work().answers.push_back((id, found));
            // The selector may be gone: then nobody waits for the answer.
            let _ = self.waker.wake();
        }
    }
}

fn look_up(name: &str) -> Result<Vec<SocketAddr>, String> {
    let found = (name, 0u16).to_socket_addrs();
    let mut list: Vec<SocketAddr> = Vec::new();
    for address in found.map_err(|error| error.to_string())? {
        if !list.contains(&address) {
            list.push(address);
        }
    }
    if list.is_empty() { Err("the name has no address".into()) } else { Ok(list) }
}

/// Whether `path` is a unix socket's file (not what a link leads to) to which no socket belongs any more.
/// A listener there notices nothing: asked by a datagram socket, it is merely of the wrong type.
pub(crate) fn is_stale(path: &Path) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let probe = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None)?;
    probe.set_nonblocking(true)?;
    let asked = probe.connect(&SockAddr::unix(path)?);
    let errno = asked.err().and_then(|error| Errno::from_io_error(&error));
    Ok(errno == Some(Errno::CONNREFUSED))
}

/// Removes the file of a unix socket to which no socket belongs any more. False when `address` is none such.
pub(crate) fn remove_stale(address: &SockAddr) -> io::Result<bool> {
    let Some(path) = address.as_pathname() else { return Ok(false) };
    if !is_stale(path).unwrap_or(false) {
        return Ok(false);
    }
    fs::remove_file(path)?;
    Ok(true)
}
