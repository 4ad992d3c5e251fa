//! The target of a fuzzer: the selector, compared with poll(2) on real descriptors; or the timers, see `fuzz_timers`.
//!
//! The input decides what happens to socket pairs, pipes and event counters, and to their registrations. After each
//! step, poll(2) says which events a wait must report.

use super::adopt::Fd;
use super::fuzz_timers::{timer_seed, timers};
use super::{CLOSED, ERROR, HANG_UP, Kind, Mode, READ, Registration, Selector, Source, WRITE};
use crate::codec::fuzz_input::Input;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// The maximum number of steps of one input, and of open pairs of descriptors.
const MAX_STEPS: usize = 300;
const PLACES: usize = 6;

/// The result of an input: the number of delivered events by mode, in the order of [`MODES`].
pub(crate) type Reached = [usize; 5];

const MODES: [Mode; 5] = [Mode::Level, Mode::Once, Mode::Epoll, Mode::EpollEdge, Mode::EpollOnce];

fn mode_index(mode: Mode) -> usize {
    MODES.iter().position(|one| *one == mode).unwrap_or(0)
}

/// The end of a pair that is registered.
enum Near {
    Own(Rc<Source>),
    Foreign(OwnedFd),
}

/// A registration, and what the model knows about it.
struct Registered {
    registration: Rc<Registration>,
    mode: Mode,
    requested: u8,
    /// For edges: the bits that must be reported because they have become true.
    due: u8,
    /// The bits that may be reported although their condition has ended.
    stale: u8,
}

/// A pair of descriptors.
struct Pair {
    near: Near,
    /// The other end; `None` after it was closed, and for an event counter.
    far: Option<OwnedFd>,
    /// The readiness at the end of the last step.
    truth: u8,
    registered: [Option<Registered>; 2],
}

impl Near {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Near::Own(source) => (**source).as_fd(),
            Near::Foreign(fd) => fd.as_fd(),
        }
    }
}

/// Returns the readiness of a descriptor according to poll(2).
fn truth(fd: BorrowedFd<'_>) -> u8 {
    let mut list = [PollFd::from_borrowed_fd(fd, PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP)];
    // libFuzzer measures the time of an input with a signal.
    retry_on_intr(|| poll(&mut list, Some(&Timespec::default()))).expect("poll(2) works");
    let flags = list[0].revents();
    let mut bits = 0;
    for (theirs, ours) in [
        (PollFlags::IN, READ),
        (PollFlags::OUT, WRITE),
        (PollFlags::RDHUP, READ | CLOSED),
        (PollFlags::HUP, READ | WRITE | CLOSED | HANG_UP),
        (PollFlags::ERR, READ | WRITE | ERROR),
    ] {
        if flags.intersects(theirs) {
            bits |= ours;
        }
    }
    bits
}

/// The bits that are reported if they are true.
fn wanted(mode: Mode, requested: u8) -> u8 {
    match mode {
        Mode::Level | Mode::Once => requested,
        Mode::EpollOnce if requested == 0 => 0,
        _ => requested | HANG_UP | ERROR,
    }
}

struct World {
    selectors: [Rc<Selector>; 2],
    pairs: Vec<Option<Pair>>,
    /// The registrations of descriptors that were closed without removing them.
    forgotten: Vec<(usize, Rc<Registration>)>,
    /// The maximum number of events that a wait receives from the system.
    max_events: usize,
    reached: Reached,
}

/// Runs steps on descriptors and registrations.
pub(crate) fn selector(data: &[u8]) -> Reached {
    let mut input = Input(data);
    let most = [64, 1, 2, 64][usize::from(input.byte() & 3)];
    let create = || Selector::new(most).expect("a selector");
    let mut world = World {
        selectors: [create(), create()],
        pairs: (0..PLACES).map(|_| None).collect(),
        forgotten: Vec::new(),
        max_events: most,
        reached: [0; 5],
    };
    for _ in 0..MAX_STEPS {
        if input.0.is_empty() {
            break;
        }
        step(&mut world, &mut input);
        world.update();
    }
    for index in 0..2 {
        world.wait(index, None);
    }
    for place in 0..PLACES {
        world.close(place, true);
    }
    for (index, registration) in world.forgotten {
        world.selectors[index].remove(&registration, false);
    }
    for selector in &world.selectors {
        while selector.take_released().is_some() {}
        assert_eq!(selector.count(), 0, "no registration is left");
        selector.wait(Some(Duration::ZERO), || false).expect("a wait");
        assert!(selector.next().is_none() && !selector.has_remembered(), "nothing is remembered");
    }
    world.reached
}

/// Does one step. Its first byte: the kind, the place of the pair.
fn step(world: &mut World, input: &mut Input<'_>) {
    let head = input.byte();
    let (kind, place) = (head & 15, usize::from(head >> 4) % PLACES);
    let argument = input.byte();
    let index = usize::from(argument >> 7);
    if kind == 0 || world.pairs[place].is_none() {
        world.close(place, argument & 8 == 0);
        world.pairs[place] = Some(open(argument));
        if kind == 0 {
            return;
        }
    }
    match kind {
        1..=3 => world.register(place, index, argument, input.byte()),
        4 => {
            let pair = world.pairs[place].as_mut().expect("a pair");
            if let Some(one) = pair.registered[index].take() {
                world.selectors[index].remove(&one.registration, true);
                while world.selectors[index].take_released().is_some() {}
            }
        }
        5 => world.arm(place, index, argument & 7),
        6..=10 => transfer(world.pairs[place].as_mut().expect("a pair"), kind, argument),
        11 => {
            let far = &mut world.pairs[place].as_mut().expect("a pair").far;
            if let (Some(far), true) = (far.as_ref(), argument & 1 != 0) {
                // Only sockets can close one direction.
                let _ = shutdown(far, Shutdown::Write);
            } else {
                *far = None;
            }
        }
        12 => world.close(place, argument & 1 == 0),
        _ => {
            let most = if kind == 15 { Some(usize::from(argument & 3)) } else { None };
            world.wait(index, most);
        }
    }
}

/// Opens a pair: sockets that lio owns or not, the ends of a pipe, or an event counter.
fn open(kind: u8) -> Pair {
    let sockets = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a pair")
    };
    let own = |near: OwnedFd, kind| Near::Own(Source::new(Fd::Own(near.into()), kind));
    let (near, far) = match kind % 6 {
        0 => {
            let (near, far) = sockets();
            (own(near, Kind::Tcp), Some(far))
        }
        1 => {
            let (near, far) = sockets();
            (own(near, Kind::Other), Some(far))
        }
        2 => {
            let (near, far) = sockets();
            (Near::Foreign(near), Some(far))
        }
        end @ (3 | 4) => {
            let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).expect("a pipe");
            if end == 3 { (Near::Foreign(read), Some(write)) } else { (Near::Foreign(write), Some(read)) }
        }
        _ => {
            let near = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a counter");
            (Near::Foreign(near), None)
        }
    };
    let nonblocking = fcntl_getfl(near.fd()).expect("flags").contains(OFlags::NONBLOCK);
    if !nonblocking {
        fcntl_setfl(near.fd(), OFlags::NONBLOCK).expect("flags");
    }
    let truth = truth(near.fd());
    Pair { near, far, truth, registered: [None, None] }
}

/// Sends or receives bytes at one end. The near end reports what its owner must report.
fn transfer(pair: &mut Pair, kind: u8, size: u8) {
    let source = match &pair.near {
        Near::Own(source) => Some(source.clone()),
        Near::Foreign(_) => None,
    };
    match kind {
        // The other end sends.
        6 => {
            if let Some(far) = &pair.far {
                let _ = rustix::io::write(far, &vec![b'x'; usize::from(size % 8) + 1]);
            } else {
                let _ = rustix::io::write(pair.near.fd(), &1u64.to_ne_bytes());
            }
        }
        // The near end receives some bytes, possibly exactly the bytes that have arrived.
        7 | 8 => {
            let mut room = vec![0; if kind == 7 { usize::from(size % 8) + 8 } else { 8192 }];
            let result = rustix::io::read(pair.near.fd(), &mut room[..]);
            if let Some(source) = source {
                match result {
                    Ok(count) if count > 0 && count < room.len() => source.read_short(),
                    Ok(_) => {}
                    Err(Errno::AGAIN) => source.read_blocked(),
                    Err(_) => {}
                }
            }
        }
        // The near end sends until there is no room, or a few bytes.
        9 => {
            let bytes = if size & 1 == 0 { vec![b'y'; 1 << 20] } else { vec![b'y'; 8] };
            let result = rustix::io::write(pair.near.fd(), &bytes);
            let is_blocked = match result {
                Ok(count) => count < bytes.len(),
                Err(error) => error == Errno::AGAIN,
            };
            if let (Some(source), true) = (source, is_blocked) {
                source.write_blocked();
            }
        }
        // The other end receives everything.
        _ => {
            let mut room = vec![0; 1 << 16];
            while let Some(far) = &pair.far
                && matches!(rustix::io::read(far, &mut room[..]), Ok(1..))
            {}
        }
    }
}

impl World {
    /// Closes a pair. If `removes` is false, a foreign descriptor is closed without removing its registrations.
    fn close(&mut self, place: usize, removes: bool) {
        let Some(pair) = self.pairs[place].take() else { return };
        match pair.near {
            Near::Own(source) => {
                source.release(false);
                assert!(Rc::into_inner(source).is_some(), "registrations own no source");
            }
            Near::Foreign(fd) => {
                for (index, one) in pair.registered.into_iter().enumerate() {
                    let Some(one) = one else { continue };
                    match removes {
                        true => self.selectors[index].remove(&one.registration, true),
                        false => self.forgotten.push((index, one.registration)),
                    }
                }
                drop(fd);
            }
        }
        for selector in &self.selectors {
            while selector.take_released().is_some() {}
        }
    }

    /// Registers a descriptor, or changes its registration.
    fn register(&mut self, place: usize, index: usize, how: u8, bits: u8) {
        let pair = self.pairs[place].as_mut().expect("a pair");
        let selector = &self.selectors[index];
        let mode = MODES[usize::from(how % 5)];
        let requested = match mode {
            Mode::Level => bits & 3,
            // Requests for one delivery follow.
            Mode::Once => 0,
            _ => bits & 31,
        };
        let truth = truth(pair.near.fd());
        if let Some(one) = &mut pair.registered[index] {
            // Only requests for one delivery change to this mode.
            let mode = if mode == Mode::Once { Mode::Level } else { mode };
            selector.modify(&one.registration, requested, mode).expect("a registered descriptor");
            (one.mode, one.requested) = (mode, requested);
            one.due = truth & wanted(mode, requested);
            one.stale = one.registration.ready.get();
            return;
        }
        let registration = match &pair.near {
            Near::Own(source) if how & 64 != 0 && mode == Mode::Once => source.join_later(selector, mode),
            Near::Own(source) => source.join(selector, requested, mode).expect("a new descriptor"),
            Near::Foreign(fd) => selector.add(fd.as_raw_fd(), requested, mode).expect("a new descriptor"),
        };
        assert!(Rc::ptr_eq(&selector.find(pair.near.fd().as_raw_fd()).expect("registered"), &registration));
        let due = truth & wanted(mode, requested);
        pair.registered[index] = Some(Registered { registration, mode, requested, due, stale: 0 });
    }

    /// Requests events for one delivery.
    fn arm(&mut self, place: usize, index: usize, bits: u8) {
        let pair = self.pairs[place].as_mut().expect("a pair");
        if let Some(one) = &mut pair.registered[index]
            && bits != 0
        {
            let has_changed = one.mode != Mode::Once;
            if has_changed {
                one.stale = one.registration.ready.get();
            }
            one.mode = Mode::Once;
            self.selectors[index].arm_once(&one.registration, bits).expect("an open descriptor");
            one.requested = one.registration.requested.get();
            assert!(one.requested & bits == bits, "the bits are requested");
            if has_changed {
                one.due = pair.truth & one.requested;
            }
        }
    }

    /// Compares the readiness with that of the last step.
    fn update(&mut self) {
        for pair in self.pairs.iter_mut().flatten() {
            let now = truth(pair.near.fd());
            let (began, ended) = (now & !pair.truth, pair.truth & !now);
            pair.truth = now;
            for one in pair.registered.iter_mut().flatten() {
                one.due = (one.due | began & wanted(one.mode, one.requested)) & now;
                one.stale |= ended;
            }
        }
    }

    /// Waits, and compares the reported events with the model. `most`: the number of events that are taken.
    fn wait(&mut self, index: usize, most: Option<usize>) {
        self.update();
        let selector = self.selectors[index].clone();
        let rounds = if self.max_events < 64 { 3 * PLACES } else { 1 };
        let mut reported: HashMap<usize, u8> = HashMap::new();
        for _ in 0..rounds {
            selector.wait(Some(Duration::ZERO), || false).expect("a wait");
            let mut taken = 0;
            while most.is_none_or(|most| taken < most)
                && let Some((registration, bits)) = selector.next()
            {
                taken += 1;
                self.check_event(index, &registration, bits);
                let before = reported.insert(Rc::as_ptr(&registration) as usize, bits);
                assert!(before.is_none() || rounds > 1, "an event is reported once in each wait");
            }
            if most.is_some() {
                selector.end_batch();
            }
        }
        if most.is_none() {
            self.check_lost(index, &reported);
        }
        while selector.take_released().is_some() {}
    }

    /// Checks one event.
    fn check_event(&mut self, index: usize, registration: &Rc<Registration>, bits: u8) {
        let pairs = self.pairs.iter_mut().flatten();
        let found = pairs.filter_map(|pair| {
            let truth = pair.truth;
            let one = pair.registered[index].as_mut()?;
            Rc::ptr_eq(&one.registration, registration).then_some((truth, one))
        });
        let Some((truth, one)) = found.into_iter().next() else {
            // The event had arrived before the program closed the descriptor without removing the registration.
            let is_forgotten = self.forgotten.iter().any(|(_, one)| Rc::ptr_eq(one, registration));
            assert!(is_forgotten, "an event of a removed registration");
            return;
        };
        self.reached[mode_index(one.mode)] += 1;
        let allowed = wanted(one.mode, one.requested);
        assert_eq!(bits & !allowed, 0, "an event that was not requested");
        assert!(bits != 0, "an event without bits");
        match one.mode {
            Mode::Level | Mode::Epoll => assert_eq!(bits, truth & allowed, "the bits of a level-triggered event"),
            _ => {
                assert_eq!(bits & !truth & !one.stale, 0, "an event that is not true");
                assert!(one.due & !bits == 0 || self.max_events < 64, "a bit that is missing");
            }
        }
        one.due &= !bits;
        match one.mode {
            Mode::Once => one.requested &= !bits,
            Mode::EpollOnce => one.requested = 0,
            _ => {}
        }
    }

    /// Checks that every event that must be reported was reported.
    fn check_lost(&mut self, index: usize, reported: &HashMap<usize, u8>) {
        for pair in self.pairs.iter_mut().flatten() {
            let truth = pair.truth;
            let Some(one) = &mut pair.registered[index] else { continue };
            let must = match one.mode {
                Mode::EpollEdge => one.due,
                mode => truth & wanted(mode, one.requested),
            };
            let is_reported = reported.contains_key(&(Rc::as_ptr(&one.registration) as usize));
            assert!(must == 0 || is_reported, "a lost event: {must} of {truth}, mode {}", mode_index(one.mode));
            one.due = 0;
        }
    }
}

/// Runs one of both targets.
pub(crate) fn readiness(data: &[u8]) {
    match data.split_first() {
        Some((0..=39, rest)) => _ = timers(rest),
        Some((_, rest)) => _ = selector(rest),
        None => {}
    }
}

/// Returns inputs to begin with.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    selector_seeds().into_iter().map(|seed| [vec![255], seed].concat()).chain([timer_seed()]).collect()
}

fn selector_seeds() -> Vec<Vec<u8>> {
    const WAIT: [u8; 2] = [13, 0];
    let mut seeds = Vec::new();
    for kind in 0..6 {
        // Level, epoll, edges, one event: readable, read, full, drained, closed.
        for mode in [0, 2, 3, 4] {
            let open = [0, kind, 1, mode, 31];
            let events = [6, 1, 13, 0, 13, 0, 8, 0, 13, 0, 1, mode, 31, 9, 0, 13, 0, 10, 0, 13, 0];
            let end = [1, mode, 31, 11, 1, 13, 0, 7, 0, 13, 0, 11, 0, 1, mode, 31, 13, 0, 12, 0];
            seeds.push([&[0][..], &open, &events, &end].concat());
        }
        // Requests for one delivery: of each bit, then of all.
        let arm = |bits: u8| [&[5, bits][..], &[6, 0], &WAIT, &[8, 0], &WAIT].concat();
        // Data that comes while only the end is requested, and is then requested.
        let late = vec![5, 4, 6, 0, 13, 0, 5, 1, 13, 0, 8, 0];
        let steps = [arm(1), arm(2), arm(4), late, arm(7), vec![5, 7, 11, 1, 13, 0, 5, 4, 13, 0]].concat();
        seeds.push([&[0, 0, kind, 1, 1 | 64, 0][..], &steps].concat());
    }
    // Many ready descriptors, of which a wait takes one; then a removal between two waits.
    let mut many = vec![1];
    for place in 0..PLACES as u8 {
        many.extend([place << 4, place, 1 | place << 4, 0, 3, 6 | place << 4, 0]);
    }
    many.extend([15, 1, 15, 1, 4, 0, 15, 2, 13, 0, 12 | 16, 1, 13, 0]);
    seeds.push(many);
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_the_selector_reach_all_modes() {
        let mut total = [0; 5];
        for seed in selector_seeds() {
            for (sum, count) in total.iter_mut().zip(selector(&seed)) {
                *sum += count;
            }
        }
        assert!(total.iter().all(|count| *count >= 10), "{total:?}");
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..60 {
            for first in [0, 0xff, 0x80, 0x55] {
                readiness(&vec![first; length]);
            }
        }
    }
}
