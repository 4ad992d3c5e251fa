//! The Lua values that `http.serve` works with: the handlers, the functions of lualib/lio/web/dispatch.lua, and the
//! keys of responses. A server keeps them in fields; `serve` pushes them once, at fixed stack indices, and not
//! once for each request.

use super::machine::ServerObject;
use crate::lua::{Call, Fault, Field, Function};

/// The stack indices of the values of `serve`. The values from `APP_SERVER` to `NOTIFY` are the fields of the argument
/// of `S:set_callbacks`.
pub(super) mod at {
    pub(crate) const DISPATCHER: i32 = 1;
    pub(crate) const SERVER: i32 = 2;
    /// `app_server`: the first argument of `choose_handler` and `notify`.
    pub(crate) const APP_SERVER: i32 = 3;
    /// `catch`: the message handler of protected calls.
    pub(crate) const CATCH: i32 = 4;
    /// `handlers`: the handlers by route.
    pub(crate) const HANDLERS: i32 = 5;
    /// `response_class`: the metatable of responses.
    pub(crate) const RESPONSE_CLASS: i32 = 6;
    /// `choose_handler(app_server, req, res, route)`: returns the handler of a request. Called if the route alone does
    /// not determine the handler.
    pub(crate) const CHOOSE_HANDLER: i32 = 7;
    /// `complete(res, a, b, c)`: completes a request whose handler has returned `a, b, c`. Returns whether the
    /// connection stays open.
    pub(crate) const COMPLETE: i32 = 8;
    /// `fail(res, err)`: completes a request whose handler has raised an error. Returns whether the
    /// connection stays open.
    pub(crate) const FAIL: i32 = 9;
    /// `notify(app_server, id, reason)`: resumes a task that waits on a request; without `id`, reports that a
    /// connection has closed.
    pub(crate) const NOTIFY: i32 = 10;
    /// The keys of responses: `request`, which `serve` sets, and two keys that Lua code sets.
    pub(crate) const REQUEST_KEY: i32 = 11;
    pub(crate) const CODE_KEY: i32 = 12;
    pub(crate) const CONTENT_TYPE_KEY: i32 = 13;
    /// The handler or nil; for a handler with arguments, followed by the request and the response.
    pub(crate) const HANDLER: i32 = 14;
    pub(crate) const REQUEST: i32 = 15;
    pub(crate) const RESPONSE: i32 = 16;
}

/// The fields of the argument of `S:set_callbacks`, in the order of their stack indices.
const CALLBACKS: [(&str, Field<ServerObject>); 8] = [
    ("app_server", Field::new(2)),
    ("catch", Field::new(3)),
    ("handlers", Field::new(4)),
    ("response_class", Field::new(5)),
    ("choose_handler", Field::new(6)),
    ("complete", Field::new(7)),
    ("fail", Field::new(8)),
    ("notify", Field::new(9)),
];

/// The keys of responses, in the order of their stack indices.
const KEYS: [(&str, Field<ServerObject>); 3] =
    [("request", Field::new(10)), ("code", Field::new(11)), ("content_type", Field::new(12))];

/// `S:set_callbacks(callbacks)`: sets the values that `http.serve` works with. `callbacks` is a table with the fields
/// that [`at`] describes.
pub(super) const SET_CALLBACKS: Function = Function::new(|call: &mut Call<'_>| {
    call.object::<ServerObject>(1)?;
    for (name, field) in CALLBACKS {
        let value = call.raw_field(2, name)?;
        if call.is_none(value) {
            return Err(Fault::message(format_args!("set_callbacks: field '{name}' is missing")));
        }
        call.set_field(1, field, value)?;
        call.drop_to(2);
    }
    for (name, field) in KEYS {
        let key = call.create(name)?;
        call.set_field(1, field, key)?;
        call.drop_to(2);
    }
    Ok(())
});

/// Pushes the callbacks and keys of the server, which must be on top of the stack, at [`at::SERVER`]. So each value
/// gets the stack index that [`at`] assigns.
#[inline]
pub(super) fn push(call: &mut Call<'_>) -> Result<(), Fault> {
    for (_, field) in CALLBACKS.into_iter().chain(KEYS) {
        call.field(at::SERVER, field)?;
    }
    match call.is_none(at::APP_SERVER) {
        true => Err(Fault::message("serve: the server has no callbacks")),
        false => Ok(()),
    }
}
