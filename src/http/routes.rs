//! Route tables as Lua holds them. Ids count from 1.

use super::head::Method;
use super::router::{Candidate, MAX_PARAMETERS, Node, Router};
use crate::lua::object::{self, Key, Object, key};
use crate::lua::{Function, Text, args, guard, push_bytes, raise};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

pub(crate) struct Routes(pub(crate) Router);

impl Object for Routes {
    const NAME: &'static CStr = c"lio.http.routes";
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"add", add),
        (c"method", method),
        (c"constraints", constraints),
    ];
    fn key() -> &'static Key {
        key!()
    }
}

/// What a path and a method lead to at once.
pub(crate) enum Found {
    /// This route, without constraints to test.
    Route(i64),
    /// Nothing, or what needs a closer look.
    Unsure,
}

/// Where the router has the route that Lua calls `id`, if it has it.
fn index_of(id: i64) -> Option<usize> {
    usize::try_from(id.checked_sub(1)?).ok()
}

impl Routes {
    /// The route for a request, when that can be told without testing constraints. A method's own route
    /// comes before one for any method; HEAD falls back to GET.
    pub(crate) fn find(&self, method: Method, name: &[u8], path: &str) -> Found {
        let Some(node) = self.0.find(path) else {
            return Found::Unsure;
        };
        let own = node.candidates.iter().find(|c| *c.method == *name);
        let chosen = match (own, method) {
            (None, Method::Head) => node.candidates.iter().find(|c| *c.method == *b"GET"),
            (own, _) => own,
        };
        // Nobody means a tunnel by "any method".
        let any = |c: &&Candidate| c.method.is_empty() && method != Method::Connect;
        let chosen = chosen.or_else(|| node.candidates.iter().find(any));
        match chosen {
            Some(candidate) if !candidate.has_constraints => {
                Found::Route(candidate.route as i64 + 1)
            }
            _ => Found::Unsure,
        }
    }

    /// Where the values of route `id` stand in `path`; how many.
    pub(crate) fn values_of(
        &self,
        path: &str,
        id: i64,
        out: &mut [(*const u8, usize); MAX_PARAMETERS],
    ) -> usize {
        let has = |node: &Node<'_, '_>| node.candidates.iter().any(|c| c.route as i64 + 1 == id);
        let first = self.0.find(path).filter(has);
        let node = first.or_else(|| self.0.find_all(path).into_iter().find(has));
        let Some(node) = node else { return 0 };
        for (place, value) in out.iter_mut().zip(node.values()) {
            *place = (value.as_ptr(), value.len());
        }
        node.values().len()
    }

    /// The name of a route's parameter.
    pub(crate) fn name_of(&self, id: i64, index: usize) -> Option<&str> {
        let route = self.0.route(index_of(id)?)?;
        route.names().get(index).map(String::as_str)
    }

    /// Puts all routes that match into `out`, the most specific first; 0 behind those of one shape.
    pub(crate) fn all(&self, path: &str, out: &mut Vec<i64>) {
        // Paths that lead nowhere are frequent, and told by one look.
        if self.0.find(path).is_none() {
            return;
        }
        for node in self.0.find_all(path) {
            out.extend(node.candidates.iter().map(|c| c.route as i64 + 1));
            out.push(0);
        }
    }
}

/// `http.routes()` → an empty table of routes.
pub(crate) unsafe extern "C-unwind" fn new(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the table is owned by Lua before anything can raise.
    unsafe {
        let Ok(_) = object::push_new(state, || {
            Ok::<_, std::convert::Infallible>(Routes(Router::new()))
        });
        1
    }
}

/// `routes:add(method, pattern)` → id. `method` `""`: any. Raises for a malformed pattern.
unsafe extern "C-unwind" fn add(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; the router's message is copied to plain data inside `guard`.
    unsafe {
        let routes = &mut *object::check::<Routes>(state, 1);
        let method = args::bytes(state, 2);
        let pattern = args::utf8(state, 3);
        let added = guard(|| {
            routes
                .0
                .add(method, pattern)
                .map_err(|message| Text::new(&message))
        });
        match added {
            Ok(id) => {
                ffi::lua_pushinteger(state, id as i64 + 1);
                1
            }
            Err(message) => raise(state, message),
        }
    }
}

unsafe fn route<'a>(state: *mut lua_State) -> &'a super::router::Route {
    // SAFETY: as for `new`.
    unsafe {
        let routes = &*object::check::<Routes>(state, 1);
        let id = ffi::luaL_checkinteger(state, 2);
        match index_of(id).and_then(|index| routes.0.route(index)) {
            Some(route) => route,
            None => args::argument_error(state, 2, Text::new("no such route")),
        }
    }
}

/// `routes:method(id)` → the route's method, `""` for any.
unsafe extern "C-unwind" fn method(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        push_bytes(state, route(state).method());
        1
    }
}

/// `routes:constraints(id)` → table of parameter name to Lua pattern, or nil when there is none.
unsafe extern "C-unwind" fn constraints(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; the route is looked up anew after whatever may run a finalizer, since that
    // may add routes, which moves them.
    unsafe {
        let count = route(state).names().len();
        if route(state).constraints().iter().all(Option::is_none) {
            return 0;
        }
        ffi::lua_createtable(state, 0, 2);
        for index in 0..count {
            if let Some(Some(pattern)) = route(state).constraints().get(index) {
                push_bytes(state, pattern.as_bytes());
                push_bytes(state, route(state).names()[index].as_bytes());
                ffi::lua_rotate(state, -2, 1);
                ffi::lua_rawset(state, -3);
            }
        }
        1
    }
}
