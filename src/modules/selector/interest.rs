//! What a selector is asked to watch, as Lua says it: registering, changing, deleting; for programs, for
//! `bee.epoll` (epoll(7)'s own bits) and for the streams of `lio.net`.
//!
//! Invariant: the Lua values of a registration lie at its slot + 1 in the selector's lists, until `sweep`.

use super::super::descriptor::{Descriptor, with};
use super::state::{OBJECTS, Selector, UDATA, open};
use crate::event::{self, CLOSED, ERROR, HANG_UP, Mode, READ, Registration, WRITE};
use crate::lua::{Call, Failure, Fault, Function, Next};
use rustix::io::Errno;
use std::io;
use std::rc::Rc;

/// `true`, or `nil, message, code`.
pub(super) type Done = Result<bool, Failure>;

/// Releases the Lua values of registrations that are gone.
pub(super) fn sweep(call: &mut Call<'_>, index: i32, inner: &event::Selector) -> Result<(), Fault> {
    while let Some(slot) = inner.take_released() {
        call.clear_entry(index, UDATA, slot + 1)?;
        call.clear_entry(index, OBJECTS, slot + 1)?;
    }
    Ok(())
}

/// Registers by `add` what the object at `object` stands for in the selector at `index`, which yields the value at
/// `udata` for it.
pub(crate) fn attach(
    call: &mut Call<'_>,
    index: i32,
    object: i32,
    udata: i32,
    add: impl FnOnce(&Rc<event::Selector>) -> io::Result<Rc<Registration>>,
) -> Result<Result<(), Failure>, Fault> {
    let Some(inner) = call.object::<Selector>(index)?.inner.clone() else {
        let failure = Failure::word("event_add", "selector is closed", "closed");
        return Ok(Err(failure));
    };
    sweep(call, index, &inner)?;
    let registration = match add(&inner) {
        Ok(registration) => registration,
        Err(error) => return Ok(Err(refused(&error))),
    };
    let place = registration.slot + 1;
    let kept = call
        .set_entry(index, UDATA, place, udata)
        .and_then(|()| call.set_entry(index, OBJECTS, place, object));
    if kept.is_err() {
        inner.forget(&registration, true);
    }
    kept.map(Ok)
}

fn refused(error: &io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::PERM) => Failure::word(
            "event_add",
            "a regular file or directory cannot be waited for, it is always ready",
            "denied",
        ),
        Some(Errno::EXIST) => Failure::word("event_add", "already registered", "exists"),
        _ => Failure::io("event_add", error),
    }
}

/// Registers a descriptor. When it is registered already, this fails, or replaces mask and udata.
fn add(
    call: &mut Call<'_>,
    descriptor: Option<Descriptor>,
    asked: u8,
    mode: Mode,
    replaces: bool,
) -> Result<Done, Fault> {
    let Some(descriptor) = descriptor else {
        let failure = Failure::word("event_add", "descriptor is closed", "closed");
        return Ok(Err(failure));
    };
    let udata = if call.is_none(4) { 2 } else { 4 };
    let target = descriptor.target();
    let added = attach(call, 1, 2, udata, |inner| target.join(inner, asked, mode))?;
    match added {
        Err(failure) if replaces && failure.code() == "exists" => {
            change(call, Some(descriptor), asked, mode, Some(udata))
        }
        added => Ok(added.map(|()| true)),
    }
}

/// The mask at argument 3: `SELECT_READ`, `SELECT_WRITE`, both or 0.
fn mask(call: &Call<'_>) -> Result<u8, Fault> {
    Ok(call.integer_in(3, 0..=3, "events")? as u8)
}

/// Registers argument 2 for the events of argument 3, level-triggered, with argument 4 as udata; or replaces what is
/// registered already.
pub(super) fn add_level<const REPLACES: bool>(call: &mut Call<'_>) -> Result<Next<Done>, Fault> {
    open(call)?;
    mask(call)?;
    with(call, 4, |call: &mut Call<'_>, descriptor| {
        let asked = mask(call)?;
        add(call, descriptor, asked, Mode::Level, REPLACES)
    })
}

/// `sel:event_add(fd, events [, udata = fd])`: registers a descriptor for `SELECT_READ`, `SELECT_WRITE`,
/// both or 0. `true`, or `nil, message, code`.
pub(super) const EVENT_ADD: Function = Function::new(add_level::<false>);

/// A selector and a registration of it.
type Found = (Rc<event::Selector>, Rc<Registration>);

/// The open selector at argument 1, and its registration of a descriptor.
fn find(
    call: &Call<'_>,
    descriptor: Option<Descriptor>,
    name: &'static str,
) -> Result<Result<Found, Failure>, Fault> {
    let (_, inner) = open(call)?;
    let found = descriptor.and_then(|descriptor| inner.find(descriptor.number()));
    let unknown = || Failure::word(name, "descriptor is not registered", "not found");
    Ok(found
        .map(|registration| (inner.clone(), registration))
        .ok_or_else(unknown))
}

/// Changes what is asked for, and the udata when one is given.
fn change(
    call: &mut Call<'_>,
    descriptor: Option<Descriptor>,
    asked: u8,
    mode: Mode,
    udata: Option<i32>,
) -> Result<Done, Fault> {
    let (inner, registration) = match find(call, descriptor, "event_mod")? {
        Ok(found) => found,
        Err(failure) => return Ok(Err(failure)),
    };
    if let Err(error) = inner.modify(&registration, asked, mode) {
        return Ok(Err(Failure::io("event_mod", &error)));
    }
    if let Some(udata) = udata {
        call.set_entry(1, UDATA, registration.slot + 1, udata)?;
    }
    Ok(Ok(true))
}

/// The udata that a call gives as argument 4.
fn given(call: &Call<'_>) -> Option<i32> {
    (!call.is_none(4)).then_some(4)
}

/// `sel:event_mod(fd, events [, udata])`: changes what is asked for, and the udata when one is given.
/// `true`, or `nil, message, code` for a descriptor that is not registered.
pub(super) fn event_mod(call: &mut Call<'_>) -> Result<Next<Done>, Fault> {
    mask(call)?;
    open(call)?;
    with(call, 4, |call: &mut Call<'_>, descriptor| {
        let (asked, udata) = (mask(call)?, given(call));
        change(call, descriptor, asked, Mode::Level, udata)
    })
}

pub(super) const EVENT_MOD: Function = Function::new(event_mod);

/// `sel:event_del(fd)`: forgets a descriptor. `true`, or `nil, message, code` when it is not registered.
pub(super) fn event_del(call: &mut Call<'_>) -> Result<Next<Done>, Fault> {
    open(call)?;
    with(call, 2, delete)
}

pub(super) fn delete(call: &mut Call<'_>, descriptor: Option<Descriptor>) -> Result<Done, Fault> {
    let (inner, registration) = match find(call, descriptor, "event_del")? {
        Ok(found) => found,
        Err(failure) => return Ok(Err(failure)),
    };
    inner.forget(&registration, true);
    sweep(call, 1, &inner)?;
    Ok(Ok(true))
}

pub(super) const EVENT_DEL: Function = Function::new(event_del);

const EPOLL_BITS: [(u8, i64); 5] = [
    (READ, 0x001),
    (WRITE, 0x004),
    (CLOSED, 0x2000),
    (HANG_UP, 0x010),
    (ERROR, 0x008),
];
const EPOLL_EDGE: i64 = 1 << 31;
const EPOLL_ONCE: i64 = 1 << 30;

/// Reads epoll(7)'s event mask at argument 3.
fn epoll_mask(call: &Call<'_>) -> Result<(u8, Mode), Fault> {
    let mask = call.integer(3)?;
    let mode = match (mask & EPOLL_EDGE != 0, mask & EPOLL_ONCE != 0) {
        (_, true) => Mode::EpollOnce,
        (true, _) => Mode::EpollEdge,
        _ => Mode::Epoll,
    };
    let ours = |sum, (bit, theirs)| if mask & theirs != 0 { sum | bit } else { sum };
    Ok((EPOLL_BITS.into_iter().fold(0, ours), mode))
}

/// `sel:epoll_add(fd, mask [, udata])`: `event_add` with epoll(7)'s event bits, for `bee.epoll`.
pub(super) fn epoll_add(call: &mut Call<'_>) -> Result<Next<Done>, Fault> {
    open(call)?;
    epoll_mask(call)?;
    with(call, 4, |call: &mut Call<'_>, descriptor| {
        let (asked, mode) = epoll_mask(call)?;
        add(call, descriptor, asked, mode, false)
    })
}

pub(super) const EPOLL_ADD: Function = Function::new(epoll_add);

/// `sel:epoll_mod(fd, mask [, udata])`: `event_mod` with epoll(7)'s event bits, for `bee.epoll`.
pub(super) fn epoll_mod(call: &mut Call<'_>) -> Result<Next<Done>, Fault> {
    epoll_mask(call)?;
    open(call)?;
    with(call, 4, |call: &mut Call<'_>, descriptor| {
        let ((asked, mode), udata) = (epoll_mask(call)?, given(call));
        change(call, descriptor, asked, mode, udata)
    })
}

pub(super) const EPOLL_MOD: Function = Function::new(epoll_mod);

/// `sel:arm(fd, events)`: asks for `events` in addition, for one delivery. What a loop uses for
/// listeners and datagram sockets registered with 0. `true`, or `nil, message, code`.
fn arm(call: &mut Call<'_>) -> Result<Next<Done>, Fault> {
    open(call)?;
    with(call, 3, |call: &mut Call<'_>, descriptor| {
        let bits = call.integer_in(3, 1..=7, "events")? as u8;
        let (inner, registration) = match find(call, descriptor, "arm")? {
            Ok(found) => found,
            Err(failure) => return Ok(Err(failure)),
        };
        registration.mode.set(Mode::Once);
        let armed = inner.arm(&registration, bits);
        let armed = armed.map_err(|error| Failure::io("arm", &error));
        Ok(armed.map(|()| true))
    })
}

pub(super) const ARM: Function = Function::new(arm);

/// `sel:set_udata(fd, udata)`: changes what the loop yields for a descriptor, and nothing else. `true`,
/// or `nil, message, code`.
fn set_udata(call: &mut Call<'_>) -> Result<Next<Done>, Fault> {
    open(call)?;
    call.any(3)?;
    with(call, 3, |call: &mut Call<'_>, descriptor| {
        let registration = match find(call, descriptor, "set_udata")? {
            Ok((_, registration)) => registration,
            Err(failure) => return Ok(Err(failure)),
        };
        call.set_entry(1, UDATA, registration.slot + 1, 3)?;
        Ok(Ok(true))
    })
}

pub(super) const SET_UDATA: Function = Function::new(set_udata);

/// What an event tells in the terms of its mode.
pub(crate) fn events_for(bits: u8, mode: Mode) -> i64 {
    if matches!(mode, Mode::Level | Mode::Once) {
        return i64::from(bits);
    }
    let theirs = |sum, (bit, theirs)| if bits & bit != 0 { sum | theirs } else { sum };
    EPOLL_BITS.into_iter().fold(0, theirs)
}
