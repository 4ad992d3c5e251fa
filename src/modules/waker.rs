//! Wakers as Lua objects: any thread can make the wait of a selector return.

use super::selector::state::open;
use crate::event;
use crate::event::waker::{handle_of, of_handle};
use crate::lua::{Call, Failure, Fault, Function, FunctionTable, Light, New, Object, failed, functions};
use std::sync::Arc;

/// A waker of a selector.
struct Waker(Arc<event::Waker>);

impl Object for Waker {
    const NAME: &'static str = "lio.waker";
    const METHODS: FunctionTable = functions! { wake, handle: HANDLE };
}

/// `sel:waker()`: returns a waker. From any thread, its `wake()` makes the selector's current or next wait return.
pub(super) const OF_SELECTOR: Function = Function::new(|call: &mut Call<'_>| {
    let waker = open(call)?.1.waker().map_err(failed("waker"))?;
    Ok(New::of(Waker(waker)))
});

/// `lio.waker(handle)`: returns a waker of another VM's selector; `nil, message, code` if the selector is closed.
pub(super) const OF_HANDLE: Function = Function::new(|call: &mut Call<'_>| {
    let Some(Light(handle)) = call.light(1) else { return Err(Fault::expected(1, "userdata")) };
    let closed = || Failure::new("waker", "its selector is closed", "closed");
    Ok(New::of(Waker(of_handle(handle).ok_or_else(closed)?)))
});

/// Returns the waker at argument `index`.
pub(crate) fn argument(call: &Call<'_>, index: i32) -> Result<Arc<event::Waker>, Fault> {
    Ok(call.object::<Waker>(index)?.0.clone())
}

/// `waker:wake()`: returns `true`. Many calls in a row cost one system call.
fn wake(call: &mut Call<'_>) -> Result<bool, Fault> {
    call.object::<Waker>(1)?.0.wake().map_err(failed("wake"))?;
    Ok(true)
}

/// `waker:handle()`: returns a lightuserdata that `lio.waker` in any VM of the process converts to a waker.
const HANDLE: Function = Function::method(|waker: &Waker| Light(handle_of(&waker.0)));
