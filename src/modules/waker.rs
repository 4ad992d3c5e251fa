//! Wakers as objects: what makes a selector's wait return, from any thread.

use super::selector::state::open;
use crate::event;
use crate::event::waker::{handle_of, of_handle};
use crate::lua::{Call, Failure, Fault, Function, FunctionTable, Light, New, Object, failed, functions};
use std::sync::Arc;

struct Waker(Arc<event::Waker>);

impl Object for Waker {
    const NAME: &'static str = "lio.waker";
    const METHODS: FunctionTable = functions! { wake, handle: HANDLE };
}

/// `sel:waker()` → an object whose `wake()` makes a blocked or the next wait return, from any thread.
pub(super) const OF_SELECTOR: Function = Function::new(|call: &mut Call<'_>| {
    let waker = open(call)?.1.waker().map_err(failed("waker"))?;
    Ok(New::of(Waker(waker)))
});

/// `lio.waker(handle)` → a waker of another VM's selector, or `nil, message, code` when that is gone.
pub(super) const OF_HANDLE: Function = Function::new(|call: &mut Call<'_>| {
    let Some(Light(handle)) = call.light(1) else { return Err(Fault::expected(1, "userdata")) };
    let gone = || Failure::word("waker", "its selector is gone", "closed");
    Ok(New::of(Waker(of_handle(handle).ok_or_else(gone)?)))
});

/// The waker at argument `index`.
pub(crate) fn argument(call: &Call<'_>, index: i32) -> Result<Arc<event::Waker>, Fault> {
    Ok(call.object::<Waker>(index)?.0.clone())
}

/// `waker:wake()` → `true`. Many wakes in a row cost one system call.
fn wake(call: &mut Call<'_>) -> Result<bool, Fault> {
    call.object::<Waker>(1)?.0.wake().map_err(failed("wake"))?;
    Ok(true)
}

/// `waker:handle()` → a lightuserdata that `lio.waker` in any VM of the process turns into a waker.
const HANDLE: Function = Function::of(|waker: &Waker| Light(handle_of(&waker.0)));
