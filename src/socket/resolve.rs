//! Names resolved on other threads, because getaddrinfo(3) blocks.
//!
//! Up to [`MAX_THREADS`] threads take the queries one by one; a thread ends when no query is left. Answers are queued,
//! and wake the selector. The threads use no data of the VM, so they can finish after it is closed.

use crate::event::Waker;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of queries that run at the same time.
const MAX_THREADS: usize = 8;

/// The id of a query, and its result: the addresses in the order of getaddrinfo, or a message.
pub(crate) type Answer = (i64, Result<Vec<SocketAddr>, String>);

/// The queries that wait for a thread, the answers that have not been taken yet, and the number of threads.
#[derive(Default)]
struct Queries {
    waiting: VecDeque<(i64, String)>,
    answers: VecDeque<Answer>,
    threads: usize,
}

struct Shared {
    queries: Mutex<Queries>,
    waker: Arc<Waker>,
}

/// The name resolver of one VM.
pub(crate) struct Resolver {
    shared: Arc<Shared>,
    last: i64,
}

impl Resolver {
    /// Creates a resolver whose answers wake the selector of `waker`.
    pub(crate) fn new(waker: Arc<Waker>) -> Resolver {
        let queries = Mutex::default();
        Resolver { shared: Arc::new(Shared { queries, waker }), last: 0 }
    }

    /// Starts a query for the addresses of a name. Returns the id of the query.
    ///
    /// # Errors
    /// Returns an error if no thread is running and none can be started.
    pub(crate) fn query(&mut self, name: &str) -> io::Result<i64> {
        self.last += 1;
        let mut queries = self.shared.queries();
        queries.waiting.push_back((self.last, name.to_owned()));
        if queries.threads < MAX_THREADS {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("lio-resolve".into());
            match thread.spawn(move || shared.answer_all()) {
                Ok(_) => queries.threads += 1,
                Err(error) if queries.threads == 0 => {
                    queries.waiting.pop_back();
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        Ok(self.last)
    }

    /// Returns the next answer, if there is one.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.shared.queries().answers.pop_front()
    }
}

impl Shared {
    fn queries(&self) -> MutexGuard<'_, Queries> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The main function of a thread: answers queries until no query is left.
    fn answer_all(&self) {
        loop {
            let mut queries = self.queries();
            let Some((id, name)) = queries.waiting.pop_front() else {
                queries.threads -= 1;
                return;
            };
            drop(queries);
            let found = look_up(&name);
            self.queries().answers.push_back((id, found));
            // If the selector was dropped, the answer is not needed.
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
