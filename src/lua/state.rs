//! A Lua stack, and the operations on it that run no Lua code, allocate nothing and raise nothing.
//!
//! The rest of the core builds on these methods and on those of `pusher`. Other files contain `unsafe` only for
//! operations that these methods do not cover.

use mlua::ffi::{self, lua_State};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// The type of a Lua value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// No value: the index is above the last value.
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
    /// Converts a type code (`LUA_T…`).
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

/// A registry key. Its address is the key, so the type must not be zero-sized.
pub(crate) struct Key(#[allow(dead_code)] u8);

impl Key {
    pub(crate) const fn new(seed: u8) -> Self {
        Key(seed)
    }

    pub(crate) fn pointer(&'static self) -> *const c_void {
        (self as *const Key).cast()
    }
}

/// A stack in use: the stack of the running function, or of a coroutine in the same VM. The stack exists as long as the
/// `State`. During this time, no other code changes the stack, so a string stays in its place while the `State` is
/// borrowed. A caller that pushes a value has reserved room for it: with [`State::has_room`], or in a step with
/// `Stack::reserve`.
///
/// An index is the position of a value, counted from 1 at the bottom, or the pseudo-index of an upvalue. At an index
/// out of range there is no value ([`Kind::None`]).
pub(crate) struct State {
    pub(super) state: *mut lua_State,
}

/// Defines methods that wrap the C API and are safe with any arguments. `[mut]` marks a method that changes the stack,
/// `on -2` first checks that there is a table at that index, and `given` panics unless its condition holds.
macro_rules! ffi_methods {
    ($($(#[$about:meta])* $visibility:vis fn $name:ident[$($change:ident)?]($($argument:ident: $type:ty),*)
        $(-> $result:ty)? $(, on $table:literal)* $(, given |$stack:ident| $holds:block)? = |$state:ident| $call:expr;)*) => {
        $($(#[$about])*
        #[inline(always)]
        $visibility fn $name(&$($change)? self $(, $argument: $type)*) $(-> $result)? {
            $(self.check_table($table);)*
            $(let $stack = &*self;
            assert!($holds);)?
            let $state = self.state;
            // SAFETY: the stack is in use and has room for the pushed values, by the contract of the type. `at` accepts
            // only valid indexes, fields are set in tables or userdata only, and all other conditions are asserted
            // above.
            unsafe { $call }
        })*
    };
}
pub(super) use ffi_methods;

/// `deref_to_field!(Call<'_>, stack: Stack)`: implements `Deref` and `DerefMut` for the type; the target is the field.
macro_rules! deref_to_field {
    ($type:ty, $field:ident: $target:ty) => {
        impl std::ops::Deref for $type {
            type Target = $target;
            #[inline(always)]
            fn deref(&self) -> &$target {
                &self.$field
            }
        }

        impl std::ops::DerefMut for $type {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut $target {
                &mut self.$field
            }
        }
    };
}
pub(super) use deref_to_field;

impl State {
    /// Wraps a stack.
    ///
    /// # Safety
    /// The description of [`State`] must be true as long as the returned value is used.
    #[inline(always)]
    pub(super) unsafe fn new(state: *mut lua_State) -> State {
        State { state }
    }

    /// Returns another reference to the same stack. Only one of the two may be used at a time.
    #[inline(always)]
    pub(super) fn reborrow(&self) -> State {
        State { state: self.state }
    }

    /// Returns Lua's name for the type of the value at `index`.
    pub(crate) fn type_name(&self, index: c_int) -> &'static str {
        match self.kind(index) {
            Kind::None => "no value",
            Kind::Nil => "nil",
            Kind::Boolean => "boolean",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Table => "table",
            Kind::Function => "function",
            Kind::Userdata | Kind::LightUserdata => "userdata",
            Kind::Thread => "thread",
        }
    }

    /// Whether the value at `index` is nil or missing.
    #[inline]
    pub(crate) fn is_none(&self, index: c_int) -> bool {
        matches!(self.kind(index), Kind::None | Kind::Nil)
    }

    /// Returns the number at `index` as an integer; `None` if it has no integer value or is not a number. Strings are
    /// not converted.
    #[inline]
    pub(crate) fn integer_value(&self, index: c_int) -> Option<i64> {
        match self.kind(index) {
            Kind::Number => self.to_integer(index),
            _ => None,
        }
    }

    /// Returns the address in the light userdata at `index`; `None` if the value is not a light userdata.
    pub(super) fn light_address(&self, index: c_int) -> Option<usize> {
        match self.kind(index) {
            Kind::LightUserdata => Some(self.address(index)),
            _ => None,
        }
    }

    /// Returns the identity of the metatable that the value at `index` has, or 0 if it has none. Needs room for one
    /// value.
    #[inline]
    pub(super) fn metatable_identity(&mut self, index: c_int) -> usize {
        match self.push_metatable(index) {
            true => self.pop_identity(),
            false => 0,
        }
    }

    /// Sets the `n`th upvalue of the function at `index` to the value at `value`, if the function has that many
    /// upvalues. Needs room for one value.
    pub(super) fn assign_upvalue(&mut self, index: c_int, n: c_int, value: c_int) {
        let top = self.count();
        self.push_copy(value);
        self.pop_into_upvalue(index, n);
        self.drop_to(top);
    }

    /// Drops all values above index `height`.
    #[inline]
    pub(crate) fn drop_to(&mut self, height: c_int) {
        if height >= 0 && height < self.count() {
            self.shorten(height);
        }
    }
}

impl State {
    ffi_methods! {
        /// Returns the number of values: in the first step of a function, the number of its arguments.
        pub(crate) fn count[]() -> c_int = |state| ffi::lua_gettop(state);

        /// Returns the type of the value at `index`.
        pub(crate) fn kind[](index: c_int) -> Kind = |state| Kind::of(ffi::lua_type(state, at(index)));

        /// Whether the value at `index` counts as true in Lua.
        pub(crate) fn is_true[](index: c_int) -> bool = |state| ffi::lua_toboolean(state, at(index)) != 0;

        /// Returns the value at `index` if it is an integer; floats and strings are not converted.
        pub(crate) fn as_integer[](index: c_int) -> Option<i64> =
            |state| (ffi::lua_isinteger(state, at(index)) != 0)
            .then(|| ffi::lua_tointegerx(state, index, null_mut()));

        /// Returns the length of the table or string at `index`, without metamethods; for a userdata, the size of its
        /// block; otherwise 0.
        pub(crate) fn raw_length[](index: c_int) -> usize = |state| ffi::lua_rawlen(state, at(index)) as usize;

        /// Returns the bytes of the string at `index`; numbers are not converted.
        pub(crate) fn string[](index: c_int) -> Option<&[u8]> =
            |state| (ffi::lua_type(state, at(index)) == ffi::LUA_TSTRING).then(|| string_at(state, index));

        /// Returns the address of the block of the userdata at `index`, or the address that a light userdata contains;
        /// otherwise 0.
        fn address[](index: c_int) -> usize = |state| ffi::lua_touserdata(state, at(index)).addr();

        /// Returns a number that identifies the table, function, string or userdata at `index` as long as it exists.
        pub(crate) fn identity[](index: c_int) -> usize = |state| ffi::lua_topointer(state, at(index)).addr();

        /// Whether the values at two indexes are equal, without metamethods.
        pub(crate) fn is_same[](one: c_int, other: c_int) -> bool =
            |state| ffi::lua_rawequal(state, at(one), at(other)) != 0;

        /// Returns the C function at `index`.
        pub(super) fn c_function[](index: c_int) -> Option<ffi::lua_CFunction> =
            |state| ffi::lua_tocfunction(state, at(index));

        /// Returns `lua_status` of the coroutine that has this stack.
        pub(super) fn status[]() -> c_int = |state| ffi::lua_status(state);

        /// Returns the address of the registry, which serves as an identity only.
        pub(super) fn registry[]() -> *const c_void = |state| ffi::lua_topointer(state, ffi::LUA_REGISTRYINDEX);

        /// Whether the coroutine that has this stack can yield here.
        pub(crate) fn is_yieldable[]() -> bool = |state| ffi::lua_isyieldable(state) != 0;

        /// Returns a number that identifies the current debug hook; 0 if no hook is set.
        pub(crate) fn hook[]() -> usize = |state| ffi::lua_gethook(state).map_or(0, |hook| hook as usize);

        /// Whether the collector is running: it has not been stopped, and no finalizer is active.
        pub(super) fn is_collecting[]() -> bool = |state| ffi::lua_gc(state, ffi::LUA_GCISRUNNING) == 1;

        /// Stops the collector.
        pub(super) fn stop_collector[]() = |state| { ffi::lua_gc(state, ffi::LUA_GCSTOP); };

        /// Restarts the collector, without debt.
        pub(super) fn restart_collector[]() = |state| { ffi::lua_gc(state, ffi::LUA_GCRESTART); };

        /// Adds `kibibytes` to the collector's debt. A negative number lets the program allocate that much more before
        /// the collector's next step. Finalizers may run.
        #[cfg(not(feature = "lua55"))]
        pub(super) fn add_debt[](kibibytes: c_int) = |state| { ffi::lua_gc(state, ffi::LUA_GCSTEP, kibibytes); };

        /// Returns the amount of memory in use, in KiB.
        #[cfg(not(feature = "lua55"))]
        pub(super) fn kibibytes[]() -> c_int = |state| ffi::lua_gc(state, ffi::LUA_GCCOUNT);

        /// Switches the collector to generational mode.
        #[cfg(feature = "lua55")]
        pub(super) fn collect_by_generations[]() = |state| { ffi::lua_gc(state, ffi::LUA_GCGEN); };
        #[cfg(not(feature = "lua55"))]
        pub(super) fn collect_by_generations[]() =
            |state| { ffi::lua_gc(state, ffi::LUA_GCGEN, 0 as c_int, 0 as c_int); };

        /// Ensures room for `count` more values. Returns whether there is room.
        pub(super) fn has_room[mut](count: c_int) -> bool = |state| ffi::lua_checkstack(state, count) != 0;

        /// Pushes nil.
        pub(super) fn push_nil[mut]() = |state| ffi::lua_pushnil(state);

        /// Pushes a boolean.
        pub(super) fn push_boolean[mut](value: bool) = |state| ffi::lua_pushboolean(state, value.into());

        /// Pushes an integer.
        pub(super) fn push_integer[mut](value: i64) = |state| ffi::lua_pushinteger(state, value);

        /// Pushes a float.
        pub(super) fn push_number[mut](value: f64) = |state| ffi::lua_pushnumber(state, value);

        /// Pushes a light userdata.
        pub(super) fn push_light[mut](address: *mut c_void) = |state| ffi::lua_pushlightuserdata(state, address);

        /// Pushes a function without upvalues.
        pub(super) fn push_function[mut](function: ffi::lua_CFunction) =
            |state| ffi::lua_pushcclosure(state, function, 0);

        /// Pushes the coroutine that has this stack. Returns whether it is the main thread.
        pub(super) fn push_thread[mut]() -> bool = |state| ffi::lua_pushthread(state) == 1;

        /// Pushes the value at `index`; nil if there is none.
        pub(super) fn push_copy[mut](index: c_int) = |state| ffi::lua_pushvalue(state, at(index));

        /// Pushes the `number`th element of the table at `index`, without metamethods; nil if there is no table at
        /// `index`.
        pub(super) fn push_element[mut](index: c_int, number: i64) = |state| match ffi::lua_type(state, at(index)) {
            ffi::LUA_TTABLE => { ffi::lua_rawgeti(state, index, number); }
            _ => ffi::lua_pushnil(state),
        };

        /// Replaces the key on top with the value that the table at `index` has under this key, without metamethods;
        /// with nil if there is no table at `index`.
        pub(super) fn get_top[mut](index: c_int) = |state| match ffi::lua_type(state, at(index)) {
            ffi::LUA_TTABLE => { ffi::lua_rawget(state, index); }
            _ => {
                ffi::lua_settop(state, -2);
                ffi::lua_pushnil(state);
            }
        };

        /// Pushes user value `number` of the userdata at `index`; nil if there is no userdata, or it does not have that
        /// user value. Returns the type of the pushed value.
        pub(super) fn push_user_value[mut](index: c_int, number: c_int) -> Kind = |state| {
            if ffi::lua_type(state, at(index)) == ffi::LUA_TUSERDATA {
                Kind::of(ffi::lua_getiuservalue(state, index, number))
            } else {
                ffi::lua_pushnil(state);
                Kind::Nil
            }
        };

        /// Pops the value on top and stores it as user value `number` of the userdata at `index`, if the userdata has
        /// that user value.
        pub(super) fn pop_into_user_value[mut](index: c_int, number: c_int) =
            |state| match ffi::lua_type(state, at(index)) {
                ffi::LUA_TUSERDATA => { ffi::lua_setiuservalue(state, index, number); }
                _ => ffi::lua_settop(state, -2),
            };

        /// Pops the value on top and makes it the `n`th upvalue of the function at `index`. If the function does not
        /// have that many upvalues, the value stays on the stack.
        fn pop_into_upvalue[mut](index: c_int, n: c_int) = |state| { ffi::lua_setupvalue(state, at(index), n); };

        /// Pushes the `n`th upvalue of the function at `index`. If the function does not have that many upvalues,
        /// pushes nothing and returns false.
        pub(super) fn push_upvalue[mut](index: c_int, n: c_int) -> bool =
            |state| !ffi::lua_getupvalue(state, at(index), n).is_null();

        /// Pops the table on top and makes it the metatable of the table at `index`. This allocates nothing, even if
        /// the metatable has a finalizer.
        pub(super) fn pop_into_metatable[mut](index: c_int), given |stack| { stack.kind(index) == Kind::Table } =
            |state| { ffi::lua_setmetatable(state, index); };

        /// Copies the value at `from` to the index `to`, and drops all values above index `height`.
        pub(crate) fn copy_down[mut](from: c_int, to: c_int, height: c_int),
            given |stack| {
                let top = stack.count();
                at(from) <= top && height <= top && (1..=height).contains(&to)
            } = |state| {
                ffi::lua_copy(state, from, to);
                ffi::lua_settop(state, height);
            };

        /// Replaces the value at `index` with the value on top, and drops all values above `index`.
        pub(crate) fn replace_with_top[mut](index: c_int), given |stack| { (1..=stack.count()).contains(&index) } =
            |state| {
                ffi::lua_copy(state, -1, index);
                ffi::lua_settop(state, index);
            };

        /// Moves the value on top to `index`, and moves the values from `index` on up by one.
        pub(super) fn insert_top[mut](index: c_int), given |stack| { (1..=stack.count()).contains(&index) } =
            |state| ffi::lua_rotate(state, index, 1);

        /// Removes the value at `index`, and moves the values above it down by one.
        pub(super) fn remove[mut](index: c_int), given |stack| { (1..=stack.count()).contains(&index) } = |state| {
            ffi::lua_rotate(state, index, -1);
            ffi::lua_settop(state, -2);
        };

        /// Calls the function below the topmost `arguments` values in protected mode. Returns the status. If the call
        /// failed, the error is on top of the stack.
        pub(super) fn call_protected[mut](arguments: c_int, results: c_int) -> c_int,
            given |stack| { (0..stack.count()).contains(&arguments) } =
            |state| ffi::lua_pcall(state, arguments, results, 0);

        /// Pushes the registry's value for the address `key`. Returns the type of the value.
        pub(super) fn push_registered[mut](key: *const c_void) -> Kind =
            |state| Kind::of(ffi::lua_rawgeti(state, ffi::LUA_REGISTRYINDEX, registry_key(key)));

        /// Pushes the metatable of the value at `index`. If the value has no metatable, pushes nothing and returns
        /// false.
        pub(super) fn push_metatable[mut](index: c_int) -> bool =
            |state| ffi::lua_getmetatable(state, at(index)) != 0;

        /// Returns the value at `index` as an integer. Floats and strings are converted if possible.
        pub(super) fn to_integer[](index: c_int) -> Option<i64> = |state| {
            let mut exact = 0;
            let value = ffi::lua_tointegerx(state, at(index), &mut exact);
            (exact != 0).then_some(value)
        };

        /// Returns the value at `index` as a number. Strings are converted if possible.
        pub(super) fn to_number[](index: c_int) -> Option<f64> = |state| {
            let mut is_number = 0;
            let value = ffi::lua_tonumberx(state, at(index), &mut is_number);
            (is_number != 0).then_some(value)
        };

        /// Returns the stack of the coroutine at `index`. The stack exists as long as the coroutine is at that index.
        pub(super) fn coroutine_at[](index: c_int) -> Option<State> = |state| {
            let state = ffi::lua_tothread(state, at(index));
            (!state.is_null()).then_some(State { state })
        };

        /// Whether a function is active on this stack.
        pub(super) fn is_active[]() -> bool = |state| {
            let mut record = std::mem::MaybeUninit::uninit();
            ffi::lua_getstack(state, 0, record.as_mut_ptr()) != 0
        };

        /// Moves the topmost `count` values, which must exist, to another stack of the same VM.
        pub(super) fn move_to[mut](to: &mut State, count: c_int) = |state| ffi::lua_xmove(state, to.state, count);

        /// Returns the active function at a level; 0 is the innermost.
        pub(super) fn level[](level: c_int) -> Option<ffi::lua_Debug> = |state| {
            let mut record: ffi::lua_Debug = std::mem::zeroed();
            (ffi::lua_getstack(state, level, &mut record) != 0).then_some(record)
        };

        /// Pops the value on top, which must exist, and returns its identity.
        pub(super) fn pop_identity[mut]() -> usize = |state| {
            let identity = ffi::lua_topointer(state, -1).addr();
            ffi::lua_settop(state, -2);
            identity
        };

        /// Drops all values above index `height`. There must be at least `height` values.
        pub(super) fn shorten[mut](height: c_int) = |state| ffi::lua_settop(state, height);

        /// Drops the topmost `count` values, which must exist.
        pub(super) fn pop[mut](count: c_int) = |state| ffi::lua_settop(state, -count - 1);

        /// Drops the value on top, which must exist.
        pub(super) fn drop_top[mut]() = |state| ffi::lua_settop(state, -2);
    }
}

/// Returns the bytes of a string.
///
/// # Safety
/// There is a string at `index`, which stays there as long as the bytes are used.
#[inline(always)]
pub(super) unsafe fn string_at<'s>(state: *mut lua_State, index: c_int) -> &'s [u8] {
    let mut length = 0;
    // SAFETY: the value is a string, which Lua neither converts nor moves.
    unsafe {
        let start = ffi::lua_tolstring(state, index, &mut length);
        std::slice::from_raw_parts(start.cast(), length)
    }
}

/// Returns the registry key for an address. The key is an integer, because Lua finds integer keys fastest. The
/// multiplication removes the common factor of addresses, so that few keys collide.
#[inline(always)]
pub(super) fn registry_key(address: *const c_void) -> i64 {
    address.addr().wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64
}

/// Returns `index` if it is positive or the pseudo-index of an upvalue. Panics otherwise.
#[inline(always)]
pub(super) fn at(index: c_int) -> c_int {
    let upvalues = ffi::lua_upvalueindex(255)..ffi::LUA_REGISTRYINDEX;
    assert!(index > 0 || upvalues.contains(&index), "not a valid index: {index}");
    index
}

/// Returns the pseudo-index of the running function's `n`th upvalue.
pub(crate) const fn upvalue(n: c_int) -> c_int {
    ffi::lua_upvalueindex(n)
}
