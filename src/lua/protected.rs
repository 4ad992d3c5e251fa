//! Operations that allocate Lua memory in the middle of a step, without running Lua code. The collector is stopped, so
//! no finalizer runs, and hooks are off. (An emergency collection runs no finalizers.) The allocation happens in a
//! protected call, so no raise skips the step's frames. The collector continues when the step ends or runs a coroutine.
//! In Lua 5.5 the collector's debt cannot be saved, so the collector continues with a collection. Therefore hot
//! functions do not use these operations: they return values to push after the step.

use super::call::Call;
use super::fault::Fault;
use super::hook::Hook;
use super::interrupt_hold::HeldInterrupts;
use super::pusher::Pusher;
use super::returns::Push;
use super::stack::Stack;
use super::store::Store;
use super::vm_context::{context_of, store_of};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

impl Call<'_> {
    /// Pushes `value`, which may allocate. An [`Argument`](super::Argument) in it refers to this function's stack.
    /// Returns the index of the pushed value.
    pub(crate) fn create<T: Push>(&mut self, mut value: T) -> Result<c_int, Fault> {
        self.reserve(1)?;
        let top = self.count();
        if !self.has_room(top + 20) {
            return Err(Fault::message("stack overflow"));
        }
        self.push_function(push_value::<T>);
        // The called function gets the same values at the same indexes.
        let below = if T::REFERS_TO_STACK { top } else { 0 };
        for index in 1..=below {
            self.push_copy(index);
        }
        self.push_light((&raw mut value).cast());
        // The value is in this frame, which an error in the protected call cannot skip.
        let status = self.call_isolated(below + 1, 1);
        self.index_or_error(status)
    }

    /// Returns the index of the value that a protected call has left on top, or the error that it has left there.
    fn index_or_error(&mut self, status: c_int) -> Result<c_int, Fault> {
        let top = self.count();
        match status {
            ffi::LUA_OK => Ok(top),
            _ => Err(Fault::value(top)),
        }
    }

    /// Restarts the collector, which pays its debt here, so finalizers can run. A step can call this before its end.
    #[inline(always)]
    pub(crate) fn resume_collector(&mut self) {
        if self.collector_paused {
            self.end_pause();
        }
    }

    /// Returns the VM's only shared value of type `T`, which is created on first use.
    pub(crate) fn shared<T: Default + 'static>(&mut self) -> Result<Rc<T>, Fault> {
        self.reserve(1)?;
        let store = store_of(self);
        self.room += 1;
        let shared = store.and_then(Store::shared::<T>);
        shared.ok_or_else(|| Fault::message("the VM is closing"))
    }

    /// Whether the value at `index` has a metatable with the field `name`.
    pub(crate) fn has_metafield(&mut self, index: c_int, name: &'static CStr) -> Result<bool, Fault> {
        let found = self.create(Metafield(index, name))?;
        let has = !self.is_none(found);
        self.drop_to(found - 1);
        Ok(has)
    }

    /// Pushes the table of the loaded modules. Returns its index.
    pub(crate) fn loaded_libraries(&mut self) -> Result<c_int, Fault> {
        self.create(Libraries)
    }

    /// Pushes the module that `require` has loaded under `name`; nil if there is none. Returns the module's index.
    pub(crate) fn loaded(&mut self, name: &'static str) -> Result<c_int, Fault> {
        let libraries = self.loaded_libraries()?;
        self.raw_field(libraries, name)?;
        self.replace_with_top(libraries);
        Ok(libraries)
    }

    /// Pushes the field `name` of the table at `index`, without metamethods; nil if there is no table at `index`.
    /// Returns the index of the pushed value.
    pub(crate) fn raw_field(&mut self, index: c_int, name: &'static str) -> Result<c_int, Fault> {
        let key = self.create(name)?;
        self.get_top(index);
        Ok(key)
    }
}

/// A field of a value's metatable, or nil.
struct Metafield(c_int, &'static CStr);

impl Push for Metafield {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_metafield(self.0, self.1);
    }
}

/// The table of the loaded modules.
struct Libraries;

impl Push for Libraries {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_registry_field(c"_LOADED");
    }
}

impl Stack {
    /// Calls the function below the topmost `arguments` values in protected mode. The function must belong to the core
    /// and run no Lua code. The collector is stopped, and stays stopped until the step ends; hooks are off during the
    /// call. Returns the status.
    pub(super) fn call_isolated(&mut self, arguments: c_int, results: c_int) -> c_int {
        self.pause_collector();
        self.call_unhooked(arguments, results)
    }

    /// Calls a function like [`Stack::call_isolated`], but without stopping the collector. Only for functions that
    /// cannot run the collector.
    #[inline(always)]
    pub(super) fn call_unhooked(&mut self, arguments: c_int, results: c_int) -> c_int {
        match self.has_debug_hook() {
            false => self.call_protected(arguments, results),
            true => self.call_without_hook(arguments, results),
        }
    }

    /// Removes the hook during a call. Afterwards, an interrupt that arrived in the meantime takes effect.
    #[cold]
    fn call_without_hook(&mut self, arguments: c_int, results: c_int) -> c_int {
        let _held = context_of(self).map(HeldInterrupts::begin);
        let hook = self.debug_hook();
        self.set_debug_hook(Hook::NONE);
        let status = self.call_protected(arguments, results);
        self.set_debug_hook(hook);
        status
    }

    /// Stops a running collector until [`Call::resume_collector`] is called: no finalizer may run in the middle of a
    /// step.
    pub(super) fn pause_collector(&mut self) {
        if !self.collector_paused && self.is_collecting() {
            self.collector_paused = true;
            // An emergency collection would cancel the credit. Such a collection happens only with a memory limit.
            #[cfg(not(feature = "lua55"))]
            if self.vm_ref().context().is_none_or(|context| context.memory.limit() == 0) {
                return self.add_debt(-CREDIT);
            }
            self.stop_collector();
        }
    }

    /// Restarts the collector. The caller guarantees that nothing is in use that a finalizer must not access.
    #[cold]
    fn end_pause(&mut self) {
        self.collector_paused = false;
        #[cfg(not(feature = "lua55"))]
        if self.is_collecting() {
            return self.add_debt(CREDIT);
        }
        // The debt is reset: Lua 5.5 cannot restore it, and under a memory limit no credit was given.
        self.restart_collector();
    }
}

/// The amount by which a pause lowers the collector's debt, in KiB: more than a step can allocate.
#[cfg(not(feature = "lua55"))]
const CREDIT: c_int = 1 << 30;

/// Pushes the value that the topmost argument points to.
pub(super) unsafe extern "C-unwind" fn push_value<T: Push>(state: *mut lua_State) -> c_int {
    // SAFETY: only `create` and `Vm::load` call this, with a pointer to a value in their own frames. No hook can get
    // the function. This frame owns nothing.
    let (value, mut to) = unsafe {
        let value: *mut T = ffi::lua_touserdata(state, -1).cast();
        (&mut *value, Pusher::new(state))
    };
    // After this, no Lua value contains the pointer.
    to.drop_top();
    match catch_unwind(AssertUnwindSafe(|| value.push(to.reborrow()))) {
        Ok(()) => 1,
        Err(panic) => Fault::panic(panic).raise(&mut to),
    }
}
