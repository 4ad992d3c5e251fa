//! Opens `lio.http`, and has those of its functions that need no connection.

use super::connection::{exchange, workspace};
use super::{answer, due, intake, keeper, list, request, serve, site, tools};
use crate::codec::http1::status::reason;
use crate::codec::uri;
use crate::raw::{Text, args, functions, guard, module, push_bytes, raise, settle};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// `http.escape(text)` → `text` percent-encoded, all but the unreserved characters (RFC 3986 section 2.3).
unsafe extern "C-unwind" fn escape(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the scratch buffer belongs to the workspace.
    unsafe {
        let text = args::bytes(state, 1);
        let space = workspace(state);
        let escaped = guard(|| {
            let scratch = &mut (*space).scratch;
            scratch.clear();
            uri::percent_encode(text, scratch);
            Ok(())
        });
        settle(state, escaped);
        let scratch = &(*space).scratch;
        push_bytes(state, scratch);
        1
    }
}

/// `http.reason(status)` → its reason phrase.
unsafe extern "C-unwind" fn reason_of(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let status = args::integer_in(state, 1, 100, 599, "status") as u16;
        push_bytes(state, reason(status).as_bytes());
        1
    }
}

/// `http.check_field(name, value)`: raises when either could not be sent, so that the error points to
/// who set it.
unsafe extern "C-unwind" fn check_field(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let name = args::bytes(state, 1);
        let value = args::bytes(state, 2);
        if let Some(message) = answer::fault_of(name, value) {
            raise(state, Text::new(message));
        }
        0
    }
}

/// Opens `lio.http`. `http.head` holds what heads can do, as functions; `http.body(x, …)` is the exchange's
/// method of that name.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(
            state,
            functions![
                (c"exchange", exchange),
                (c"routes", |state| crate::modules::http::routes::NEW
                    .run(state)),
                (c"answers", |state| crate::modules::http::client::NEW
                    .run(state)),
                (c"pairs", |state| crate::modules::http::pairs::PAIRS
                    .run(state)),
                (c"multipart", |state| crate::modules::http::form::NEW
                    .run(state)),
                (c"spool", |state| crate::modules::http::spool::NEW
                    .run(state)),
                (c"reason", reason_of),
                (c"escape", escape),
                (c"check_field", check_field),
                (c"set_field", list::set_field),
                (c"select", |state| crate::modules::http::files::SELECT
                    .run(state)),
                (c"compressed", |state| {
                    crate::modules::http::files::COMPRESSED.run(state)
                }),
                (c"site", site::new),
                (c"media_type", |state| {
                    crate::modules::http::files::MEDIA_TYPE.run(state)
                }),
                (c"boundary", |state| crate::modules::http::files::BOUNDARY
                    .run(state)),
                (c"kind", |state| crate::modules::http::request::KIND
                    .run(state)),
                (c"tools", tools::check),
                (c"body", intake::body),
                (c"keeper", keeper::keeper),
                (c"body_of", intake::body_of),
                (c"due", due::count),
                (c"take_due", due::take),
                (c"serve", serve::serve),
            ],
        );
        request::push_functions(state);
        ffi::lua_setfield(state, -2, c"head".as_ptr());
        1
    }
}
