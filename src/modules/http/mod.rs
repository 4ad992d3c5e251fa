//! `lio.http`: what `lualib/lio/web/` and `lualib/lio/http/` stand on.

pub(crate) mod client;
mod fields;
pub(crate) mod files;
pub(crate) mod form;
mod limit;
mod machine;
pub(crate) mod pairs;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod respond;
pub(crate) mod routes;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod site;
pub(crate) mod spool;
mod transport;

use crate::codec::http1::status;
use crate::codec::uri;
use crate::lua::{Call, Function, Module, ModuleWith, Object, Value};
use std::ffi::CStr;

/// `http.escape(text)` → `text` percent-encoded, all but the unreserved characters (RFC 3986 section 2.3).
const ESCAPE: Function = Function::new(|call: &mut Call<'_>| {
    let mut escaped = Vec::new();
    uri::percent_encode(call.bytes(1)?, &mut escaped);
    Ok(escaped)
});

/// `http.reason(status)` → its reason phrase.
const REASON: Function = Function::new(|call: &mut Call<'_>| {
    let status = call.integer_in(1, 100..=599, "status")? as u16;
    Ok(status::reason(status))
});

const FUNCTIONS: &[(&CStr, Function)] = &[
    (c"answers", client::NEW),
    (c"body_of", read::BODY_OF),
    (c"boundary", files::BOUNDARY),
    (c"check_field", respond::CHECK_FIELD),
    (c"compressed", files::COMPRESSED),
    (c"escape", ESCAPE),
    (c"kind", request::KIND),
    (c"media_type", files::MEDIA_TYPE),
    (c"multipart", form::NEW),
    (c"pairs", pairs::PAIRS),
    (c"reason", REASON),
    (c"routes", routes::NEW),
    (c"select", files::SELECT),
    (c"serve", serve::SERVE),
    (c"server", server::NEW),
    (c"set_field", respond::SET_FIELD),
    (c"site", site::NEW),
    (c"spool", spool::NEW),
];

/// Opens `lio.http`. `http.head` holds what requests can do, as functions.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let head = call.create(Module(<request::Request as Object>::METHODS))?;
    Ok(ModuleWith { functions: FUNCTIONS, values: vec![("head", Value::Argument(head))] })
});
