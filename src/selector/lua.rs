//! `require "lio"`: the selector as an object of Lua's.
//!
//! Raw functions. A selector's user values hold what Lua must keep alive: the udata and the descriptor
//! objects by slot, the iterator, the coroutine that iterates, and its loop's guard. `interest.rs` has the calls on registrations, `iterator.rs` those of a loop over events.

use super::iterator::Loop;
use super::{bee, interest, iterator, waker};
use crate::event::{self, READ, WRITE};
use crate::raw::object::{self, Object, closed_text};
use crate::raw::{
    Fault, Function, Text, args, function, functions, guard, module, push_bytes, raise, settle,
};
use mlua::ffi::{self, lua_State};
use std::cell::Cell;
use std::ffi::CStr;
use std::os::raw::c_int;
use std::rc::Rc;

pub(super) const UDATA: c_int = 1;
pub(super) const OBJECTS: c_int = 2;
pub(super) const ITERATOR: c_int = 3;
pub(super) const THREAD: c_int = 4;
pub(super) const GUARD: c_int = 5;

const DEFAULT_EVENTS: i64 = 1024;
const MOST_EVENTS: i64 = 65536;

/// A selector, or what is left of it after `close`.
pub(crate) struct Selector {
    pub(super) core: Option<Rc<event::Selector>>,
    /// What goes through the events of the last wait.
    pub(super) iterating: Cell<Loop>,
    /// A loop was left before its end: from then on waits give a guard.
    pub(super) was_left: Cell<bool>,
    /// The coroutine that waited last; compared and asked for its status, kept alive by `THREAD`.
    pub(super) thread: Cell<*mut lua_State>,
}

impl Object for Selector {
    const NAME: &'static CStr = c"lio.selector";
    const USER_VALUES: c_int = 5;
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"event_add", interest::event_add),
        (c"event_mod", interest::event_mod),
        (c"event_del", interest::event_del),
        (c"epoll_add", interest::epoll_add),
        (c"epoll_mod", interest::epoll_mod),
        (c"wait", iterator::wait),
        (c"waker", waker::waker),
        (c"count", count),
        (c"close", close),
        (c"arm", interest::arm),
        (c"set_udata", interest::set_udata),
        (c"_select_add", bee::select_add),
        (c"_select_mod", bee::select_mod),
        (c"_select_del", bee::select_del),
        (c"_select_wait", bee::select_wait),
        (c"_epoll_add", bee::epoll_add),
        (c"_epoll_mod", bee::epoll_mod),
        (c"_epoll_del", bee::epoll_del),
        (c"_epoll_wait", bee::epoll_wait),
        (c"_epoll_close", bee::epoll_close),
    ];
    const META: &'static [(&'static CStr, Function)] =
        functions![(c"__close", close), (c"__tostring", to_string)];
}

/// The open core of the selector at argument 1; raises when it is closed.
pub(super) unsafe fn open_core<'a>(
    state: *mut lua_State,
) -> (&'a Selector, &'a Rc<event::Selector>) {
    // SAFETY: argument 1 stays on the stack while the caller runs.
    unsafe {
        let selector = object::check::<Selector>(state, 1);
        match &(*selector).core {
            Some(core) => (&*selector, core),
            None => raise(state, closed_text("selector")),
        }
    }
}

/// `lio.create([max_events = 1024])` → a selector. `max_events` (1 to 65536): how many events one wait
/// takes from the system. `nil, message, code` when the system refuses (epoll_create1(2)).
unsafe extern "C-unwind" fn create(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; what `push_new` makes is owned by Lua before anything can raise.
    unsafe {
        let most = match args::is_none(state, 1) {
            true => DEFAULT_EVENTS,
            false => args::integer_in(state, 1, 1, MOST_EVENTS, "max_events"),
        };
        let made = object::push_new(state, || {
            let core =
                event::Selector::new(most as usize).map_err(|error| Fault::io("create", &error))?;
            Ok(Selector {
                core: Some(core),
                iterating: Cell::new(Loop::None),
                was_left: Cell::new(false),
                thread: Cell::new(std::ptr::null_mut()),
            })
        });
        if let Err(fault) = made {
            return Fault::push(&fault, state);
        }
        let at = ffi::lua_gettop(state);
        push_tables(state, at);
        set_tables(state, at);
        1
    }
}

/// Pushes the objects, the udata and the iterator of the selector at `index`, new ones.
unsafe fn push_tables(state: *mut lua_State, index: c_int) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_createtable(state, 0, 0);
        ffi::lua_pushvalue(state, index);
        ffi::lua_pushvalue(state, -2);
        function!(iterator::next_event).push(state, 2);
    }
}

/// Gives the selector at `index` what [`push_tables`] pushed. Never raises.
unsafe fn set_tables(state: *mut lua_State, index: c_int) {
    // SAFETY: a selector has these user values; setting them allocates nothing.
    unsafe {
        ffi::lua_setiuservalue(state, index, ITERATOR);
        ffi::lua_setiuservalue(state, index, UDATA);
        ffi::lua_setiuservalue(state, index, OBJECTS);
    }
}

/// Opens the selector at argument `index` again, without registrations, if it is closed.
pub(super) unsafe fn reopen(state: *mut lua_State, index: c_int) -> Result<(), Fault> {
    // SAFETY: the core is dropped by its selector. A finalizer that runs while the tables are made may open the
    // selector too, hence the second look; between that and the core nothing of Lua's runs.
    unsafe {
        let selector = object::check::<Selector>(state, index);
        if (*selector).core.is_some() {
            return Ok(());
        }
        push_tables(state, index);
        // That finalizer may have dropped the selector as well.
        let selector = object::check::<Selector>(state, index);
        if (*selector).core.is_some() {
            ffi::lua_pop(state, 3);
            return Ok(());
        }
        set_tables(state, index);
        let opened = guard(|| {
            Ok(match event::Selector::new(DEFAULT_EVENTS as usize) {
                Ok(core) => {
                    (*selector).core = Some(core);
                    Ok(())
                }
                Err(error) => Err(Fault::io("create", &error)),
            })
        });
        settle(state, opened)
    }
}

/// `sel:count()` → how many registrations there are.
unsafe extern "C-unwind" fn count(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let (_, core) = open_core(state);
        ffi::lua_pushinteger(state, core.count() as i64);
        1
    }
}

/// `sel:close()`: gives everything back. Idempotent; also `__close` and `__gc`. `true`.
pub(super) unsafe extern "C-unwind" fn close(state: *mut lua_State) -> c_int {
    // SAFETY: the core is dropped inside `guard`; the iterator lets go of the selector and the udata, so that a loop
    // which goes on ends, even when the selector is opened again.
    unsafe {
        let selector = object::check::<Selector>(state, 1);
        settle(
            state,
            guard(|| {
                drop((*selector).core.take());
                Ok(())
            }),
        );
        (*selector).iterating.set(Loop::None);
        (*selector).thread.set(std::ptr::null_mut());
        if ffi::lua_getiuservalue(state, 1, ITERATOR) == ffi::LUA_TFUNCTION {
            for upvalue in [1, 2] {
                ffi::lua_pushnil(state);
                ffi::lua_setupvalue(state, -2, upvalue);
            }
        }
        for value in [UDATA, OBJECTS, ITERATOR, THREAD] {
            ffi::lua_pushnil(state);
            ffi::lua_setiuservalue(state, 1, value);
        }
        ffi::lua_pushboolean(state, 1);
        1
    }
}

unsafe extern "C-unwind" fn to_string(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let selector = object::check::<Selector>(state, 1);
        let text = match &(*selector).core {
            Some(core) => Text::format(format_args!("selector ({} registered)", core.count())),
            None => Text::new("selector (closed)"),
        };
        push_bytes(state, text.as_bytes());
        1
    }
}

/// `lio.now()` → seconds of the monotonic clock, as a float (clock_gettime(2)).
unsafe extern "C-unwind" fn now(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        ffi::lua_pushnumber(state, crate::event::clock::monotonic());
        1
    }
}

/// `lio.wall()` → seconds since 1970 of the system's clock, as a float.
unsafe extern "C-unwind" fn wall(state: *mut lua_State) -> c_int {
    // SAFETY: as for `create`.
    unsafe {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        ffi::lua_pushnumber(state, since.map_or(0.0, |span| span.as_secs_f64()));
        1
    }
}

/// Opens `lio`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(
            state,
            functions![
                (c"create", create),
                (c"waker", waker::take),
                (c"now", now),
                (c"wall", wall),
                (c"tasks", crate::task::tasks),
                (c"systemd", |state| crate::modules::socket::SYSTEMD
                    .run(state)),
                (c"watch", crate::watched::lua::watch),
            ],
        );
        for (name, value) in [(c"SELECT_READ", READ), (c"SELECT_WRITE", WRITE)] {
            ffi::lua_pushinteger(state, i64::from(value));
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
        push_bytes(state, env!("CARGO_PKG_VERSION").as_bytes());
        ffi::lua_setfield(state, -2, c"VERSION".as_ptr());
        1
    }
}
