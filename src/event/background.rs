//! Work that would block a thread's tasks for long, such as hashing a password: it runs on other threads.
//!
//! The queue of a process is shared by all its VMs, so that the number of threads does not grow with the number of VMs.
//! A thread ends when no work is left. The work must not use the data of a VM, because the VM may be closed meanwhile;
//! it reports its result itself, and must not panic.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A piece of work.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// The work that waits for a thread, and the number of threads.
struct State {
    waiting: VecDeque<Work>,
    threads: usize,
}

/// A queue of work.
pub(crate) struct Background {
    state: Mutex<State>,
    /// The maximum length of the queue.
    limit: usize,
}

/// Why work was refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The queue is full.
    Busy,
    /// No thread is running, and none can be started.
    NoThread(io::Error),
}

impl Background {
    /// Returns a queue for at most `limit` pieces of work that wait for a thread.
    pub(crate) const fn new(limit: usize) -> Background {
        Background { state: Mutex::new(State { waiting: VecDeque::new(), threads: 0 }), limit }
    }

    /// Runs the work on another thread, as soon as one of at most `max_threads` threads is free.
    ///
    /// # Errors
    /// Returns an error if the queue is full, or if there is no thread.
    pub(crate) fn run(&'static self, max_threads: usize, work: Work) -> Result<(), Refused> {
        let mut state = self.state();
        let needs_thread = state.threads < max_threads.max(1);
        if !needs_thread && state.waiting.len() >= self.limit {
            return Err(Refused::Busy);
        }
        state.waiting.push_back(work);
        if needs_thread {
            let thread = std::thread::Builder::new().name("lio-background".into());
            match thread.spawn(|| self.work()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    state.waiting.pop_back();
                    return Err(Refused::NoThread(error));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The main function of a thread.
    fn work(&self) {
        loop {
            let mut state = self.state();
            let Some(work) = state.waiting.pop_front() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            work();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const DEADLINE: Duration = Duration::from_secs(20);

    #[test]
    fn work_runs_on_at_most_the_given_number_of_threads_in_order() {
        static QUEUE: Background = Background::new(100);
        let (begun, events) = channel();
        let mut gates = Vec::new();
        for number in 0..5 {
            let (open, gate) = channel::<()>();
            gates.push(open);
            let begun = begun.clone();
            let work = move || {
                begun.send(number).unwrap();
                let _ = gate.recv();
            };
            QUEUE.run(2, Box::new(work)).unwrap();
        }
        let mut first = [events.recv_timeout(DEADLINE).unwrap(), events.recv_timeout(DEADLINE).unwrap()];
        first.sort();
        assert_eq!(first, [0, 1]);
        assert!(events.try_recv().is_err());
        gates[1].send(()).unwrap();
        assert_eq!(events.recv_timeout(DEADLINE).unwrap(), 2);
        drop(gates);
        let mut last = [events.recv_timeout(DEADLINE).unwrap(), events.recv_timeout(DEADLINE).unwrap()];
        last.sort();
        assert_eq!(last, [3, 4]);
    }

    #[test]
    fn work_is_refused_while_the_queue_is_full() {
        static QUEUE: Background = Background::new(1);
        let (begun, events) = channel();
        let (open, gate) = channel::<()>();
        let notify = begun.clone();
        let work = move || {
            notify.send(1).unwrap();
            let _ = gate.recv();
        };
        QUEUE.run(1, Box::new(work)).unwrap();
        assert_eq!(events.recv_timeout(DEADLINE).unwrap(), 1);
        let notify = begun.clone();
        QUEUE.run(1, Box::new(move || notify.send(2).unwrap())).unwrap();
        assert!(matches!(QUEUE.run(1, Box::new(|| unreachable!())), Err(Refused::Busy)));
        open.send(()).unwrap();
        assert_eq!(events.recv_timeout(DEADLINE).unwrap(), 2);
        QUEUE.run(1, Box::new(move || begun.send(3).unwrap())).unwrap();
        assert_eq!(events.recv_timeout(DEADLINE).unwrap(), 3);
    }
}
