//! Steps: how Lua calls them, and how what follows them is done.
//!
//! Each function is a type of its own without a size, so that each has an entry point of its own and nothing is looked up
//! when Lua calls it.

use super::call::Call;
use super::fault::Fault;
use super::flow::{Flow, Kind, Outcome, Returns, Then};
use super::function::{Function, only};
use super::pusher::Pusher;
use super::state::{State, calls};
use mlua::ffi::{self, lua_KContext, lua_State};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Function {
    /// The function that runs `f` as its first step.
    pub(crate) const fn new<F, R>(_: F) -> Function
    where
        F: Fn(&mut Call<'_>) -> Result<R, Fault> + Copy + 'static,
        R: Returns,
    {
        Function::native(|to| guarded(to, |to| first(to, only::<F>())))
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
    guarded(to, |to| follow::<F, R>(to, status, context))
}

/// Runs steps until the function ends or yields; a panic of one is raised.
#[inline(always)]
pub(super) fn guarded(mut to: Pusher<'_>, begin: impl FnOnce(Pusher<'_>) -> Flow) -> c_int {
    let mut own = to.again();
    let result = catch_unwind(AssertUnwindSafe(move || match begin(own.again()) {
        Flow(Kind::Return(count)) => count,
        flow => drive(own, flow),
    }));
    match result {
        Ok(count) => count,
        Err(panic) => Fault::panic(panic).raise(&mut to),
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
        kept: (context >> 32) as u32,
    };
    // A function begins with room for 20 values; what came since may have used that up.
    if to.count() > FEW && !to.has_room(20) {
        Fault::message("stack overflow").raise(&mut to);
    }
    let mut call = Call::new(State::again(&to), 20 - FEW);
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

/// So many values leave room enough for a step in the frame of any function.
const FEW: c_int = 5;

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

/// Packs what a continuation is told: how many values lie below those that the step is about, and what is kept.
#[inline(always)]
fn context(below: c_int, kept: u32) -> lua_KContext {
    const { assert!(size_of::<lua_KContext>() == 8, "lio needs 64 bits") };
    (kept as lua_KContext) << 32 | below as lua_KContext
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
    if arguments < 0 || below < 0 {
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

/// Does what follows a step, and the steps that follow, until the function ends or yields.
fn drive(mut to: Pusher<'_>, mut flow: Flow) -> c_int {
    loop {
        flow = match flow.0 {
            Kind::Return(count) => return count,
            Kind::Pushed(count) => return count.clamp(0, to.count()),
            Kind::Call { arguments, results, then, kept, yields } => {
                let context = context(function(&mut to, arguments), kept);
                let entry = yields.then_some(then.entry);
                to.call_then(arguments, results, context, entry);
                (then.step)(to.again(), ffi::LUA_OK, context)
            }
            Kind::Protected { arguments, results, handler, then, kept } => {
                let context = context(function(&mut to, arguments), kept);
                let handler = if handler > below(context) { 0 } else { handler.max(0) };
                let entry = Some(then.entry);
                let status = to.protect_then(arguments, results, handler, context, entry);
                (then.step)(to.again(), status, context)
            }
            Kind::Step { below, then, kept } => {
                let below = match below {
                    ..=0 => 0,
                    below => below.min(to.count()),
                };
                (then.step)(to.again(), ffi::LUA_OK, context(below, kept))
            }
            Kind::Yield { values, then, kept } => {
                let top = to.count();
                let values = values.clamp(0, top);
                let context = context(top - values, kept);
                return to.yield_then(values, context, Some(then.entry));
            }
        }
    }
}
