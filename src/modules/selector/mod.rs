//! Selectors as Lua objects.
//!
//! | file | topic |
//! |---|---|
//! | `state` | the state of a selector object |
//! | `interest` | calls on registrations |
//! | `iterator` | waits, and the loop over their events |
//! | `bee` | the methods of `bee.select` and `bee.epoll` |

mod bee;
pub(crate) mod interest;
pub(crate) mod iterator;
pub(crate) mod state;

use super::waker;
use crate::event;
use crate::lua::{Call, Fault, FunctionTable, New, Object, failed, functions};
use state::{DEFAULT_EVENTS, Selector, close, open};

const MAX_EVENTS: i64 = 65536;

impl Object for Selector {
    const NAME: &'static str = "lio.selector";
    const USER_VALUES: i32 = 5;
    const METHODS: FunctionTable = functions! {
        event_add = interest::register::<false, false>, event_mod = interest::modify::<false>, interest::event_del,
        epoll_add = interest::register::<true, false>, epoll_mod = interest::modify::<true>, wait: iterator::WAIT,
        waker: waker::OF_SELECTOR, count, close, interest::arm, interest::set_udata, _select_add: bee::SELECT_ADD,
        _select_mod: bee::SELECT_MOD, _select_del: bee::SELECT_DEL, _select_wait: bee::SELECT_WAIT,
        _epoll_add: bee::EPOLL_ADD, _epoll_mod: bee::EPOLL_MOD, _epoll_del: bee::EPOLL_DEL,
        _epoll_wait: bee::EPOLL_WAIT, _epoll_close: bee::EPOLL_CLOSE,
    };
    const META: FunctionTable = functions! { __close = close, __tostring = to_string };
}

/// `lio.create([max_events = 1024])`: returns a selector. `max_events` (1 to 65536) is the maximum number of events
/// that one wait gets from the system. Returns `nil, message, code` if the operating system cannot create the selector
/// (epoll_create1(2)).
pub(super) fn create(call: &mut Call<'_>) -> Result<New<Selector>, Fault> {
    let most = call.optional(1, |call, at| call.integer_in(at, 1..=MAX_EVENTS, "max_events"))?;
    let most = most.map_or(DEFAULT_EVENTS, |most| most as usize);
    let inner = event::Selector::new(most).map_err(failed("create"))?;
    Ok(New::of(Selector { inner: Some(inner), ..Selector::default() }))
}

/// `sel:count()`: returns the number of registrations.
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
