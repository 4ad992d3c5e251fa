//! What takes memory of Lua's in the middle of a step. Nothing of Lua's runs all the same: the collector rests, so that
//! there is no finalizer, and hooks are off; an error ends in a protected call, so that no raise passes the step's frames.
//! (An emergency collection runs no finalizers.) The collector goes on where the step ends or runs a coroutine; in Lua 5.5,
//! whose debt cannot be kept, with a collection. So what is hot returns its values instead.

use super::call::Call;
use super::fault::Fault;
use super::home;
use super::pusher::Pusher;
use super::returns::Push;
use super::stack::Stack;
use super::state::calls;
use super::store::Store;
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

impl Call<'_> {
    /// Pushes a value that takes memory. An [`Argument`](super::Argument) in it is a value of this function's stack. → its
    /// index
    pub(crate) fn create<T: Push>(&mut self, mut value: T) -> Result<c_int, Fault> {
        self.reserve(1)?;
        let top = self.count();
        if !self.has_room(top + 20) {
            return Err(Fault::message("stack overflow"));
        }
        self.push_function(push_value::<T>);
        // The same values at the same indexes.
        let below = if T::REFERS { top } else { 0 };
        for index in 1..=below {
            self.push_copy(index);
        }
        self.push_light((&raw mut value).cast());
        // The value lives in this frame, which the call does not leave by a raise.
        let status = self.call_quietly(below + 1, 1);
        self.settle(status)
    }

    /// The index of what a protected call has left on top.
    fn settle(&mut self, status: c_int) -> Result<c_int, Fault> {
        let top = self.count();
        match status {
            ffi::LUA_OK => Ok(top),
            _ => Err(Fault::value(top)),
        }
    }

    /// The collector goes on: what it owes is done here, finalizers run. A step may ask for that before its end.
    #[inline(always)]
    pub(crate) fn wake_collector(&mut self) {
        if self.rests {
            self.collect();
        }
    }

    /// The value of type `T` that this VM has one of, made at first use.
    pub(crate) fn shared<T: Default + 'static>(&mut self) -> Result<Rc<T>, Fault> {
        self.reserve(1)?;
        let store = home::store_of(self);
        self.room += 1;
        let shared = store.and_then(Store::shared::<T>);
        shared.ok_or_else(|| Fault::message("the VM is closing"))
    }

    /// Whether the value at `index` has a metatable with this field.
    pub(crate) fn has_metafield(&mut self, index: c_int, name: &'static CStr) -> Result<bool, Fault> {
        let found = self.create(Metafield(index, name))?;
        let has = !self.is_none(found);
        self.drop_to(found - 1);
        Ok(has)
    }

    /// Pushes the table of the modules that are loaded. → its index
    pub(crate) fn loaded_libraries(&mut self) -> Result<c_int, Fault> {
        self.create(Libraries)
    }

    /// Pushes what `require` has loaded under `name`; nil when it has not. → its index
    pub(crate) fn loaded(&mut self, name: &'static str) -> Result<c_int, Fault> {
        let libraries = self.loaded_libraries()?;
        self.raw_field(libraries, name)?;
        self.replace_with_top(libraries);
        Ok(libraries)
    }

    /// Pushes the field `name` of the table at `index`, without metamethods; nil when that is no table. → its index
    pub(crate) fn raw_field(&mut self, index: c_int, name: &'static str) -> Result<c_int, Fault> {
        let key = self.create(name)?;
        self.get_top(index);
        Ok(key)
    }
}

/// A field of a value's metatable, or nil.
struct Metafield(c_int, &'static CStr);

impl Push for Metafield {
    const REFERS: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_metafield(self.0, self.1);
    }
}

/// The table of the modules that are loaded.
struct Libraries;

impl Push for Libraries {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_registry_field(c"_LOADED");
    }
}

impl Stack {
    /// Calls the function below the topmost `arguments` values, protected, which is one of the core's that runs no code: with
    /// the collector at rest, as it is from then on until the step ends, and hooks off, as they were before it. → the status
    pub(super) fn call_quietly(&mut self, arguments: c_int, results: c_int) -> c_int {
        self.rest_collector();
        self.call_unhooked(arguments, results)
    }

    calls! {
        /// The same with the collector as it is, for what does not run it.
        pub(super) fn call_unhooked[mut](arguments: c_int, results: c_int) -> c_int,
            given |stack| { (0..stack.count()).contains(&arguments) } =
            |state| {
                let mask = ffi::lua_gethookmask(state);
                if mask == 0 {
                    return ffi::lua_pcall(state, arguments, results, 0);
                }
                let hook = ffi::lua_gethook(state);
                let count = ffi::lua_gethookcount(state);
                ffi::lua_sethook(state, None, 0, 0);
                let status = ffi::lua_pcall(state, arguments, results, 0);
                ffi::lua_sethook(state, hook, mask, count);
                status
            };
    }

    /// Lets the collector rest until [`Stack::wake_collector`], if it runs: in the middle of a step no finalizer may.
    fn rest_collector(&mut self) {
        if !self.rests && self.is_collecting() {
            self.rests = true;
            // An emergency collection, as a limit of memory brings, takes a credit away.
            #[cfg(not(feature = "lua55"))]
            if self.origin().home().is_none_or(|home| home.memory.limit() == 0) {
                return self.owe(-CREDIT);
            }
            self.stop_collector();
        }
    }

    /// Nothing that a finalizer may not meet is in use, by the promise of the one who made the call.
    #[cold]
    fn collect(&mut self) {
        self.rests = false;
        #[cfg(not(feature = "lua55"))]
        if self.is_collecting() {
            return self.owe(CREDIT);
        }
        // Begins anew with what it owes, since Lua 5.5 has no other way, and 5.4 none under a limit.
        self.restart_collector();
    }
}

/// In KiB: more than a step allocates.
#[cfg(not(feature = "lua55"))]
const CREDIT: c_int = 1 << 30;

/// Pushes the value that the topmost argument points to.
pub(super) unsafe extern "C-unwind" fn push_value<T: Push>(state: *mut lua_State) -> c_int {
    // SAFETY: only `create` and `Vm::load` call it, in whose frame the value is; no hook can get hold of it. This frame owns
    // nothing.
    let (value, mut to) = unsafe {
        let value: *mut T = ffi::lua_touserdata(state, -1).cast();
        (&mut *value, Pusher::new(state))
    };
    // So that no Lua value keeps the pointer.
    to.drop_top();
    match catch_unwind(AssertUnwindSafe(|| value.push(to.again()))) {
        Ok(()) => 1,
        Err(panic) => Fault::panic(panic).raise(&mut to),
    }
}
