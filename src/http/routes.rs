//! Route tables as Lua holds them. Ids count from 1.

use super::router::{Candidate, MAX_PARAMETERS, Node, Router};
use crate::codec::http1::head::Method;
use crate::raw::object::{self, Object};
use crate::raw::{Function, Text, args, functions, guard, push_bytes, raise, shield};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::os::raw::c_int;

/// What a handler is called with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    Request,
    /// The request and the response.
    Both,
}

/// The routes of an app, and what `serve` has to know of it for each request.
pub(crate) struct Routes {
    router: Router,
    /// By route, as far as that was said: what its handler takes.
    takes: Vec<Takes>,
    /// There is middleware.
    pub(crate) wrapped: bool,
}

impl Object for Routes {
    const NAME: &'static CStr = c"lio.http.routes";
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"add", add),
        (c"method", method),
        (c"constraints", constraints),
        (c"takes", takes),
        (c"wrapped", wrapped),
    ];
}

/// Where the router has the route that Lua calls `id`, if it has it.
fn index_of(id: i64) -> Option<usize> {
    usize::try_from(id.checked_sub(1)?).ok()
}

impl Routes {
    /// The route for a request, when that can be told without testing constraints; else 0. A method's own route
    /// comes before one for any method; HEAD falls back to GET.
    pub(crate) fn find(&self, method: Method, name: &[u8], path: &str) -> i64 {
        let Some(candidates) = self.router.candidates(path) else {
            return 0;
        };
        let own = candidates.iter().find(|c| *c.method == *name);
        let chosen = match (own, method) {
            (None, Method::Head) => candidates.iter().find(|c| *c.method == *b"GET"),
            (own, _) => own,
        };
        // Nobody means a tunnel by "any method".
        let any = |c: &&Candidate| c.method.is_empty() && method != Method::Connect;
        match chosen.or_else(|| candidates.iter().find(any)) {
            Some(candidate) if !candidate.has_constraints => candidate.route as i64 + 1,
            _ => 0,
        }
    }

    /// What the handler of route `id` is called with.
    pub(crate) fn takes(&self, id: i64) -> Takes {
        let takes = index_of(id).and_then(|index| self.takes.get(index));
        takes.copied().unwrap_or(Takes::Both)
    }

    /// From now on a request is made for route `id`, though its handler takes none: what comes behind it does.
    pub(crate) fn needs_request(&mut self, id: i64) {
        let takes = index_of(id).and_then(|index| self.takes.get_mut(index));
        if let Some(takes) = takes.filter(|takes| **takes == Takes::Nothing) {
            *takes = Takes::Request;
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
        let first = self.router.find(path).filter(has);
        let node = first.or_else(|| self.router.find_all(path).into_iter().find(has));
        let Some(node) = node else { return 0 };
        for (place, value) in out.iter_mut().zip(node.values()) {
            *place = (value.as_ptr(), value.len());
        }
        node.values().len()
    }

    /// The name of a route's parameter.
    pub(crate) fn name_of(&self, id: i64, index: usize) -> Option<&str> {
        let route = self.router.route(index_of(id)?)?;
        route.names().get(index).map(String::as_str)
    }

    /// Puts all routes that match into `out`, the most specific first; 0 behind those of one shape.
    pub(crate) fn all(&self, path: &str, out: &mut Vec<i64>) {
        // Paths that lead nowhere are frequent, and told by one look.
        if self.router.find(path).is_none() {
            return;
        }
        for node in self.router.find_all(path) {
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
            Ok::<_, std::convert::Infallible>(Routes {
                router: Router::new(),
                takes: Vec::new(),
                wrapped: false,
            })
        });
        1
    }
}

/// `routes:add(method, pattern)` → id. `method` `""`: any. Raises for a malformed pattern.
unsafe extern "C-unwind" fn add(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`; the router's message is copied to plain data inside `guard`.
    unsafe {
        object::check::<Routes>(state, 1);
        let method = args::bytes(state, 2);
        let pattern = args::utf8(state, 3);
        // Looked up behind the arguments: making a number a string may run a finalizer.
        let routes = &mut *object::check::<Routes>(state, 1);
        let added = guard(|| {
            routes
                .router
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
        match index_of(id).and_then(|index| routes.router.route(index)) {
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

/// `routes:takes(id, count)`: the handler of this route takes so many of request and response; what it does not take
/// is not made for it.
unsafe extern "C-unwind" fn takes(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        route(state);
        let takes = match args::integer_in(state, 3, 0, 2, "count") {
            0 => Takes::Nothing,
            1 => Takes::Request,
            _ => Takes::Both,
        };
        let routes = &mut *object::check::<Routes>(state, 1);
        if let Some(index) = index_of(ffi::lua_tointeger(state, 2)) {
            shield(state, || {
                if routes.takes.len() <= index {
                    routes.takes.resize(index + 1, Takes::Both);
                }
                routes.takes[index] = takes;
            });
        }
        0
    }
}

/// `routes:wrapped()`: from now on there is middleware, so that handlers are chosen by Lua.
unsafe extern "C-unwind" fn wrapped(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        (*object::check::<Routes>(state, 1)).wrapped = true;
        0
    }
}
