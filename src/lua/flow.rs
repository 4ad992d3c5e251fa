//! The action after a step: the function ends, calls another function, or yields. A [`Flow`] is plain data; the core
//! acts on it after all frames of the step have ended.

use super::pusher::Pusher;
use super::returns::{Values, with_parked};
use mlua::ffi::{self, lua_KContext};
use std::ffi::c_int;

/// The results of a function, or the action after one of its steps.
pub(crate) trait Returns: Sized + 'static {
    /// Pushes the values. This can raise an error, so a value that owns something is parked in the store while it is
    /// pushed.
    fn push_results(self, to: Pusher<'_>) -> Flow;
}

/// The action after a step. A flow is plain data, because a raised error would skip its destructor. It has two words,
/// so that it is returned in registers: each message that a service handles needs a flow.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    /// The next step; `None` if the function ends.
    pub(super) then: Option<&'static Continuation>,
    /// From the highest bit down: the number kept for the next step (32 bits), the number of results (2), the stack
    /// index of the message handler (7), the kind (3), and the number of values (20).
    packed: u64,
}

/// The kinds of flow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowKind {
    /// The function ends. Its results are the topmost `count` values.
    Return,
    /// Calls the function below the topmost `count` values, which are its arguments.
    Call,
    /// Calls a function that must not yield.
    CallUnyieldable,
    /// Calls a function in protected mode. If the function raises an error, the next step gets the error after the
    /// message handler, if any, has changed it.
    Protected,
    /// Runs the next step immediately. Its values are those above index `count`.
    Step,
    /// The coroutine yields the topmost `count` values.
    Yield,
    /// Drops all values. The coroutine yields no values.
    Wait,
}

/// More values than a Lua stack can hold.
const MAX_COUNT: u32 = (1 << 20) - 1;

impl Flow {
    /// Returns a flow that ends the function. Its results are the topmost `count` values.
    #[inline(always)]
    pub(super) fn returns(count: c_int) -> Flow {
        Flow { then: None, packed: Flow::word(FlowKind::Return, count) }
    }

    /// Returns a flow that continues with the step `then`. `kept` is passed to that step.
    #[inline(always)]
    fn then(kind: FlowKind, count: c_int, then: &'static Continuation, kept: u32) -> Flow {
        Flow { then: Some(then), packed: u64::from(kept) << 32 | Flow::word(kind, count) }
    }

    /// Packs a kind and a count.
    #[inline(always)]
    fn word(kind: FlowKind, count: c_int) -> u64 {
        // A negative count is a mistake in the step. It becomes `MAX_COUNT`, so a call fails, and any other action is
        // limited to the values that exist.
        (kind as u64) << 20 | u64::from((count as u32).min(MAX_COUNT))
    }

    /// Adds the number of results and the stack index of the message handler to the flow.
    #[inline(always)]
    fn protected(self, results: c_int, handler: c_int) -> Flow {
        assert!(
            (-1..=1).contains(&results) && (0..128).contains(&handler),
            "`results` must be 0, 1 or -1 (all), and `handler` must be 0 to 127"
        );
        Flow { packed: self.packed | (handler as u64) << 23 | u64::from((results as u32) << 30), ..self }
    }

    #[inline(always)]
    pub(super) fn kind(self) -> FlowKind {
        match self.packed >> 20 & 7 {
            0 => FlowKind::Return,
            1 => FlowKind::Call,
            2 => FlowKind::CallUnyieldable,
            3 => FlowKind::Protected,
            4 => FlowKind::Step,
            5 => FlowKind::Yield,
            _ => FlowKind::Wait,
        }
    }

    /// Returns the number of values, see [`FlowKind`].
    #[inline(always)]
    pub(super) fn count(self) -> c_int {
        (self.packed as u32 & MAX_COUNT) as c_int
    }

    /// Returns the number of results of a protected call; -1 means all.
    #[inline(always)]
    pub(super) fn results(self) -> c_int {
        self.packed as c_int >> 30
    }

    /// Returns the index of a protected call's message handler; 0 means none.
    #[inline(always)]
    pub(super) fn handler(self) -> c_int {
        (self.packed >> 23 & 127) as c_int
    }

    /// Returns the context of a continuation: the number of values below the step's own values, and the kept number.
    #[inline(always)]
    pub(super) fn context(self, below: c_int) -> lua_KContext {
        const { assert!(size_of::<lua_KContext>() == 8, "lio requires a 64-bit target") };
        (self.packed & !0xffff_ffff) as lua_KContext | below as lua_KContext
    }
}

/// The next action of a function that does not always end with its first step.
#[derive(Clone, Copy)]
pub(crate) struct Next<R = ()>(Action<R>);

/// The content of [`Next`].
#[derive(Clone, Copy)]
enum Action<R> {
    Return(R),
    /// The function ends. Its results are the values that were pushed last; this is their number.
    Pushed(c_int),
    /// The function ends. Its results are the values above this index.
    Rest(c_int),
    Flow(Flow),
}

impl<R> Next<R> {
    /// The function ends with these results.
    #[inline]
    pub(crate) fn returns(results: R) -> Self {
        Next(Action::Return(results))
    }

    /// The function ends. Its results are the `count` values that were pushed last.
    #[inline]
    pub(crate) fn pushed(count: c_int) -> Self {
        Next(Action::Pushed(count))
    }

    /// The function ends. Its results are all values from the index `first` on.
    #[inline]
    pub(crate) fn rest(first: c_int) -> Self {
        Next(Action::Rest(first - 1))
    }

    /// Calls the function that was pushed before the last `arguments` values. Then `then` runs and gets `kept`. If the
    /// called function raises an error, this function raises it too.
    #[inline]
    pub(crate) fn call(arguments: c_int, then: &'static Continuation, kept: u32) -> Self {
        Next(Action::Flow(Flow::then(FlowKind::Call, arguments, then, kept)))
    }

    /// Calls like [`Next::call`], but the called function must not yield: an attempt to yield raises an error in it.
    pub(crate) fn call_unyieldable(arguments: c_int, then: &'static Continuation, kept: u32) -> Self {
        Next(Action::Flow(Flow::then(FlowKind::CallUnyieldable, arguments, then, kept)))
    }

    /// Calls the function that was pushed before the last `arguments` values, in protected mode. Then `then` runs. It
    /// gets `kept` and `results` results (-1: all of them), or the error after the message handler at index `handler`
    /// (0: no handler) has changed it.
    #[inline]
    pub(crate) fn protected(
        arguments: c_int, results: c_int, handler: c_int, then: &'static Continuation, kept: u32,
    ) -> Self {
        Next(Action::Flow(Flow::then(FlowKind::Protected, arguments, then, kept).protected(results, handler)))
    }

    /// Runs `then` immediately and passes `kept` to it. Its values are those above index `below`. To push values that
    /// allocate, see [`Next::pushing`].
    #[inline]
    pub(crate) fn step(below: c_int, then: &'static Continuation, kept: u32) -> Self {
        Next(Action::Flow(Flow::then(FlowKind::Step, below, then, kept)))
    }

    /// The coroutine yields the `values` values that were pushed last. When it is resumed, `then` runs and gets `kept`.
    #[inline]
    pub(crate) fn yields(values: c_int, then: &'static Continuation, kept: u32) -> Self {
        Next(Action::Flow(Flow::then(FlowKind::Yield, values, then, kept)))
    }

    /// The coroutine drops all values and yields none. When it is resumed, `then` runs and gets `kept`.
    #[inline]
    pub(crate) fn waits(then: &'static Continuation, kept: u32) -> Self {
        Next(Action::Flow(Flow::then(FlowKind::Wait, 0, then, kept)))
    }
}

impl Next {
    /// Pushes `values` after the step and before the call or the yield. This is for values that allocate. The values
    /// are the arguments, and can include the function to call.
    #[inline]
    pub(crate) fn pushing<V: Values>(self, values: V) -> Pushing<V> {
        let flow = match self.0 {
            Action::Flow(flow) => flow,
            // A function that ends does not use the values.
            _ => Flow::returns(0),
        };
        Pushing { values, flow }
    }
}

/// The input of a step that follows another step.
#[derive(Clone, Copy)]
pub(crate) struct Outcome {
    /// Whether the call returned, or the coroutine was resumed. If not, the first value is the error.
    pub(crate) ok: bool,
    /// The stack index of the first result, or of the first value that was passed to the resumed coroutine.
    pub(crate) first: c_int,
    /// The number of values on the stack.
    pub(crate) count: c_int,
    /// The number that the previous step has kept for this step.
    pub(crate) kept: u32,
}

/// A step that follows another step; see [`then`](super::step::then).
pub(crate) struct Continuation {
    /// Lua calls this after a yield.
    pub(super) entry: ffi::lua_KFunction,
    /// The core calls this if there was no yield.
    pub(super) step: fn(Pusher<'_>, c_int, lua_KContext) -> Flow,
}

impl<V: Values> Returns for V {
    #[inline(always)]
    fn push_results(self, to: Pusher<'_>) -> Flow {
        Flow::returns(push_all(self, to))
    }
}

#[inline(always)]
fn push_all<V: Values>(values: V, to: Pusher<'_>) -> c_int {
    with_parked(values, to, V::push_all)
}

/// The action after a step, and values that are pushed before the action; see [`Next::pushing`].
pub(crate) struct Pushing<V> {
    values: V,
    flow: Flow,
}

impl<V: Values> Returns for Pushing<V> {
    #[inline(always)]
    fn push_results(self, to: Pusher<'_>) -> Flow {
        push_all(self.values, to);
        self.flow
    }
}

impl<R: Returns> Returns for Next<R> {
    #[inline(always)]
    fn push_results(self, to: Pusher<'_>) -> Flow {
        match self.0 {
            Action::Return(results) => results.push_results(to),
            Action::Pushed(count) => Flow::returns(count.clamp(0, to.count())),
            Action::Rest(below) => Flow::returns((to.count() - below.max(0)).max(0)),
            Action::Flow(flow) => flow,
        }
    }
}

/// Results, or no values.
pub(crate) struct Maybe<R>(pub(crate) Option<R>);

impl<R: Returns> Returns for Maybe<R> {
    #[inline(always)]
    fn push_results(self, to: Pusher<'_>) -> Flow {
        match self.0 {
            Some(results) => results.push_results(to),
            None => Flow::returns(0),
        }
    }
}

/// One of two kinds of results.
pub(crate) enum Either<A, B> {
    One(A),
    Other(B),
}

impl<A: Returns, B: Returns> Returns for Either<A, B> {
    #[inline(always)]
    fn push_results(self, to: Pusher<'_>) -> Flow {
        match self {
            Either::One(results) => results.push_results(to),
            Either::Other(results) => results.push_results(to),
        }
    }
}

/// `results! { enum Name { Variant(Results), … } }`: an enum of the different kinds of results that one function can
/// return.
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
            fn push_results(self, to: $crate::lua::Pusher<'_>) -> $crate::lua::Flow {
                match self {
                    $($name::$variant(results) => results.push_results(to)),*
                }
            }
        }
    };
}
pub(crate) use results;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_hold_what_follows_a_step() {
        unsafe extern "C-unwind" fn entry(_: *mut ffi::lua_State, _: c_int, _: lua_KContext) -> c_int {
            0
        }
        static THEN: Continuation = Continuation { entry, step: |_, _, _| Flow::returns(0) };
        use FlowKind::{Call, CallUnyieldable, Protected, Step, Wait, Yield};
        for kind in [Call, CallUnyieldable, Protected, Step, Wait, Yield] {
            for (count, results, handler, kept) in [(0, -1, 0, 0), (1_000_000, 1, 127, u32::MAX), (3, 0, 1, 1 << 31)] {
                let flow = Flow::then(kind, count, &THEN, kept).protected(results, handler);
                assert!(flow.kind() == kind && flow.then.is_some());
                assert_eq!((flow.count(), flow.results(), flow.handler()), (count, results, handler));
                assert_eq!(flow.context(7), (i64::from(kept) << 32 | 7) as lua_KContext);
            }
        }
        assert!(Flow::returns(5).kind() == FlowKind::Return && Flow::returns(5).count() == 5);
        assert_eq!(Flow::then(Call, -1, &THEN, 0).count(), MAX_COUNT as c_int);
    }
}
