//! A selector as a Lua object: its state, and how it is opened and closed.
//!
//! The user values of the object keep these Lua values alive: the udata and the registered objects by slot, the
//! iterator, the coroutine that iterates, and the guard of the loop.

use crate::event;
use crate::lua::{Call, Fault, Field, Identity, Nil};
use std::cell::Cell;
use std::rc::Rc;

/// The kind of a loop over the events of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Loop {
    /// No loop, or a direct call of the iterator.
    #[default]
    None,
    /// A `for` over the selector's iterator. The program may have left the loop early.
    For,
    /// A loop whose end a guard reports.
    Guarded,
}

/// A selector. After `close`, it has no `inner`.
#[derive(Default)]
pub(crate) struct Selector {
    pub(crate) inner: Option<Rc<event::Selector>>,
    /// The kind of the loop over the events of the last wait.
    pub(crate) iterating: Cell<Loop>,
    /// Whether a loop was left before its end, so that later waits return a guard.
    pub(super) was_left: Cell<bool>,
    /// The identity of the coroutine of the last wait, which `THREAD` keeps alive. Before the first wait, it is the
    /// identity of no coroutine.
    pub(super) thread: Cell<Identity>,
}

/// The user value that refers to the list of udata by slot, from 1 on. The list is created when it is first needed.
pub(crate) const UDATA: Field<Selector> = Field::new(1);
/// The user value that refers to the list of registered objects by slot.
pub(crate) const OBJECTS: Field<Selector> = Field::new(2);
pub(super) const ITERATOR: Field<Selector> = Field::new(3);
pub(super) const THREAD: Field<Selector> = Field::new(4);
pub(super) const GUARD: Field<Selector> = Field::new(5);

/// The default for the maximum number of events that a wait gets from the system.
pub(super) const DEFAULT_EVENTS: usize = 1024;

/// Returns the open selector at argument 1.
pub(crate) fn open<'c>(call: &'c Call<'_>) -> Result<(&'c Selector, &'c Rc<event::Selector>), Fault> {
    let selector = call.object::<Selector>(1)?;
    let inner = selector.inner.as_ref().ok_or_else(|| Fault::message("selector is already closed"))?;
    Ok((selector, inner))
}

/// Opens the selector at argument 1 again, without registrations, if it is closed.
pub(super) fn reopen(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.object::<Selector>(1)?.inner.is_some() {
        return Ok(());
    }
    let inner = event::Selector::new(DEFAULT_EVENTS);
    let inner = inner.map_err(|error| Fault::message(format_args!("create: {error}")))?;
    call.object_mut::<Selector>(1)?.inner = Some(inner);
    Ok(())
}

/// `sel:close()`: releases all resources. Idempotent; also `__close`. Returns `true`. The iterator's upvalues are
/// cleared, so that a loop that is still running ends, even if the selector is opened again.
pub(super) fn close(call: &mut Call<'_>) -> Result<bool, Fault> {
    let selector = call.object_mut::<Selector>(1)?;
    let was_left = selector.was_left.take();
    *selector = Selector::default();
    selector.was_left.set(was_left);
    let iterator = call.field(1, ITERATOR)?;
    let nil = call.push(Nil)?;
    call.set_upvalue(iterator, 1, nil)?;
    call.set_upvalue(iterator, 2, nil)?;
    for field in [UDATA, OBJECTS, ITERATOR, THREAD] {
        call.set_field(1, field, nil)?;
    }
    Ok(true)
}
