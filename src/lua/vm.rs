//! VMs that the core creates: the VMs of services, and the VM of the executable.
//!
//! A VM owns a Rust value, its *data*. The owner of the VM accesses the data through `Deref` while no Lua code runs; a
//! step accesses it through [`Call::data`]. A mutable reference to the data borrows the VM or the call mutably, so no
//! other reference exists at the same time.
//!
//! A service's VM runs its main function as a coroutine, which is in the first slot of the main state. No Lua code runs
//! on the main state before the VM closes, and the registry contains that coroutine in place of the main thread.
//! Therefore the main state is never a Lua value, and no Lua code, the debug library included, can reach the slot.

use super::call::Call;
use super::chunk::Chunk;
use super::function::Function;
use super::interrupt::{self, Interruption};
use super::protected::push_value;
use super::pusher::Pusher;
use super::state::{State, ffi_methods};
use super::store::Store;
use super::text::take_message;
use super::vm_context::{ALLOCATORS, Closing, Hold, ReplacedHooks, VmContext, data_type_of};
use crate::memory::Memory;
use mlua::ffi::{self, lua_State};
use std::cell::{Cell, OnceCell};
use std::ffi::c_int;
use std::io::Write;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

/// A VM with its data.
pub(crate) struct Vm<T>(NonNull<VmContext>, PhantomData<T>);

// SAFETY: no Lua state is bound to a thread while none of its code runs. Data that its objects share is reachable from
// this VM only (see `lua`), so the VM moves as a whole, and `T` moves with it.
unsafe impl<T: Send> Send for Vm<T> {}

/// Data shared with an object of the VM, kept in the VM's own data.
pub(crate) struct VmOwned<T>(T);

// SAFETY: the value is reachable from its VM only, like everything that the VM's objects share (see `lua`), and moves
// with it.
unsafe impl<T> Send for VmOwned<T> {}

impl<T> VmOwned<T> {
    /// Wraps `value`. The caller must keep it in the data of the calling VM and nowhere else.
    pub(crate) fn new(_: &mut Call<'_>, value: T) -> VmOwned<T> {
        VmOwned(value)
    }
}

impl<T> Deref for VmOwned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// How a slice of the main function ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SliceEnd {
    /// The main function yielded.
    Yielded,
    /// The main function returned.
    Returned,
    /// The main function raised an error, see [`Vm::failure`].
    Failed,
}

/// The message of a panic that has unwound a call into the VM. Afterwards, only the VM's data can be used.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

impl<T: Send + 'static> Vm<T> {
    /// Creates the VM of a service. Its memory is counted, and `on_interrupt` runs when the VM is interrupted. It has
    /// no libraries yet, and its collector is stopped. Returns `None` if there is not enough memory.
    pub(crate) fn for_service<F>(data: T, on_interrupt: F) -> Option<Vm<T>>
    where
        F: Fn(&mut Call<'_>) -> Interruption + Copy + 'static,
    {
        let vm = Vm::with(ALLOCATORS[0], data)?;
        interrupt::on_interrupt(vm.context(), on_interrupt);
        let mut main_state = vm.main_state();
        main_state.push_function(NEW_MAIN.0);
        if main_state.call_protected(0, 1) != ffi::LUA_OK {
            return None;
        }
        let main = main_state.coroutine_at(1)?;
        vm.context().main_coroutine.set(main.state);
        Some(vm)
    }

    /// Creates the VM of a program. It behaves like the stock interpreter's VM, but allocates with mimalloc. With
    /// `LIO_MALLOC=libc` in the environment, or with the feature `plain_malloc`, all memory comes from malloc(3), which
    /// memory checkers observe.
    #[cfg(feature = "vendored")]
    pub(crate) fn for_program(data: T) -> Option<Vm<T>> {
        let libc = std::env::var_os("LIO_MALLOC").is_some_and(|name| name == "libc");
        let allocator = match cfg!(feature = "plain_malloc") || libc {
            true => ALLOCATORS[2],
            false => {
                crate::memory::general::prepare();
                ALLOCATORS[1]
            }
        };
        let vm = Vm::with(allocator, data)?;
        vm.context().warn(vm.main_state().state);
        Some(vm)
    }

    /// Creates a VM that allocates with `allocator`.
    fn with(allocator: ffi::lua_Alloc, data: T) -> Option<Vm<T>> {
        let context = Box::new(VmContext {
            memory: Memory::default(),
            store: Store::default(),
            data_type: Cell::new(data_type_of::<T>()),
            data: Box::into_raw(Box::new(data)).cast(),
            main_state: Cell::new(ptr::null_mut()),
            main_coroutine: Cell::new(ptr::null_mut()),
            is_broken: Cell::new(false),
            on_interrupt: OnceCell::new(),
            #[cfg(feature = "vendored")]
            warnings: Cell::default(),
            threads: OnceCell::new(),
            interrupted_threads: Cell::new(ptr::null()),
            hold: Hold::default(),
            replaced_hooks: ReplacedHooks::default(),
            closing: Closing::default(),
        });
        let vm: Vm<T> = Vm(NonNull::from(Box::leak(context)), PhantomData);
        // SAFETY: the context outlives the state that is created here. A new state has no code that the collector could
        // run.
        unsafe {
            let data = vm.0.as_ptr().cast();
            #[cfg(feature = "lua55")]
            let main_state = ffi::lua_newstate(allocator, data, seed());
            #[cfg(not(feature = "lua55"))]
            let main_state = ffi::lua_newstate(allocator, data);
            if main_state.is_null() {
                return None;
            }
            ffi::lua_atpanic(main_state, report_panic);
            ffi::lua_gc(main_state, ffi::LUA_GCSTOP);
            vm.context().main_state.set(main_state);
        }
        Some(vm)
    }

    /// Returns the main state.
    pub(super) fn main_state(&self) -> State {
        let main_state = self.context().main_state.get();
        assert!(!main_state.is_null(), "the VM is closed");
        // SAFETY: the caller owns or borrows the VM, and no code runs on it while the returned `State` is in use.
        unsafe { State::new(main_state) }
    }

    /// Returns the coroutine of the main function; `None` in a program's VM, or if the VM is closed.
    pub(super) fn main_coroutine(&self) -> Option<State> {
        self.context().main_coroutine()
    }

    /// Returns the main state, for tests that prepare a VM.
    #[cfg(test)]
    pub(crate) fn state(&self) -> *mut lua_State {
        self.context().main_state.get()
    }

    /// Returns the memory from which this VM allocates.
    pub(crate) fn memory(&self) -> &Memory {
        &self.context().memory
    }

    /// Runs `function` in protected mode. In a service's VM, the function runs on the main function's coroutine, so the
    /// main function must not have started. `Err` contains the error message.
    pub(crate) fn run(&mut self, function: Function) -> Result<(), String> {
        match self.main_coroutine() {
            None => self.run_on_main_state(function),
            Some(mut main) => {
                main.push_function(function.0);
                self.run_on_main_coroutine(main, 0)
            }
        }
    }

    /// Loads the main function of a service. `Err` contains the error message.
    pub(crate) fn load(&mut self, chunk: Chunk<'_>) -> Result<(), String> {
        let Some(mut main) = self.main_coroutine() else { return Err("the VM has no main function".into()) };
        // The chunk outlives the call: `push_value` returns before this method does.
        main.push_function(push_value::<Chunk<'_>>);
        main.push_light((&raw const chunk).cast_mut().cast());
        self.run_on_main_coroutine(main, 1)
    }

    /// Runs the function below the topmost `arguments` values of the idle coroutine `main`. Its results stay on that
    /// stack.
    fn run_on_main_coroutine(&mut self, mut main: State, arguments: c_int) -> Result<(), String> {
        let main_state = self.main_state();
        let status = self.guarded(|| main.resume(&main_state, arguments).0);
        check_status(status, &mut main)
    }

    /// Runs `function` on the main state in protected mode. `Err` contains the error message.
    fn run_on_main_state(&mut self, function: Function) -> Result<(), String> {
        let mut main_state = self.main_state();
        let _running = interrupt::RunningVm::enter(self.context());
        let status = self.guarded(|| {
            main_state.push_function(function.0);
            main_state.call_protected(0, 0)
        });
        check_status(status, &mut main_state)
    }

    /// Runs `function` in protected mode, with the coroutine of a service's main function as its argument. Afterwards,
    /// only [`Vm::close`] may be called. `Err` contains the error message.
    pub(crate) fn run_last(&mut self, function: Function) -> Result<(), String> {
        let mut last = self.push_coroutine()?;
        // The new coroutine replaces the main function's coroutine on the main state, because an idle main state
        // contains only one coroutine, see `threads`. The main function's coroutine is moved below the first frame of
        // the new coroutine, where no program can reach it.
        let mut main_state = self.main_state();
        main_state.push_copy(1);
        main_state.move_to(&mut last, 1);
        last.push_function(function.0);
        last.push_copy(1);
        let top = main_state.count();
        main_state.copy_down(top, 1, top - 1);
        self.run_on_main_coroutine(last, 1)
    }

    /// Pushes a new coroutine onto the main state of a service, even if this exceeds the memory limit. The collector is
    /// stopped during the call: a finalizer that ran on the main state would expose this state to the program.
    fn push_coroutine(&mut self) -> Result<State, String> {
        let mut main_state = self.main_state();
        let collects = main_state.is_collecting();
        main_state.stop_collector();
        let limit = self.memory().set_limit(0);
        let status = self.guarded(|| {
            main_state.push_function(NEW_COROUTINE.0);
            main_state.call_protected(0, 1)
        });
        self.memory().set_limit(limit);
        if collects && status.is_ok() {
            main_state.restart_collector();
        }
        check_status(status, &mut main_state)?;
        main_state.coroutine_at(main_state.count()).ok_or_else(|| "the new coroutine is missing".into())
    }

    /// Resumes the main function, with `argument` if there is one. The values that it yields are dropped.
    #[inline(always)]
    pub(crate) fn resume(&mut self, argument: Option<bool>) -> Result<SliceEnd, Broken> {
        let Some(mut main) = self.main_coroutine() else { return Ok(SliceEnd::Returned) };
        let main_state = self.main_state();
        let _running = interrupt::RunningVm::enter(self.context());
        self.guarded(|| {
            if let Some(argument) = argument {
                main.push_boolean(argument);
            }
            match main.resume(&main_state, argument.is_some().into()) {
                (ffi::LUA_YIELD, results) => {
                    if results > 0 {
                        main.pop(results);
                    }
                    SliceEnd::Yielded
                }
                (ffi::LUA_OK, _) => SliceEnd::Returned,
                _ => SliceEnd::Failed,
            }
        })
    }

    /// Returns the message and the traceback of the main function's error. Call this after the main function has
    /// failed. Afterwards, only [`Vm::run_last`] and [`Vm::close`] may be called.
    pub(crate) fn failure(&mut self) -> String {
        let mut own = match self.push_coroutine() {
            Ok(own) => own,
            Err(message) => return message,
        };
        let mut main_state = self.main_state();
        let limit = self.memory().set_limit(0);
        let text = self.guarded(|| {
            own.push_function(DESCRIBE.0);
            main_state.push_copy(1);
            main_state.move_to(&mut own, 1);
            own.resume(&main_state, 1);
            let text = take_message(&mut own);
            main_state.drop_top();
            text
        });
        self.memory().set_limit(limit);
        text.unwrap_or_else(|Broken(message)| message)
    }
}

impl<T> Vm<T> {
    /// Returns the context of the VM.
    fn context(&self) -> &VmContext {
        // SAFETY: the context is freed when the VM is dropped, and no mutable reference to it exists.
        unsafe { self.0.as_ref() }
    }

    /// Whether a panic has unwound a call into the VM.
    pub(crate) fn is_broken(&self) -> bool {
        self.context().is_broken.get()
    }

    /// Closes the VM, which runs the finalizers. The data is kept until the VM is dropped. Does nothing if the VM is
    /// closed or broken.
    pub(crate) fn close(&mut self) -> Result<(), Broken> {
        let main_state = self.context().main_state.get();
        if main_state.is_null() || self.is_broken() {
            return Ok(());
        }
        // Closing empties the main state, so nothing keeps the coroutine alive.
        self.context().main_coroutine.set(ptr::null_mut());
        // SAFETY: this thread owns the VM, and none of its code runs; `main_state` is set to null below, so it is
        // closed once.
        let closed = self.guarded(|| unsafe { ffi::lua_close(main_state) });
        self.context().main_state.set(ptr::null_mut());
        closed
    }

    /// Calls into the VM. If a panic in foreign code unwinds the call, the VM is broken.
    // Inlined, like its callers, because each slice of a service calls this.
    #[inline(always)]
    fn guarded<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, Broken> {
        if self.is_broken() {
            return Err(Broken("the VM is broken".into()));
        }
        catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
            self.context().is_broken.set(true);
            Broken(super::fault::panic_message(panic))
        })
    }
}

impl<T> Deref for Vm<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the data has this type and is dropped with the VM. Steps, which can borrow it too, run only while the
        // VM is borrowed mutably.
        unsafe { &*self.0.as_ref().data.cast::<T>() }
    }
}

impl<T> DerefMut for Vm<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the VM is borrowed mutably, which is the only path to the data while no Lua code runs.
        unsafe { &mut *self.0.as_ref().data.cast::<T>() }
    }
}

impl<T> Drop for Vm<T> {
    fn drop(&mut self) {
        let _ = self.close();
        let context = self.context();
        // SAFETY: the VM is being dropped, so no other access is left. Each part is freed once, the context after the
        // state that allocates from it.
        unsafe {
            context.data_type.set(0);
            drop(Box::from_raw(context.data.cast::<T>()));
            // The stack of a broken VM still has the frames of the calls that were unwound, so not even finalizers can
            // run. The state and its memory are leaked.
            if !context.is_broken.get() {
                drop(Box::from_raw(self.0.as_ptr()));
            }
        }
    }
}

/// Opens Lua's own libraries.
pub(crate) const OPEN_LIBRARIES: Function = Function::native(|mut to| {
    to.open_libraries();
    0
});

/// Reports an error that no code catches; Lua then aborts the process.
unsafe extern "C-unwind" fn report_panic(state: *mut lua_State) -> c_int {
    // SAFETY: Lua leaves the error object on top of this stack, and does not use it afterwards.
    let text = take_message(&mut unsafe { State::new(state) });
    let _ = writeln!(std::io::stderr(), "PANIC: unprotected error in call to Lua API ({text})");
    0
}

/// Returns a seed for string hashes, which must not be predictable from outside.
#[cfg(feature = "lua55")]
fn seed() -> std::ffi::c_uint {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) as std::ffi::c_uint
}

/// Creates the main function's coroutine, which replaces the main state in the registry.
const NEW_MAIN: Function = Function::native(|mut to| {
    to.push_coroutine();
    to.push_copy(1);
    to.pop_into_main_thread();
    1
});

/// Creates a coroutine.
const NEW_COROUTINE: Function = Function::native(|mut to| {
    to.push_coroutine();
    1
});

/// Returns the error message and the traceback of the failed coroutine at index 1.
const DESCRIBE: Function = Function::native(|mut to| {
    let Some(mut failed) = to.coroutine_at(1) else { return 0 };
    to.move_top_from(&mut failed);
    to.push_text(2);
    to.trace(&failed, Some(3), 0);
    1
});

impl Pusher<'_> {
    ffi_methods! {
        /// Pops the coroutine on top and stores it as the registry's main thread.
        fn pop_into_main_thread[mut]() =
            |state| ffi::lua_rawseti(state, ffi::LUA_REGISTRYINDEX, ffi::LUA_RIDX_MAINTHREAD);

        /// Moves the top value of another stack of the VM to this one.
        fn move_top_from[mut](from: &mut State), given |_stack| { from.count() > 0 } =
            |state| ffi::lua_xmove(from.state, state, 1);
    }
}

impl State {
    ffi_methods! {
        /// Resumes this coroutine with the topmost `arguments` values. Returns the status, and the number of values
        /// that the coroutine yielded or returned. If the coroutine is neither suspended nor new, the status is an
        /// error.
        pub(super) fn resume[mut](from: &State, arguments: c_int) -> (c_int, c_int),
            given |stack| { arguments == 0 || (1..=stack.count()).contains(&arguments) } =
            |state| {
                let mut results = 0;
                (ffi::lua_resume(state, from.state, arguments, &mut results), results)
            };
    }
}

/// Converts the status of a protected call to a result. If the call failed, pops its error from `stack`.
fn check_status(status: Result<c_int, Broken>, stack: &mut State) -> Result<(), String> {
    match status {
        Ok(ffi::LUA_OK) => Ok(()),
        Ok(_) => Err(take_message(stack)),
        Err(Broken(message)) => Err(message),
    }
}
