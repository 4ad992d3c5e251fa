//! Selectors and their registrations for raw functions that are not converted yet. // bridge

use super::object;
use super::{Fault, guard, settle};
use crate::event::{self, Mode, Registration, Source};
use crate::modules::selector::iterator::{Event, LoopGuard};
pub(crate) use crate::modules::selector::state::{Loop, Selector};
use crate::socket::Socket;
use mlua::ffi::{self, lua_State};
use rustix::io::Errno;
use std::io;
use std::os::fd::RawFd;
use std::os::raw::c_int;
use std::rc::Rc;

const UDATA: c_int = 1;
const OBJECTS: c_int = 2;

/// A descriptor, and its source when that is ours.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) number: RawFd,
    /// As `Rc::as_ptr` gives it. Null for a foreign descriptor; else valid while the Lua value is reachable and not
    /// closed.
    pub(crate) source: *const Source,
}

impl Descriptor {
    /// A share of the source.
    ///
    /// # Safety
    /// It is valid still.
    pub(crate) unsafe fn share(self) -> Option<Rc<Source>> {
        if self.source.is_null() {
            return None;
        }
        // SAFETY: the caller's promise; the count that is added belongs to the share.
        unsafe {
            Rc::increment_strong_count(self.source);
            Some(Rc::from_raw(self.source))
        }
    }
}

impl Socket {
    /// What the selector needs to know; the number is -1 once closed.
    pub(crate) fn descriptor(&self) -> Descriptor {
        Descriptor {
            number: self.number(),
            source: self.source().map_or(std::ptr::null(), Rc::as_ptr),
        }
    }
}

/// Releases the Lua values of registrations that are gone.
unsafe fn sweep(state: *mut lua_State, index: c_int, core: &event::Selector) {
    // SAFETY: assigning nil to an integer key never allocates.
    unsafe {
        while let Some(slot) = core.take_released() {
            for list in [UDATA, OBJECTS] {
                push_list(state, index, list);
                ffi::lua_pushnil(state);
                ffi::lua_rawseti(state, -2, slot as i64 + 1);
                ffi::lua_pop(state, 1);
            }
        }
    }
}

/// Pushes a list of the selector at `index`.
unsafe fn push_list(state: *mut lua_State, index: c_int, list: c_int) {
    // SAFETY: as for `attach_later`.
    unsafe {
        if ffi::lua_getiuservalue(state, index, list) != ffi::LUA_TTABLE {
            ffi::lua_pop(state, 1);
            ffi::lua_createtable(state, 0, 0);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_setiuservalue(state, index, list);
        }
    }
}

/// Registers `descriptor`, the object at `object`, a socket of ours that is new, with the value on top of the stack as udata
/// (popped): the system is told of it when something is asked for.
///
/// # Safety
/// A selector is at index `selector`; nothing that needs `Drop` may be alive.
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
        let Some(core) = &(*owner).inner else {
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
        push_list(state, selector, UDATA);
        ffi::lua_pushvalue(state, -2);
        ffi::lua_rawseti(state, -2, slot as i64 + 1);
        push_list(state, selector, OBJECTS);
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
/// As for [`attach_later`]; the indexes are absolute.
pub(crate) unsafe fn replace_udata(
    state: *mut lua_State,
    selector: c_int,
    descriptor: Descriptor,
    udata: c_int,
) -> bool {
    // SAFETY: no reference into the selector is held when something may raise.
    unsafe {
        let owner = object::check::<Selector>(state, selector);
        let Some(core) = &(*owner).inner else {
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
    match Errno::from_io_error(error) {
        Some(Errno::PERM) => Fault::word(
            "event_add",
            "a regular file or directory cannot be waited for, it is always ready",
            "denied",
        ),
        Some(Errno::EXIST) => Fault::word("event_add", "already registered", "exists"),
        _ => Fault::io("event_add", error),
    }
}

/// Pushes what closes a [`Loop::Guarded`] over the selector at `index`: the fourth value of its `for`.
///
/// # Safety
/// `state` is valid; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn push_guard(state: *mut lua_State, index: c_int) {
    // SAFETY: the guard keeps the selector by its user value.
    unsafe {
        object::check::<Selector>(state, index);
        let Ok(_) = object::push_new(state, || Ok::<_, std::convert::Infallible>(LoopGuard));
        ffi::lua_pushvalue(state, index);
        ffi::lua_setiuservalue(state, -2, 1);
    }
}

/// For an iterator that was called with `arguments` values, by a loop of the kind `by`: the next event of the batch of
/// the selector that is upvalue `index`; `None` when that is over.
///
/// # Safety
/// `state` is valid; nothing that needs `Drop` may be alive; the upvalue is a selector.
pub(crate) unsafe fn next_ready(
    state: *mut lua_State,
    index: c_int,
    arguments: c_int,
    by: Loop,
) -> Option<Event> {
    // SAFETY: the selector is looked at each time: what is done with an event may run a finalizer that closes it.
    unsafe {
        let selector = object::upvalue::<Selector>(state, index)?;
        settle(state, guard(|| Ok((*selector).next(arguments, by))))
    }
}

/// Pushes the table that has the udata of each registration at its slot + 1; nil when the selector at `index` is
/// closed: then there are no events.
///
/// # Safety
/// `state` is valid, with a free stack slot; a selector is at `index`.
pub(crate) unsafe fn push_udatas(state: *mut lua_State, index: c_int) {
    // SAFETY: the caller's promise.
    unsafe {
        ffi::lua_getiuservalue(state, index, UDATA);
    }
}
