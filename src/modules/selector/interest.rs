//! The calls on registrations of a selector: adding, changing and removing them, for programs, for `bee.epoll` (with
//! the bits of epoll(7)) and for the streams of `lio.net`.
//!
//! Invariant: the Lua values of a registration are at index `slot + 1` of the selector's lists, until `sweep`.

use super::super::descriptor::{Descriptor, with};
use super::state::{OBJECTS, Selector, UDATA, open};
use crate::event::{self, CLOSED, ERROR, HANG_UP, Mode, READ, Registration, WRITE};
use crate::lua::{Call, Failure, Fault, Kind, Next, failed};
use rustix::io::Errno;
use std::io;
use std::rc::Rc;

/// Releases the Lua values of removed registrations.
pub(super) fn sweep(call: &mut Call<'_>, index: i32, inner: &event::Selector) -> Result<(), Fault> {
    while let Some(slot) = inner.take_released() {
        call.clear_entry(index, UDATA, slot + 1)?;
        call.clear_entry(index, OBJECTS, slot + 1)?;
    }
    Ok(())
}

/// Calls `add` to register the descriptor of the object at `object` with the selector at `index`. The selector yields
/// the value at `udata` for the descriptor.
pub(crate) fn attach(
    call: &mut Call<'_>, index: i32, object: i32, udata: i32,
    add: impl FnOnce(&Rc<event::Selector>) -> io::Result<Rc<Registration>>,
) -> Result<(), Fault> {
    let inner = call.object::<Selector>(index)?.inner.clone();
    let closed = || Failure::new("event_add", "selector is closed", "closed");
    let inner = inner.ok_or_else(closed)?;
    sweep(call, index, &inner)?;
    let registration = add(&inner).map_err(refused)?;
    let stored = store_udata(call, index, &registration, udata)
        .and_then(|()| call.set_entry(index, OBJECTS, registration.slot + 1, object));
    if stored.is_err() {
        inner.remove(&registration, true);
    }
    stored
}

/// Stores the value at `udata`, which the selector at `index` yields for a registration.
fn store_udata(call: &mut Call<'_>, index: i32, registration: &Registration, udata: i32) -> Result<(), Fault> {
    call.set_entry(index, UDATA, registration.slot + 1, udata)?;
    registration.object.set(match call.kind(udata) {
        Kind::Userdata => call.identity(udata),
        _ => 0,
    });
    Ok(())
}

/// Converts a registration error to a failure of `event_add`.
fn refused(error: io::Error) -> Fault {
    let (message, code) = match Errno::from_io_error(&error) {
        Some(Errno::PERM) => {
            let message = "a regular file or directory cannot be waited for: it is always ready";
            (message, "denied")
        }
        Some(Errno::EXIST) => ("already registered", "exists"),
        _ => return failed("event_add")(error),
    };
    Failure::new("event_add", message, code).into()
}

/// Registers a descriptor. If the descriptor is already registered, replaces the interest and the udata if `replaces`
/// is true; otherwise fails.
fn add(
    call: &mut Call<'_>, descriptor: Option<Descriptor>, interest: u8, mode: Mode, replaces: bool,
) -> Result<bool, Fault> {
    let closed = || Failure::new("event_add", "descriptor is closed", "closed");
    let descriptor = descriptor.ok_or_else(closed)?;
    let udata = if call.is_none(4) { 2 } else { 4 };
    let target = descriptor.target();
    let mut exists = false;
    let added = attach(call, 1, 2, udata, |inner| {
        let joined = target.join(inner, interest, mode);
        let error = joined.as_ref().err().and_then(Errno::from_io_error);
        exists = error == Some(Errno::EXIST);
        joined
    });
    match added {
        Err(_) if replaces && exists => change(call, Some(descriptor), interest, mode, Some(udata)),
        added => added.map(|()| true),
    }
}

/// Returns the interest at argument 3: `SELECT_READ`, `SELECT_WRITE`, both or 0; or the bits of epoll(7).
fn mask<const EPOLL: bool>(call: &Call<'_>) -> Result<(u8, Mode), Fault> {
    if EPOLL { epoll_mask(call) } else { Ok((call.integer_in(3, 0..=3, "events")? as u8, Mode::Level)) }
}

/// `sel:event_add(fd, events [, udata = fd])`: registers a descriptor for `SELECT_READ`, `SELECT_WRITE`, both or 0,
/// level-triggered. `sel:epoll_add(fd, mask [, udata])` does the same with the event bits of epoll(7), for `bee.epoll`.
/// If `REPLACES` is true, both replace an existing registration. Returns `true`, or `nil, message, code`.
pub(super) fn register<const EPOLL: bool, const REPLACES: bool>(call: &mut Call<'_>) -> Result<Next<bool>, Fault> {
    open(call)?;
    if EPOLL {
        mask::<EPOLL>(call)?;
    }
    with(call, 4, |call: &mut Call<'_>, descriptor| {
        let (interest, mode) = mask::<EPOLL>(call)?;
        add(call, descriptor, interest, mode, REPLACES)
    })
}

/// A selector and one of its registrations.
type Registered = (Rc<event::Selector>, Rc<Registration>);

/// Returns the open selector at argument 1, and its registration for a descriptor.
fn find(call: &Call<'_>, descriptor: Option<Descriptor>, name: &'static str) -> Result<Registered, Fault> {
    let (_, inner) = open(call)?;
    let found = descriptor.and_then(|descriptor| inner.find(descriptor.number()));
    let unknown = || Failure::new(name, "descriptor is not registered", "not found");
    Ok((inner.clone(), found.ok_or_else(unknown)?))
}

/// Changes the interest of a registration, and the udata if it is given.
fn change(
    call: &mut Call<'_>, descriptor: Option<Descriptor>, interest: u8, mode: Mode, udata: Option<i32>,
) -> Result<bool, Fault> {
    let (inner, registration) = find(call, descriptor, "event_mod")?;
    let modified = inner.modify(&registration, interest, mode);
    modified.map_err(failed("event_mod"))?;
    if let Some(udata) = udata {
        store_udata(call, 1, &registration, udata)?;
    }
    Ok(true)
}

/// `sel:event_mod(fd, events [, udata])`, `sel:epoll_mod(fd, mask [, udata])`: changes the interest, and the udata if
/// it is given. Returns `true`, or `nil, message, code` if the descriptor is not registered.
pub(super) fn modify<const EPOLL: bool>(call: &mut Call<'_>) -> Result<Next<bool>, Fault> {
    mask::<EPOLL>(call)?;
    open(call)?;
    with(call, 4, |call: &mut Call<'_>, descriptor| {
        let (interest, mode) = mask::<EPOLL>(call)?;
        let udata = (!call.is_none(4)).then_some(4);
        change(call, descriptor, interest, mode, udata)
    })
}

/// `sel:event_del(fd)`: removes a registration. Returns `true`, or `nil, message, code` if the descriptor is not
/// registered.
pub(super) fn event_del(call: &mut Call<'_>) -> Result<Next<bool>, Fault> {
    open(call)?;
    with(call, 2, delete)
}

/// Removes the registration of a descriptor.
pub(super) fn delete(call: &mut Call<'_>, descriptor: Option<Descriptor>) -> Result<bool, Fault> {
    let (inner, registration) = find(call, descriptor, "event_del")?;
    inner.remove(&registration, true);
    sweep(call, 1, &inner)?;
    Ok(true)
}

/// Removes the registration of a descriptor, if there is one.
pub(super) fn delete_any(call: &mut Call<'_>, descriptor: Option<Descriptor>) -> Result<bool, Fault> {
    let number = descriptor.as_ref().map(Descriptor::number);
    match number.and_then(|number| open(call).ok()?.1.find(number)) {
        Some(_) => delete(call, descriptor),
        None => Ok(true),
    }
}

const EPOLL_BITS: [(u8, i64); 5] = [(READ, 0x001), (WRITE, 0x004), (CLOSED, 0x2000), (HANG_UP, 0x010), (ERROR, 0x008)];
const EPOLL_EDGE: i64 = 1 << 31;
const EPOLL_ONCE: i64 = 1 << 30;

/// Returns the event mask of epoll(7) at argument 3.
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

/// `sel:arm(fd, events)`: adds `events` to the interest, for one delivery. A loop uses it for listeners and datagram
/// sockets that are registered with an empty interest. Returns `true`, or `nil, message, code`.
pub(super) fn arm(call: &mut Call<'_>) -> Result<Next<bool>, Fault> {
    open(call)?;
    with(call, 3, |call: &mut Call<'_>, descriptor| {
        let bits = call.integer_in(3, 1..=7, "events")? as u8;
        let (inner, registration) = find(call, descriptor, "arm")?;
        inner.arm_once(&registration, bits).map_err(failed("arm"))?;
        Ok(true)
    })
}

/// `sel:set_udata(fd, udata)`: changes only the value that the loop yields for a descriptor. Returns `true`, or
/// `nil, message, code`.
pub(super) fn set_udata(call: &mut Call<'_>) -> Result<Next<bool>, Fault> {
    open(call)?;
    call.any(3)?;
    with(call, 3, |call: &mut Call<'_>, descriptor| {
        let (_, registration) = find(call, descriptor, "set_udata")?;
        store_udata(call, 1, &registration, 3)?;
        Ok(true)
    })
}

/// Converts the bits of an event to the bits that `mode` uses.
pub(crate) fn events_for(bits: u8, mode: Mode) -> i64 {
    if matches!(mode, Mode::Level | Mode::Once) {
        return i64::from(bits);
    }
    let theirs = |sum, (bit, theirs)| if bits & bit != 0 { sum | theirs } else { sum };
    EPOLL_BITS.into_iter().fold(0, theirs)
}
