//! What the connections of one server of the web share, and the books of them: `http.keeper(…)`, used by
//! lualib/lio/web/connection.lua. `life` has a connection's own life, `gate` accepts from the listener.
//!
//! Invariant: a connection is in the table [`LIVE`] at its place from its arrival until `life::leave`, and `count`
//! is how many are. That table keeps them alive while nobody else refers to them.

use super::connection::{Connection, HEAD, KEEPER, SELF, workspace};
use super::exchange::Workspace;
use super::tools as tool;
use super::{gate, life};
use crate::codec::http1::head::Limits;
use crate::modules::http::routes::AppRoutes;
use crate::raw::object::{self, Object};
use crate::raw::{Function, Text, functions, guard, raise, settle};
use crate::socket::Socket;
use crate::stream::Stream;
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

// User values.
const ROUTES: c_int = 1;
pub(super) const TOOLS: c_int = 2;
pub(super) const HANDLERS: c_int = 3;
/// The table that `http.keeper` was given, for Lua's functions.
pub(super) const SERVING: c_int = 4;
/// The metatable of the connections' tables.
pub(super) const KIND: c_int = 5;
/// The loop's timers.
pub(super) const TIMERS: c_int = 6;
/// What a stream is given to before Lua sees it, or nil.
pub(super) const ADOPT: c_int = 7;
/// The connections, by place.
pub(super) const LIVE: c_int = 8;
/// The socket that listens, or nil.
pub(super) const LISTENER: c_int = 9;
/// The queue of the tools.
pub(super) const DUE: c_int = 10;
/// Exchanges on closed streams that nobody refers to, to be used again: `spare` of them.
const SPARE: c_int = 11;
/// The table of a closed connection, once one was asked for: what requests of those that were used again get.
pub(super) const GONE: c_int = 12;

/// Exchanges that are kept to be used again.
const MOST_SPARE: usize = 64;

/// Connections that are closed at once to make room for others.
const SHED: usize = 16;

/// One server.
pub(crate) struct Keeper {
    pub(super) limits: Limits,
    pub(super) routes: *const AppRoutes,
    pub(super) space: *mut Workspace,
    pub(super) listener: *const Socket,
    /// Seconds: between requests, for a head, for what is left of a body, for the peer to read.
    pub(super) keep_alive_time: f64,
    pub(super) header_time: f64,
    pub(super) body_time: f64,
    pub(super) write_time: f64,
    /// How many connections there may be.
    most: f64,
    /// New connections ask Lua before each request.
    pub(super) careful: bool,
    /// A stop has got so far that a connection ends where it would fall idle.
    pub(super) settled: bool,
    /// Somebody waits for a connection to leave.
    pub(super) awaited: bool,
    count: usize,
    spare: usize,
    /// Places that were used, and those that are free again.
    places: u32,
    free: Vec<u32>,
}

impl Object for Keeper {
    const NAME: &'static CStr = c"lio.http.keeper";
    const USER_VALUES: c_int = 12;
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"listen", gate::listen),
        (c"accept", gate::accept),
        (c"admit", gate::admit),
        (c"is_full", is_full),
        (c"count", count),
        (c"watch", watch),
        (c"begin_stop", begin_stop),
        (c"settle", settle_down),
        (c"shed", shed),
        (c"list", list),
        (c"find", find),
    ];
}

impl Keeper {
    pub(super) fn is_full(&self) -> bool {
        self.count as f64 >= self.most
    }

    /// A place in [`LIVE`] for one more connection.
    pub(super) fn enter(&mut self) -> u32 {
        self.count += 1;
        self.free.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places
        })
    }

    /// The place is free again.
    pub(super) fn leave(&mut self, place: u32) {
        self.count -= 1;
        self.free.push(place);
    }
}

/// Reads a number from the options at argument 1.
unsafe fn option(state: *mut lua_State, name: &'static CStr) -> f64 {
    // SAFETY: plain stack work.
    unsafe {
        if ffi::lua_getfield(state, 1, name.as_ptr()) != ffi::LUA_TNUMBER {
            let name = name.to_str().unwrap_or_default();
            raise(
                state,
                Text::format(format_args!("keeper: option '{name}' is missing")),
            );
        }
        let value = ffi::lua_tonumber(state, -1);
        ffi::lua_pop(state, 1);
        value
    }
}

/// `http.keeper(options, routes, tools, handlers, serving, kind, timers [, adopt])` → a server's
/// books. `options`: the app's settings. `tools`: what `http.tools` checked. `handlers` are the app's by route.
/// `serving` is what tools get that are not about one connection, `kind` the metatable of the connections' tables,
/// `timers` those of the loop, `adopt` a function for streams that Lua comes to know.
pub(super) unsafe extern "C-unwind" fn keeper(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the keeper is owned by Lua before anything can raise.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let routes = object::check::<AppRoutes>(state, 2);
        for argument in 3..=6 {
            ffi::luaL_checktype(state, argument, ffi::LUA_TTABLE);
        }
        ffi::luaL_checktype(state, 7, ffi::LUA_TUSERDATA);
        ffi::lua_settop(state, 8);
        let limits = Limits {
            request_line: option(state, c"request_line") as usize,
            headers: option(state, c"headers") as usize,
            fields: option(state, c"fields") as usize,
        };
        let keep_alive_time = option(state, c"keep_alive_time");
        let header_time = option(state, c"header_time");
        let body_time = option(state, c"body_time");
        let write_time = option(state, c"write_time");
        let most = option(state, c"connections");
        let careful = option(state, c"requests").is_finite();
        let space = workspace(state);
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(Keeper {
                limits,
                routes,
                space,
                listener: std::ptr::null(),
                keep_alive_time,
                header_time,
                body_time,
                write_time,
                most,
                careful,
                settled: false,
                awaited: false,
                count: 0,
                spare: 0,
                places: 0,
                free: Vec::new(),
            })
        });
        let values = [ROUTES, TOOLS, HANDLERS, SERVING, KIND, TIMERS, ADOPT];
        for (argument, value) in (2..).zip(values) {
            ffi::lua_pushvalue(state, argument);
            ffi::lua_setiuservalue(state, -2, value);
        }
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_setiuservalue(state, -2, LIVE);
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_setiuservalue(state, -2, SPARE);
        ffi::lua_rawgeti(state, 3, tool::DUE);
        ffi::lua_setiuservalue(state, -2, DUE);
        1
    }
}

unsafe fn check(state: *mut lua_State) -> *mut Keeper {
    // SAFETY: argument 1 stays on the stack while the caller runs.
    unsafe { object::check::<Keeper>(state, 1) }
}

/// Calls the tool `index` with `serving` of the keeper at `at`, and the values on top.
///
/// # Safety
/// A keeper is at the absolute index `at`; `state` has 6 free stack slots. May raise.
pub(super) unsafe fn call_tool(state: *mut lua_State, at: c_int, index: i64, values: c_int) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_getiuservalue(state, at, TOOLS);
        ffi::lua_rawgeti(state, -1, index);
        ffi::lua_rotate(state, -2, 1);
        ffi::lua_pop(state, 1);
        ffi::lua_getiuservalue(state, at, SERVING);
        ffi::lua_rotate(state, -(values + 2), 2);
        ffi::lua_call(state, values + 1, 0);
    }
}

/// `keeper:is_full()` → whether there are as many connections as may be.
unsafe extern "C-unwind" fn is_full(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let full = (*check(state)).is_full();
        ffi::lua_pushboolean(state, full.into());
        1
    }
}

/// `keeper:count()` → how many connections there are.
unsafe extern "C-unwind" fn count(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        ffi::lua_pushinteger(state, (*check(state)).count as i64);
        1
    }
}

/// `keeper:watch()`: the tool `left` is called when the next connection leaves.
unsafe extern "C-unwind" fn watch(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        (*check(state)).awaited = true;
        0
    }
}

/// The places that were ever used, with the table of connections on top of the stack.
unsafe fn push_live(state: *mut lua_State) -> u32 {
    // SAFETY: plain stack work.
    unsafe {
        let keeper = check(state);
        ffi::lua_settop(state, 2);
        ffi::lua_getiuservalue(state, 1, LIVE);
        (*keeper).places
    }
}

/// Pushes the connection at a place of the table at 3; `None`, with nothing pushed, when there is none.
unsafe fn push_at(state: *mut lua_State, place: u32) -> Option<*mut Connection> {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_rawgeti(state, 3, i64::from(place));
        let found = object::test::<Connection>(state, -1).filter(|found| (**found).is_whole());
        if found.is_none() {
            ffi::lua_pop(state, 1);
        }
        found
    }
}

/// `keeper:begin_stop()`: from now on Lua is asked before each request.
unsafe extern "C-unwind" fn begin_stop(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let places = push_live(state);
        (*check(state)).careful = true;
        for place in 1..=places {
            if let Some(connection) = push_at(state, place) {
                (*connection).careful = true;
                ffi::lua_pop(state, 1);
            }
        }
        0
    }
}

/// `keeper:settle()`: the connections that are idle end, and others when they would fall idle.
unsafe extern "C-unwind" fn settle_down(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the end of one may run Lua code, so each is looked at anew.
    unsafe {
        let places = push_live(state);
        (*check(state)).settled = true;
        for place in 1..=places {
            let Some(connection) = push_at(state, place) else {
                continue;
            };
            if (*connection).is_idle() {
                life::end(state, ffi::lua_gettop(state), connection);
            }
            ffi::lua_settop(state, 3);
        }
        0
    }
}

/// `keeper:shed(before)`: ends a few connections that have had an answer and would be idle until `before`, in seconds
/// of `lio.now`, at the latest.
unsafe extern "C-unwind" fn shed(state: *mut lua_State) -> c_int {
    // SAFETY: as for `settle_down`.
    unsafe {
        let before = ffi::luaL_checknumber(state, 2);
        let places = push_live(state);
        let mut ended = 0;
        for place in 1..=places {
            let Some(connection) = push_at(state, place) else {
                continue;
            };
            if (*connection).served && (*connection).is_idle() && (*connection).due < before {
                life::end(state, ffi::lua_gettop(state), connection);
                ended += 1;
            }
            ffi::lua_settop(state, 3);
            if ended == SHED {
                break;
            }
        }
        0
    }
}

/// `keeper:list()` → list of the exchanges of its connections.
unsafe extern "C-unwind" fn list(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let places = push_live(state);
        ffi::lua_createtable(state, (*check(state)).count as c_int, 0);
        let mut found = 0;
        for place in 1..=places {
            if push_at(state, place).is_some() {
                found += 1;
                ffi::lua_rawseti(state, 4, found);
            }
        }
        1
    }
}

/// `keeper:find(c)` → the exchange of a connection; nil when it is none of the keeper's.
unsafe extern "C-unwind" fn find(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let wanted: *mut Stream = object::check::<Stream>(state, 2);
        let places = push_live(state);
        for place in 1..=places {
            if let Some(connection) = push_at(state, place) {
                if (*connection).stream == wanted {
                    return 1;
                }
                ffi::lua_pop(state, 1);
            }
        }
        ffi::lua_pushnil(state);
        1
    }
}

/// Pushes a spare exchange of the keeper at the absolute index `at`, which has it no more; `None`, with nothing pushed,
/// when there is none.
///
/// # Safety
/// `state` has 4 free stack slots.
pub(super) unsafe fn push_spare(
    state: *mut lua_State,
    at: c_int,
    keeper: *mut Keeper,
) -> Option<*mut Connection> {
    // SAFETY: assigning nil to a place that exists does not raise.
    unsafe {
        while (*keeper).spare > 0 {
            let place = (*keeper).spare as i64;
            (*keeper).spare -= 1;
            ffi::lua_getiuservalue(state, at, SPARE);
            ffi::lua_rawgeti(state, -1, place);
            ffi::lua_pushnil(state);
            ffi::lua_rawseti(state, -3, place);
            ffi::lua_rotate(state, -2, 1);
            ffi::lua_pop(state, 1);
            let found = object::test::<Connection>(state, -1).filter(|found| (**found).is_whole());
            if found.is_some() {
                return found;
            }
            ffi::lua_pop(state, 1);
        }
        None
    }
}

/// The exchange at the absolute index `at`, whose stream is closed, may stand for another connection, if nobody has
/// come to know its table. Requests that somebody has kept know of which life they are.
///
/// # Safety
/// `state` has 4 free stack slots. May raise a memory error.
pub(super) unsafe fn keep_spare(state: *mut lua_State, at: c_int, keeper: *mut Keeper) {
    // SAFETY: plain stack work.
    unsafe {
        let known = ffi::lua_getiuservalue(state, at, SELF) != ffi::LUA_TNIL;
        ffi::lua_pop(state, 1);
        if known || (*keeper).spare == MOST_SPARE {
            return;
        }
        ffi::lua_pushnil(state);
        ffi::lua_setiuservalue(state, at, HEAD);
        ffi::lua_getiuservalue(state, at, KEEPER);
        ffi::lua_getiuservalue(state, -1, SPARE);
        ffi::lua_pushvalue(state, at);
        ffi::lua_rawseti(state, -2, (*keeper).spare as i64 + 1);
        (*keeper).spare += 1;
        ffi::lua_pop(state, 2);
    }
}

/// Enters the connection at the absolute index `at` into the books of its keeper.
///
/// # Safety
/// `state` has 4 free stack slots. May raise a memory error.
pub(super) unsafe fn enter(state: *mut lua_State, at: c_int, connection: *mut Connection) {
    // SAFETY: the keeper is kept by a user value of the connection.
    unsafe {
        ffi::lua_getiuservalue(state, at, super::connection::KEEPER);
        ffi::lua_getiuservalue(state, -1, LIVE);
        let keeper = (*connection).keeper;
        let place = settle(state, guard(|| Ok((*keeper).enter())));
        (*connection).place = place;
        ffi::lua_pushvalue(state, at);
        ffi::lua_rawseti(state, -2, i64::from(place));
        ffi::lua_pop(state, 2);
    }
}
