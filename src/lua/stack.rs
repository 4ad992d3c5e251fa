//! The values of a call, and operations on them that run no Lua code and raise nothing.

use super::fault::Fault;
use super::state::{Kind, State, deref_to_field};
use super::vm_context::VmRef;
use std::cell::Cell;
use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The values of the running function: its arguments, numbered from 1, and the values pushed since then. At an index
/// out of range there is no value. No method runs Lua code, allocates Lua memory or raises. Therefore a stack may be
/// used while an object is borrowed, see [`Call::object_and_stack`](super::Call::object_and_stack).
pub(crate) struct Stack {
    pub(super) raw: State,
    /// The number of values for which the stack is known to have room.
    pub(super) room: c_int,
    /// The number of values just before the step pushed its first value; negative until then.
    pub(super) start_height: c_int,
    /// Whether the collector is stopped until the step ends.
    pub(super) collector_paused: bool,
    /// The VM of this stack, cached by the first query.
    vm_ref: Cell<VmRef>,
}

/// The number of free slots that a step leaves, so that its results can be pushed.
const SPARE: c_int = 10;

deref_to_field!(Stack, raw: State);

impl Stack {
    /// Wraps the stack of the running function, which has room for `room` values.
    #[inline(always)]
    pub(super) fn new(raw: State, room: c_int) -> Stack {
        Stack { raw, room, start_height: -1, collector_paused: false, vm_ref: Cell::new(VmRef::UNKNOWN) }
    }

    /// Returns a second reference to this stack, for reading values while this reference is borrowed.
    pub(super) fn alias(&self) -> Stack {
        Stack { raw: self.raw.reborrow(), vm_ref: self.vm_ref.clone(), ..*self }
    }

    /// Returns the VM of this stack.
    #[inline]
    pub(super) fn vm_ref(&self) -> VmRef {
        if self.vm_ref.get() == VmRef::UNKNOWN {
            self.vm_ref.set(VmRef::of(self));
        }
        self.vm_ref.get()
    }

    /// Returns an identity of the VM of this stack, see [`State::vm`].
    #[inline]
    pub(super) fn vm(&self) -> usize {
        self.vm_ref().address()
    }

    /// Whether the caller may be running inside a finalizer, which is assumed if the collector is stopped: Lua stops
    /// the collector while a finalizer runs, but the program can stop it, too.
    pub(crate) fn may_be_finalizer(&self) -> bool {
        !self.collector_paused && !self.is_collecting()
    }

    /// Whether no other function is active in the VM. This is the case while the VM is closing and runs the finalizers.
    pub(super) fn has_no_caller(&mut self) -> Result<bool, Fault> {
        self.reserve(1)?;
        let is_main = self.push_thread();
        self.pop_identity();
        self.room += 1;
        Ok(is_main && self.level(1).is_none())
    }

    /// Returns the value at `index` as an integer. A float or a string with an integer value is converted, as in Lua.
    #[inline]
    pub(crate) fn integer(&self, index: c_int) -> Result<i64, Fault> {
        self.to_integer(index).ok_or_else(|| self.integer_fault(index))
    }

    /// Returns the fault for a value that is not an integer.
    #[cold]
    fn integer_fault(&self, index: c_int) -> Fault {
        match self.to_number(index) {
            Some(_) => Fault::argument(index, "number has no integer representation"),
            None => Fault::expected(index, "number"),
        }
    }

    /// Reads the value at `index` with `read`. Returns `None` if the value is nil or missing.
    #[inline]
    pub(crate) fn optional<'s, T>(
        &'s self, index: c_int, read: impl FnOnce(&'s Self, c_int) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match self.is_none(index) {
            true => Ok(None),
            false => read(self, index).map(Some),
        }
    }

    /// Returns the value at `index` as an integer, which must be in `range`. `what` is the name of the value in the
    /// error message.
    #[inline]
    pub(crate) fn integer_in(&self, index: c_int, range: RangeInclusive<i64>, what: &str) -> Result<i64, Fault> {
        let value = self.integer(index)?;
        if !range.contains(&value) {
            let (low, high) = range.into_inner();
            let message = format_args!("{what} must be {low} to {high}, not {value}");
            return Err(Fault::argument(index, message));
        }
        Ok(value)
    }

    /// Returns the value at `index` as a number. A string that contains a number is converted.
    #[inline]
    pub(crate) fn number(&self, index: c_int) -> Result<f64, Fault> {
        self.to_number(index).ok_or_else(|| Fault::expected(index, "number"))
    }

    /// Checks that the value at `index` is of type `kind`. `what` is the name of the type in the error message.
    pub(crate) fn expect(&self, index: c_int, kind: Kind, what: &'static str) -> Result<(), Fault> {
        match self.kind(index) == kind {
            true => Ok(()),
            false => Err(Fault::expected(index, what)),
        }
    }

    /// Checks that there is a value at `index`. The value may be nil.
    pub(crate) fn any(&self, index: c_int) -> Result<(), Fault> {
        match self.kind(index) {
            Kind::None => Err(Fault::argument(index, "value expected")),
            _ => Ok(()),
        }
    }

    /// Returns the bytes of the string at `index`. A number is converted to a string, as everywhere in Lua: the step
    /// ends with a fault, and after the conversion it runs again from the start. Therefore the first step of a function
    /// must read its strings before it does anything else.
    #[inline]
    pub(crate) fn bytes(&self, index: c_int) -> Result<&[u8], Fault> {
        match self.string(index) {
            Some(bytes) => Ok(bytes),
            None => Err(self.string_fault(index)),
        }
    }

    /// Returns the fault for a value that is not a string. For a number, the fault makes the step run again with a
    /// string.
    #[cold]
    fn string_fault(&self, index: c_int) -> Fault {
        match self.kind(index) {
            Kind::Number => Fault::convert(index),
            _ => Fault::expected(index, "string"),
        }
    }

    /// Returns the string at `index`, which must be valid UTF-8.
    pub(crate) fn utf8(&self, index: c_int) -> Result<&str, Fault> {
        let bytes = self.bytes(index)?;
        std::str::from_utf8(bytes).map_err(|_| Fault::argument(index, "not valid UTF-8"))
    }

    /// Returns the value at `index` as a timeout. The unit of the value is 1/`per_second` seconds. Returns `None`,
    /// which means no timeout, if the value is nil or missing, negative, or at least 1e9 seconds.
    pub(crate) fn timeout_in(&self, index: c_int, per_second: f64) -> Result<Option<Duration>, Fault> {
        if self.is_none(index) {
            return Ok(None);
        }
        let seconds = self.number(index)? / per_second;
        if seconds.is_nan() {
            return Err(Fault::argument(index, "timeout is NaN"));
        }
        let bounded = (0.0..1e9).contains(&seconds);
        Ok(bounded.then(|| Duration::from_secs_f64(seconds)))
    }

    /// Ensures that `count` more values can be pushed until the function ends. The function's later steps then need no
    /// memory for them, even if a called function has used up the memory.
    pub(crate) fn keep_room(&mut self, count: c_int) -> Result<(), Fault> {
        match self.has_room(count + SPARE + 20) {
            false => Err(Fault::message("stack overflow")),
            true => Ok(()),
        }
    }

    /// Ensures that `count` more values can be pushed.
    #[inline]
    pub(super) fn reserve(&mut self, count: c_int) -> Result<(), Fault> {
        if self.start_height < 0 {
            self.start_height = self.count();
        }
        self.room -= count;
        match self.room < SPARE {
            true => self.grow(count),
            false => Ok(()),
        }
    }

    /// Makes room on Lua's stack for `count` values and for the results.
    #[cold]
    fn grow(&mut self, count: c_int) -> Result<(), Fault> {
        self.keep_room(count)?;
        self.room = SPARE + 20;
        Ok(())
    }
}
