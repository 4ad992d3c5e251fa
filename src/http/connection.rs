//! `lio.http`'s exchange: one connection as lualib/lio/web/connection.lua and `serve` hold it.
//!
//! A userdata with the protocol's state (`exchange`) and what is known of the connection beside it; its methods
//! are in `state`, `intake`, `step`, `life` and `answer`. Invariant: the user values keep stream, routes and keeper alive,
//! and [`check`] tells when their finalizers have run all the same.

use super::exchange::{Exchange, Workspace};
use super::keeper::Keeper;
use super::step::{self, Step};
use super::{answer, intake, life, state};
use crate::codec::http1::head::Limits;
use crate::http::router::routes::Routes;
use crate::modules::http::routes::AppRoutes;
use crate::raw::object::{self, Key, Object};
use crate::raw::{Function, Text, args, functions, raise};
use crate::stream::Stream;
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

// User values of an exchange.
pub(super) const STREAM: c_int = 1;
/// What it belongs to; of one that nobody serves, its routes.
pub(super) const KEEPER: c_int = 2;
/// The table of lualib/lio/web/connection.lua, once it was asked for.
pub(super) const SELF: c_int = 3;
/// The head that [`super::due::arrived`] has found, until it is served.
pub(super) const HEAD: c_int = 4;

/// What a call on an exchange that is not whole any more raises.
pub(crate) const GONE: &str = "the exchange's stream or routes are gone";

/// An exchange and what it works on; the user values keep both alive.
pub(crate) struct Connection {
    pub(crate) exchange: Exchange,
    pub(super) stream: *mut Stream,
    pub(super) routes: *const AppRoutes,
    /// The VM's workspace, which the registry keeps.
    space: *mut Workspace,
    /// The server that it belongs to; null when nobody serves it.
    pub(super) keeper: *mut Keeper,
    /// Which of the connections that this object has stood for: it is used again, see `keeper`. Requests of others
    /// are not of this one.
    pub(super) life: u32,
    /// Where it is in the books of the keeper; 0: nowhere.
    pub(super) place: u32,
    /// Its timer; 0: none.
    pub(super) timer: u64,
    /// What [`super::due::arrived`] found that is no request, and Lua has to see to.
    pub(super) pending: Option<Step>,
    /// What it found is a request: the user value [`HEAD`].
    pub(super) held: bool,
    /// The current request's route, 0 when that needs a closer look.
    pub(super) route: i64,
    /// Answers are queued that did not go out yet.
    pub(super) more: bool,
    /// The loop is going to send what is queued before it waits.
    pub(super) flush_noted: bool,
    /// A request is worked on, or waits for its handler.
    pub(super) busy: bool,
    /// What one that is not busy waits for.
    pub(super) waits: Wait,
    /// It has had a request.
    pub(super) served: bool,
    /// The handler has set something of the answer: status, fields, body.
    pub(super) touched: bool,
    /// It did more than that, or than to return.
    pub(super) special: bool,
    /// The handler is the route's own, without middleware around it.
    pub(super) alone: bool,
    /// The answer is queued as a whole by what the handler has called, and nothing is left to conclude.
    pub(super) concluded: bool,
    /// What comes next depends on more than its bytes: a stop has begun, or its requests are counted.
    pub(super) careful: bool,
    /// When the wait is over, and when its timer fires, in seconds of `lio.now`.
    pub(super) due: f64,
    pub(super) timer_due: f64,
    /// When the wait for the head, or for the rest of a body, has begun.
    pub(super) since: Option<f64>,
}

/// What a connection without a request waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Idle,
    Partial,
    Unread,
    Blocked,
}

impl Wait {
    pub(super) const ALL: [(Wait, &'static str); 4] = [
        (Wait::Idle, "idle"),
        (Wait::Partial, "partial"),
        (Wait::Unread, "unread"),
        (Wait::Blocked, "blocked"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Object for Connection {
    const NAME: &'static CStr = c"lio.http.exchange";
    const USER_VALUES: c_int = 4;
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"next", step::next),
        (c"answer", answer::answer),
        (c"start", answer::start),
        (c"chunk", answer::chunk),
        (c"last_chunk", answer::last_chunk),
        (c"refuse", state::refuse),
        (c"body", intake::body),
        (c"piece", intake::piece),
        (c"received", intake::received),
        (c"discard", intake::discard),
        (c"trailers", intake::trailers),
        (c"close_after", state::close_after),
        (c"is_closing", state::is_closing),
        (c"is_answered", state::is_answered),
        (c"is_head", state::is_head),
        (c"body_sent", state::body_sent),
        (c"leaves_unread", state::leaves_unread),
        (c"is_last_arrived", state::is_last_arrived),
        (c"hand_over", state::hand_over),
        (c"touch", state::touch),
        (c"work", state::work),
        (c"on_timer", life::on_timer),
        (c"leave", life::leave_keeper),
        (c"table", life::table),
        (c"known", life::known),
    ];

    fn collected(&mut self) {
        // SAFETY: the workspace is freed with the VM, after its finalizer.
        unsafe {
            if object::is_alive(self.space) && std::ptr::eq((*self.space).heavy, self) {
                (*self.space).heavy = std::ptr::null_mut();
            }
        }
    }
}

impl Object for Workspace {
    const NAME: &'static CStr = c"lio.http workspace of this VM";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
}

static WORKSPACE: Key = Key::new(4);

/// The workspace of the VM; it lives as long as the VM.
///
/// # Safety
/// Nothing that needs `Drop` may be alive; one user at a time.
pub(crate) unsafe fn workspace(state: *mut lua_State) -> *mut Workspace {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, WORKSPACE.pointer());
        let known = object::test::<Workspace>(state, -1);
        ffi::lua_pop(state, 1);
        if let Some(known) = known {
            return known;
        }
        let Ok(made) =
            object::push_new(
                state,
                || Ok::<_, std::convert::Infallible>(Workspace::new()),
            );
        ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, WORKSPACE.pointer());
        made
    }
}

impl Connection {
    fn new(
        stream: *mut Stream,
        routes: *const AppRoutes,
        space: *mut Workspace,
        limits: Limits,
    ) -> Self {
        Connection {
            exchange: Exchange::new(limits),
            stream,
            routes,
            space,
            keeper: std::ptr::null_mut(),
            life: 0,
            place: 0,
            timer: 0,
            pending: None,
            held: false,
            route: 0,
            more: false,
            flush_noted: false,
            busy: false,
            waits: Wait::Idle,
            served: false,
            touched: false,
            special: false,
            alone: false,
            concluded: false,
            careful: false,
            due: 0.0,
            timer_due: f64::INFINITY,
            since: None,
        }
    }

    /// Stands for another connection of its keeper from now on.
    pub(super) fn renew(&mut self) {
        // SAFETY: a user value keeps the keeper.
        let (limits, careful) = unsafe { ((*self.keeper).limits, (*self.keeper).careful) };
        *self = Connection {
            keeper: self.keeper,
            life: self.life.wrapping_add(1),
            careful,
            ..Connection::new(self.stream, self.routes, self.space, limits)
        };
    }

    /// Whether stream, routes and workspace are what they were: their finalizers may have run, by a
    /// script or because the VM is closing. So may its own.
    pub(super) unsafe fn is_whole(&self) -> bool {
        // SAFETY: the user values and the registry keep the blocks; a closing VM frees them last.
        unsafe {
            object::is_alive(self)
                && object::is_alive(self.stream)
                && object::is_alive(self.routes)
                && object::is_alive(self.space)
                && (self.keeper.is_null() || object::is_alive(self.keeper))
        }
    }

    /// Whether a keeper serves it.
    pub(super) fn is_attached(&self) -> bool {
        !self.keeper.is_null()
    }

    /// Whether it still is the connection of that life.
    pub(super) fn stands_for(&self, life: u32) -> bool {
        self.life == life && self.place != 0
    }

    /// Whether it waits for its next request.
    pub(super) fn is_idle(&self) -> bool {
        !self.busy && self.waits == Wait::Idle
    }

    /// Whether the peer may still be sending, so that closing now would reset the connection under the answer.
    pub(super) fn leaves_unread(&mut self) -> bool {
        let (exchange, stream) = self.parts();
        exchange.leaves_unread(stream)
    }

    /// When the wait for a head, or for the rest of a body, has begun: at the first call, which `clock` tells.
    pub(super) fn waits_since(&mut self, clock: f64) -> f64 {
        *self.since.get_or_insert(clock)
    }

    /// What the app's routes tell `serve`.
    pub(super) fn routes(&self) -> std::cell::RefMut<'_, Routes> {
        // SAFETY: the user value keeps the routes alive. No borrow of them spans a call into Lua. // bridge
        unsafe { (*self.routes).0.borrow_mut() }
    }

    /// The VM's workspace; one user at a time.
    pub(crate) fn space(&self) -> *mut Workspace {
        self.space
    }

    /// The exchange and its stream, which are different objects.
    pub(crate) fn parts(&mut self) -> (&mut Exchange, &mut Stream) {
        // SAFETY: the user value keeps the stream alive; Lua runs one call at a time.
        (&mut self.exchange, unsafe { &mut *self.stream })
    }
}

// bridge: for forms, whose binding stands on the core.
impl Connection {
    /// Gives the next piece of the body to `take`; `None` when stream or routes are gone.
    pub(crate) fn pull(
        &mut self,
        limit: u64,
        take: impl FnOnce(&[u8]),
    ) -> Option<std::io::Result<super::exchange::Piece>> {
        // SAFETY: it is asked of a living connection.
        if unsafe { !self.is_whole() } {
            return None;
        }
        let (exchange, stream) = self.parts();
        let piece = exchange.piece(stream, limit);
        if let Ok(super::exchange::Piece::Data { from, to, consume }) = piece {
            take(&stream.buffered()[from..to]);
            stream.consume(consume);
        }
        Some(piece)
    }
}

/// The connection at argument 1.
///
/// # Safety
/// Nothing that needs `Drop` may be alive; one reference at a time.
#[inline]
pub(crate) unsafe fn check<'a>(state: *mut lua_State) -> &'a mut Connection {
    // SAFETY: the caller's promise.
    unsafe { check_at(state, 1) }
}

/// The connection at argument `index`.
///
/// # Safety
/// As for [`check`].
#[inline]
pub(crate) unsafe fn check_at<'a>(state: *mut lua_State, index: c_int) -> &'a mut Connection {
    // SAFETY: the argument stays on the stack while the caller runs.
    unsafe {
        let connection = object::check::<Connection>(state, index);
        if !(*connection).is_whole() {
            raise(state, Text::new(GONE));
        }
        &mut *connection
    }
}

/// Pushes an exchange on a stream; user value [`KEEPER`] is not set yet.
unsafe fn push(
    state: *mut lua_State,
    at: c_int,
    stream: *mut Stream,
    routes: *const AppRoutes,
    space: *mut Workspace,
    limits: Limits,
) -> *mut Connection {
    // SAFETY: a thin shell; the exchange is owned by Lua before anything can raise.
    unsafe {
        let Ok(connection) = object::push_new(state, || {
            let made = Connection::new(stream, routes, space, limits);
            Ok::<_, std::convert::Infallible>(made)
        });
        ffi::lua_pushvalue(state, at);
        ffi::lua_setiuservalue(state, -2, STREAM);
        connection
    }
}

/// Pushes an exchange for the stream at `at` that the keeper at `keeper` serves; both are absolute indexes.
///
/// # Safety
/// As for [`object::push_new`].
pub(super) unsafe fn push_served(
    state: *mut lua_State,
    at: c_int,
    stream: *mut Stream,
    keeper: c_int,
) -> *mut Connection {
    // SAFETY: the caller's promise; a keeper keeps its routes, the registry the workspace.
    unsafe {
        let owner = object::check::<Keeper>(state, keeper);
        let (routes, space, limits) = ((*owner).routes, (*owner).space, (*owner).limits);
        let connection = push(state, at, stream, routes, space, limits);
        (*connection).careful = (*owner).careful;
        (*connection).keeper = owner;
        ffi::lua_pushvalue(state, keeper);
        ffi::lua_setiuservalue(state, -2, KEEPER);
        connection
    }
}

/// `http.exchange(stream, routes, request_line, headers, fields)` → an exchange with these limits:
/// bytes of the request line and of the header section, number of fields (256 at most). Nobody serves it.
pub(crate) unsafe extern "C-unwind" fn exchange(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let stream = object::check::<Stream>(state, 1);
        let routes = object::check::<AppRoutes>(state, 2);
        let space = workspace(state);
        let limits = Limits {
            request_line: args::integer_in(state, 3, 1, 1 << 30, "request line limit") as usize,
            headers: args::integer_in(state, 4, 1, 1 << 30, "headers limit") as usize,
            fields: args::integer_in(state, 5, 1, 256, "fields limit") as usize,
        };
        push(state, 1, stream, routes, space, limits);
        ffi::lua_pushvalue(state, 2);
        ffi::lua_setiuservalue(state, -2, KEEPER);
        1
    }
}
