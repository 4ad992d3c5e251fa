//! The values of a call: what can be done with them without running anything of Lua's, and without a raise.

use super::fault::Fault;
use mlua::ffi::{self, lua_State};
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ops::RangeInclusive;
use std::time::Duration;

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// No value: behind the last argument.
    None = ffi::LUA_TNONE as isize,
    Nil = ffi::LUA_TNIL as isize,
    Boolean = ffi::LUA_TBOOLEAN as isize,
    LightUserdata = ffi::LUA_TLIGHTUSERDATA as isize,
    Number = ffi::LUA_TNUMBER as isize,
    String = ffi::LUA_TSTRING as isize,
    Table = ffi::LUA_TTABLE as isize,
    Function = ffi::LUA_TFUNCTION as isize,
    Userdata = ffi::LUA_TUSERDATA as isize,
    Thread = ffi::LUA_TTHREAD as isize,
}

impl Kind {
    /// Of a type of Lua's.
    #[inline]
    pub(super) fn of(kind: c_int) -> Kind {
        match kind {
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Kind::LightUserdata,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            ffi::LUA_TUSERDATA => Kind::Userdata,
            ffi::LUA_TTHREAD => Kind::Thread,
            _ => Kind::None,
        }
    }
}

/// The values of the running function: its arguments, by their number from 1, and what was pushed since. One that is out
/// of range reads as no value. No method here runs Lua code, takes memory of Lua's or raises: so it may be used beside
/// a borrow of an object, see [`Call::split`](super::Call::split).
pub(crate) struct Stack {
    pub(super) state: *mut lua_State,
    /// How many values can be pushed for sure.
    pub(super) room: c_int,
    /// How many values were there when the step began, or rather when it pushed its first; negative before that.
    pub(super) base: c_int,
    /// Whether the collector rests until the step ends.
    pub(super) rests: bool,
    /// The address of the VM's registry; 0 until it is asked for.
    vm: Cell<usize>,
}

/// What a step leaves room for, so that its results can be pushed.
const SPARE: c_int = 10;

impl Stack {
    /// # Safety
    /// As for [`Call::new`](super::Call::new).
    #[inline(always)]
    pub(super) unsafe fn new(state: *mut lua_State, room: c_int) -> Stack {
        Stack {
            state,
            room,
            base: -1,
            rests: false,
            vm: Cell::new(0),
        }
    }

    /// The same for who reads the values meanwhile.
    pub(super) fn lend(&self) -> Stack {
        Stack {
            vm: self.vm.clone(),
            ..*self
        }
    }

    /// Which VM this is of: the address of its registry, an identity and nothing else.
    #[inline]
    pub(super) fn vm(&self) -> usize {
        if self.vm.get() == 0 {
            // SAFETY: the state of a step that runs.
            self.vm.set(unsafe { vm_of(self.state) });
        }
        self.vm.get()
    }

    /// Whether this may run inside a finalizer: the collector rests while one runs, and when a program has stopped it.
    pub(crate) fn may_be_finalizer(&self) -> bool {
        // SAFETY: asks for a flag.
        !self.rests && unsafe { ffi::lua_gc(self.state, ffi::LUA_GCISRUNNING) != 1 }
    }

    /// Whether no function is active in the VM but this one, as when a finalizer runs because the VM closes.
    pub(super) fn is_called_by_nobody(&mut self) -> Result<bool, Fault> {
        self.reserve(1)?;
        // SAFETY: a level is asked for, into a record that nobody reads; the thread is popped again.
        unsafe {
            let mut record: ffi::lua_Debug = std::mem::zeroed();
            let is_main = ffi::lua_pushthread(self.state) == 1;
            ffi::lua_settop(self.state, -2);
            self.room += 1;
            Ok(is_main && ffi::lua_getstack(self.state, 1, &mut record) == 0)
        }
    }

    /// Whether the running coroutine can yield here.
    #[inline]
    pub(crate) fn is_yieldable(&self) -> bool {
        // SAFETY: reads a count.
        unsafe { ffi::lua_isyieldable(self.state) != 0 }
    }

    /// How many values lie on the stack of the function: in its first step, how many arguments it has.
    #[inline]
    pub(crate) fn count(&self) -> c_int {
        // SAFETY: a step's state is valid.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// What the value at `index` is.
    #[inline]
    pub(crate) fn kind(&self, index: c_int) -> Kind {
        // SAFETY: any positive index, and that of an upvalue, can be asked for.
        Kind::of(unsafe { ffi::lua_type(self.state, at(index)) })
    }

    /// What Lua calls the type of the value at `index`.
    pub(crate) fn type_name(&self, index: c_int) -> &'static str {
        // SAFETY: as for `kind`; the names are static.
        let name = unsafe { CStr::from_ptr(ffi::luaL_typename(self.state, at(index))) };
        name.to_str().unwrap_or("?")
    }

    /// Whether there is no value at `index`, or nil.
    #[inline]
    pub(crate) fn is_none(&self, index: c_int) -> bool {
        matches!(self.kind(index), Kind::None | Kind::Nil)
    }

    /// Whether the value at `index` counts as true in Lua.
    #[inline]
    pub(crate) fn is_true(&self, index: c_int) -> bool {
        // SAFETY: what has no value counts as false.
        unsafe { ffi::lua_toboolean(self.state, at(index)) != 0 }
    }

    /// An integer, or a float or string that stands for one, as Lua converts them.
    #[inline]
    pub(crate) fn integer(&self, index: c_int) -> Result<i64, Fault> {
        let mut exact = 0;
        // SAFETY: as for `kind`; a string is read, not changed.
        let value = unsafe { ffi::lua_tointegerx(self.state, at(index), &mut exact) };
        match exact {
            0 => Err(self.no_integer(index)),
            _ => Ok(value),
        }
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
        &'s self,
        index: c_int,
        read: impl FnOnce(&'s Self, c_int) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match self.is_none(index) {
            true => Ok(None),
            false => read(self, index).map(Some),
        }
    }

    /// An integer within `range`, which `what` names in the error.
    #[inline]
    pub(crate) fn integer_in(
        &self,
        index: c_int,
        range: RangeInclusive<i64>,
        what: &str,
    ) -> Result<i64, Fault> {
        let value = self.integer(index)?;
        if !range.contains(&value) {
            let (low, high) = range.into_inner();
            let message = format_args!("{what} must be {low} to {high}, not {value}");
            return Err(Fault::argument(index, message));
        }
        Ok(value)
    }

    fn to_number(&self, index: c_int) -> Option<f64> {
        let mut is_number = 0;
        // SAFETY: converts a copy; the value on the stack stays what it is.
        let value = unsafe { ffi::lua_tonumberx(self.state, at(index), &mut is_number) };
        (is_number != 0).then_some(value)
    }

    /// A number, or a string that stands for one.
    #[inline]
    pub(crate) fn number(&self, index: c_int) -> Result<f64, Fault> {
        self.to_number(index)
            .ok_or_else(|| Fault::expected(index, "number"))
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

    /// The bytes of the value at `index` if it is a string; numbers are not made one.
    #[inline]
    pub(crate) fn string(&self, index: c_int) -> Option<&[u8]> {
        let index = at(index);
        // SAFETY: a string is not converted. It stays where it is as long as the stack is borrowed: nothing is taken off,
        // and nothing of Lua's runs.
        unsafe {
            if ffi::lua_type(self.state, index) != ffi::LUA_TSTRING {
                return None;
            }
            let mut length = 0;
            let start = ffi::lua_tolstring(self.state, index, &mut length);
            Some(std::slice::from_raw_parts(start.cast(), length))
        }
    }

    /// A string that is UTF-8.
    pub(crate) fn utf8(&self, index: c_int) -> Result<&str, Fault> {
        let bytes = self.bytes(index)?;
        std::str::from_utf8(bytes).map_err(|_| Fault::argument(index, "not valid UTF-8"))
    }

    /// A time-out in seconds: no value, nil or a negative one is for ever, as is one of more than 30 years.
    pub(crate) fn timeout(&self, index: c_int) -> Result<Option<Duration>, Fault> {
        self.timeout_in(index, 1.0)
    }

    /// The same in units of which there are so many in a second.
    pub(crate) fn timeout_in(
        &self,
        index: c_int,
        per_second: f64,
    ) -> Result<Option<Duration>, Fault> {
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
        // SAFETY: it reports a failure by its result.
        match unsafe { ffi::lua_checkstack(self.state, count + SPARE + 20) } {
            0 => Err(Fault::message("stack overflow")),
            _ => {
                self.room = SPARE + 20;
                Ok(())
            }
        }
    }

    /// Copies the value at `from` to the place of the one at `to`.
    #[inline]
    pub(crate) fn copy(&mut self, from: c_int, to: c_int) {
        // SAFETY: a copy takes no room, and its two places are below the top.
        unsafe {
            let top = ffi::lua_gettop(self.state);
            assert!(at(from) <= top && (1..=top).contains(&to), "no value there");
            ffi::lua_copy(self.state, from, to);
        }
    }

    /// Moves the value on top to `index`, and drops what was behind that.
    pub(crate) fn replace_with_top(&mut self, index: c_int) {
        // SAFETY: both places hold values.
        unsafe {
            assert!(
                at(index) <= ffi::lua_gettop(self.state),
                "no value at {index}"
            );
            ffi::lua_copy(self.state, -1, index);
            ffi::lua_settop(self.state, index);
        }
    }

    /// Drops the values above the first `height`: what was pushed, or came with an outcome.
    #[inline]
    pub(crate) fn drop_to(&mut self, height: c_int) {
        // SAFETY: shortens the stack.
        unsafe {
            if height >= 0 && height < ffi::lua_gettop(self.state) {
                ffi::lua_settop(self.state, height);
            }
        }
    }
}

/// An index that can be asked for whatever lies there: positive, or that of an upvalue.
#[inline(always)]
pub(super) fn at(index: c_int) -> c_int {
    let upvalues = ffi::lua_upvalueindex(255)..ffi::LUA_REGISTRYINDEX;
    assert!(index > 0 || upvalues.contains(&index), "no index: {index}");
    index
}

/// The index of the running function's n-th upvalue.
pub(crate) const fn upvalue(n: c_int) -> c_int {
    ffi::lua_upvalueindex(n)
}

/// Which VM a coroutine is of: the address of its registry, an identity and nothing else.
///
/// # Safety
/// `state` is valid.
pub(super) unsafe fn vm_of(state: *mut lua_State) -> usize {
    // SAFETY: the registry can be asked for anywhere.
    unsafe { ffi::lua_topointer(state, ffi::LUA_REGISTRYINDEX).addr() }
}
