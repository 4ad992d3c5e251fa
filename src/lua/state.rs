//! A stack of Lua's, and what can be done with it that neither runs code, nor takes memory, nor raises.
//!
//! The rest of the core stands on these methods and on those of `pusher`, and has `unsafe` of its own only for what they
//! do not cover.

use mlua::ffi::{self, lua_State};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

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

/// A registry key: what counts is its address, so it must not be zero-sized.
pub(crate) struct Key(#[allow(dead_code)] u8);

impl Key {
    pub(crate) const fn new(seed: u8) -> Self {
        Key(seed)
    }

    pub(crate) fn pointer(&'static self) -> *const c_void {
        (self as *const Key).cast()
    }
}

/// A stack that is in use: that of the function that runs, or of a coroutine of the same VM. It exists as long as this,
/// and nothing else changes it meanwhile, so that a string is where it is while this is borrowed. Whoever pushes a value
/// has made room for it: by [`State::has_room`], in a step by `Stack::reserve`.
///
/// An index is that of a value from the bottom, from 1 on, or of an upvalue; one that is out of range reads as no value.
pub(crate) struct State {
    pub(super) state: *mut lua_State,
}

/// Methods that are one call of Lua's each, which is right with any values: `[mut]` changes the stack, `on -2` looks first
/// whether there is a table at that index, `given` panics unless that holds.
macro_rules! calls {
    ($($(#[$about:meta])* $visibility:vis fn $name:ident[$($change:ident)?]($($argument:ident: $type:ty),*)
        $(-> $result:ty)? $(, on $table:literal)* $(, given |$stack:ident| $holds:block)? = |$state:ident| $call:expr;)*) => {
        $($(#[$about])*
        #[inline(always)]
        $visibility fn $name(&$($change)? self $(, $argument: $type)*) $(-> $result)? {
            $(self.check_table($table);)*
            $(let $stack = &*self;
            assert!($holds);)?
            let $state = self.state;
            // SAFETY: a stack in use, with room for what is pushed, as the type says; `at` lets only an index pass that may
            // be asked for, what is set is set in a table or a userdata, and other conditions were asserted.
            unsafe { $call }
        })*
    };
}
pub(super) use calls;

/// `stands_on!(Call<'_>, stack: Stack)`: the type has the methods of its field's type.
macro_rules! stands_on {
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
pub(super) use stands_on;

impl State {
    /// # Safety
    /// What the type says holds as long as this is used.
    #[inline(always)]
    pub(super) unsafe fn new(state: *mut lua_State) -> State {
        State { state }
    }

    /// Another one of the same stack. Only one of the two is used until it is dropped.
    #[inline(always)]
    pub(super) fn again(&self) -> State {
        State { state: self.state }
    }

    /// What Lua calls the type of the value at `index`.
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

    /// Whether there is no value at `index`, or nil.
    #[inline]
    pub(crate) fn is_none(&self, index: c_int) -> bool {
        matches!(self.kind(index), Kind::None | Kind::Nil)
    }

    /// The integer that the number at `index` equals; `None` for anything else, a string too.
    #[inline]
    pub(crate) fn whole(&self, index: c_int) -> Option<i64> {
        match self.kind(index) {
            Kind::Number => self.to_integer(index),
            _ => None,
        }
    }

    /// The address of the light userdata at `index`.
    pub(super) fn light_address(&self, index: c_int) -> Option<usize> {
        match self.kind(index) {
            Kind::LightUserdata => Some(self.address(index)),
            _ => None,
        }
    }

    /// The identity of the metatable of the value at `index`, 0 for none. Takes the room of one value meanwhile.
    #[inline]
    pub(super) fn metatable_identity(&mut self, index: c_int) -> usize {
        match self.push_metatable(index) {
            true => self.pop_identity(),
            false => 0,
        }
    }

    /// Sets the `n`th upvalue of the function at `index`, if it has that many, to the value at `value`. Takes the room of
    /// one value meanwhile.
    pub(super) fn assign_upvalue(&mut self, index: c_int, n: c_int, value: c_int) {
        let top = self.count();
        self.push_copy(value);
        self.take_upvalue(index, n);
        self.drop_to(top);
    }

    /// Drops the values above the first `height`.
    #[inline]
    pub(crate) fn drop_to(&mut self, height: c_int) {
        if height >= 0 && height < self.count() {
            self.shorten(height);
        }
    }
}

impl State {
    calls! {
        /// How many values there are: in the first step of a function, how many arguments it has.
        pub(crate) fn count[]() -> c_int = |state| ffi::lua_gettop(state);

        /// What the value at `index` is.
        pub(crate) fn kind[](index: c_int) -> Kind = |state| Kind::of(ffi::lua_type(state, at(index)));

        /// Whether the value at `index` counts as true in Lua.
        pub(crate) fn is_true[](index: c_int) -> bool = |state| ffi::lua_toboolean(state, at(index)) != 0;

        /// The value at `index` if it is an integer: no float, no string.
        pub(crate) fn as_integer[](index: c_int) -> Option<i64> =
            |state| (ffi::lua_isinteger(state, at(index)) != 0)
            .then(|| ffi::lua_tointegerx(state, index, null_mut()));

        /// The length of the table or string at `index`, without metamethods; the size of a userdata; 0 of anything else.
        pub(crate) fn raw_length[](index: c_int) -> usize = |state| ffi::lua_rawlen(state, at(index)) as usize;

        /// The bytes of the value at `index` if it is a string; numbers are not made one.
        pub(crate) fn string[](index: c_int) -> Option<&[u8]> =
            |state| (ffi::lua_type(state, at(index)) == ffi::LUA_TSTRING).then(|| string_at(state, index));

        /// Where the block of the userdata at `index` is, or what the light userdata there is; 0 of anything else.
        fn address[](index: c_int) -> usize = |state| ffi::lua_touserdata(state, at(index)).addr();

        /// What tells the table, function, string or userdata at `index` from others, as long as it exists.
        pub(crate) fn identity[](index: c_int) -> usize = |state| ffi::lua_topointer(state, at(index)).addr();

        /// Whether the values at two indexes are the same, without metamethods.
        pub(crate) fn is_same[](one: c_int, other: c_int) -> bool =
            |state| ffi::lua_rawequal(state, at(one), at(other)) != 0;

        /// The C function at `index`.
        pub(super) fn c_function[](index: c_int) -> Option<ffi::lua_CFunction> =
            |state| ffi::lua_tocfunction(state, at(index));

        /// `lua_status` of the coroutine that has this stack.
        pub(super) fn status[]() -> c_int = |state| ffi::lua_status(state);

        /// The registry: its address, an identity and nothing else.
        pub(super) fn registry[]() -> *const c_void = |state| ffi::lua_topointer(state, ffi::LUA_REGISTRYINDEX);

        /// Whether the coroutine that has this stack can yield here.
        pub(crate) fn is_yieldable[]() -> bool = |state| ffi::lua_isyieldable(state) != 0;

        /// What identifies the debug hook that is set; 0 without one.
        pub(crate) fn hook[]() -> usize = |state| ffi::lua_gethook(state).map_or(0, |hook| hook as usize);

        /// Whether the collector runs: a program has not stopped it, and no finalizer is active.
        pub(super) fn is_collecting[]() -> bool = |state| ffi::lua_gc(state, ffi::LUA_GCISRUNNING) == 1;

        /// Sets a debug hook that is called after each instruction, or none.
        pub(super) fn set_hook[](hook: Option<ffi::lua_Hook>) = |state| match hook {
            Some(_) => ffi::lua_sethook(state, hook, ffi::LUA_MASKCOUNT, 1),
            None => ffi::lua_sethook(state, None, 0, 0),
        };

        /// Lets the collector rest.
        pub(super) fn stop_collector[]() = |state| { ffi::lua_gc(state, ffi::LUA_GCSTOP); };

        /// Lets the collector run from now on, with nothing owed.
        pub(super) fn restart_collector[]() = |state| { ffi::lua_gc(state, ffi::LUA_GCRESTART); };

        /// Notes that so much was allocated, in KiB; a negative number allows so much more before the next step of the
        /// collector. Finalizers may run.
        #[cfg(not(feature = "lua55"))]
        pub(super) fn owe[](kibibytes: c_int) = |state| { ffi::lua_gc(state, ffi::LUA_GCSTEP, kibibytes); };

        /// How much memory is in use, in KiB.
        #[cfg(not(feature = "lua55"))]
        pub(super) fn kibibytes[]() -> c_int = |state| ffi::lua_gc(state, ffi::LUA_GCCOUNT);

        /// Makes the collector generational.
        #[cfg(feature = "lua55")]
        pub(super) fn collect_by_generations[]() = |state| { ffi::lua_gc(state, ffi::LUA_GCGEN); };
        #[cfg(not(feature = "lua55"))]
        pub(super) fn collect_by_generations[]() =
            |state| { ffi::lua_gc(state, ffi::LUA_GCGEN, 0 as c_int, 0 as c_int); };

        /// Makes room for `count` values more. Whether there is.
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

        /// Pushes the coroutine that has this stack. Whether it is the main one.
        pub(super) fn push_thread[mut]() -> bool = |state| ffi::lua_pushthread(state) == 1;

        /// Pushes the value at `index`; nil when there is none.
        pub(super) fn push_copy[mut](index: c_int) = |state| ffi::lua_pushvalue(state, at(index));

        /// Pushes the `number`th element of the table at `index`, without metamethods; nil when that is no table.
        pub(super) fn push_element[mut](index: c_int, number: i64) = |state| match ffi::lua_type(state, at(index)) {
            ffi::LUA_TTABLE => { ffi::lua_rawgeti(state, index, number); }
            _ => ffi::lua_pushnil(state),
        };

        /// Replaces the key on top by what the table at `index` has for it, without metamethods; nil when that is no table.
        pub(super) fn get_top[mut](index: c_int) = |state| match ffi::lua_type(state, at(index)) {
            ffi::LUA_TTABLE => { ffi::lua_rawget(state, index); }
            _ => {
                ffi::lua_settop(state, -2);
                ffi::lua_pushnil(state);
            }
        };

        /// Pushes a user value of the userdata at `index`; nil when that is none, or has none. What it is.
        pub(super) fn push_user_value[mut](index: c_int, number: c_int) -> Kind = |state| {
            if ffi::lua_type(state, at(index)) == ffi::LUA_TUSERDATA {
                Kind::of(ffi::lua_getiuservalue(state, index, number))
            } else {
                ffi::lua_pushnil(state);
                Kind::Nil
            }
        };

        /// Takes the value on top off: it becomes a user value of the userdata at `index`, if that has it.
        pub(super) fn take_user_value[mut](index: c_int, number: c_int) = |state| match ffi::lua_type(state, at(index)) {
            ffi::LUA_TUSERDATA => { ffi::lua_setiuservalue(state, index, number); }
            _ => ffi::lua_settop(state, -2),
        };

        /// Takes the value on top off, as the `n`th upvalue of the function at `index`, if that has so many.
        fn take_upvalue[mut](index: c_int, n: c_int) = |state| { ffi::lua_setupvalue(state, at(index), n); };

        /// Pushes the `n`th upvalue of the function at `index`, if that has so many. Whether it has.
        pub(super) fn push_upvalue[mut](index: c_int, n: c_int) -> bool =
            |state| !ffi::lua_getupvalue(state, at(index), n).is_null();

        /// Takes the table on top off, as the metatable of that at `index`. A table with a finalizer takes no memory for it.
        pub(super) fn take_metatable[mut](index: c_int), given |stack| { stack.kind(index) == Kind::Table } =
            |state| { ffi::lua_setmetatable(state, index); };

        /// Copies the value at `from` to the place of the one at `to`, and drops those above the first `height`.
        pub(crate) fn copy_down[mut](from: c_int, to: c_int, height: c_int),
            given |stack| {
                let top = stack.count();
                at(from) <= top && height <= top && (1..=height).contains(&to)
            } = |state| {
                ffi::lua_copy(state, from, to);
                ffi::lua_settop(state, height);
            };

        /// Moves the value on top to `index`, and drops what was behind that.
        pub(crate) fn replace_with_top[mut](index: c_int), given |stack| { (1..=stack.count()).contains(&index) } =
            |state| {
                ffi::lua_copy(state, -1, index);
                ffi::lua_settop(state, index);
            };

        /// Moves the value on top to `index`, and those from there on one up.
        pub(super) fn insert_top[mut](index: c_int), given |stack| { (1..=stack.count()).contains(&index) } =
            |state| ffi::lua_rotate(state, index, 1);

        /// Takes the value at `index` away, and moves those behind it one down.
        pub(super) fn remove[mut](index: c_int), given |stack| { (1..=stack.count()).contains(&index) } = |state| {
            ffi::lua_rotate(state, index, -1);
            ffi::lua_settop(state, -2);
        };

        /// Calls the function below the topmost `arguments` values, protected. The status; an error lies on top.
        pub(super) fn call_protected[mut](arguments: c_int, results: c_int) -> c_int,
            given |stack| { (0..stack.count()).contains(&arguments) } =
            |state| ffi::lua_pcall(state, arguments, results, 0);

        /// Pushes what the registry has for an address. What it is.
        pub(super) fn push_registered[mut](key: *const c_void) -> Kind =
            |state| Kind::of(ffi::lua_rawgeti(state, ffi::LUA_REGISTRYINDEX, registry_key(key)));

        /// Pushes the metatable of the value at `index`; nothing when it has none. Whether it has.
        pub(super) fn push_metatable[mut](index: c_int) -> bool =
            |state| ffi::lua_getmetatable(state, at(index)) != 0;

        /// The value at `index` as an integer: also a float or a string that stands for one.
        pub(super) fn to_integer[](index: c_int) -> Option<i64> = |state| {
            let mut exact = 0;
            let value = ffi::lua_tointegerx(state, at(index), &mut exact);
            (exact != 0).then_some(value)
        };

        /// The value at `index` as a number, also a string that stands for one.
        pub(super) fn to_number[](index: c_int) -> Option<f64> = |state| {
            let mut is_number = 0;
            let value = ffi::lua_tonumberx(state, at(index), &mut is_number);
            (is_number != 0).then_some(value)
        };

        /// The stack of the coroutine at `index`. It exists as long as that value is there.
        pub(super) fn coroutine_at[](index: c_int) -> Option<State> = |state| {
            let state = ffi::lua_tothread(state, at(index));
            (!state.is_null()).then_some(State { state })
        };

        /// Whether a function is active on this stack.
        pub(super) fn is_active[]() -> bool = |state| {
            let mut record = std::mem::MaybeUninit::uninit();
            ffi::lua_getstack(state, 0, record.as_mut_ptr()) != 0
        };

        /// Moves the topmost `count` values, which are there, to another stack of the same VM.
        pub(super) fn give[mut](to: &mut State, count: c_int) = |state| ffi::lua_xmove(state, to.state, count);

        /// The active function at a level, 0 being the innermost.
        pub(super) fn level[](level: c_int) -> Option<ffi::lua_Debug> = |state| {
            let mut record: ffi::lua_Debug = std::mem::zeroed();
            (ffi::lua_getstack(state, level, &mut record) != 0).then_some(record)
        };

        /// The identity of the value on top, which was pushed, and is dropped.
        pub(super) fn pop_identity[mut]() -> usize = |state| {
            let identity = ffi::lua_topointer(state, -1).addr();
            ffi::lua_settop(state, -2);
            identity
        };

        /// Drops the values above the first `height`; so many are there.
        pub(super) fn shorten[mut](height: c_int) = |state| ffi::lua_settop(state, height);

        /// Drops the topmost `count` values; so many were pushed.
        pub(super) fn pop[mut](count: c_int) = |state| ffi::lua_settop(state, -count - 1);

        /// Drops the value on top, which was pushed.
        pub(super) fn drop_top[mut]() = |state| ffi::lua_settop(state, -2);
    }
}

/// The bytes of a string.
///
/// # Safety
/// There is a string at `index`, which stays there as long as the bytes are used.
#[inline(always)]
pub(super) unsafe fn string_at<'s>(state: *mut lua_State, index: c_int) -> &'s [u8] {
    let mut length = 0;
    // SAFETY: Lua converts no string, and moves none.
    unsafe {
        let start = ffi::lua_tolstring(state, index, &mut length);
        std::slice::from_raw_parts(start.cast(), length)
    }
}

/// The key that stands for an address in the registry: an integer, which Lua finds fastest, and no multiple of what
/// addresses are, so that few keys collide.
#[inline(always)]
pub(super) fn registry_key(address: *const c_void) -> i64 {
    address.addr().wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64
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
