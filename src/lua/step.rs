//! Steps: how Lua calls them, and how what follows them is done.
//!
//! Each function is a type of its own without a size, so that each has an entry point of its own and nothing is looked up
//! when Lua calls it.

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
    /// The function that runs `f` as its first step.
    pub(crate) const fn new<F, R>(_: F) -> Function
    where
        F: Fn(&mut Call<'_>) -> Result<R, Fault> + Copy + 'static,
        R: Returns,
    {
        Function::native(|to| run(to, |to| first(to, only::<F>())))
    }
}

impl Function {
    /// A method that only gives what `ask` finds of its object.
    pub(crate) const fn of<T, F, R>(ask: F) -> Function
    where
        T: Object,
        F: Fn(&T) -> R + Copy + 'static,
        R: Returns,
    {
        Function::new(move |call: &mut Call<'_>| Ok(ask(call.object::<T>(1)?)))
    }

    /// A method that only gives what `act` does with its object.
    pub(crate) const fn on<T, F, R>(act: F) -> Function
    where
        T: Object,
        F: Fn(&mut T) -> R + Copy + 'static,
        R: Returns,
    {
        Function::new(move |call: &mut Call<'_>| Ok(act(call.object_mut::<T>(1)?)))
    }
}

/// The step `f`, to follow another.
#[inline]
pub(crate) const fn then<F, R>(_: F) -> &'static Then
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy + 'static,
    R: Returns,
{
    const { &Then { entry: go_on::<F, R>, step: follow::<F, R> } }
}

/// What Lua calls for the step `F` after a yield.
unsafe extern "C-unwind" fn go_on<F, R>(state: *mut lua_State, status: c_int, context: lua_KContext) -> c_int
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy,
    R: Returns,
{
    // SAFETY: the frame is that of the function that yielded, with as much room as it had.
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

/// Runs the first step of a function: again from its start when a number had to be made a string for it.
#[inline(always)]
fn first<F, R>(mut to: Pusher<'_>, step: F) -> Flow
where
    F: Fn(&mut Call<'_>) -> Result<R, Fault>,
    R: Returns,
{
    loop {
        // Lua gives a function room for 20 values.
        let mut call = Call::new(State::again(&to), 20);
        #[cfg(feature = "panics")]
        super::panics::count();
        match step(&mut call) {
            Ok(results) => {
                drop(call);
                // The step is over, and all that is left are its results, which are parked. So a raise skips nothing.
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

/// Runs the step `F`, which follows another, in the frame of the function whose step it follows.
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
    // A function begins with room for 20 values, which what came since has used up in part.
    let room = match outcome.count {
        ..=10 => 20 - outcome.count,
        _ if to.has_room(20) => 20,
        _ => Fault::message("stack overflow").raise(&mut to),
    };
    let mut call = Call::new(State::again(&to), room);
    // It is not run again, see below.
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
                // It may have acted upon what came with it: so it is not run again for a conversion.
                Err(fault) => fault.raise(&mut to),
            }
        }
    }
}

/// Makes the number a string that a step asked for as one, and drops what it has pushed above `height` (negative:
/// nothing). A failure is what the function ends with; any other fault is raised.
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

/// How many values lie below those that the step is about.
#[inline(always)]
fn below(context: lua_KContext) -> c_int {
    (context & 0xffff_ffff) as c_int
}

/// How many values lie below the function that was pushed before the last `arguments` values.
#[inline(always)]
fn function(to: &mut Pusher<'_>, arguments: c_int) -> c_int {
    let below = to.count() - arguments - 1;
    if below < 0 {
        Fault::message("internal error: no function was pushed").raise(to);
    }
    below
}

/// What Lua goes on with after a yield, if the function may yield.
type Entry = Option<ffi::lua_KFunction>;

impl Pusher<'_> {
    calls! {
        /// Calls the function below the topmost `arguments` values, which [`function`] has found.
        fn call_then[mut](arguments: c_int, results: c_int, context: lua_KContext, entry: Entry) =
            |state| ffi::lua_callk(state, arguments, results, context, entry);

        /// The same, protected; the handler lies below the function.
        fn protect_then[mut](
            arguments: c_int, results: c_int, handler: c_int, context: lua_KContext, entry: Entry
        ) -> c_int = |state| ffi::lua_pcallk(state, arguments, results, handler, context, entry);

        /// Yields the topmost `values` values, of which there are so many. Where that cannot be, it is an error.
        fn yield_then[mut](values: c_int, context: lua_KContext, entry: Entry) -> c_int =
            |state| ffi::lua_yieldk(state, values, context, entry);
    }
}

/// Does what follows a step, and the steps that follow, until the function ends or yields. Calls are done apart, so that
/// a wait, by which each message is left, saves few registers.
fn drive(mut to: Pusher<'_>, mut flow: Flow) -> c_int {
    while let Some(then) = flow.then {
        flow = match flow.kind() {
            Kind::Wait => {
                to.shorten(0);
                return to.yield_then(0, flow.context(0), Some(then.entry));
            }
            // So that nothing is asked for before each message.
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

/// The same, of which a call is the first.
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
