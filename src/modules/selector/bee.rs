//! The methods of `bee.select` and `bee.epoll` whose results differ from lio's. The files of `lualib/bee` assign them
//! to selectors under bee's names. The methods are native functions, so that errors name the user's line.
//! `event/wait.rs` decides which events are delivered, `interest.rs` keeps the udata, and `iterator.rs` returns it.
//!
//! Invariant: a closed selector has no lists until `reopen` creates new ones. Iterators that were created earlier do
//! not use the new lists.

use super::interest;
use super::iterator::{NOTHING_TO_WAIT_FOR, Unit, wait};
use super::state::{Selector, close, open, reopen};
use crate::lua::{Call, Fault, Function, Next, failed};
use crate::modules::descriptor::with;
use rustix::io::Errno;

/// `s:event_add(fd, events [, udata = fd])`: registers a descriptor, or replaces the events and the udata of a
/// registered descriptor. Returns `true`, or `nil, message, code`.
pub(super) const SELECT_ADD: Function = Function::new(|call: &mut Call<'_>| {
    reopen(call)?;
    interest::register::<false, true>(call)
});

/// `s:event_mod(fd, events [, udata])`: changes a registration. Returns `true`, or `nil, message, code` if the
/// descriptor is not registered.
pub(super) const SELECT_MOD: Function = Function::new(|call: &mut Call<'_>| {
    reopen(call)?;
    interest::modify::<false>(call)
});

/// `s:event_del(fd)`: removes a registration, if there is one. Returns `true`.
pub(super) const SELECT_DEL: Function = Function::new(|call: &mut Call<'_>| {
    if is_closed(call)? {
        return Ok(Next::returns(true));
    }
    with(call, 2, interest::delete_any)
});

/// `for udata, events in s:wait([milliseconds]) do`. If the argument is absent or negative, there is no timeout
/// (`Stack::timeout_in`). Without a timeout, the call fails if all registrations have empty interests.
pub(super) const SELECT_WAIT: Function = Function::new(|call: &mut Call<'_>| {
    reopen(call)?;
    let timeout = Unit::Milliseconds.timeout(call)?;
    if timeout.is_none() && open(call)?.1.has_no_requests() {
        return Err(Fault::message(NOTHING_TO_WAIT_FOR));
    }
    wait(call, Unit::Milliseconds)
});

fn is_closed(call: &Call<'_>) -> Result<bool, Fault> {
    Ok(call.object::<Selector>(1)?.inner.is_none())
}

/// Calls `then` for the operation `name` on an epoll object. If the object is closed, the operation fails.
fn of_epoll<R>(
    call: &mut Call<'_>, name: &'static str, then: impl FnOnce(&mut Call<'_>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    if is_closed(call)? { Err(failed(name)(Errno::BADF.into())) } else { then(call) }
}

/// `e:event_add(fd, events [, udata = fd])`: returns `true`, or `nil, message, code`.
pub(super) const EPOLL_ADD: Function =
    Function::new(|call: &mut Call<'_>| of_epoll(call, "event_add", interest::register::<true, false>));

/// `e:event_mod(fd, events [, udata])`: returns `true`, or `nil, message, code`.
pub(super) const EPOLL_MOD: Function =
    Function::new(|call: &mut Call<'_>| of_epoll(call, "event_mod", interest::modify::<true>));

/// `e:event_del(fd)`: returns `true`, or `nil, message, code`.
pub(super) const EPOLL_DEL: Function =
    Function::new(|call: &mut Call<'_>| of_epoll(call, "event_del", interest::event_del));

/// `for udata, events in e:wait([milliseconds]) do`. Returns `nil, message, code` if the epoll object is closed.
pub(super) const EPOLL_WAIT: Function =
    Function::new(|call: &mut Call<'_>| of_epoll(call, "wait", |call| wait(call, Unit::Milliseconds)));

/// `e:close()`: returns `true`, or `nil, message, code` if it is already closed.
pub(super) const EPOLL_CLOSE: Function = Function::new(|call: &mut Call<'_>| of_epoll(call, "close", close));
