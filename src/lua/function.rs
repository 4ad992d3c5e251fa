//! Functions as Lua gets them: steps, and what follows a step.
//!
//! Each function is a type of its own without a size, so that each has an entry point of its own and nothing is looked up
//! when Lua calls it. What a step wants done is a [`Flow`], plain data; it is done with no frame of the step left.

use super::call::Call;
use super::fault::Fault;
use super::returns::{Pusher, Pushing, Returns, Values};
use mlua::ffi::{self, lua_KContext, lua_State};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A function that may be given to Lua: a panic in it is raised as a Lua error.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Function(ffi::lua_CFunction);

impl Function {
    /// The function that runs `f` as its first step.
    pub(crate) const fn new<F, R>(_: F) -> Function
    where
        F: Fn(&mut Call<'_>) -> Result<R, Fault> + Copy + 'static,
        R: Returns,
    {
        Function(enter::<F, R>)
    }

    /// A C function of somebody else's, which Lua has had already, or one with a barrier of its own.
    ///
    /// # Safety
    /// `raw` is a C function for this version of Lua, which lets no panic pass.
    pub(crate) const unsafe fn foreign(raw: ffi::lua_CFunction) -> Function {
        Function(raw)
    }

    /// Pushes it with the topmost `upvalues` values, which it takes off.
    ///
    /// # Safety
    /// `state` is valid, with a free stack slot; may raise a memory error when there are upvalues.
    pub unsafe fn push(self, state: *mut lua_State, upvalues: c_int) {
        // SAFETY: the caller has made room, and pushed the upvalues.
        unsafe { ffi::lua_pushcclosure(state, self.0, upvalues) }
    }

    /// Where it begins, as `lua_tocfunction` tells it.
    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    /// Runs it in the frame of the running function.
    ///
    /// # Safety
    /// As for the function itself.
    pub(crate) unsafe fn run(self, state: *mut lua_State) -> c_int {
        // SAFETY: the caller is a C function that Lua called with this state.
        unsafe { (self.0)(state) }
    }
}

/// What follows a step. Plain data: while it is done, a raise may skip it.
#[derive(Clone, Copy)]
pub(crate) struct Flow(Kind);

impl Flow {
    /// The function ends with the `count` values that were pushed for it.
    #[inline(always)]
    pub(super) fn returns(count: c_int) -> Flow {
        Flow(Kind::Return(count))
    }

    /// How many values the function ends with. // bridge
    pub(super) fn count(self) -> c_int {
        match self.0 {
            Kind::Return(count) => count,
            _ => 0,
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    /// The function ends with the topmost values as its results.
    Return(c_int),
    /// The same, with as many as a step says.
    Pushed(c_int),
    /// The function below the topmost `arguments` values is called.
    Call {
        arguments: c_int,
        results: c_int,
        then: &'static Then,
        kept: u32,
        /// Whether it may yield.
        yields: bool,
    },
    /// The same; an error of it is given to the next step, as the message handler at `handler` changes it (0: none).
    Protected {
        arguments: c_int,
        results: c_int,
        handler: c_int,
        then: &'static Then,
        kept: u32,
    },
    /// The coroutine yields the topmost values.
    Yield {
        values: c_int,
        then: &'static Then,
        kept: u32,
    },
}

/// What a function does next, for one that does not always end with its first step.
#[derive(Clone, Copy)]
pub(crate) struct Next<R = ()>(pub(super) Doing<R>);

#[derive(Clone, Copy)]
pub(super) enum Doing<R> {
    Return(R),
    Flow(Flow),
}

impl<R> Next<R> {
    /// The function ends with these results.
    #[inline]
    pub(crate) fn returns(results: R) -> Self {
        Next(Doing::Return(results))
    }

    /// The function ends, and its results are the `count` values pushed last.
    #[inline]
    pub(crate) fn pushed(count: c_int) -> Self {
        Next(Doing::Flow(Flow(Kind::Pushed(count))))
    }

    /// Calls the function that was pushed before the last `arguments` values; then `then` runs, with `kept`. An error
    /// is the function's own.
    #[inline]
    pub(crate) fn call(arguments: c_int, then: &'static Then, kept: u32) -> Self {
        Next(Doing::Flow(Flow(Kind::Call {
            arguments,
            results: ffi::LUA_MULTRET,
            then,
            kept,
            yields: true,
        })))
    }

    /// The same of a function that must not yield: that is an error of it.
    pub(crate) fn call_whole(arguments: c_int, then: &'static Then, kept: u32) -> Self {
        Next(Doing::Flow(Flow(Kind::Call {
            arguments,
            results: ffi::LUA_MULTRET,
            then,
            kept,
            yields: false,
        })))
    }

    /// Calls the function that was pushed before the last `arguments` values; then `then` runs, with `kept`: with
    /// `results` results, or with the error, which the message handler at index `handler` has changed (0: none).
    #[inline]
    pub(crate) fn protected(
        arguments: c_int,
        results: c_int,
        handler: c_int,
        then: &'static Then,
        kept: u32,
    ) -> Self {
        assert!((-1..=16).contains(&results), "up to 16 results, or all");
        Next(Doing::Flow(Flow(Kind::Protected {
            arguments,
            results,
            handler,
            then,
            kept,
        })))
    }

    /// The coroutine yields the `values` values pushed last. When it is resumed, `then` runs, with `kept`.
    #[inline]
    pub(crate) fn yields(values: c_int, then: &'static Then, kept: u32) -> Self {
        Next(Doing::Flow(Flow(Kind::Yield { values, then, kept })))
    }
}

impl Next {
    /// What is to be called or yielded, with these values pushed before, when the step is over: for values that take memory.
    /// They count among the arguments, or are the function as well.
    #[inline]
    pub(crate) fn pushing<V: Values>(self, values: V) -> Pushing<V> {
        let flow = match self.0 {
            Doing::Return(()) => Flow::returns(0),
            Doing::Flow(flow) => flow,
        };
        Pushing { values, flow }
    }
}

/// What a step that follows another finds.
#[derive(Clone, Copy)]
pub(crate) struct Outcome {
    /// Whether the call returned, or the coroutine was resumed; else the first value is an error.
    pub(crate) ok: bool,
    /// The index of the first result, or value that came with the resume.
    pub(crate) first: c_int,
    /// What the step before has kept.
    pub(crate) kept: u32,
}

/// A step that follows another; see [`then`].
pub(crate) struct Then {
    /// For Lua, when there was a yield.
    entry: ffi::lua_KFunction,
    /// For the core, when there was none.
    step: unsafe fn(*mut lua_State, c_int, lua_KContext) -> Flow,
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
fn only<F: Copy>() -> F {
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
        let result = step(&mut call);
        let height = call.base;
        drop(call);
        match result {
            // SAFETY: the step is over, and all that is left are its results, which are parked. So a raise skips nothing.
            Ok(results) => return results.give(unsafe { Pusher::new(state) }),
            Err(fault) => {
                // SAFETY: the step is over, with no result.
                unsafe { convert(state, fault, height) }
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
        #[cfg(feature = "panics")]
        super::panics::count();
        let result = only::<F>()(&mut call, outcome);
        drop(call);
        match result {
            Ok(results) => results.give(Pusher::new(state)),
            // It may have acted upon what came with it: so it is not run again for a conversion.
            Err(fault) => fault.raise(state),
        }
    }
}

/// So many values leave room enough for a step in the frame of any function.
const FEW: c_int = 5;

/// Makes the number a string that a step asked for as one, and drops what it has pushed above `height` (negative:
/// nothing); raises any other fault.
#[cold]
unsafe fn convert(state: *mut lua_State, fault: Fault, height: c_int) {
    // SAFETY: the caller owns nothing; what this one owns is dropped before the conversion, which may raise.
    unsafe {
        let Some(index) = fault.conversion() else {
            fault.raise(state)
        };
        drop(fault);
        if height >= 0 {
            ffi::lua_settop(state, height);
        }
        ffi::lua_tolstring(state, index, std::ptr::null_mut());
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
