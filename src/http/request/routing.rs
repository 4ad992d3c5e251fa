//! A request and its routes: the path they are looked up by, parameters, and all that match.
//!
//! `serve` asks for the path of each request, `lualib/lio/web/` for the rest. A path is compared in its normal form,
//! whatever was sent.

use super::{Request, check, push_decoded};
use crate::codec::http1::head::{Head, TargetForm};
use crate::codec::uri;
use crate::http::connection::workspace;
use crate::http::exchange::Workspace;
use crate::http::router::MAX_PARAMETERS;
use crate::http::routes::Routes;
use crate::raw::object;
use crate::raw::{args, guard, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Room for the values of a route's parameters: where they begin, and how long they are.
const NO_VALUES: [(*const u8, usize); MAX_PARAMETERS] = [(std::ptr::null(), 0); MAX_PARAMETERS];

/// The raw path that routes are looked up by; CONNECT, which has none, counts as `/`.
pub(crate) fn route_path<'a>(head: &Head, bytes: &'a [u8]) -> &'a [u8] {
    match head.target_form {
        TargetForm::Authority => b"/",
        _ => head.path(bytes),
    }
}

/// A raw path in its normal form: itself, or what is written to `scratch`. `None` for a bad escape.
pub(crate) fn normal_path<'a>(raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<&'a str> {
    if uri::path_is_plain(raw) {
        // SAFETY: what is plain is ASCII.
        return Some(unsafe { std::str::from_utf8_unchecked(raw) });
    }
    scratch.clear();
    uri::normalize_path(raw, scratch).ok()?;
    std::str::from_utf8(scratch).ok()
}

impl Request {
    /// The raw path; CONNECT, which has none, counts as `/`.
    fn route_path(&self) -> &[u8] {
        route_path(&self.head, self.bytes())
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
        let Some(path) = normal_path(self.route_path(), scratch) else {
            return false;
        };
        let mut values = NO_VALUES;
        let count = routes.values_of(path, self.route, &mut values);
        let named = |index: &usize| routes.name_of(self.route, *index) == Some(name);
        let Some(index) = (0..count).rev().find(named) else {
            return false;
        };
        let (start, length) = values[index];
        // SAFETY: the values are sub-slices of the path.
        take(unsafe { std::slice::from_raw_parts(start, length) })
    }
}

/// `head:params(routes, id)` → the route's parameters by name, percent-decoded.
pub(super) unsafe extern "C-unwind" fn params(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`; the values are sub-slices of the head or of a string on the stack.
    unsafe {
        let request = check(state);
        object::check::<Routes>(state, 2);
        let id = ffi::luaL_checkinteger(state, 3);
        let mut path = request.route_path();
        if !uri::path_is_plain(path) {
            let space: *mut Workspace = workspace(state);
            let normal = guard(|| Ok(normal_path(path, &mut (*space).scratch).is_some()));
            let normal = settle(state, normal);
            // On the stack, since finalizers and decoding a value below use `scratch`.
            push_bytes(state, if normal { &(*space).scratch } else { b"" });
            path = args::bytes(state, -1);
        }
        ffi::lua_createtable(state, 0, 4);
        let routes = object::check::<Routes>(state, 2);
        let mut values = NO_VALUES;
        let found = guard(|| {
            let normal = std::str::from_utf8(path).unwrap_or_default();
            Ok((*routes).values_of(normal, id, &mut values))
        });
        let count = settle(state, found);
        for (index, (start, length)) in values.iter().take(count).enumerate() {
            // Looked up one by one: a finalizer may add routes, which moves them, or drop them all.
            let routes = object::living(routes);
            let Some(name) = routes.and_then(|routes| routes.name_of(id, index)) else {
                continue;
            };
            push_bytes(state, name.as_bytes());
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
        object::check::<Routes>(state, 2);
        let space: *mut Workspace = workspace(state);
        // First, since it may run finalizers; filling it runs none.
        ffi::lua_createtable(state, 4, 0);
        let routes = object::check::<Routes>(state, 2);
        let found = guard(|| {
            let space = &mut *space;
            space.routes.clear();
            if let Some(normal) = normal_path(request.route_path(), &mut space.scratch) {
                (*routes).all(normal, &mut space.routes);
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
