//! The permission to push values after a step: operations that can run Lua code, allocate memory and raise errors.

use super::state::{Kind, State, at, deref_to_field, ffi_methods, registry_key};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

/// The permission to push one value, or the results of one step. No frame between here and Lua owns anything, so each
/// method can raise an error. The stack has room for five values. A type that pushes more calls [`Pusher::need`] first.
///
/// In each method that allocates, a finalizer can run, which can change any slot with the debug library. Therefore the
/// value in a slot is checked again wherever Lua would rely on the value's type.
pub(crate) struct Pusher<'p> {
    raw: State,
    lifetime: PhantomData<&'p mut ()>,
}

deref_to_field!(Pusher<'_>, raw: State);

/// `LUA_N2SBUFFSZ`: the size of a buffer for any number as a string.
#[cfg(feature = "lua55")]
const NUMBER_SIZE: usize = 64;

impl Pusher<'_> {
    /// Wraps a stack.
    ///
    /// # Safety
    /// The description of [`Pusher`] must be true until the last use of the returned pusher.
    #[inline(always)]
    pub(super) unsafe fn new(state: *mut lua_State) -> Self {
        Pusher {
            // SAFETY: by this method's contract, the stack is in use and has room.
            raw: unsafe { State::new(state) },
            lifetime: PhantomData,
        }
    }

    /// Returns the state to push to.
    #[inline(always)]
    pub(super) fn state(&self) -> *mut lua_State {
        self.state
    }

    /// Returns a pusher for one of several values. Both pushers use the same reserved stack space.
    #[inline(always)]
    pub(super) fn reborrow(&mut self) -> Pusher<'_> {
        Pusher { raw: self.raw.reborrow(), lifetime: PhantomData }
    }

    /// Pushes a field of the metatable that the value at `index` has; nil if there is no such field.
    pub(super) fn push_metafield(&mut self, index: c_int, name: &'static CStr) {
        // If there is no such field, `find_metafield` pushes nothing.
        if !self.find_metafield(index, name) {
            self.push_nil();
        }
    }

    /// Pushes a chunk of code as a function. `mode` has the same meaning as in Lua's `load`. A syntax error is raised.
    pub(super) fn push_code(&mut self, code: &[u8], name: &CStr, mode: Option<&'static CStr>) {
        let mode = mode.map_or(null(), CStr::as_ptr);
        if self.load(code, name, mode) != ffi::LUA_OK {
            self.raise_top();
        }
    }

    /// Pushes the chunk in a file as a function. Without a path, the chunk is read from standard input.
    pub(super) fn push_file(&mut self, path: Option<&CStr>) {
        if self.load_file(path.map_or(null(), CStr::as_ptr)) != ffi::LUA_OK {
            self.raise_top();
        }
    }

    /// Pushes the table in user value `number` of the object at `index`. If there is no table, creates one and stores
    /// it there.
    pub(super) fn push_user_table(&mut self, index: c_int, number: c_int) {
        self.check_kind(index, Kind::Userdata);
        if self.push_user_value(index, number) == Kind::Table {
            return;
        }
        self.drop_top();
        self.push_table(0, 2);
        let table = self.count();
        self.set_user_value(index, number, table);
    }

    /// Sets user value `number` of the object at `index` to the value at `value`.
    pub(super) fn set_user_value(&mut self, index: c_int, number: c_int, value: c_int) {
        self.check_kind(index, Kind::Userdata);
        self.push_copy(value);
        self.pop_into_user_value(index, number);
    }

    /// Raises an error unless there is a table at `index`, counted from the top.
    #[inline(always)]
    fn check_table(&mut self, index: c_int) {
        if !self.is_table(index) {
            let index = self.count() + 1 + index;
            self.check_kind(index, Kind::Table);
        }
    }

    /// Raises `bad argument #index`, with the string on top as its explanation.
    pub(super) fn raise_argument(&mut self, index: c_int) -> ! {
        self.check_argument(index);
        self.raise_top()
    }

    ffi_methods! {
        /// Collects all garbage. Finalizers run, except inside a finalizer, where nothing happens.
        pub(super) fn collect_garbage[mut]() = |state| { ffi::lua_gc(state, ffi::LUA_GCCOLLECT); };

        /// Ensures room for `count` more values. If the stack cannot grow, raises an error that contains `what`.
        pub(super) fn need[mut](count: c_int, what: Option<&'static CStr>) =
            |state| ffi::luaL_checkstack(state, count, what.map_or(null(), CStr::as_ptr));

        fn find_metafield[mut](index: c_int, name: &'static CStr) -> bool =
            |state| ffi::luaL_getmetafield(state, at(index), name.as_ptr()) != ffi::LUA_TNIL;

        fn load[mut](code: &[u8], name: &CStr, mode: *const c_char) -> c_int =
            |state| ffi::luaL_loadbufferx(state, code.as_ptr().cast(), code.len(), name.as_ptr(), mode);

        fn load_file[mut](path: *const c_char) -> c_int = |state| ffi::luaL_loadfilex(state, path, null());

        /// Pushes a traceback of the coroutine `thread` from `level` on. If there is a string at `message`, prepends
        /// it.
        pub(super) fn trace[mut](thread: &State, message: Option<c_int>, level: c_int) = |state| {
            let message = message.filter(|index| ffi::lua_type(state, at(*index)) == ffi::LUA_TSTRING);
            let message = message.map_or(null(), |index| ffi::lua_tostring(state, index));
            ffi::luaL_traceback(state, thread.state, message, level)
        };

        /// Pushes a new coroutine.
        pub(super) fn push_coroutine[mut]() -> State = |state| State { state: ffi::lua_newthread(state) };

        /// Whether there is a table at `index`, counted from the top.
        pub(super) fn is_table[](index: c_int) -> bool = |state| ffi::lua_type(state, index) == ffi::LUA_TTABLE;

        fn check_argument[mut](index: c_int) = |state| {
            // A finalizer may have replaced the message with another value.
            let is_text = ffi::lua_type(state, -1) == ffi::LUA_TSTRING;
            let text = if is_text { ffi::lua_tostring(state, -1) } else { c"?".as_ptr() };
            ffi::luaL_argerror(state, index, text);
        };

        /// Raises the value on top.
        pub(super) fn raise_top[mut]() -> ! = |state| ffi::lua_error(state);

        /// Pushes a C function. Its upvalues are the topmost `upvalues` values, which are popped.
        pub(super) fn push_closure[mut](function: ffi::lua_CFunction, upvalues: c_int),
            given |stack| { (0..=255).contains(&upvalues) && upvalues <= stack.count() } =
            |state| ffi::lua_pushcclosure(state, function, upvalues);

        /// Concatenates the topmost `count` values, which are strings or numbers, into one string.
        pub(super) fn concatenate[mut](count: c_int), given |stack| { (1..=stack.count()).contains(&count) } =
            |state| ffi::lua_concat(state, count);

        /// Calls the function below the topmost `arguments` values. Replaces the function and the arguments with
        /// `results` results.
        pub(super) fn call[mut](arguments: c_int, results: c_int),
            given |stack| { (0..stack.count()).contains(&arguments) && results >= 0 } =
            |state| ffi::lua_call(state, arguments, results);

        /// Pushes a string. Lua copies the bytes before a finalizer can run.
        pub(super) fn push_string[mut](bytes: &[u8]) =
            |state| { ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len()); };

        /// Pushes a new table with room for `items` items and `fields` fields.
        pub(super) fn push_table[mut](items: c_int, fields: c_int) =
            |state| ffi::lua_createtable(state, items.max(0), fields.max(0));

        /// Pushes a new userdata. Returns its block of `size` bytes.
        pub(super) fn push_block[mut](size: usize, user_values: c_int) -> *mut c_void =
            |state| ffi::lua_newuserdatauv(state, size, user_values);

        /// Opens Lua's own libraries.
        pub(super) fn open_libraries[mut]() = |state| ffi::luaL_openlibs(state);

        /// Replaces the key on top with the field that the value at `index` has under this key, as Lua code would read
        /// it.
        pub(super) fn index[mut](index: c_int) = |state| { ffi::lua_gettable(state, at(index)); };

        /// Converts the number at `index` to a string.
        #[cfg(not(feature = "lua55"))]
        pub(super) fn convert[mut](index: c_int) = |state| { ffi::lua_tolstring(state, at(index), null_mut()); };
        // In Lua 5.5, `lua_tolstring` relies on a slot that a finalizer may change.
        #[cfg(feature = "lua55")]
        pub(super) fn convert[mut](index: c_int) = |state| {
            let mut text = [0; NUMBER_SIZE];
            let size = ffi::lua_numbertocstring(state, at(index), text.as_mut_ptr()) as usize;
            if size > 0 {
                ffi::lua_pushlstring(state, text.as_ptr(), size - 1);
                ffi::lua_copy(state, -1, index);
                ffi::lua_settop(state, -2);
            }
        };

        /// Raises an error unless the VM's Lua has this version. 136 is `LUAL_NUMSIZES` for 64-bit integers and
        /// doubles.
        pub(super) fn check_version[mut](version: f64) = |state| ffi::luaL_checkversion_(state, version, 136);

        /// Pushes the field `name` of the registry.
        pub(super) fn push_registry_field[mut](name: &'static CStr) =
            |state| { ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, name.as_ptr()); };

        /// Pushes the field `name` of the table on top, as Lua code would read it.
        pub(super) fn push_field[mut](name: &'static CStr), on -1 =
            |state| { ffi::lua_getfield(state, -1, name.as_ptr()); };

        /// Pushes the string that `tostring` returns for the value at `index`.
        pub(super) fn push_text[mut](index: c_int) =
            |state| { ffi::luaL_tolstring(state, at(index), null_mut()); };

        /// Pushes the position of the Lua function at `level`, as `file:line: `.
        pub(super) fn push_place[mut](level: c_int) = |state| ffi::luaL_where(state, level);

        /// Pops the value on top and stores it as the `number`th item of the table below it.
        pub(super) fn set_item[mut](number: i64), on -2 = |state| ffi::lua_rawseti(state, -2, number);

        /// Pops the value on top and the key below it, and stores them in the table below them.
        pub(super) fn set_pair[mut](), on -3 = |state| ffi::lua_rawset(state, -3);

        /// Pops the value on top and stores it as the field `name` of the table below it.
        pub(super) fn set_field[mut](name: &'static CStr), on -2 = |state| ffi::lua_setfield(state, -2, name.as_ptr());

        /// Pops the table on top and makes it the metatable of the table below it.
        pub(super) fn set_top_metatable[mut](), on -1, on -2 = |state| { ffi::lua_setmetatable(state, -2); };

        /// If there is a table at `index`, makes it the metatable of the table on top.
        pub(super) fn set_metatable[mut](index: c_int), on -1 = |state| {
            if ffi::lua_type(state, at(index)) == ffi::LUA_TTABLE {
                ffi::lua_pushvalue(state, index);
                ffi::lua_setmetatable(state, -2);
            }
        };

        /// Pops the value on top and stores it in the registry under the address `key`.
        pub(super) fn register[mut](key: *const c_void) =
            |state| ffi::lua_rawseti(state, ffi::LUA_REGISTRYINDEX, registry_key(key));

        /// Replaces the key on top with the next key of the table below it, and pushes that key's value. If there is no
        /// next key, returns false, and the key is only popped.
        pub(super) fn next[mut]() -> bool, on -2 = |state| ffi::lua_next(state, -2) != 0;

        /// Raises an error that names the argument at `index`, unless its type is `kind`.
        pub(super) fn check_kind[mut](index: c_int, kind: Kind) =
            |state| ffi::luaL_checktype(state, at(index), kind as c_int);
    }
}
