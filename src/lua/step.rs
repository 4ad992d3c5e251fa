//! Steps: how Lua calls them, and how the core acts on their results.
//!
//! Each step is a type without a size. So each has its own entry point, and a call needs no lookup.

use super::call::Call;
use super::fault::Fault;
use super::flow::{Flow, Kind, Outcome, Returns, Then};
use super::function::{Function, guarded, only};
use super::object::Object;
use super::pusher::Pusher;
use super::state::{State, calls};
use mlua::ffi::{self, lua_KContext, lua_State};
use std::ffi::c_int;

impl Function {
    /// Returns the function that runs `f` as its first step.
    pub(crate) const fn new<F, R>(_: F) -> Function
    where
        F: Fn(&mut Call<'_>) -> Result<R, Fault> + Copy + 'static,
        R: Returns,
    {
        Function::native(|to| run(to, |to| first(to, only::<F>())))
    }
}

impl Function {
    /// Returns a method whose results are those of `ask`, which reads the object.
    pub(crate) const fn of<T, F, R>(ask: F) -> Function
    where
        T: Object,
        F: Fn(&T) -> R + Copy + 'static,
        R: Returns,
    {
        Function::new(move |call: &mut Call<'_>| Ok(ask(call.object::<T>(1)?)))
    }

    /// Returns a method whose results are those of `act`, which may change the object.
    pub(crate) const fn on<T, F, R>(act: F) -> Function
    where
        T: Object,
        F: Fn(&mut T) -> R + Copy + 'static,
        R: Returns,
    {
        Function::new(move |call: &mut Call<'_>| Ok(act(call.object_mut::<T>(1)?)))
    }
}

/// Returns the step `f`, which follows another one.
#[inline]
pub(crate) const fn then<F, R>(_: F) -> &'static Then
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy + 'static,
    R: Returns,
{
    const { &Then { entry: go_on::<F, R>, step: follow::<F, R> } }
}

/// Lua calls this for the step `F` after a yield.
unsafe extern "C-unwind" fn go_on<F, R>(state: *mut lua_State, status: c_int, context: lua_KContext) -> c_int
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy,
    R: Returns,
{
    // SAFETY: the frame is that of the function that yielded, with the room that it had.
    let to = unsafe { Pusher::new(state) };
    guarded(to, |to| run(to, |to| follow::<F, R>(to, status, context)))
}

/// Runs steps until the function ends or yields.
#[inline(always)]
fn run(mut to: Pusher<'_>, begin: impl FnOnce(Pusher<'_>) -> Flow) -> c_int {
    let flow = begin(to.again());
    match flow.kind() {
        Kind::Return => flow.count(),
        _ => drive(to, flow),
    }
}

/// Runs the first step of a function. If the step needs a number as a string, converts it and runs the step again.
#[inline(always)]
fn first<F, R>(mut to: Pusher<'_>, step: F) -> Flow
where
    F: Fn(&mut Call<'_>) -> Result<R, Fault>,
    R: Returns,
{
    loop {
        // Lua calls a function with room for 20 values.
        let mut call = Call::new(State::again(&to), 20);
        #[cfg(feature = "panics")]
        super::panics::count();
        match step(&mut call) {
            Ok(results) => {
                drop(call);
                // The step has ended. Only its results are left, which are parked, so a raise skips nothing.
                return results.give(to);
            }
            Err(fault) => {
                let height = call.base;
                drop(call);
                if let Some(flow) = fail(&mut to, fault, height) {
                    return flow;
                }
            }
        }
    }
}

/// Runs the step `F`, which follows another, in the same function's frame.
#[inline]
fn follow<F, R>(mut to: Pusher<'_>, status: c_int, context: lua_KContext) -> Flow
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
    // A function begins with room for 20 values. The values that are there now have used some of it.
    let room = match outcome.count {
        ..=10 => 20 - outcome.count,
        _ if to.has_room(20) => 20,
        _ => Fault::message("stack overflow").raise(&mut to),
    };
    let mut call = Call::new(State::again(&to), room);
    // The height is not needed, since this step does not run again, see below.
    call.base = 0;
    #[cfg(feature = "panics")]
    super::panics::count();
    match only::<F>()(&mut call, outcome) {
        Ok(results) => {
            drop(call);
            results.give(to)
        }
        Err(fault) => {
            drop(call);
            match fault.returned() {
                Ok(failure) => failure.give(to),
                // The step may have acted on its arguments already, so it does not run again for a conversion.
                Err(fault) => fault.raise(&mut to),
            }
        }
    }
}

/// Handles the fault of a first step. If the step needs a number as a string, converts it and drops the values that the
/// step has pushed above `height` (negative: none). A failure becomes the results of the function; any other fault is
/// raised.
#[cold]
fn fail(to: &mut Pusher<'_>, fault: Fault, height: c_int) -> Option<Flow> {
    let fault = match fault.returned() {
        Ok(failure) => return Some(failure.give(to.again())),
        Err(fault) => fault,
    };
    let Some(index) = fault.conversion() else { fault.raise(to) };
    // Before the conversion, which may raise.
    drop(fault);
    to.drop_to(height);
    to.convert(index);
    None
}

/// Returns the number of values below those that concern the step.
#[inline(always)]
fn below(context: lua_KContext) -> c_int {
    (context & 0xffff_ffff) as c_int
}

/// Returns the number of values below the function that was pushed before the last `arguments` values.
#[inline(always)]
fn function(to: &mut Pusher<'_>, arguments: c_int) -> c_int {
    let below = to.count() - arguments - 1;
    if below < 0 {
        Fault::message("internal error: no function was pushed").raise(to);
    }
    below
}

/// What Lua calls after a yield, if the function may yield.
type Entry = Option<ffi::lua_KFunction>;

impl Pusher<'_> {
    calls! {
        /// Calls the function below the topmost `arguments` values, which [`function`] has found.
        fn call_then[mut](arguments: c_int, results: c_int, context: lua_KContext, entry: Entry) =
            |state| ffi::lua_callk(state, arguments, results, context, entry);

        /// Calls like [`Pusher::call_then`], but in protected mode. The handler is below the function.
        fn protect_then[mut](
            arguments: c_int, results: c_int, handler: c_int, context: lua_KContext, entry: Entry
        ) -> c_int = |state| ffi::lua_pcallk(state, arguments, results, handler, context, entry);

        /// Yields the topmost `values` values, which must exist. Where a yield is impossible, Lua raises an error.
        fn yield_then[mut](values: c_int, context: lua_KContext, entry: Entry) -> c_int =
            |state| ffi::lua_yieldk(state, values, context, entry);
    }
}

/// Acts on the result of a step, and runs the steps that follow, until the function ends or yields. Calls are in a
/// function of their own: then a wait, which each message ends with, has few registers to save.
fn drive(mut to: Pusher<'_>, mut flow: Flow) -> c_int {
    while let Some(then) = flow.then {
        flow = match flow.kind() {
            Kind::Wait => {
                to.shorten(0);
                return to.yield_then(0, flow.context(0), Some(then.entry));
            }
            // A step without values below needs no count, which every message would have to compute.
            Kind::Step if flow.count() == 0 => (then.step)(to.again(), ffi::LUA_OK, flow.context(0)),
            Kind::Step => {
                let below = flow.count().min(to.count());
                (then.step)(to.again(), ffi::LUA_OK, flow.context(below))
            }
            Kind::Yield => {
                let top = to.count();
                let values = flow.count().min(top);
                return to.yield_then(values, flow.context(top - values), Some(then.entry));
            }
            _ => return drive_calls(to, flow),
        };
    }
    flow.count()
}

/// Acts on a flow that is a call, and continues like [`drive`].
#[inline(never)]
fn drive_calls(mut to: Pusher<'_>, mut flow: Flow) -> c_int {
    while let Some(then) = flow.then {
        let kind = flow.kind();
        let (status, context) = if kind == Kind::Protected {
            let context = flow.context(function(&mut to, flow.count()));
            let handler = if flow.handler() > below(context) { 0 } else { flow.handler() };
            (to.protect_then(flow.count(), flow.results(), handler, context, Some(then.entry)), context)
        } else if let Kind::Call | Kind::CallWhole = kind {
            let context = flow.context(function(&mut to, flow.count()));
            let entry = (kind == Kind::Call).then_some(then.entry);
            to.call_then(flow.count(), ffi::LUA_MULTRET, context, entry);
            (ffi::LUA_OK, context)
        } else {
            return drive(to, flow);
        };
        flow = (then.step)(to.again(), status, context);
    }
    flow.count()
}
