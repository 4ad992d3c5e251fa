//! A request's head as Lua holds it: one block with the bytes and the fields' places, made at once and
//! read on demand. It needs no finalizer.

use super::exchange::Workspace;
use super::fields::{Field, MAX_FIELDS, Span};
use super::head::{Head, Method, TargetForm};
use super::lua::workspace;
use super::routes::Routes;
use super::uri;
use crate::lua::object::{self, Key, Object, key};
use crate::lua::{Function, args, guard, push_bytes, settle};
use mlua::ffi::{self, lua_State};
use std::borrow::Cow;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::raw::c_int;

/// The head; its fields and bytes lie behind it. For handlers it is the request itself: see [`kind`].
#[derive(Clone, Copy)]
pub(crate) struct Request {
    head: Head,
    length: usize,
    /// Its route's id; 0 when that needs a closer look, or there is none.
    route: i64,
}

/// User values: what is known of it by name, a table or nil; the table of its connection; its whole body.
const KNOWN: c_int = 1;
const CONNECTION: c_int = 2;
const BODY: c_int = 3;

impl Object for Request {
    const NAME: &'static CStr = c"lio.http.head";
    const USER_VALUES: c_int = 3;
    const METHODS: &'static [(&'static CStr, Function)] = &[
        (c"method", method),
        (c"target", target),
        (c"raw_path", raw_path),
        (c"path", path),
        (c"raw_query", raw_query),
        (c"query", query),
        (c"host", host),
        (c"version", version),
        (c"field", field),
        (c"field_all", field_all),
        (c"fields", fields),
        (c"upgrade", upgrade),
        (c"params", params),
        (c"matches", matches),
        (c"route", route),
        (c"connection", connection),
        (c"whole_body", whole_body),
    ];
    fn key() -> &'static Key {
        key!()
    }
}

/// Pushes the head that was parsed at the start of the stream's buffer, with its fields. Making the
/// userdata may run finalizers, that is any Lua code: `bytes` is asked afterwards where the head's bytes
/// are. False, with nothing pushed, when they are gone.
///
/// # Safety
/// As for [`object::push_new`]; what `bytes` gives has `head_len` bytes.
pub(crate) unsafe fn push(
    state: *mut lua_State,
    head: &Head,
    fields: &[Field],
    route: i64,
    bytes: impl FnOnce() -> Option<*const u8>,
) -> bool {
    // The table that `fields` is a part of serves other exchanges, too.
    let mut kept = [const { MaybeUninit::<Field>::uninit() }; MAX_FIELDS];
    for (place, field) in kept.iter_mut().zip(fields) {
        place.write(*field);
    }
    // SAFETY: the tail has room for fields and bytes; as many fields as are copied were kept.
    unsafe {
        let places = std::mem::size_of_val(fields);
        let value = Request {
            head: *head,
            length: head.head_len,
            route,
        };
        let request = object::push_with_tail(state, value, places + head.head_len);
        let Some(bytes) = bytes() else {
            ffi::lua_pop(state, 1);
            return false;
        };
        let tail = object::tail(request);
        std::ptr::copy_nonoverlapping(kept.as_ptr().cast::<u8>(), tail, places);
        std::ptr::copy_nonoverlapping(bytes, tail.add(places), head.head_len);
        true
    }
}

impl Request {
    fn fields(&self) -> &[Field] {
        // SAFETY: `push` wrote `field_count` fields at the start of the tail, and a slot's size is a
        // multiple of its alignment, which is at least that of a field.
        unsafe { std::slice::from_raw_parts(object::tail(self).cast(), self.head.field_count) }
    }

    fn bytes(&self) -> &[u8] {
        let places = self.head.field_count * size_of::<Field>();
        // SAFETY: `push` wrote `length` bytes behind the fields.
        unsafe { std::slice::from_raw_parts(object::tail(self).add(places), self.length) }
    }

    fn table(&self) -> Table<'_> {
        Table {
            fields: self.fields(),
            bytes: self.bytes(),
        }
    }

    /// The value of a field, several joined by commas.
    pub(crate) fn joined<'a>(&'a self, name: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let mut values = self.table().values(name);
        let first = values.next()?;
        let mut rest = values.peekable();
        if rest.peek().is_none() {
            return Some(Cow::Borrowed(first));
        }
        let mut joined = first.to_vec();
        for value in rest {
            joined.extend_from_slice(b", ");
            joined.extend_from_slice(value);
        }
        Some(Cow::Owned(joined))
    }

    /// Which of the known methods it is.
    pub(crate) fn method_id(&self) -> Method {
        self.head.method_id
    }

    /// The raw path; CONNECT, which has none, counts as `/`.
    fn route_path(&self) -> &[u8] {
        route_path(&self.head, self.bytes())
    }
}

/// The fields of a head that Lua holds, and the bytes that they are places in.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) fields: &'a [Field],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Table<'a> {
    /// The values of a field, in order; names are case-blind.
    pub(crate) fn values(self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.fields
            .iter()
            .filter(move |field| field.name.of(self.bytes).eq_ignore_ascii_case(name))
            .map(move |field| field.value.of(self.bytes))
    }

    /// Pushes all values of a field as one, or nil.
    ///
    /// # Safety
    /// As for [`push_bytes`].
    pub(crate) unsafe fn push_joined(self, state: *mut lua_State, name: &[u8]) {
        // SAFETY: plain stack work.
        unsafe {
            let mut parts = 0;
            for value in self.values(name) {
                if parts > 0 {
                    let cookie = name.eq_ignore_ascii_case(b"cookie");
                    push_bytes(state, if cookie { b"; " } else { b", " });
                    push_bytes(state, value);
                    ffi::lua_concat(state, 3);
                } else {
                    push_bytes(state, value);
                }
                parts += 1;
            }
            if parts == 0 {
                ffi::lua_pushnil(state);
            }
        }
    }

    /// Pushes the list of a field's values, in order.
    ///
    /// # Safety
    /// As for [`push_bytes`].
    pub(crate) unsafe fn push_all(self, state: *mut lua_State, name: &[u8]) {
        // SAFETY: plain stack work.
        unsafe {
            ffi::lua_createtable(state, 1, 0);
            for (index, value) in self.values(name).enumerate() {
                push_bytes(state, value);
                ffi::lua_rawseti(state, -2, index as i64 + 1);
            }
        }
    }

    /// Pushes a table of lower-case name to value; repeated ones joined.
    ///
    /// # Safety
    /// As for [`push_bytes`].
    pub(crate) unsafe fn push_table(self, state: *mut lua_State) {
        // SAFETY: plain stack work.
        unsafe {
            ffi::lua_createtable(state, 0, self.fields.len() as c_int);
            for field in self.fields {
                let name = field.name.of(self.bytes);
                push_lower(state, name);
                self.push_joined(state, name);
                ffi::lua_rawset(state, -3);
            }
        }
    }
}

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
        return std::str::from_utf8(raw).ok();
    }
    scratch.clear();
    uri::normalize_path(raw, scratch).ok()?;
    std::str::from_utf8(scratch).ok()
}

unsafe fn check<'a>(state: *mut lua_State) -> &'a Request {
    // SAFETY: argument 1 stays on the stack while the caller runs.
    unsafe { &*object::check::<Request>(state, 1) }
}

unsafe fn push_span(state: *mut lua_State, span: Option<Span>) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive.
    unsafe {
        match span {
            Some(span) => push_bytes(state, span.of(check(state).bytes())),
            None => ffi::lua_pushnil(state),
        }
        1
    }
}

/// `head:method()` → as sent.
unsafe extern "C-unwind" fn method(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe { push_span(state, Some(check(state).head.method)) }
}

/// `head:target()` → the request target as sent.
unsafe extern "C-unwind" fn target(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe { push_span(state, Some(check(state).head.target)) }
}

/// `head:raw_query()` → what stands behind the `?`, or nil.
unsafe extern "C-unwind" fn raw_query(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe { push_span(state, check(state).head.query) }
}

/// `head:host()` → `host[:port]`, or nil.
unsafe extern "C-unwind" fn host(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe { push_span(state, check(state).head.host) }
}

/// `head:raw_path()` → the path as sent.
unsafe extern "C-unwind" fn raw_path(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let request = check(state);
        push_bytes(state, request.head.path(request.bytes()));
        1
    }
}

/// Pushes `raw`, percent-decoded; what is no escape stays as it is.
unsafe fn push_decoded(state: *mut lua_State, raw: &[u8], plus_is_space: bool) {
    // SAFETY: the scratch buffer belongs to the VM's workspace, so a raise loses nothing.
    unsafe {
        if !uri::needs_decode(raw, plus_is_space) {
            push_bytes(state, raw);
            return;
        }
        let space: *mut Workspace = workspace(state);
        let decoded = guard(|| {
            let scratch = &mut (*space).scratch;
            scratch.clear();
            Ok(uri::percent_decode(raw, plus_is_space, scratch).is_ok())
        });
        match settle(state, decoded) {
            true => {
                let scratch = &(*space).scratch;
                push_bytes(state, scratch);
            }
            false => push_bytes(state, raw),
        }
    }
}

/// `head:path()` → the path, percent-decoded.
unsafe extern "C-unwind" fn path(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let request = check(state);
        push_decoded(state, request.head.path(request.bytes()), false);
        1
    }
}

/// `head:query()` → decoded keys and values; repeated keys as lists, a key without `=` as `""`.
unsafe extern "C-unwind" fn query(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let request = check(state);
        let raw = request
            .head
            .query
            .map_or(&[][..], |span| span.of(request.bytes()));
        push_pairs(state, raw);
        1
    }
}

/// Pushes a table of `key=value&…` pairs.
///
/// # Safety
/// Nothing that needs `Drop` may be alive.
pub(crate) unsafe fn push_pairs(state: *mut lua_State, raw: &[u8]) {
    // SAFETY: plain stack work.
    unsafe {
        ffi::lua_createtable(state, 0, 0);
        let table = ffi::lua_gettop(state);
        for (name, value) in uri::query_pairs(raw) {
            push_decoded(state, name, true);
            push_decoded(state, value.unwrap_or_default(), true);
            insert(state, table);
        }
    }
}

/// Stores the value on top under the key below it; a second value of a key makes a list.
unsafe fn insert(state: *mut lua_State, table: c_int) {
    // SAFETY: plain stack work; both are popped.
    unsafe {
        ffi::lua_pushvalue(state, -2);
        match ffi::lua_rawget(state, table) {
            ffi::LUA_TNIL => {
                ffi::lua_pop(state, 1);
                ffi::lua_rawset(state, table);
                return;
            }
            ffi::LUA_TTABLE => {}
            _ => {
                ffi::lua_createtable(state, 2, 0);
                ffi::lua_rotate(state, -2, 1);
                ffi::lua_rawseti(state, -2, 1);
                ffi::lua_pushvalue(state, -3);
                ffi::lua_pushvalue(state, -2);
                ffi::lua_rawset(state, table);
            }
        }
        let count = ffi::lua_rawlen(state, -1) as i64;
        ffi::lua_pushvalue(state, -2);
        ffi::lua_rawseti(state, -2, count + 1);
        ffi::lua_pop(state, 3);
    }
}

/// `head:version()` → `"1.0"` or `"1.1"`.
unsafe extern "C-unwind" fn version(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let text: &[u8] = if check(state).head.version == 10 {
            b"1.0"
        } else {
            b"1.1"
        };
        push_bytes(state, text);
        1
    }
}

/// `head:upgrade()` → whether the client offers to switch protocols.
unsafe extern "C-unwind" fn upgrade(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        ffi::lua_pushboolean(state, check(state).head.upgrade.into());
        1
    }
}

/// `head:field(name)` → the value, several joined by `, ` (cookies by `; `), or nil. Case-blind.
unsafe extern "C-unwind" fn field(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let name = args::bytes(state, 2);
        check(state).table().push_joined(state, name);
        1
    }
}

/// `head:field_all(name)` → list of the values, in order.
unsafe extern "C-unwind" fn field_all(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let name = args::bytes(state, 2);
        check(state).table().push_all(state, name);
        1
    }
}

/// Pushes a field name in lower case.
///
/// # Safety
/// As for [`push_bytes`].
pub(crate) unsafe fn push_lower(state: *mut lua_State, name: &[u8]) {
    let mut lower = [0u8; 256];
    // SAFETY: the caller's promise.
    unsafe {
        let Some(lower) = lower.get_mut(..name.len()) else {
            push_bytes(state, name);
            return;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        push_bytes(state, lower);
    }
}

/// `head:fields()` → table of lower-case name to value; repeated ones joined.
unsafe extern "C-unwind" fn fields(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        check(state).table().push_table(state);
        1
    }
}

/// `head:params(routes, id)` → the route's parameters by name, percent-decoded.
unsafe extern "C-unwind" fn params(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`; the values are sub-slices of the head or of a string on the stack.
    unsafe {
        let request = check(state);
        let routes = object::check::<Routes>(state, 2);
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
        let mut values: [(*const u8, usize); super::router::MAX_PARAMETERS] =
            [(std::ptr::null(), 0); super::router::MAX_PARAMETERS];
        let found = guard(|| {
            let normal = std::str::from_utf8(path).unwrap_or_default();
            Ok((*routes).values_of(normal, id, &mut values))
        });
        let count = settle(state, found);
        for (index, (start, length)) in values.iter().take(count).enumerate() {
            let Some(name) = (*routes).name_of(id, index) else {
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
unsafe extern "C-unwind" fn matches(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        let request = check(state);
        let routes = object::check::<Routes>(state, 2);
        let space: *mut Workspace = workspace(state);
        // First, since it may run finalizers; filling it runs none.
        ffi::lua_createtable(state, 4, 0);
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
unsafe extern "C-unwind" fn route(state: *mut lua_State) -> c_int {
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

/// `head:connection()` → the table of its connection; nil before it is served.
unsafe extern "C-unwind" fn connection(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        check(state);
        ffi::lua_getiuservalue(state, 1, CONNECTION);
        1
    }
}

/// `head:whole_body([text])` → the body that was kept, or nil; `text` is kept.
unsafe extern "C-unwind" fn whole_body(state: *mut lua_State) -> c_int {
    // SAFETY: as for `push_span`.
    unsafe {
        check(state);
        if ffi::lua_gettop(state) > 1 {
            ffi::lua_settop(state, 2);
            ffi::lua_setiuservalue(state, 1, BODY);
        }
        ffi::lua_getiuservalue(state, 1, BODY);
        1
    }
}

/// Tells the head at `index` whose it is; the connection's table is on top (popped).
///
/// # Safety
/// A head is at `index`.
pub(super) unsafe fn belongs(state: *mut lua_State, index: c_int) {
    // SAFETY: the caller's promise.
    unsafe { ffi::lua_setiuservalue(state, index, CONNECTION) };
}

/// `http.kind(getters, methods)`: from now on heads of this VM are requests as handlers see them. A field is what
/// was stored under its name, else what `getters[name](req)` gives, which is stored unless it is nil, else
/// `methods[name]`.
pub(super) unsafe extern "C-unwind" fn kind(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::luaL_checktype(state, 2, ffi::LUA_TTABLE);
        ffi::lua_settop(state, 2);
        object::push_metatable::<Request>(state);
        ffi::lua_rotate(state, 1, 1);
        ffi::lua_pushcclosure(state, index, 2);
        ffi::lua_setfield(state, 1, c"__index".as_ptr());
        ffi::lua_pushcclosure(state, new_index, 0);
        ffi::lua_setfield(state, 1, c"__newindex".as_ptr());
        push_bytes(state, b"lio.request");
        ffi::lua_setfield(state, 1, c"__name".as_ptr());
        0
    }
}

/// `req[key]`; upvalues 1 and 2 are `kind`'s arguments.
unsafe extern "C-unwind" fn index(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        check(state);
        ffi::lua_settop(state, 2);
        if ffi::lua_getiuservalue(state, 1, KNOWN) == ffi::LUA_TTABLE {
            ffi::lua_pushvalue(state, 2);
            if ffi::lua_rawget(state, 3) != ffi::LUA_TNIL {
                return 1;
            }
        }
        ffi::lua_settop(state, 2);
        ffi::lua_pushvalue(state, 2);
        if ffi::lua_rawget(state, ffi::lua_upvalueindex(1)) == ffi::LUA_TNIL {
            ffi::lua_settop(state, 2);
            ffi::lua_rawget(state, ffi::lua_upvalueindex(2));
            return 1;
        }
        ffi::lua_pushvalue(state, 1);
        ffi::lua_call(state, 1, 1);
        if ffi::lua_type(state, 3) != ffi::LUA_TNIL {
            ffi::lua_pushvalue(state, 2);
            ffi::lua_pushvalue(state, 3);
            store(state);
        }
        1
    }
}

/// `req[key] = value`.
unsafe extern "C-unwind" fn new_index(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        check(state);
        ffi::lua_settop(state, 3);
        store(state);
        0
    }
}

/// Stores the value on top under the key below it (both popped) in what is known of the request at argument 1.
unsafe fn store(state: *mut lua_State) {
    // SAFETY: plain stack work.
    unsafe {
        if ffi::lua_getiuservalue(state, 1, KNOWN) != ffi::LUA_TTABLE {
            ffi::lua_pop(state, 1);
            ffi::lua_createtable(state, 0, 2);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_setiuservalue(state, 1, KNOWN);
        }
        ffi::lua_rotate(state, -3, 1);
        // Not raw: a key that is nil or NaN is refused with the usual words.
        ffi::lua_settable(state, -3);
        ffi::lua_pop(state, 1);
    }
}

/// Pushes a table of what `head:…` can do, as functions.
///
/// # Safety
/// As for [`push_bytes`].
pub(super) unsafe fn push_functions(state: *mut lua_State) {
    // SAFETY: the caller's promise.
    unsafe { crate::lua::module::push(state, <Request as Object>::METHODS) };
}
