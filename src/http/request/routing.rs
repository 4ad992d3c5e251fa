//! A request and its routes: the path they are looked up by, parameters, and all that match.
//!
//! `serve` asks for the path of each request, `lualib/lio/web/` for the rest. A path is compared in its normal form,
//! whatever was sent.

use super::{Request, check, push_decoded};
use crate::codec::uri;
use crate::http::connection::workspace;
use crate::http::exchange::Workspace;
use crate::http::router::MAX_PARAMETERS;
use crate::http::router::routes::{RouteId, Routes};
use crate::modules::http::routes::AppRoutes;
use crate::raw::object;
use crate::raw::{args, guard, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Room for the values of a route's parameters: where they begin, and how long they are.
const NO_VALUES: [(*const u8, usize); MAX_PARAMETERS] = [(std::ptr::null(), 0); MAX_PARAMETERS];

impl Request {
    /// The raw path; CONNECT, which has none, counts as `/`.
    fn route_path(&self) -> &[u8] {
        self.head.route_path(self.bytes())
    }

    /// Hands the raw value of a parameter of its route to `take`, and returns what that does; false when the route has
    /// none of the name. `scratch` is written to.
    pub(in crate::http) fn parameter(
        &self,
        routes: &Routes,
        name: &str,
        scratch: &mut Vec<u8>,
        take: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        let Some(path) = uri::normal_path(self.route_path(), scratch) else {
            return false;
        };
        let Some(route) = RouteId::from_number(self.route) else {
            return false;
        };
        let Some(values) = routes.values_of(path, route) else {
            return false;
        };
        let mut named = values.as_slice().iter().enumerate().rev();
        let found = named.find(|(index, _)| routes.name_of(route, *index) == Some(name));
        found.is_some_and(|(_, value)| take(value.as_bytes()))
    }
}

/// `head:params(routes, id)` → the route's parameters by name, percent-decoded.
pub(super) unsafe extern "C-unwind" fn params(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`; the values are sub-slices of the head or of a string on the stack.
    unsafe {
        let request = check(state);
        object::check::<AppRoutes>(state, 2);
        let id = ffi::luaL_checkinteger(state, 3);
        let mut path = request.route_path();
        if !uri::path_is_plain(path) {
            let space: *mut Workspace = workspace(state);
            let normal = guard(|| Ok(uri::normal_path(path, &mut (*space).scratch).is_some()));
            let normal = settle(state, normal);
            // On the stack, since finalizers and decoding a value below use `scratch`.
            push_bytes(state, if normal { &(*space).scratch } else { b"" });
            path = args::bytes(state, -1);
        }
        ffi::lua_createtable(state, 0, 4);
        let routes = object::check::<AppRoutes>(state, 2);
        let mut values = NO_VALUES;
        let id = RouteId::from_number(id);
        let found = guard(|| {
            let normal = std::str::from_utf8(path).unwrap_or_default();
            let routes = (*routes).0.borrow();
            let found = id.and_then(|id| routes.values_of(normal, id));
            let found = found.as_ref().map_or(&[][..], |found| found.as_slice());
            for (place, value) in values.iter_mut().zip(found) {
                *place = (value.as_ptr(), value.len());
            }
            Ok(found.len())
        });
        let count = settle(state, found);
        for (index, (start, length)) in values.iter().take(count).enumerate() {
            // Looked up one by one: a finalizer may add routes, or drop them all. A name stays where it is.
            let routes = object::living(routes);
            let name = routes.and_then(|routes| {
                let routes = routes.0.borrow();
                let name = id.and_then(|id| routes.name_of(id, index))?;
                Some(std::slice::from_raw_parts(name.as_ptr(), name.len()))
            });
            let Some(name) = name else {
                continue;
            };
            push_bytes(state, name);
            push_decoded(state, std::slice::from_raw_parts(*start, *length), false);
            ffi::lua_rawset(state, -3);
        }
        1
    }
}

/// `head:matches(routes)` → list of the ids of all routes whose pattern matches, whatever their method
/// and constraints, the most specific first; a 0 ends those of equal patterns.
pub(super) unsafe extern "C-unwind" fn matches(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let request = check(state);
        object::check::<AppRoutes>(state, 2);
        let space: *mut Workspace = workspace(state);
        // First, since it may run finalizers; filling it runs none.
        ffi::lua_createtable(state, 4, 0);
        let routes = object::check::<AppRoutes>(state, 2);
        let found = guard(|| {
            let space = &mut *space;
            space.routes.clear();
            if let Some(normal) = uri::normal_path(request.route_path(), &mut space.scratch) {
                (*routes).0.borrow().all(normal, &mut space.routes);
            }
            Ok(())
        });
        settle(state, found);
        let ids = &(*space).routes;
        for (index, id) in ids.iter().enumerate() {
            ffi::lua_pushinteger(state, *id);
            ffi::lua_rawseti(state, -2, index as i64 + 1);
        }
        1
    }
}

/// `head:route([id])` → the id of its route, 0 when it has none; `id` sets it.
pub(super) unsafe extern "C-unwind" fn route(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let request = object::check::<Request>(state, 1);
        if !args::is_none(state, 2) {
            (*request).route = ffi::luaL_checkinteger(state, 2);
        }
        ffi::lua_pushinteger(state, (*request).route);
        1
    }
}
