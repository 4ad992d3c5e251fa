//! What follows a step: the function ends, calls, or yields. A [`Flow`] is plain data; it is done with no frame of the step
//! left.

use super::pusher::Pusher;
use super::returns::{Values, safely};
use mlua::ffi::{self, lua_KContext};
use std::ffi::c_int;

/// The results of a function; or of a step, what is to follow it.
pub(crate) trait Returns: Sized + 'static {
    /// Pushes what is to be pushed. May raise: what owns something is parked before.
    fn give(self, to: Pusher<'_>) -> Flow;
}

/// What follows a step. Plain data: while it is done, a raise may skip it.
#[derive(Clone, Copy)]
pub(crate) struct Flow(pub(super) Kind);

impl Flow {
    /// The function ends with the `count` values that were pushed for it.
    #[inline(always)]
    pub(super) fn returns(count: c_int) -> Flow {
        Flow(Kind::Return(count))
    }
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
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
    Protected { arguments: c_int, results: c_int, handler: c_int, then: &'static Then, kept: u32 },
    /// The next step runs at once, with the values above the first `below`.
    Step { below: c_int, then: &'static Then, kept: u32 },
    /// The coroutine yields the topmost values.
    Yield { values: c_int, then: &'static Then, kept: u32 },
}

/// What a function does next, for one that does not always end with its first step.
#[derive(Clone, Copy)]
pub(crate) struct Next<R = ()>(Doing<R>);

#[derive(Clone, Copy)]
enum Doing<R> {
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
        Next(Doing::Flow(Flow(Kind::Call { arguments, results: ffi::LUA_MULTRET, then, kept, yields: true })))
    }

    /// The same of a function that must not yield: that is an error of it.
    pub(crate) fn call_whole(arguments: c_int, then: &'static Then, kept: u32) -> Self {
        Next(Doing::Flow(Flow(Kind::Call { arguments, results: ffi::LUA_MULTRET, then, kept, yields: false })))
    }

    /// Calls the function that was pushed before the last `arguments` values; then `then` runs, with `kept`: with
    /// `results` results, or with the error, which the message handler at index `handler` has changed (0: none).
    #[inline]
    pub(crate) fn protected(arguments: c_int, results: c_int, handler: c_int, then: &'static Then, kept: u32) -> Self {
        assert!((-1..=16).contains(&results), "up to 16 results, or all");
        Next(Doing::Flow(Flow(Kind::Protected { arguments, results, handler, then, kept })))
    }

    /// Runs `then` at once, with `kept`: with the values above the first `below`. For values that take memory, see
    /// [`Next::pushing`].
    #[inline]
    pub(crate) fn goes_on(below: c_int, then: &'static Then, kept: u32) -> Self {
        Next(Doing::Flow(Flow(Kind::Step { below, then, kept })))
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
    pub(super) entry: ffi::lua_KFunction,
    /// For the core, when there was none.
    pub(super) step: fn(Pusher<'_>, c_int, lua_KContext) -> Flow,
}

impl<V: Values> Returns for V {
    #[inline(always)]
    fn give(self, to: Pusher<'_>) -> Flow {
        Flow::returns(push_all(self, to))
    }
}

#[inline(always)]
fn push_all<V: Values>(values: V, to: Pusher<'_>) -> c_int {
    safely(values, to, V::push_all)
}

/// What follows a step that has values to push which take memory; see [`Next::pushing`].
pub(crate) struct Pushing<V> {
    values: V,
    flow: Flow,
}

impl<V: Values> Returns for Pushing<V> {
    #[inline(always)]
    fn give(self, to: Pusher<'_>) -> Flow {
        push_all(self.values, to);
        self.flow
    }
}

impl<R: Returns> Returns for Next<R> {
    #[inline(always)]
    fn give(self, to: Pusher<'_>) -> Flow {
        match self.0 {
            Doing::Return(results) => results.give(to),
            Doing::Flow(flow) => flow,
        }
    }
}

/// `results! { enum Name { Variant(Results), … } }`: an enum of different results of one function.
macro_rules! results {
    ($(#[$doc:meta])* $visibility:vis enum $name:ident {
        $($(#[$about:meta])* $variant:ident($results:ty)),* $(,)?
    }) => {
        $(#[$doc])*
        $visibility enum $name {
            $($(#[$about])* $variant($results)),*
        }
        impl $crate::lua::Returns for $name {
            #[inline(always)]
            fn give(self, to: $crate::lua::Pusher<'_>) -> $crate::lua::Flow {
                match self {
                    $($name::$variant(results) => results.give(to)),*
                }
            }
        }
    };
}
pub(crate) use results;
