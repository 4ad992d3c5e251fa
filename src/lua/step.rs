//! Steps: how Lua calls them, and how what follows them is done.
//!
//! Each function is a type of its own without a size, so that each has an entry point of its own and nothing is looked up
//! when Lua calls it.

use super::call::Call;
use super::fault::Fault;
use super::flow::{Flow, Kind, Outcome, Returns, Then};
use super::function::Function;
use super::returns::Pusher;
use mlua::ffi::{self, lua_KContext, lua_State};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

impl Function {
    /// The function that runs `f` as its first step.
    pub(crate) const fn new<F, R>(_: F) -> Function
    where
        F: Fn(&mut Call<'_>) -> Result<R, Fault> + Copy + 'static,
        R: Returns,
    {
        Function(enter::<F, R>)
    }
}

/// The step `f`, to follow another.
#[inline]
pub(crate) const fn then<F, R>(_: F) -> &'static Then
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy + 'static,
    R: Returns,
{
    const {
        &Then {
            entry: go_on::<F, R>,
            step: follow::<F, R>,
        }
    }
}

/// A value of a type that has only one.
#[inline(always)]
pub(super) fn only<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "a function with captures") };
    // SAFETY: a type without a size; a closure without captures has no invariant of its own.
    unsafe { NonNull::<F>::dangling().read() }
}

/// What Lua calls for the function `F`.
unsafe extern "C-unwind" fn enter<F, R>(state: *mut lua_State) -> c_int
where
    F: Fn(&mut Call<'_>) -> Result<R, Fault> + Copy,
    R: Returns,
{
    // SAFETY: Lua calls it with a valid state, and room for 20 values.
    unsafe { guarded(state, || first(state, only::<F>())) }
}

/// What Lua calls for the step `F` after a yield.
unsafe extern "C-unwind" fn go_on<F, R>(
    state: *mut lua_State,
    status: c_int,
    context: lua_KContext,
) -> c_int
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy,
    R: Returns,
{
    // SAFETY: as for `enter`, in the frame of the function that yielded.
    unsafe { guarded(state, || follow::<F, R>(state, status, context)) }
}

/// Runs steps until the function ends or yields; a panic of one is raised.
///
/// # Safety
/// Called by Lua, with a valid state. What is in the frames of `begin` when it raises owns nothing.
#[inline(always)]
pub(super) unsafe fn guarded(state: *mut lua_State, begin: impl FnOnce() -> Flow) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(|| match begin() {
        Flow(Kind::Return(count)) => count,
        // SAFETY: the step that gave it has pushed what it names.
        flow => unsafe { drive(state, flow) },
    }));
    match result {
        Ok(count) => count,
        // SAFETY: this frame owns nothing else.
        Err(panic) => unsafe { Fault::panic(panic).raise(state) },
    }
}

/// Runs the first step of a function: again from its start when a number had to be made a string for it.
#[inline(always)]
unsafe fn first<F, R>(state: *mut lua_State, step: F) -> Flow
where
    F: Fn(&mut Call<'_>) -> Result<R, Fault>,
    R: Returns,
{
    loop {
        // SAFETY: the running function's state, with room for 20 values.
        let mut call = unsafe { Call::new(state, 20) };
        #[cfg(feature = "panics")]
        super::panics::count();
        match step(&mut call) {
            Ok(results) => {
                drop(call);
                // SAFETY: the step is over, and all that is left are its results, which are parked. So a raise skips
                // nothing.
                return results.give(unsafe { Pusher::new(state) });
            }
            Err(fault) => {
                let height = call.base;
                drop(call);
                // SAFETY: the step is over, with no result.
                if let Some(flow) = unsafe { fail(state, fault, height) } {
                    return flow;
                }
            }
        }
    }
}

/// Runs the step `F`, which follows another.
#[inline]
unsafe fn follow<F, R>(state: *mut lua_State, status: c_int, context: lua_KContext) -> Flow
where
    F: Fn(&mut Call<'_>, Outcome) -> Result<R, Fault> + Copy,
    R: Returns,
{
    let outcome = Outcome {
        ok: matches!(status, ffi::LUA_OK | ffi::LUA_YIELD),
        first: below(context) + 1,
        kept: (context >> 32) as u32,
    };
    // SAFETY: runs in the frame of the function whose step it follows. A function begins with room for 20 values; what
    // came since may have used that up. What is left when it raises is plain data, as for `first`.
    unsafe {
        if ffi::lua_gettop(state) > FEW && ffi::lua_checkstack(state, 20) == 0 {
            Fault::message("stack overflow").raise(state);
        }
        let mut call = Call::new(state, 20 - FEW);
        // It is not run again, see below.
        call.base = 0;
        #[cfg(feature = "panics")]
        super::panics::count();
        match only::<F>()(&mut call, outcome) {
            Ok(results) => {
                drop(call);
                results.give(Pusher::new(state))
            }
            Err(fault) => {
                drop(call);
                match fault.returned() {
                    Ok(failure) => failure.give(Pusher::new(state)),
                    // It may have acted upon what came with it: so it is not run again for a conversion.
                    Err(fault) => fault.raise(state),
                }
            }
        }
    }
}

/// So many values leave room enough for a step in the frame of any function.
const FEW: c_int = 5;

/// Makes the number a string that a step asked for as one, and drops what it has pushed above `height` (negative:
/// nothing). A failure is what the function ends with; any other fault is raised.
#[cold]
unsafe fn fail(state: *mut lua_State, fault: Fault, height: c_int) -> Option<Flow> {
    // SAFETY: the caller owns nothing; what this one owns is dropped before the conversion, which may raise.
    unsafe {
        let fault = match fault.returned() {
            Ok(failure) => return Some(failure.give(Pusher::new(state))),
            Err(fault) => fault,
        };
        let Some(index) = fault.conversion() else {
            fault.raise(state)
        };
        drop(fault);
        if height >= 0 {
            ffi::lua_settop(state, height);
        }
        ffi::lua_tolstring(state, index, std::ptr::null_mut());
        None
    }
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
unsafe fn function(state: *mut lua_State, arguments: c_int) -> c_int {
    // SAFETY: reads the height of the stack, or raises with nothing owned.
    unsafe {
        let below = ffi::lua_gettop(state) - arguments - 1;
        if arguments < 0 || below < 0 {
            Fault::message("internal error: no function was pushed").raise(state);
        }
        below
    }
}

/// Does what follows a step, and the steps that follow, until the function ends or yields.
unsafe fn drive(state: *mut lua_State, mut flow: Flow) -> c_int {
    // SAFETY: the step that gave the flow has pushed function and arguments; this frame owns nothing.
    unsafe {
        loop {
            flow = match flow.0 {
                Kind::Return(count) => return count,
                Kind::Pushed(count) => return count.clamp(0, ffi::lua_gettop(state)),
                Kind::Call {
                    arguments,
                    results,
                    then,
                    kept,
                    yields,
                } => {
                    let context = context(function(state, arguments), kept);
                    let entry = yields.then_some(then.entry);
                    ffi::lua_callk(state, arguments, results, context, entry);
                    (then.step)(state, ffi::LUA_OK, context)
                }
                Kind::Protected {
                    arguments,
                    results,
                    handler,
                    then,
                    kept,
                } => {
                    let context = context(function(state, arguments), kept);
                    let entry = Some(then.entry);
                    let handler = if handler > below(context) {
                        0
                    } else {
                        handler.max(0)
                    };
                    let status =
                        ffi::lua_pcallk(state, arguments, results, handler, context, entry);
                    (then.step)(state, status, context)
                }
                Kind::Step { below, then, kept } => {
                    let below = match below {
                        ..=0 => 0,
                        below => below.min(ffi::lua_gettop(state)),
                    };
                    (then.step)(state, ffi::LUA_OK, context(below, kept))
                }
                Kind::Yield { values, then, kept } => {
                    let top = ffi::lua_gettop(state);
                    let values = values.clamp(0, top);
                    let context = context(top - values, kept);
                    return ffi::lua_yieldk(state, values, context, Some(then.entry));
                }
            }
        }
    }
}
