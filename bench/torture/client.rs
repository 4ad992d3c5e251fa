//! The connections of the torture program: a fixed number on one epoll instance, each with one case at a time. The
//! client sends bytes at the pace of the case, passes received bytes to `exchange.rs`, and records the verdict in the
//! results. Invariant: the client closes a connection with RST, which avoids TIME_WAIT, unless the case has ended the
//! connection with FIN.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use crate::case::{Finish, Pace};
use crate::cases::Cases;
use crate::epoll::{Epoll, NO_EVENT};
use crate::exchange::Verdict;
use crate::prng::Prng;
use crate::probe::Probe;
use crate::results::Results;
use crate::slot::{Slot, connect};

/// The time limit of a case.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The program stops after this number of failed exchanges.
const MOST_FAILURES: u64 = 1000;
const SCRATCH: usize = 256 * 1024;
const SIGNAL: u64 = u64::MAX;
const IDLE_WAIT_MS: i32 = 100;

/// The limits of a run: the number of requests, and the time after which no new case starts.
pub(crate) struct Bounds {
    pub(crate) requests: u64,
    pub(crate) deadline: Instant,
}

pub(crate) struct Client {
    address: SocketAddr,
    epoll: Epoll,
    slots: Vec<Slot>,
    cases: Cases,
    /// Generates the sizes of fragments. The cases use a different generator, because the timing must not change them.
    pieces: Prng,
    pub(crate) results: Results,
    bounds: Bounds,
    started: u64,
    /// The indexes of the slots that continue without an event: with a new case, the next fragment or an RST.
    again: Vec<usize>,
    scratch: Vec<u8>,
    interrupted: bool,
    opened: u32,
}

impl Client {
    /// Creates a client for `connections` simultaneous connections. When `signals` becomes readable, the client does
    /// not start any other case.
    pub(crate) fn new(
        address: SocketAddr, connections: usize, cases: Cases, bounds: Bounds, signals: RawFd,
    ) -> io::Result<Client> {
        let epoll = Epoll::new()?;
        epoll.control(libc::EPOLL_CTL_ADD, signals, libc::EPOLLIN, SIGNAL)?;
        Ok(Client {
            address,
            epoll,
            slots: (0..connections).map(|_| Slot::new()).collect(),
            cases,
            pieces: Prng::new(1),
            results: Results::new(),
            bounds,
            started: 0,
            again: (0..connections).collect(),
            scratch: vec![0; SCRATCH],
            interrupted: false,
            opened: 0,
        })
    }

    /// Runs until a bound is reached, a signal arrives or too many exchanges have failed, and then until all started
    /// cases have ended. Afterwards no connection is open.
    pub(crate) fn run(&mut self, mut probe: Option<&mut Probe>) -> io::Result<()> {
        let mut events = [NO_EVENT; 256];
        let mut checked = Instant::now();
        let mut marks = [self.bounds.requests / 10, self.bounds.requests / 2].into_iter().peekable();
        let mut first = true;
        loop {
            for index in std::mem::take(&mut self.again) {
                self.turn(index)?;
            }
            if self.again.is_empty() && self.slots.iter().all(|slot| !slot.busy) {
                return Ok(());
            }
            let wait = if self.again.is_empty() { IDLE_WAIT_MS } else { 0 };
            let count = self.epoll.wait(&mut events, wait)?;
            for event in &events[..count] {
                self.dispatch(event.u64, event.events);
            }
            if checked.elapsed() > Duration::from_millis(IDLE_WAIT_MS as u64) {
                checked = Instant::now();
                self.expire();
            }
            if let (Some(probe), Some(_)) = (&mut probe, marks.next_if(|mark| self.results.finished >= *mark)) {
                if first {
                    probe.warm()?
                } else {
                    _ = probe.sample("50 %")?
                }
                first = false;
            }
        }
    }

    fn stopping(&self) -> bool {
        self.interrupted
            || self.started >= self.bounds.requests
            || self.results.failures >= MOST_FAILURES
            || Instant::now() >= self.bounds.deadline
    }

    /// Continues the slot `index`, which needs no event.
    fn turn(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.slots[index];
        if !slot.busy {
            return self.begin(index);
        }
        if slot.sent < slot.exchange.case.out.len() {
            self.send(index);
            return Ok(());
        }
        if slot.turns > 0 {
            slot.turns -= 1;
            self.again.push(index);
        } else if matches!(slot.exchange.case.finish, Finish::Reset { .. }) {
            self.settle(index, Verdict::Drop);
        }
        Ok(())
    }

    /// Starts the next case of a slot, on its connection or on a new one.
    fn begin(&mut self, index: usize) -> io::Result<()> {
        if self.stopping() {
            self.slots[index].stream = None;
            return Ok(());
        }
        let slot = &mut self.slots[index];
        self.cases.fill(&mut slot.exchange.case, self.bounds.requests - self.started);
        slot.exchange.begin();
        (slot.sent, slot.turns, slot.busy, slot.began) = (0, 0, true, Instant::now());
        self.started += slot.exchange.case.requests();
        self.results.sent(&slot.exchange);
        if slot.stream.is_none() {
            self.opened += 1;
            slot.generation = slot.generation.wrapping_add(1);
            slot.blocked = false;
            let stream = connect(self.address, self.opened)?;
            let token = slot.token(index);
            self.epoll.control(libc::EPOLL_CTL_ADD, stream.as_raw_fd(), libc::EPOLLIN, token)?;
            slot.stream = Some(stream);
        }
        self.send(index);
        Ok(())
    }

    fn dispatch(&mut self, token: u64, events: u32) {
        if token == SIGNAL {
            self.interrupted = true;
            return;
        }
        let index = (token & 0xffff_ffff) as usize;
        let slot = &self.slots[index];
        if !slot.busy || slot.token(index) != token {
            return;
        }
        if events & libc::EPOLLOUT as u32 != 0 && slot.blocked {
            self.send(index);
        }
        let slot = &self.slots[index];
        if events & !(libc::EPOLLOUT as u32) != 0 && slot.busy && slot.token(index) == token {
            self.receive(index);
        }
    }

    /// Sends the bytes that the pace and the `hold` of the case allow.
    fn send(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(mut stream) = slot.stream.as_ref() else {
            return;
        };
        let case = &slot.exchange.case;
        let limit = case.hold.unwrap_or(case.out.len());
        while slot.sent < limit {
            let end = match case.pace {
                Pace::Whole => limit,
                Pace::Fragments(most) => limit.min(slot.sent + 1 + self.pieces.below(most)),
            };
            match stream.write(&case.out[slot.sent..end]) {
                Ok(count) => slot.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.block(index);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return self.settle(index, Verdict::Wrong("connection refused".into()));
                }
                // The server has closed the connection. The bytes that it sent before are checked when the client reads
                // them.
                Err(_) => slot.sent = case.out.len(),
            }
            if matches!(case.pace, Pace::Fragments(_)) && slot.sent < limit {
                self.again.push(index);
                break;
            }
        }
        self.unblock(index);
        let slot = &self.slots[index];
        if slot.busy && slot.sent == slot.exchange.case.out.len() {
            self.all_sent(index);
        }
    }

    fn all_sent(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        match slot.exchange.case.finish {
            Finish::Reset { turns, .. } => {
                slot.turns = turns;
                self.again.push(index);
            }
            Finish::HalfClose { .. } => {
                // This call fails if the server has already closed, which the client also detects when it reads.
                _ = slot.stream.as_ref().map(|stream| stream.shutdown(Shutdown::Write));
            }
            _ => {}
        }
    }

    fn block(&mut self, index: usize) {
        if !self.slots[index].blocked {
            self.slots[index].blocked = true;
            self.watch(index, libc::EPOLLIN | libc::EPOLLOUT);
        }
    }

    fn unblock(&mut self, index: usize) {
        if self.slots[index].blocked {
            self.slots[index].blocked = false;
            self.watch(index, libc::EPOLLIN);
        }
    }

    fn watch(&mut self, index: usize, interest: libc::c_int) {
        let slot = &self.slots[index];
        let Some(stream) = &slot.stream else { return };
        let changed = self.epoll.control(libc::EPOLL_CTL_MOD, stream.as_raw_fd(), interest, slot.token(index));
        if let Err(error) = changed {
            self.settle(index, Verdict::Wrong(format!("cannot register the connection: {error}")));
        }
    }

    fn receive(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(mut stream) = slot.stream.as_ref() else {
            return;
        };
        let verdict = match stream.read(&mut self.scratch) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return;
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Verdict::Wrong("connection refused".into())
            }
            Ok(0) | Err(_) => slot.exchange.ended(&self.cases.pool),
            Ok(count) => slot.exchange.received(&self.scratch[..count], &self.cases.pool),
        };
        self.settle(index, verdict);
    }

    /// Applies a verdict. The case ends unless the verdict is `Wait` or `Proceed`.
    fn settle(&mut self, index: usize, verdict: Verdict) {
        let slot = &mut self.slots[index];
        match verdict {
            Verdict::Wait => return,
            Verdict::Proceed => {
                slot.exchange.case.hold = None;
                return self.send(index);
            }
            Verdict::Wrong(reason) => {
                let place = slot.stream.as_ref().and_then(|stream| stream.local_addr().ok());
                let reason = format!("{reason} (client {place:?}, after {:?})", slot.began.elapsed());
                self.results.failed(&slot.exchange, slot.sent, &reason);
                slot.stream = None;
            }
            Verdict::Drop => {
                self.results.passed(&slot.exchange, slot.began.elapsed());
                slot.stream = None;
            }
            Verdict::Reuse if slot.sent < slot.exchange.case.out.len() => {
                // A refusal can arrive before all bytes are sent. On this connection the server would parse the unsent
                // bytes as the next request.
                self.results.passed(&slot.exchange, slot.began.elapsed());
                slot.stream = None;
            }
            Verdict::Reuse => self.results.passed(&slot.exchange, slot.began.elapsed()),
        }
        slot.busy = false;
        if !self.again.contains(&index) {
            self.again.push(index);
        }
    }

    /// Fails each case that has exceeded the time limit.
    fn expire(&mut self) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if slot.busy && slot.began.elapsed() > TIMEOUT {
                let reason = format!("not finished after {} s", TIMEOUT.as_secs());
                self.settle(index, Verdict::Wrong(reason));
            }
        }
    }
}
