//! The values of a call: what can be done with them without running anything of Lua's, and without a raise.

use super::fault::Fault;
use super::home::Origin;
use super::state::{Kind, State, stands_on};
use std::cell::Cell;
use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The values of the running function: its arguments, by their number from 1, and what was pushed since. One that is out
/// of range reads as no value. No method here runs Lua code, takes memory of Lua's or raises: so it may be used beside
/// a borrow of an object, see [`Call::split`](super::Call::split).
pub(crate) struct Stack {
    pub(super) raw: State,
    /// How many values can be pushed for sure.
    pub(super) room: c_int,
    /// How many values were there when the step began, or rather when it pushed its first; negative before that.
    pub(super) base: c_int,
    /// Whether the collector rests until the step ends.
    pub(super) rests: bool,
    /// Which VM this is of, once that was asked for.
    origin: Cell<Origin>,
}

/// What a step leaves room for, so that its results can be pushed.
const SPARE: c_int = 10;

stands_on!(Stack, raw: State);

impl Stack {
    /// Of the running function, with room for `room` values.
    #[inline(always)]
    pub(super) fn new(raw: State, room: c_int) -> Stack {
        Stack { raw, room, base: -1, rests: false, origin: Cell::new(Origin::UNKNOWN) }
    }

    /// The same for who reads the values meanwhile.
    pub(super) fn lend(&self) -> Stack {
        Stack { raw: self.raw.again(), origin: self.origin.clone(), ..*self }
    }

    /// Which VM this is of.
    #[inline]
    pub(super) fn origin(&self) -> Origin {
        if self.origin.get() == Origin::UNKNOWN {
            self.origin.set(Origin::of(self));
        }
        self.origin.get()
    }

    /// Which VM this is of, see [`State::vm`].
    #[inline]
    pub(super) fn vm(&self) -> usize {
        self.origin().address()
    }

    /// Whether this may run inside a finalizer: the collector rests while one runs, and when a program has stopped it.
    pub(crate) fn may_be_finalizer(&self) -> bool {
        !self.rests && !self.is_collecting()
    }

    /// Whether no function is active in the VM but this one, as when a finalizer runs because the VM closes.
    pub(super) fn is_called_by_nobody(&mut self) -> Result<bool, Fault> {
        self.reserve(1)?;
        let is_main = self.push_thread();
        self.pop_identity();
        self.room += 1;
        Ok(is_main && self.level(1).is_none())
    }

    /// An integer, or a float or string that stands for one, as Lua converts them.
    #[inline]
    pub(crate) fn integer(&self, index: c_int) -> Result<i64, Fault> {
        self.to_integer(index).ok_or_else(|| self.no_integer(index))
    }

    #[cold]
    fn no_integer(&self, index: c_int) -> Fault {
        match self.to_number(index) {
            Some(_) => Fault::argument(index, "number has no integer representation"),
            None => Fault::expected(index, "number"),
        }
    }

    /// What `read` makes of the value at `index`, if there is one.
    #[inline]
    pub(crate) fn optional<'s, T>(
        &'s self, index: c_int, read: impl FnOnce(&'s Self, c_int) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match self.is_none(index) {
            true => Ok(None),
            false => read(self, index).map(Some),
        }
    }

    /// An integer within `range`, which `what` names in the error.
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

    /// A number, or a string that stands for one.
    #[inline]
    pub(crate) fn number(&self, index: c_int) -> Result<f64, Fault> {
        self.to_number(index).ok_or_else(|| Fault::expected(index, "number"))
    }

    /// A value of this kind, which the error calls `what`.
    pub(crate) fn expect(&self, index: c_int, kind: Kind, what: &'static str) -> Result<(), Fault> {
        match self.kind(index) == kind {
            true => Ok(()),
            false => Err(Fault::expected(index, what)),
        }
    }

    /// Any value at all, nil as well.
    pub(crate) fn any(&self, index: c_int) -> Result<(), Fault> {
        match self.kind(index) {
            Kind::None => Err(Fault::argument(index, "value expected")),
            _ => Ok(()),
        }
    }

    /// A string. A number is made one, as everywhere in Lua: then the step is left, and run again from its start, so
    /// the first step of a function asks for its strings before it does anything.
    #[inline]
    pub(crate) fn bytes(&self, index: c_int) -> Result<&[u8], Fault> {
        match self.string(index) {
            Some(bytes) => Ok(bytes),
            None => Err(self.no_string(index)),
        }
    }

    #[cold]
    fn no_string(&self, index: c_int) -> Fault {
        match self.kind(index) {
            Kind::Number => Fault::convert(index),
            _ => Fault::expected(index, "string"),
        }
    }

    /// A string that is UTF-8.
    pub(crate) fn utf8(&self, index: c_int) -> Result<&str, Fault> {
        let bytes = self.bytes(index)?;
        std::str::from_utf8(bytes).map_err(|_| Fault::argument(index, "not valid UTF-8"))
    }

    /// The same in units of which there are so many in a second.
    pub(crate) fn timeout_in(&self, index: c_int, per_second: f64) -> Result<Option<Duration>, Fault> {
        if self.is_none(index) {
            return Ok(None);
        }
        let seconds = self.number(index)? / per_second;
        if seconds.is_nan() {
            return Err(Fault::argument(index, "time-out is not a number"));
        }
        let bounded = (0.0..1e9).contains(&seconds);
        Ok(bounded.then(|| Duration::from_secs_f64(seconds)))
    }

    /// Makes sure that `count` values more can be pushed.
    #[inline]
    pub(super) fn reserve(&mut self, count: c_int) -> Result<(), Fault> {
        if self.base < 0 {
            self.base = self.count();
        }
        self.room -= count;
        match self.room < SPARE {
            true => self.grow(count),
            false => Ok(()),
        }
    }

    #[cold]
    fn grow(&mut self, count: c_int) -> Result<(), Fault> {
        match self.has_room(count + SPARE + 20) {
            false => Err(Fault::message("stack overflow")),
            true => {
                self.room = SPARE + 20;
                Ok(())
            }
        }
    }
}
