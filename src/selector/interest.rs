//! What a selector is asked to watch, as Lua says it: registering, changing, deleting; for programs, for
//! `bee.epoll` (epoll(7)'s own bits) and for the streams of `lio.net`.
//!
//! Invariant: the Lua values of a registration lie at its slot + 1 in the selector's tables, until `sweep`.

use super::descriptor::{self, Descriptor};
use super::lua::{OBJECTS, Selector, UDATA, open_core};
use crate::event::{self, CLOSED, ERROR, HANG_UP, Mode, READ, Registration, Source, Target, WRITE};
use crate::raw::object;
use crate::raw::{Fault, args, guard, settle};
use mlua::ffi::{self, lua_State};
use std::io;
use std::os::raw::c_int;
use std::rc::Rc;

/// The open core of the selector at argument 1, and the descriptor at argument 2. In this order: a
/// descriptor's method is Lua code, and may close the selector.
unsafe fn core_and_descriptor<'a>(state: *mut lua_State) -> (&'a Rc<event::Selector>, Descriptor) {
    // SAFETY: as for `open_core`; nothing of the selector is held while Lua code runs.
    unsafe {
        open_core(state);
        let descriptor = descriptor::resolve(state, 2);
        (open_core(state).1, descriptor)
    }
}

/// Releases the Lua values of registrations that are gone.
pub(super) unsafe fn sweep(state: *mut lua_State, index: c_int, core: &event::Selector) {
    // SAFETY: assigning nil to an integer key never allocates.
    unsafe {
        while let Some(slot) = core.take_released() {
            for list in [UDATA, OBJECTS] {
                ffi::lua_getiuservalue(state, index, list);
                ffi::lua_pushnil(state);
                ffi::lua_rawseti(state, -2, slot as i64 + 1);
                ffi::lua_pop(state, 1);
            }
        }
    }
}

/// Registers `descriptor`, the object at `object`, with the value on top of the stack as udata (popped).
///
/// # Safety
/// A selector is at index `selector`; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn attach(
    state: *mut lua_State,
    selector: c_int,
    object: c_int,
    descriptor: Descriptor,
    asked: u8,
    mode: Mode,
) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe {
        attach_by(state, selector, object, descriptor, |core, source| {
            let target = match source {
                Some(source) => Target::Own(source),
                None => Target::Foreign(descriptor.number),
            };
            target.join(core, asked, mode)
        })
    }
}

/// As [`attach`], for a socket of ours that is new: the system is told of it when something is asked for.
///
/// # Safety
/// As for [`attach`].
pub(crate) unsafe fn attach_later(
    state: *mut lua_State,
    selector: c_int,
    object: c_int,
    descriptor: Descriptor,
    mode: Mode,
) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe {
        attach_by(state, selector, object, descriptor, |core, source| {
            let source = source.ok_or(io::ErrorKind::NotFound)?;
            Ok(source.join_later(core, mode))
        })
    }
}

unsafe fn attach_by(
    state: *mut lua_State,
    selector: c_int,
    object: c_int,
    descriptor: Descriptor,
    add: impl FnOnce(&Rc<event::Selector>, Option<&Rc<Source>>) -> io::Result<Rc<Registration>>,
) -> Result<(), Fault> {
    // SAFETY: the references into the selector end before anything raises; the tables are its own.
    unsafe {
        let owner = object::check::<Selector>(state, selector);
        let Some(core) = &(*owner).core else {
            return Err(Fault::word("event_add", "selector is closed", "closed"));
        };
        sweep(state, selector, core);
        let added = guard(|| {
            let source = descriptor.share();
            let added = add(core, source.as_ref());
            Ok(match added {
                Ok(registration) => Ok(registration.slot),
                Err(error) => Err(refused(&error)),
            })
        });
        let slot = settle(state, added)?;
        ffi::lua_getiuservalue(state, selector, UDATA);
        ffi::lua_pushvalue(state, -2);
        ffi::lua_rawseti(state, -2, slot as i64 + 1);
        ffi::lua_getiuservalue(state, selector, OBJECTS);
        ffi::lua_pushvalue(state, object);
        ffi::lua_rawseti(state, -2, slot as i64 + 1);
        ffi::lua_pop(state, 3);
        Ok(())
    }
}

/// Changes what the selector at `selector` yields for a descriptor to the value at `udata`. False when it does not
/// have it.
///
/// # Safety
/// As for [`attach`]; the indexes are absolute.
pub(crate) unsafe fn replace_udata(
    state: *mut lua_State,
    selector: c_int,
    descriptor: Descriptor,
    udata: c_int,
) -> bool {
    // SAFETY: no reference into the selector is held when something may raise.
    unsafe {
        let owner = object::check::<Selector>(state, selector);
        let Some(core) = &(*owner).core else {
            return false;
        };
        let found = guard(|| Ok(core.find(descriptor.number).map(|found| found.slot)));
        let Some(slot) = settle(state, found) else {
            return false;
        };
        ffi::lua_getiuservalue(state, selector, UDATA);
        ffi::lua_pushvalue(state, udata);
        ffi::lua_rawseti(state, -2, slot as i64 + 1);
        ffi::lua_pop(state, 1);
        true
    }
}

fn refused(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(libc::EPERM) => Fault::word(
            "event_add",
            "a regular file or directory cannot be waited for, it is always ready",
            "denied",
        ),
        Some(libc::EEXIST) => Fault::word("event_add", "already registered", "exists"),
        _ => Fault::io("event_add", error),
    }
}

/// What an `add` does when the descriptor is registered already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It fails.
    Refused,
    /// It replaces mask and udata.
    Replaced,
}

unsafe fn add(state: *mut lua_State, asked: u8, mode: Mode, known: Known) -> c_int {
    // SAFETY: as for `attach`.
    unsafe {
        let descriptor = descriptor::resolve(state, 2);
        if descriptor.number < 0 {
            return Fault::word("event_add", "descriptor is closed", "closed").push(state);
        }
        ffi::lua_settop(state, 4);
        if ffi::lua_type(state, 4) == ffi::LUA_TNIL {
            ffi::lua_pushvalue(state, 2);
            ffi::lua_replace(state, 4);
        }
        match attach(state, 1, 2, descriptor, asked, mode) {
            Ok(()) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            // The udata is argument 4 by now.
            Err(fault) if known == Known::Replaced && fault.code() == "exists" => {
                modify(state, asked, mode)
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// Registers argument 2 for the events of argument 3, level-triggered, with argument 4 as udata.
pub(super) unsafe fn add_level(state: *mut lua_State, known: Known) -> c_int {
    // SAFETY: as for `attach`.
    unsafe {
        open_core(state);
        let asked = args::integer_in(state, 3, 0, 3, "events") as u8;
        add(state, asked, Mode::Level, known)
    }
}

/// `sel:event_add(fd, events [, udata = fd])`: registers a descriptor for `SELECT_READ`, `SELECT_WRITE`,
/// both or 0. `true`, or `nil, message, code`.
pub(super) unsafe extern "C-unwind" fn event_add(state: *mut lua_State) -> c_int {
    // SAFETY: as for `attach`.
    unsafe { add_level(state, Known::Refused) }
}

unsafe fn modify(state: *mut lua_State, asked: u8, mode: Mode) -> c_int {
    // SAFETY: as for `attach`.
    unsafe {
        let (core, descriptor) = core_and_descriptor(state);
        let changed = guard(|| {
            let Some(registration) = core.find(descriptor.number) else {
                return Ok(Err(unknown("event_mod")));
            };
            Ok(match core.modify(&registration, asked, mode) {
                Ok(()) => Ok(registration.slot),
                Err(error) => Err(Fault::io("event_mod", &error)),
            })
        });
        match settle(state, changed) {
            Ok(slot) => {
                if !args::is_none(state, 4) {
                    ffi::lua_getiuservalue(state, 1, UDATA);
                    ffi::lua_pushvalue(state, 4);
                    ffi::lua_rawseti(state, -2, slot as i64 + 1);
                }
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

fn unknown(call: &'static str) -> Fault {
    Fault::word(call, "descriptor is not registered", "not found")
}

/// `sel:event_mod(fd, events [, udata])`: changes what is asked for, and the udata when one is given.
/// `true`, or `nil, message, code` for a descriptor that is not registered.
pub(super) unsafe extern "C-unwind" fn event_mod(state: *mut lua_State) -> c_int {
    // SAFETY: as for `attach`.
    unsafe {
        let asked = args::integer_in(state, 3, 0, 3, "events") as u8;
        modify(state, asked, Mode::Level)
    }
}

/// `sel:event_del(fd)`: forgets a descriptor. `true`, or `nil, message, code` when it is not registered.
pub(super) unsafe extern "C-unwind" fn event_del(state: *mut lua_State) -> c_int {
    // SAFETY: as for `attach`.
    unsafe {
        let (core, descriptor) = core_and_descriptor(state);
        let found = guard(|| {
            let Some(registration) = core.find(descriptor.number) else {
                return Ok(false);
            };
            core.forget(&registration, true);
            Ok(true)
        });
        if !settle(state, found) {
            return unknown("event_del").push(state);
        }
        sweep(state, 1, core);
        ffi::lua_pushboolean(state, 1);
        1
    }
}

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
unsafe fn epoll_mask(state: *mut lua_State) -> (u8, Mode) {
    // SAFETY: as for `attach`.
    let mask = unsafe { ffi::luaL_checkinteger(state, 3) };
    let mode = match (mask & EPOLL_EDGE != 0, mask & EPOLL_ONCE != 0) {
        (_, true) => Mode::EpollOnce,
        (true, _) => Mode::EpollEdge,
        _ => Mode::Epoll,
    };
    let mut asked = 0;
    for (bit, theirs) in EPOLL_BITS {
        if mask & theirs != 0 {
            asked |= bit;
        }
    }
    (asked, mode)
}

/// `sel:epoll_add(fd, mask [, udata])`: `event_add` with epoll(7)'s event bits, for `bee.epoll`.
pub(super) unsafe extern "C-unwind" fn epoll_add(state: *mut lua_State) -> c_int {
    // SAFETY: as for `attach`.
    unsafe {
        open_core(state);
        let (asked, mode) = epoll_mask(state);
        add(state, asked, mode, Known::Refused)
    }
}

/// `sel:epoll_mod(fd, mask [, udata])`: `event_mod` with epoll(7)'s event bits, for `bee.epoll`.
pub(super) unsafe extern "C-unwind" fn epoll_mod(state: *mut lua_State) -> c_int {
    // SAFETY: as for `attach`.
    unsafe {
        let (asked, mode) = epoll_mask(state);
        modify(state, asked, mode)
    }
}

/// `sel:arm(fd, events)`: asks for `events` in addition, for one delivery. What a loop uses for
/// listeners and datagram sockets registered with 0. `true`, or `nil, message, code`.
pub(super) unsafe extern "C-unwind" fn arm(state: *mut lua_State) -> c_int {
    // SAFETY: as for `attach`.
    unsafe {
        let (core, descriptor) = core_and_descriptor(state);
        let bits = args::integer_in(state, 3, 1, 7, "events") as u8;
        let armed = guard(|| {
            let Some(registration) = core.find(descriptor.number) else {
                return Ok(Err(unknown("arm")));
            };
            registration.mode.set(Mode::Once);
            let armed = core.arm(&registration, bits);
            Ok(armed.map_err(|error| Fault::io("arm", &error)))
        });
        match settle(state, armed) {
            Ok(()) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `sel:set_udata(fd, udata)`: changes what the loop yields for a descriptor, and nothing else. `true`,
/// or `nil, message, code`.
pub(super) unsafe extern "C-unwind" fn set_udata(state: *mut lua_State) -> c_int {
    // SAFETY: as for `attach`.
    unsafe {
        let (core, descriptor) = core_and_descriptor(state);
        ffi::luaL_checkany(state, 3);
        let found = guard(|| Ok(core.find(descriptor.number).map(|found| found.slot)));
        let Some(slot) = settle(state, found) else {
            return unknown("set_udata").push(state);
        };
        ffi::lua_getiuservalue(state, 1, UDATA);
        ffi::lua_pushvalue(state, 3);
        ffi::lua_rawseti(state, -2, slot as i64 + 1);
        ffi::lua_pushboolean(state, 1);
        1
    }
}

/// What an event tells in the terms of its mode.
pub(super) fn events_for(bits: u8, mode: Mode) -> i64 {
    if matches!(mode, Mode::Level | Mode::Once) {
        return i64::from(bits);
    }
    let theirs = |sum, (bit, theirs)| if bits & bit != 0 { sum | theirs } else { sum };
    EPOLL_BITS.into_iter().fold(0, theirs)
}
