//! Errors that a step raises when it is over, and failures that it returns.

use super::failure::Failure;
use super::returns::{Pusher, safely};
use super::stack::at;
use mlua::ffi::{self, lua_State};
use std::any::Any;
use std::ffi::{CStr, c_int};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a function raises in the place of its results, or a failure, which it returns.
#[derive(Debug)]
pub(crate) struct Fault(Box<Cause>);

#[derive(Debug)]
enum Cause {
    /// `bad argument #index to 'call' (message)`.
    Argument(Place, String),
    /// The same, where the message is `expected …, got …`.
    Expected(Place, &'static str),
    /// A message, with the position of the Lua code that made the call.
    Message(String),
    /// An error value that lies on the stack.
    Value(c_int),
    /// The same; a string gets the position of the Lua code that made the call.
    Located(c_int),
    /// No error: the function returns `nil, message, code`.
    Returned(Failure),
    /// The number at an index is to be made a string, and then the step is to be run again.
    Convert(c_int),
}

/// Which argument is wrong.
#[derive(Debug)]
struct Place {
    index: c_int,
    /// The call's name, and how far its caller counts the argument from `index`; Lua is asked for both without it.
    call: Option<(&'static str, c_int)>,
}

impl From<Failure> for Fault {
    #[cold]
    fn from(failure: Failure) -> Fault {
        Fault(Box::new(Cause::Returned(failure)))
    }
}

/// For `map_err`: what the system says to `call` is returned.
pub(crate) fn failed(call: &'static str) -> impl Fn(io::Error) -> Fault {
    move |error| Failure::io(call, &error).into()
}

impl Fault {
    /// `bad argument #index to 'call' (message)`.
    #[cold]
    pub(crate) fn argument(index: c_int, message: impl fmt::Display) -> Fault {
        let place = Place { index, call: None };
        Fault(Box::new(Cause::Argument(place, message.to_string())))
    }

    /// `bad argument #index to 'call' (what expected, got …)`.
    #[cold]
    pub(crate) fn expected(index: c_int, what: &'static str) -> Fault {
        let place = Place { index, call: None };
        Fault(Box::new(Cause::Expected(place, what)))
    }

    /// A message, with the position of the Lua code that made the call before it.
    #[cold]
    pub(crate) fn message(message: impl fmt::Display) -> Fault {
        Fault(Box::new(Cause::Message(message.to_string())))
    }

    /// Names the call that a wrong argument was given to, where Lua cannot tell: a method that is called through
    /// another function, for instance. `shift` is added to the argument's number.
    #[cold]
    pub(crate) fn in_call(mut self, call: &'static str, shift: c_int) -> Fault {
        if let Cause::Argument(place, _) | Cause::Expected(place, _) = &mut *self.0 {
            place.call = Some((call, shift));
        }
        self
    }

    /// The same fault of another argument: `shift` is added to its number.
    #[cold]
    pub(crate) fn shifted(mut self, shift: c_int) -> Fault {
        if let Cause::Argument(place, _) | Cause::Expected(place, _) = &mut *self.0 {
            place.index += shift;
        }
        self
    }

    /// Raises it from a raw function that is left. // bridge
    ///
    /// # Safety
    /// As for a raise of that function.
    pub(crate) unsafe fn raise_raw(self, state: *mut lua_State) -> ! {
        // SAFETY: a raw function raises as its last act.
        unsafe { self.raise(state) }
    }

    /// The error value at an index of the stack, with the position of the Lua code that made the call before it if it is a
    /// string.
    #[cold]
    pub(crate) fn located(index: c_int) -> Fault {
        Fault(Box::new(Cause::Located(index)))
    }

    /// The error value at an index of the stack.
    #[cold]
    pub(crate) fn value(index: c_int) -> Fault {
        Fault(Box::new(Cause::Value(index)))
    }

    /// The step needs the number at `index` as a string.
    #[cold]
    pub(super) fn convert(index: c_int) -> Fault {
        Fault(Box::new(Cause::Convert(index)))
    }

    /// The number that has to be a string before the step is run again.
    pub(super) fn conversion(&self) -> Option<c_int> {
        match *self.0 {
            Cause::Convert(index) => Some(index),
            _ => None,
        }
    }

    /// The failure to be returned, unless it is an error.
    #[cold]
    pub(super) fn returned(self) -> Result<Failure, Fault> {
        match *self.0 {
            Cause::Returned(failure) => Ok(failure),
            cause => Err(Fault(Box::new(cause))),
        }
    }

    /// The message of a panic, which ends here.
    #[cold]
    pub(super) fn panic(panic: Box<dyn Any + Send>) -> Fault {
        Fault::message(panic_message(panic))
    }

    /// Raises it.
    ///
    /// # Safety
    /// `state` is that of the function whose step has ended; no frame of the step is left.
    #[cold]
    pub(super) unsafe fn raise(self, state: *mut lua_State) -> ! {
        // Where nothing is returned, its message is raised.
        let fault = self.returned();
        let fault = fault.map_or_else(|fault| fault, |failure| Fault::message(failure.message()));
        // SAFETY: what is left of it lies in the store while Lua copies it, so that a raise skips only plain data. There
        // is room, or a raise for want of it.
        unsafe {
            if ffi::lua_checkstack(state, 20) == 0 {
                drop(fault);
                // Raises Lua's own message.
                ffi::luaL_checkstack(state, 20, std::ptr::null());
                ffi::lua_error(state);
            }
            if let Cause::Value(index) = *fault.0 {
                drop(fault);
                ffi::lua_pushvalue(state, at(index));
                ffi::lua_error(state);
            }
            if let Cause::Located(index) = *fault.0 {
                drop(fault);
                if ffi::lua_type(state, at(index)) == ffi::LUA_TSTRING {
                    ffi::luaL_where(state, 1);
                    ffi::lua_pushvalue(state, index);
                    ffi::lua_concat(state, 2);
                } else {
                    ffi::lua_pushvalue(state, index);
                }
                ffi::lua_error(state);
            }
            let place = match &*fault.0 {
                Cause::Argument(place, _) | Cause::Expected(place, _) => {
                    Some((place.index, place.call))
                }
                Cause::Convert(index) => Some((*index, None)),
                _ => None,
            };
            safely(*fault.0, Pusher::new(state), |cause, to| {
                push_cause(cause, to.state())
            });
            if let Some((index, None)) = place {
                ffi::luaL_argerror(state, index, ffi::lua_tostring(state, -1));
            }
            ffi::luaL_where(state, 1);
            ffi::lua_rotate(state, -2, 1);
            if let Some((index, Some((call, shift)))) = place {
                push(state, b"bad argument #");
                ffi::lua_pushinteger(state, (index + shift).into());
                push(state, b" to '");
                push(state, call.as_bytes());
                push(state, b"' (");
                ffi::lua_rotate(state, -6, 5);
                push(state, b")");
                ffi::lua_concat(state, 7);
            }
            ffi::lua_concat(state, 2);
            ffi::lua_error(state)
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Argument(_, text) | Cause::Message(text) => to.write_str(text),
            Cause::Expected(_, what) => write!(to, "{what} expected"),
            Cause::Returned(failure) => to.write_str(&failure.message()),
            Cause::Located(_) | Cause::Value(_) | Cause::Convert(_) => to.write_str("error"),
        }
    }
}

/// The message of a panic, which ends here.
#[cold]
pub(super) fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let what = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown cause");
    let message = format!("internal error: {what}");
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // A payload that panics when it is dropped.
        std::mem::forget(another);
    }
    message
}

/// Pushes the message of a cause.
fn push_cause(cause: &Cause, state: *mut lua_State) {
    // SAFETY: a pusher has room for this.
    unsafe {
        match cause {
            Cause::Argument(_, text) | Cause::Message(text) => push(state, text.as_bytes()),
            Cause::Expected(place, what) => push_expected(state, place.index, what),
            Cause::Convert(index) => push_expected(state, *index, "string"),
            Cause::Value(_) | Cause::Located(_) | Cause::Returned(_) => ffi::lua_pushnil(state),
        }
    }
}

/// Pushes a string.
unsafe fn push(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: pointer and length are of one slice; the caller has made room.
    unsafe { ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len()) };
}

/// Pushes `what expected, got …`, of the value at `index`.
unsafe fn push_expected(state: *mut lua_State, index: c_int, what: &str) {
    // SAFETY: the name of a type is static, that of a metatable lies on the stack until it is copied. The value is looked
    // at before anything is pushed, which would lie where an argument is missing.
    unsafe {
        let kind = ffi::lua_type(state, index);
        push(state, what.as_bytes());
        push(state, b" expected, got ");
        let has_name = kind != ffi::LUA_TNONE
            && ffi::luaL_getmetafield(state, index, c"__name".as_ptr()) == ffi::LUA_TSTRING;
        if !has_name {
            // `luaL_getmetafield` pushes nothing for nil; anything else but a string is left below, and not shown.
            let name = match kind {
                ffi::LUA_TLIGHTUSERDATA => c"light userdata",
                kind => CStr::from_ptr(ffi::lua_typename(state, kind)),
            };
            ffi::lua_pushstring(state, name.as_ptr());
        }
        ffi::lua_concat(state, 3);
    }
}
