//! A selector as a Lua object: its state, opening and closing.
//!
//! Its fields hold what Lua must keep alive: the udata and the descriptor objects by slot, the iterator, the coroutine
//! that iterates, and its loop's guard.

use crate::event;
use crate::lua::{Call, Fault, Field, Nil};
use std::cell::Cell;
use std::rc::Rc;

/// What goes through the events of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Loop {
    /// Nothing, or a call of the iterator by hand.
    #[default]
    None,
    /// A `for` over the selector's iterator, unless it was left.
    For,
    /// A loop whose end a guard reports.
    Guarded,
}

/// A selector, or what is left of it after `close`.
#[derive(Default)]
pub(crate) struct Selector {
    pub(crate) inner: Option<Rc<event::Selector>>,
    /// What goes through the events of the last wait.
    pub(crate) iterating: Cell<Loop>,
    /// A loop was left before its end: from then on waits give a guard.
    pub(super) was_left: Cell<bool>,
    /// Identifies the coroutine that waited last, which `THREAD` keeps alive; 0 before the first wait.
    pub(super) thread: Cell<usize>,
}

/// The udata by slot, from 1 on; a list that is made with the first.
pub(crate) const UDATA: Field<Selector> = Field::new(1);
/// The objects that were registered, by slot.
pub(crate) const OBJECTS: Field<Selector> = Field::new(2);
pub(super) const ITERATOR: Field<Selector> = Field::new(3);
pub(super) const THREAD: Field<Selector> = Field::new(4);
pub(super) const GUARD: Field<Selector> = Field::new(5);

/// How many events a wait takes from the system, unless the program says.
pub(super) const DEFAULT_EVENTS: usize = 1024;

/// The open selector at argument 1.
pub(crate) fn open<'c>(call: &'c Call<'_>) -> Result<(&'c Selector, &'c Rc<event::Selector>), Fault> {
    let selector = call.object::<Selector>(1)?;
    match &selector.inner {
        Some(inner) => Ok((selector, inner)),
        None => Err(Fault::message("selector is already closed")),
    }
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

/// `sel:close()`: gives everything back. Idempotent; also `__close`. `true`. The iterator lets go of the selector and the
/// udata, so that a loop which goes on ends, even when the selector is opened again.
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
