//! Errors that the core raises after a step, and failures that it returns.

use super::failure::Failure;
use super::pusher::Pusher;
use super::returns::with_parked;
use super::state::Kind;
use std::any::Any;
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a step failed. An error is raised in place of the function's results; a failure is returned.
#[derive(Debug)]
pub(crate) struct Fault(Box<Cause>);

/// The cause of a fault. It determines whether the core raises an error, returns a failure, or runs the step again.
#[derive(Debug)]
enum Cause {
    /// `bad argument #index to 'call' (message)`.
    Argument(ArgumentPlace, String),
    /// `bad argument #index to 'call' (what expected, got …)`.
    Expected(ArgumentPlace, &'static str),
    /// A message, preceded by the position of the calling Lua code.
    Message(String),
    /// The error value at this stack index.
    Value(c_int),
    /// The error value at this stack index. If it is a string, the position of the calling Lua code precedes it.
    Located(c_int),
    /// No error: the function returns `nil, message, code`.
    Returned(Failure),
    /// The number at this stack index must be converted to a string; then the step runs again.
    Convert(c_int),
}

/// Which argument is invalid.
#[derive(Debug)]
struct ArgumentPlace {
    index: c_int,
    /// The call's name, and the number that is added to `index` to get the number of the argument in that call. If
    /// `None`, both come from Lua's debug information.
    call: Option<(&'static str, c_int)>,
}

impl From<Failure> for Fault {
    #[cold]
    fn from(failure: Failure) -> Fault {
        Fault(Box::new(Cause::Returned(failure)))
    }
}

/// Returns a function for `map_err`: it converts a system error from `call` to a failure that is returned to Lua.
pub(crate) fn failed(call: &'static str) -> impl Fn(io::Error) -> Fault {
    move |error| Failure::io(call, &error).into()
}

impl Fault {
    /// Returns the error `bad argument #index to 'call' (message)`.
    #[cold]
    pub(crate) fn argument(index: c_int, message: impl fmt::Display) -> Fault {
        let place = ArgumentPlace { index, call: None };
        Fault(Box::new(Cause::Argument(place, message.to_string())))
    }

    /// Returns the error `bad argument #index to 'call' (what expected, got …)`.
    #[cold]
    pub(crate) fn expected(index: c_int, what: &'static str) -> Fault {
        let place = ArgumentPlace { index, call: None };
        Fault(Box::new(Cause::Expected(place, what)))
    }

    /// Returns an error with `message`, which is preceded by the position of the calling Lua code.
    #[cold]
    pub(crate) fn message(message: impl fmt::Display) -> Fault {
        Fault(Box::new(Cause::Message(message.to_string())))
    }

    /// Sets the name of the call in the message, for calls whose name Lua cannot find, such as a method that is called
    /// through another function. `shift` is added to the argument's number.
    #[cold]
    pub(crate) fn in_call(mut self, call: &'static str, shift: c_int) -> Fault {
        if let Cause::Argument(place, _) | Cause::Expected(place, _) = &mut *self.0 {
            place.call = Some((call, shift));
        }
        self
    }

    /// Moves the fault to another argument: `shift` is added to the argument's number.
    #[cold]
    pub(crate) fn shifted(mut self, shift: c_int) -> Fault {
        if let Cause::Argument(place, _) | Cause::Expected(place, _) = &mut *self.0 {
            place.index += shift;
        }
        self
    }

    /// Returns a fault that raises the value at the stack index `index`. If the value is a string, the position of the
    /// calling Lua code precedes it.
    #[cold]
    pub(crate) fn located(index: c_int) -> Fault {
        Fault(Box::new(Cause::Located(index)))
    }

    /// Returns a fault that raises the value at the stack index `index`.
    #[cold]
    pub(crate) fn value(index: c_int) -> Fault {
        Fault(Box::new(Cause::Value(index)))
    }

    /// Returns a fault that makes the core convert the number at `index` to a string and run the step again.
    #[cold]
    pub(super) fn convert(index: c_int) -> Fault {
        Fault(Box::new(Cause::Convert(index)))
    }

    /// Returns the stack index of the number that must be converted to a string before the step runs again; `None` if
    /// the step must not run again.
    pub(super) fn conversion(&self) -> Option<c_int> {
        match *self.0 {
            Cause::Convert(index) => Some(index),
            _ => None,
        }
    }

    /// Returns the failure that the function must return. If the fault is an error, returns the fault itself as `Err`.
    #[cold]
    pub(super) fn returned(self) -> Result<Failure, Fault> {
        match *self.0 {
            Cause::Returned(failure) => Ok(failure),
            cause => Err(Fault(Box::new(cause))),
        }
    }

    /// Moves the contents out of the box, so that the box is freed before an error is raised.
    fn cause(self) -> Cause {
        *self.0
    }

    /// Converts a caught panic to a fault with its message.
    #[cold]
    pub(super) fn panic(panic: Box<dyn Any + Send>) -> Fault {
        Fault::message(panic_message(panic))
    }

    /// Raises the fault. While Lua copies the message, the fault is parked in the store.
    #[cold]
    pub(super) fn raise(self, to: &mut Pusher<'_>) -> ! {
        self.raise_at(to, 1)
    }

    /// Raises the fault. A message begins with the position of the function at this level of the stack, see
    /// luaL_where in the manual of Lua.
    #[cold]
    pub(super) fn raise_at(self, to: &mut Pusher<'_>, level: c_int) -> ! {
        // A failure that cannot be returned here is raised as an error with its message.
        let fault = self.returned();
        let fault = fault.map_or_else(|fault| fault, |failure| Fault::message(failure.message()));
        if !to.has_room(20) {
            drop(fault);
            // The stack has no room for the message, so Lua raises its own error.
            to.need(20, None);
            to.raise_top();
        }
        let (place, value) = match &*fault.0 {
            Cause::Argument(place, _) | Cause::Expected(place, _) => (Some((place.index, place.call)), None),
            Cause::Convert(index) => (Some((*index, None)), None),
            Cause::Value(index) => (None, Some((*index, false))),
            Cause::Located(index) => (None, Some((*index, true))),
            Cause::Message(_) | Cause::Returned(_) => (None, None),
        };
        match value {
            Some((index, is_located)) => {
                drop(fault);
                to.push_copy(index);
                if !is_located || to.kind(index) != Kind::String {
                    to.raise_top();
                }
            }
            None => with_parked(fault.cause(), to.reborrow(), |cause, to| push_cause(cause, to)),
        }
        match place {
            Some((index, None)) => to.raise_argument(index),
            Some((index, Some((call, shift)))) => {
                let message = to.count();
                push_nearest_place(to);
                to.push_string(b"bad argument #");
                to.push_integer((index + shift).into());
                to.push_string(b" to '");
                to.push_string(call.as_bytes());
                to.push_string(b"' (");
                to.push_copy(message);
                to.push_string(b")");
                to.concatenate(8);
            }
            None => {
                let message = to.count();
                to.push_place(level);
                to.push_copy(message);
                to.concatenate(2);
            }
        }
        to.raise_top()
    }
}

/// Pushes the position of the calling Lua code. If the caller is a C function, such as `pcall`, that is its caller.
fn push_nearest_place(to: &mut Pusher<'_>) {
    to.push_place(1);
    if to.raw_length(to.count()) == 0 {
        to.drop_top();
        to.push_place(2);
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

/// Returns the message of a caught panic.
#[cold]
pub(super) fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let what = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown cause");
    let message = format!("internal error: {what}");
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Dropping the payload panicked, too.
        std::mem::forget(another);
    }
    message
}

/// Pushes the message of a cause; nil if the cause has none.
fn push_cause(cause: &Cause, mut to: Pusher<'_>) {
    match cause {
        Cause::Argument(_, text) | Cause::Message(text) => to.push_string(text.as_bytes()),
        Cause::Expected(place, what) => push_expected(&mut to, place.index, what),
        Cause::Convert(index) => push_expected(&mut to, *index, "string"),
        Cause::Value(_) | Cause::Located(_) | Cause::Returned(_) => to.push_nil(),
    }
}

/// Pushes `what expected, got …` for the value at `index`.
fn push_expected(to: &mut Pusher<'_>, index: c_int, what: &str) {
    // The type is read before anything is pushed: if the argument is missing, the next pushed value would be at its
    // index.
    let name = match to.kind(index) {
        Kind::LightUserdata => "light userdata",
        _ => to.type_name(index),
    };
    let has_fields = to.kind(index) != Kind::None;
    to.push_string(what.as_bytes());
    to.push_string(b" expected, got ");
    let found = to.count() + 1;
    match has_fields {
        true => to.push_metafield(index, c"__name"),
        false => to.push_nil(),
    }
    if to.kind(found) != Kind::String {
        to.drop_to(found - 1);
        to.push_string(name.as_bytes());
    }
    to.concatenate(3);
}
