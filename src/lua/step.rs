//! Steps: how Lua calls them, and how the core acts on their results.
//!
//! Each step is a zero-sized type. Therefore each step has its own entry point, and a call needs no lookup.

use super::call::Call;
use super::fault::Fault;
use super::flow::{Continuation, Flow, FlowKind, Outcome, Returns};
use super::function::{Function, guarded, zero_sized};
use super::object::Object;
use super::pusher::Pusher;
use super::state::{Kind, State, ffi_methods};
use mlua::ffi::{self, lua_KContext, lua_State};
use std::ffi::c_int;

impl Function {
    /// Returns the function that runs `f` as its first step.
    pub(crate) const fn new<F, R>(_: F) -> Function
    where
        F: Fn(&mut Call<'_>) -> Result<R, Fault> + Copy + 'static,
        R: Returns,
    {
        Function::native(|to| run(to, |to| run_first(to, zero_sized::<F>())))
    }
}

impl Function {
    /// Returns a method that calls `read` with the object and returns the results of `read`.
    pub(crate) const fn method<T, F, R>(read: F) -> Function
    where
        T: Object,
        F: Fn(&T) -> R + Copy + 'static,
        R: Returns,
    {
        Function::new(move |call: &mut Call<'_>| Ok(read(call.object::<T>(1)?)))
    }

    /// Returns a method that calls `change` with a mutable reference to the object and returns the results of `change`.
    pub(crate) const fn method_mut<T, F, R>(change: F) -> Function
    where
        T: Object,
        F: Fn(&mut T) -> R + Copy + 'static,
        R: Returns,
    {
        Function::new(move |call: &mut Call<'_>| Ok(change(call.object_mut::<T>(1)?)))
    }
}

/// Returns the continuation for the step `F`, which follows another step.
#[inline]
pub(crate) const fn then<F, R>(_: F) -> &'static Continuation
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy + 'static,
    R: Returns,
{
    const { &Continuation { entry: resume_after_yield::<F, R>, step: run_next::<F, R> } }
}

/// Lua calls this for the step `F` after a yield.
unsafe extern "C-unwind" fn resume_after_yield<F, R>(
    state: *mut lua_State, status: c_int, context: lua_KContext,
) -> c_int
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy,
    R: Returns,
{
    // SAFETY: the frame is that of the function that yielded, with the room that it had.
    let to = unsafe { Pusher::new(state) };
    guarded(to, |to| run(to, |to| run_next::<F, R>(to, status, context)))
}

/// Runs steps until the function ends or yields.
#[inline(always)]
fn run(mut to: Pusher<'_>, begin: impl FnOnce(Pusher<'_>) -> Flow) -> c_int {
    let flow = begin(to.reborrow());
    match flow.kind() {
        FlowKind::Return => flow.count(),
        _ => run_flow(to, flow),
    }
}

/// Runs the first step of a function. If the step needs a number as a string, converts it and runs the step again.
#[inline(always)]
fn run_first<F, R>(mut to: Pusher<'_>, step: F) -> Flow
where
    F: Fn(&mut Call<'_>) -> Result<R, Fault>,
    R: Returns,
{
    loop {
        // Lua calls a function with room for 20 values.
        let mut call = Call::new(State::reborrow(&to), 20);
        #[cfg(feature = "panics")]
        super::panics::count();
        match step(&mut call) {
            Ok(results) => {
                drop(call);
                // The step has ended. Only its results are left, which are parked, so a raised error skips no
                // destructor.
                return results.push_results(to);
            }
            Err(fault) => {
                let height = call.start_height;
                drop(call);
                if let Some(flow) = handle_fault(&mut to, fault, height) {
                    return flow;
                }
            }
        }
    }
}

/// Runs the step `F`, which follows another step, in the frame of the same function.
#[inline]
fn run_next<F, R>(mut to: Pusher<'_>, status: c_int, context: lua_KContext) -> Flow
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy,
    R: Returns,
{
    let outcome = Outcome {
        ok: matches!(status, ffi::LUA_OK | ffi::LUA_YIELD),
        first: below(context) + 1,
        count: to.count(),
        kept: (context >> 32) as u32,
    };
    if status == ffi::LUA_ERRMEM {
        collect_again(&mut to);
    }
    // A function starts with room for 20 values. The current values use some of this room.
    let room = match outcome.count {
        ..=10 => 20 - outcome.count,
        _ if to.has_room(20) => 20,
        _ => Fault::message("stack overflow").raise(&mut to),
    };
    let mut call = Call::new(State::reborrow(&to), room);
    // The height is not used, because this step does not run again, see below.
    call.start_height = 0;
    #[cfg(feature = "panics")]
    super::panics::count();
    match zero_sized::<F>()(&mut call, outcome) {
        Ok(results) => {
            drop(call);
            results.push_results(to)
        }
        Err(fault) => {
            drop(call);
            match fault.returned() {
                Ok(failure) => failure.push_results(to),
                // The step may already have acted on its arguments, so it does not run again for a conversion.
                Err(fault) => fault.raise(&mut to),
            }
        }
    }
}

/// Collects garbage after a protected call has run out of memory. The values of the called function may be garbage now, and
/// Lua 5.5 makes no emergency collection when a stack grows.
#[cold]
fn collect_again(to: &mut Pusher<'_>) {
    to.collect_garbage();
}

/// Handles the fault of a first step. If the step needs a number as a string, converts it and drops the values that the
/// step has pushed above `height` (negative: none). A failure becomes the results of the function; any other fault is
/// raised. Returns `None` if the step must run again.
#[cold]
fn handle_fault(to: &mut Pusher<'_>, fault: Fault, height: c_int) -> Option<Flow> {
    let fault = match fault.returned() {
        Ok(failure) => return Some(failure.push_results(to.reborrow())),
        Err(fault) => fault,
    };
    let Some(index) = fault.conversion() else { fault.raise(to) };
    // The conversion can raise an error, so the fault is dropped first.
    drop(fault);
    to.drop_to(height);
    to.convert(index);
    None
}

/// Returns the number of values below the step's own values.
#[inline(always)]
fn below(context: lua_KContext) -> c_int {
    (context & 0xffff_ffff) as c_int
}

/// Returns the number of values below the function that was pushed before the last `arguments` values.
#[inline(always)]
fn below_function(to: &mut Pusher<'_>, arguments: c_int) -> c_int {
    let below = to.count() - arguments - 1;
    if below < 0 {
        Fault::message("internal error: no function was pushed").raise(to);
    }
    below
}

/// The function that Lua calls after a yield; `None` if a yield is not allowed.
type Entry = Option<ffi::lua_KFunction>;

impl Pusher<'_> {
    ffi_methods! {
        /// Calls the function below the topmost `arguments` values. [`below_function`] has checked that it exists.
        fn call_then[mut](arguments: c_int, results: c_int, context: lua_KContext, entry: Entry) =
            |state| ffi::lua_callk(state, arguments, results, context, entry);

        /// Calls like [`Pusher::call_then`], but in protected mode. The handler is below the function.
        fn protect_then[mut](
            arguments: c_int, results: c_int, handler: c_int, context: lua_KContext, entry: Entry
        ) -> c_int = |state| ffi::lua_pcallk(state, arguments, results, handler, context, entry);

        /// Yields the topmost `values` values, which must exist. If a yield is not possible here, Lua raises an error.
        fn yield_then[mut](values: c_int, context: lua_KContext, entry: Entry) -> c_int =
            |state| ffi::lua_yieldk(state, values, context, entry);
    }
}

/// Acts on the result of a step, and runs the steps that follow, until the function ends or yields. Calls are handled
/// in a separate function, so that a wait, which ends the handling of each message, has few registers to save.
fn run_flow(mut to: Pusher<'_>, mut flow: Flow) -> c_int {
    while let Some(then) = flow.then {
        flow = match flow.kind() {
            FlowKind::Wait => {
                to.shorten(0);
                return to.yield_then(0, flow.context(0), Some(then.entry));
            }
            // If `count` is 0, it need not be compared with the height of the stack. This path runs for each message.
            FlowKind::Step if flow.count() == 0 => (then.step)(to.reborrow(), ffi::LUA_OK, flow.context(0)),
            FlowKind::Step => {
                let below = flow.count().min(to.count());
                (then.step)(to.reborrow(), ffi::LUA_OK, flow.context(below))
            }
            FlowKind::Yield => {
                let top = to.count();
                let values = flow.count().min(top);
                return to.yield_then(values, flow.context(top - values), Some(then.entry));
            }
            _ => return run_calls(to, flow),
        };
    }
    flow.count()
}

/// Acts on a flow that is a call, and continues like [`run_flow`].
#[inline(never)]
fn run_calls(mut to: Pusher<'_>, mut flow: Flow) -> c_int {
    while let Some(then) = flow.then {
        let kind = flow.kind();
        let (status, context) = if kind == FlowKind::Protected {
            let context = flow.context(below_function(&mut to, flow.count()));
            // The debug library may have replaced the message handler. If the handler is no longer a function, the
            // error is left unchanged.
            let handler = flow.handler();
            let is_usable = handler > 0 && handler <= below(context) && to.kind(handler) == Kind::Function;
            let handler = if is_usable { handler } else { 0 };
            (to.protect_then(flow.count(), flow.results(), handler, context, Some(then.entry)), context)
        } else if let FlowKind::Call | FlowKind::CallUnyieldable = kind {
            let context = flow.context(below_function(&mut to, flow.count()));
            let entry = (kind == FlowKind::Call).then_some(then.entry);
            to.call_then(flow.count(), ffi::LUA_MULTRET, context, entry);
            (ffi::LUA_OK, context)
        } else {
            return run_flow(to, flow);
        };
        flow = (then.step)(to.reborrow(), status, context);
    }
    flow.count()
}
