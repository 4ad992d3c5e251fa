//! Selectors as objects. `state.rs` has what they are; `interest.rs` the calls on registrations, `iterator.rs` those of a
//! loop over events, `bee.rs` the methods of `bee.select` and `bee.epoll`.

mod bee;
pub(crate) mod interest;
pub(crate) mod iterator;
pub(crate) mod state;

use super::waker;
use crate::event;
use crate::lua::{Call, Fault, Function, New, Object, failed};
use state::Selector;
use state::{DEFAULT_EVENTS, close, open};
use std::ffi::CStr;

const MOST_EVENTS: i64 = 65536;

impl Object for Selector {
    const NAME: &'static CStr = c"lio.selector";
    const USER_VALUES: i32 = 5;
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"event_add", interest::EVENT_ADD),
        (c"event_mod", interest::EVENT_MOD),
        (c"event_del", interest::EVENT_DEL),
        (c"epoll_add", interest::EPOLL_ADD),
        (c"epoll_mod", interest::EPOLL_MOD),
        (c"wait", iterator::WAIT),
        (c"waker", waker::OF_SELECTOR),
        (c"count", Function::new(count)),
        (c"close", Function::new(close)),
        (c"arm", interest::ARM),
        (c"set_udata", interest::SET_UDATA),
        (c"_select_add", bee::SELECT_ADD),
        (c"_select_mod", bee::SELECT_MOD),
        (c"_select_del", bee::SELECT_DEL),
        (c"_select_wait", bee::SELECT_WAIT),
        (c"_epoll_add", bee::EPOLL_ADD),
        (c"_epoll_mod", bee::EPOLL_MOD),
        (c"_epoll_del", bee::EPOLL_DEL),
        (c"_epoll_wait", bee::EPOLL_WAIT),
        (c"_epoll_close", bee::EPOLL_CLOSE),
    ];
    const META: &'static [(&'static CStr, Function)] =
        &[(c"__close", Function::new(close)), (c"__tostring", Function::new(to_string))];
}

/// `lio.create([max_events = 1024])` → a selector. `max_events` (1 to 65536): how many events one wait
/// takes from the system. `nil, message, code` when the system refuses (epoll_create1(2)).
pub(super) const CREATE: Function = Function::new(|call: &mut Call<'_>| {
    let most = call.optional(1, |call, at| call.integer_in(at, 1..=MOST_EVENTS, "max_events"))?;
    let most = most.map_or(DEFAULT_EVENTS, |most| most as usize);
    let inner = event::Selector::new(most).map_err(failed("create"))?;
    Ok(New::of(Selector { inner: Some(inner), ..Selector::default() }))
});

/// `sel:count()` → how many registrations there are.
fn count(call: &mut Call<'_>) -> Result<i64, Fault> {
    Ok(open(call)?.1.count() as i64)
}

fn to_string(call: &mut Call<'_>) -> Result<String, Fault> {
    let selector = call.object::<Selector>(1)?;
    Ok(match &selector.inner {
        Some(inner) => format!("selector ({} registered)", inner.count()),
        None => "selector (closed)".into(),
    })
}
