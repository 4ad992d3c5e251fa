//! The next request of a connection: bytes to a head and its route. Called by `due` and `serve` for each
//! request, and by Lua as `x:next()`.
//!
//! Invariant: finalizers may run while the head is made, so what was parsed is copied first, and the stream is
//! asked again before its bytes are consumed.

use super::connection::{Connection, GONE, Wait, check};
use super::exchange::{Next, Workspace};
use super::request;
use crate::codec::http1::head::Head;
use crate::codec::http1::status::Reject;
use crate::codec::uri;
use crate::http::router::routes::RouteId;
use crate::modules::http::request::Request;
use crate::raw::{Text, object, push_bytes, raise, shield};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// What `next` found, as plain data.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Wait(Wait),
    Over,
    Refused(Reject),
    /// Its head is in the workspace, or on top of the stack once it is taken, its route in the connection.
    Request,
}

impl Step {
    /// Pushes what `next` returns for it, unless it is a request. Returns how many values.
    pub(super) unsafe fn push(self, state: *mut lua_State) -> c_int {
        // SAFETY: plain stack work.
        unsafe {
            match self {
                Step::Wait(what) => {
                    ffi::lua_pushboolean(state, 0);
                    push_bytes(state, what.name().as_bytes());
                    2
                }
                Step::Refused(reject) => push_refusal(state, reject),
                Step::Over | Step::Request => {
                    ffi::lua_pushnil(state);
                    1
                }
            }
        }
    }
}

/// What comes next; the head of a request is in the workspace.
fn step(connection: &mut Connection, workspace: &mut Workspace) -> Step {
    let routes = connection.routes;
    let (exchange, stream) = connection.parts();
    if stream.is_closed() {
        return Step::Over;
    }
    match exchange.next(stream, workspace) {
        Ok(Next::Request) => {
            let Workspace { head, scratch, .. } = workspace;
            let bytes = stream.buffered();
            match uri::normal_path(head.route_path(bytes), scratch) {
                Some(path) => {
                    let method = head.method.of(bytes);
                    // SAFETY: the user value keeps the routes alive.
                    let found = unsafe { (*routes).0.borrow() }.find(head.method_id, method, path);
                    connection.route = found.map_or(0, RouteId::number);
                    Step::Request
                }
                None => {
                    // Begun, so that the refusal suits its method and version.
                    exchange.begin(stream, head);
                    Step::Refused(Reject::bad("malformed percent-encoding in the path"))
                }
            }
        }
        Ok(Next::Idle) => Step::Wait(Wait::Idle),
        Ok(Next::Partial) => Step::Wait(Wait::Partial),
        Ok(Next::Unread) => Step::Wait(Wait::Unread),
        Ok(Next::Blocked) => Step::Wait(Wait::Blocked),
        Ok(Next::Over) | Err(_) => Step::Over,
        Ok(Next::Refused(reject)) => Step::Refused(reject),
    }
}

/// Looks for the next request. Its head is in the workspace then, and in the stream's buffer.
///
/// # Safety
/// The connection's userdata is on the stack; nothing that needs `Drop` may be alive.
pub(super) unsafe fn look(state: *mut lua_State, connection: *mut Connection) -> Step {
    // SAFETY: who is collected is not in the workspace any more; its stream may have been finalized first.
    unsafe {
        let space = (*connection).space();
        let heavy = std::mem::replace(&mut (*space).heavy, std::ptr::null_mut());
        if !heavy.is_null() && heavy != connection && object::is_alive((*heavy).stream) {
            // Its handler waits.
            shield(state, || (*(*heavy).stream).compact());
        }
        shield(state, || step(&mut *connection, &mut *space))
    }
}

/// Begins the request that [`look`] has found, with its head left where it is.
///
/// # Safety
/// As for [`look`].
pub(super) unsafe fn begin_above(state: *mut lua_State, connection: *mut Connection) {
    // SAFETY: the caller's promise.
    unsafe {
        let space = (*connection).space();
        let (exchange, stream) = (*connection).parts();
        shield(state, || exchange.begin_above(&(*space).head));
        (*connection).more = stream.queued() > 0;
        (*connection).since = None;
        (*space).heavy = connection;
    }
}

/// Pushes the head that [`begin_above`] has left, and drops it there. An empty one when it is gone with the stream.
///
/// # Safety
/// As for [`take`].
pub(super) unsafe fn push_left(
    state: *mut lua_State,
    connection: *mut Connection,
    metatable: c_int,
) {
    // SAFETY: as for `take`.
    unsafe {
        let space = (*connection).space();
        let again = || {
            let (exchange, stream) = (*connection).parts();
            exchange.parse_again(stream, &mut *space)
        };
        if !(shield(state, again) && push_head(state, connection, metatable)) {
            let none = Head::default();
            request::push(state, none, 0, metatable, || Some(std::ptr::dangling()));
        }
        if !(*connection).is_whole() {
            raise(state, Text::new(GONE));
        }
        let (exchange, stream) = (*connection).parts();
        shield(state, || exchange.drop_head(stream));
    }
}

/// Pushes the head that is in the workspace and at the start of the stream's buffer. False, with nothing pushed, when
/// a finalizer has closed the stream, or read on it.
unsafe fn push_head(state: *mut lua_State, connection: *mut Connection, metatable: c_int) -> bool {
    // SAFETY: the head is copied before finalizers run.
    unsafe {
        let space = (*connection).space();
        // Finalizers, which may run now, may use the workspace for another connection.
        let head = (*space).head;
        let stream = (*connection).stream;
        let changes = (*stream).changes();
        let still = || {
            let unchanged = (*connection).is_whole() && (*stream).changes() == changes;
            unchanged.then(|| (*stream).buffered().as_ptr())
        };
        let route = (*connection).route;
        request::push(state, head, route, metatable, still)
    }
}

/// Takes the request that [`look`] has found: its head is pushed, and what is queued then noted in the connection.
/// False, with nothing pushed, when a finalizer has closed the connection, or read on it. The metatable of heads is at
/// `metatable`.
///
/// # Safety
/// The connection's userdata is on the stack; finalizers may run, so nothing that needs `Drop` may be alive.
pub(super) unsafe fn take_found(
    state: *mut lua_State,
    connection: *mut Connection,
    metatable: c_int,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let head = (*(*connection).space()).head;
        if !push_head(state, connection, metatable) {
            return false;
        }
        let (exchange, stream) = (*connection).parts();
        shield(state, || exchange.begin(stream, &head));
        (*connection).more = stream.queued() > 0;
        (*connection).since = None;
        true
    }
}

/// Takes the next request: [`look`] and [`take_found`]. For any other step nothing is pushed.
///
/// # Safety
/// As for [`take_found`].
unsafe fn take(state: *mut lua_State, connection: *mut Connection, metatable: c_int) -> Step {
    // SAFETY: the caller's promise.
    unsafe {
        match look(state, connection) {
            Step::Request if !take_found(state, connection, metatable) => Step::Over,
            step => step,
        }
    }
}

/// [`take`] for a function that has no metatable of heads at hand.
///
/// # Safety
/// As for [`take`].
pub(super) unsafe fn take_once(state: *mut lua_State, connection: *mut Connection) -> Step {
    // SAFETY: the caller's promise.
    unsafe {
        object::push_metatable::<Request>(state);
        let metatable = ffi::lua_gettop(state);
        let step = take(state, connection, metatable);
        ffi::lua_remove(state, metatable);
        step
    }
}

/// `x:next()` → head, route, pipelined: the next request; the route's id, 0 when that needs a closer look;
/// whether answers are queued that did not go out yet. `false, what` when it would block: `"idle"`
/// between requests, `"partial"` inside a head, `"unread"` inside the body of a request that is answered,
/// `"blocked"` on the peer's reading. `nil` when the connection is over; `nil, status, reason` when the
/// request must be refused.
pub(super) unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let connection: *mut Connection = check(state);
        match take_once(state, connection) {
            Step::Request => {
                ffi::lua_pushinteger(state, (*connection).route);
                ffi::lua_pushboolean(state, (*connection).more.into());
                3
            }
            step => step.push(state),
        }
    }
}

/// Pushes what tells of a refusal: `nil, status, reason`.
pub(super) unsafe fn push_refusal(state: *mut lua_State, reject: Reject) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_pushnil(state);
        ffi::lua_pushinteger(state, i64::from(reject.status));
        push_bytes(state, reject.reason.as_bytes());
        3
    }
}
