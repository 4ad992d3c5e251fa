//! Registrations: requests, changes of requests, and what a wait then delivers.

use super::*;
use crate::event::adopt::{self, Fd};
use crate::event::{CLOSED, ERROR, Inbox, Source};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

impl Selector {
    /// Runs `f` while the system refuses every request: the poll's descriptor refers to another file meanwhile.
    pub(crate) fn refused<T>(&self, f: impl FnOnce() -> T) -> T {
        let number = self.poll.borrow().as_raw_fd();
        let mut place = std::mem::ManuallyDrop::new(adopt::owned(number).unwrap());
        let other = std::fs::File::open("/dev/null").unwrap();
        let kept = rustix::io::dup(&*place).unwrap();
        rustix::io::dup2(&other, &mut place).unwrap();
        let result = f();
        rustix::io::dup2(&kept, &mut place).unwrap();
        result
    }
}

/// Returns the descriptors that one wait delivers.
fn delivered(selector: &Selector) -> Vec<RawFd> {
    selector.wait(Some(Duration::from_secs(5)), || false).unwrap();
    std::iter::from_fn(|| selector.next()).map(|(registration, _)| registration.number).collect()
}

#[test]
fn an_end_that_has_been_reported_is_reported_again_after_a_change_of_the_request() {
    for is_own in [true, false] {
        for (bits, mode) in
            [(CLOSED, Mode::EpollEdge), (CLOSED, Mode::EpollOnce), (CLOSED, Mode::Epoll), (0, Mode::Epoll)]
        {
            let (near, far) = UnixStream::pair().unwrap();
            let number = near.as_raw_fd();
            let selector = Selector::new(16).unwrap();
            let (kept, registration) = match is_own {
                true => {
                    let near = source(near);
                    let registration = near.join(&selector, CLOSED, Mode::EpollOnce).unwrap();
                    (Ok(near), registration)
                }
                false => (Err(near), selector.add(number, CLOSED, Mode::EpollOnce).unwrap()),
            };
            drop(far);
            assert_eq!(delivered(&selector), [number]);
            selector.modify(&registration, bits, mode).unwrap();
            assert_eq!(delivered(&selector), [number], "own: {is_own}, bits: {bits}");
            drop(kept);
        }
    }
}

#[test]
fn an_event_that_was_reported_in_another_mode_is_reported_once_it_is_armed() {
    for (bits, mode) in [(READ, Mode::EpollOnce), (READ, Mode::EpollEdge), (0, Mode::EpollEdge), (0, Mode::Level)] {
        for is_own in [true, false] {
            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(b"x").unwrap();
            let number = near.as_raw_fd();
            let selector = Selector::new(16).unwrap();
            let (kept, registration) = match is_own {
                true => {
                    let near = source(near);
                    let registration = near.join(&selector, bits, mode).unwrap();
                    (Ok(near), registration)
                }
                false => (Err(near), selector.add(number, bits, mode).unwrap()),
            };
            selector.wait(Some(Duration::ZERO), || false).unwrap();
            while selector.next().is_some() {}
            selector.arm_once(&registration, READ).unwrap();
            assert_eq!(delivered(&selector), [number], "own: {is_own}, bits: {bits}");
            drop(kept);
        }
    }
}

#[test]
fn an_event_that_was_reported_together_with_another_is_reported_when_it_is_requested() {
    for is_own in [true, false] {
        let (near, far) = UnixStream::pair().unwrap();
        let number = near.as_raw_fd();
        let selector = Selector::new(16).unwrap();
        let source = Source::new(Fd::Own(OwnedFd::from(near).into()), Kind::Other);
        let registration = match is_own {
            true => source.join(&selector, 0, Mode::Once).unwrap(),
            false => selector.add(number, 0, Mode::Once).unwrap(),
        };
        selector.arm(&registration, WRITE).unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(delivered(&selector), [number], "own: {is_own}");
        selector.arm(&registration, CLOSED).unwrap();
        assert_eq!(delivered(&selector), [number], "own: {is_own}");
    }
}

#[test]
fn the_end_is_reported_if_a_request_to_write_came_first() {
    for is_own in [true, false] {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let number = near.as_raw_fd();
        let selector = Selector::new(16).unwrap();
        let mut full = near.try_clone().unwrap();
        while full.write(&[0; 4096]).is_ok() {}
        let source = Source::new(Fd::Own(OwnedFd::from(near).into()), Kind::Other);
        let registration = match is_own {
            true => source.join(&selector, WRITE, Mode::Once).unwrap(),
            false => selector.add(number, WRITE, Mode::Once).unwrap(),
        };
        selector.arm(&registration, CLOSED).unwrap();
        far.write_all(b"x").unwrap();
        selector.wait(Some(Duration::ZERO), || false).unwrap();
        assert!(selector.next().is_none());
        far.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(delivered(&selector), [number], "own: {is_own}");
    }
}

#[test]
fn an_event_that_came_before_its_request_is_reported_even_if_the_end_was_requested() {
    for is_own in [true, false] {
        let (near, mut far) = UnixStream::pair().unwrap();
        let number = near.as_raw_fd();
        let selector = Selector::new(16).unwrap();
        let source = Source::new(Fd::Own(OwnedFd::from(near).into()), Kind::Other);
        let registration = match is_own {
            true => source.join(&selector, CLOSED, Mode::Once).unwrap(),
            false => selector.add(number, CLOSED, Mode::Once).unwrap(),
        };
        for _ in 0..2 {
            far.write_all(b"x").unwrap();
            selector.wait(Some(Duration::ZERO), || false).unwrap();
            assert!(selector.next().is_none());
        }
        selector.arm(&registration, READ).unwrap();
        assert_eq!(delivered(&selector), [number], "own: {is_own}");
        far.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(delivered(&selector), [number], "own: {is_own}");
    }
}

#[test]
fn an_ended_condition_is_not_reported_after_a_change_of_the_request() {
    let selector = Selector::new(16).unwrap();
    let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
    let registrations: Vec<_> = pairs
        .iter()
        .map(|(near, far)| {
            let mut far = far;
            far.write_all(b"x").unwrap();
            selector.add(near.as_raw_fd(), READ | WRITE, Mode::Level).unwrap()
        })
        .collect();
    // One of both events is delivered. The other one is remembered.
    selector.wait(Some(Duration::ZERO), || false).unwrap();
    let (first, _) = selector.next().unwrap();
    selector.end_batch();
    let other = usize::from(Rc::ptr_eq(&first, &registrations[0]));
    let mut near = &pairs[other].0;
    near.read_exact(&mut [0]).unwrap();
    selector.modify(&registrations[other], 0, Mode::EpollEdge).unwrap();
    selector.wait(Some(Duration::ZERO), || false).unwrap();
    while selector.next().is_some() {}
    selector.modify(&registrations[other], READ | WRITE, Mode::Level).unwrap();
    selector.wait(Some(Duration::ZERO), || false).unwrap();
    let reported: Vec<_> = std::iter::from_fn(|| selector.next()).collect();
    let bits = |number: RawFd| reported.iter().find(|(one, _)| one.number == number).map(|(_, bits)| *bits);
    assert_eq!(bits(near.as_raw_fd()), Some(WRITE));
    assert_eq!(bits(first.number), Some(READ | WRITE));
}

#[test]
fn an_error_that_was_received_is_not_reported_after_a_change_of_the_request() {
    for is_own in [true, false] {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"x").unwrap();
        let number = near.as_raw_fd();
        let selector = Selector::new(16).unwrap();
        let source = Source::new(Fd::Own(OwnedFd::from(near.try_clone().unwrap()).into()), Kind::Other);
        let registration = match is_own {
            true => source.join(&selector, 0, Mode::Once).unwrap(),
            false => selector.add(number, 0, Mode::Once).unwrap(),
        };
        // The peer closes with an unread byte.
        drop(far);
        selector.wait(Some(Duration::ZERO), || false).unwrap();
        assert!(selector.next().is_none());
        assert_eq!(near.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        selector.modify(&registration, READ | WRITE | ERROR, Mode::Epoll).unwrap();
        selector.wait(Some(Duration::ZERO), || false).unwrap();
        assert_eq!(selector.next().map(|(_, bits)| bits & ERROR), Some(0), "own: {is_own}");
    }
}

fn errno<T>(result: io::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

fn source(socket: UnixStream) -> Rc<Source> {
    Source::new(Fd::Own(OwnedFd::from(socket).into()), Kind::Tcp)
}

#[test]
fn a_refused_request_can_be_repeated() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let selector = Selector::new(16).unwrap();
    let near = source(near);
    let registration = near.join_later(&selector, Mode::Once);
    let refused = selector.refused(|| near.arm(READ));
    assert_eq!(errno(refused), Some(Errno::INVAL));
    assert!(registration.is_active.get());
    assert_eq!(registration.requested.get(), 0);
    far.write_all(b"x").unwrap();
    near.arm(READ).unwrap();
    assert_eq!(delivered(&selector), [near.as_raw_fd()]);
}

#[test]
fn the_end_of_a_descriptor_is_reported_after_its_first_request() {
    for kind in [Kind::Tcp, Kind::Other] {
        let (near, far) = UnixStream::pair().unwrap();
        let selector = Selector::new(16).unwrap();
        let near = Source::new(Fd::Own(OwnedFd::from(near).into()), kind);
        near.join_later(&selector, Mode::Once);
        near.arm(CLOSED).unwrap();
        drop(far);
        assert_eq!(delivered(&selector), [near.as_raw_fd()]);
    }
}

#[test]
fn a_refused_change_changes_nothing() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let selector = Selector::new(16).unwrap();
    let registration = selector.add(near.as_raw_fd(), READ, Mode::Level).unwrap();
    let refused = selector.refused(|| selector.modify(&registration, WRITE, Mode::Once));
    assert_eq!(errno(refused), Some(Errno::INVAL));
    assert_eq!(registration.requested.get(), READ);
    assert!(registration.mode.get() == Mode::Level);
    assert_eq!(selector.count(), 1);
    far.write_all(b"x").unwrap();
    assert_eq!(delivered(&selector), [near.as_raw_fd()]);
}

#[test]
fn a_wait_fails_if_a_foreign_descriptor_cannot_be_re_armed() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let selector = Selector::new(16).unwrap();
    selector.add(near.as_raw_fd(), READ, Mode::Level).unwrap();
    far.write_all(b"x").unwrap();
    assert_eq!(delivered(&selector), [near.as_raw_fd()]);
    let refused = selector.refused(|| selector.wait(Some(Duration::ZERO), || false));
    assert_eq!(errno(refused), Some(Errno::INVAL));
    assert_eq!(delivered(&selector), [near.as_raw_fd()]);
    assert_eq!(delivered(&selector), [near.as_raw_fd()]);
}

#[test]
fn a_request_for_a_closed_descriptor_fails_and_removes_the_registration() {
    let (near, _far) = UnixStream::pair().unwrap();
    let selector = Selector::new(16).unwrap();
    let registration = selector.add(near.as_raw_fd(), 0, Mode::Once).unwrap();
    drop(near);
    assert_eq!(errno(selector.arm(&registration, WRITE)), Some(Errno::BADF));
    assert_eq!(selector.count(), 0);
}

#[test]
fn events_of_a_registration_with_an_inbox_are_stored_in_it() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let selector = Selector::new(16).unwrap();
    let near = source(near);
    let registration = near.join(&selector, READ, Mode::Once).unwrap();
    let inbox = Rc::new(Inbox::default());
    registration.post_to(&inbox, 7);
    far.write_all(b"x").unwrap();
    assert_eq!(delivered(&selector), [] as [RawFd; 0]);
    let mut list = Vec::new();
    inbox.take(&mut list);
    assert_eq!(list, [(7, READ)]);
}

#[test]
fn a_dropped_source_with_a_pending_event_is_closed() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let selector = Selector::new(16).unwrap();
    let near = source(near);
    near.join(&selector, READ, Mode::Level).unwrap();
    far.write_all(b"x").unwrap();
    assert_eq!(delivered(&selector), [near.as_raw_fd()]);
    near.release(false);
    drop(near);
    assert_eq!(errno(far.write_all(b"x")), Some(Errno::PIPE));
    assert_eq!(selector.count(), 0);
    selector.wait(Some(Duration::ZERO), || false).unwrap();
    assert!(selector.next().is_none());
}
