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
use crate::lua::{Call, Function, FunctionTable, Module, ModuleWith, Object, Value, functions};

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

const FUNCTIONS: FunctionTable = functions! {
    answers: client::NEW, body_of: read::BODY_OF, boundary: files::BOUNDARY, check_field: respond::CHECK_FIELD,
    compressed: files::COMPRESSED, escape: ESCAPE, kind: request::KIND, media_type: files::MEDIA_TYPE,
    multipart: form::NEW, pairs: pairs::PAIRS, reason: REASON, routes: routes::NEW, select: files::SELECT,
    serve: serve::SERVE, server: server::NEW, set_field: respond::SET_FIELD, site: site::NEW, spool: spool::NEW,
};

/// Opens `lio.http`. `http.head` holds what requests can do, as functions.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let head = call.create(Module(<request::Request as Object>::METHODS))?;
    Ok(ModuleWith { functions: FUNCTIONS, values: vec![("head", Value::Argument(head))] })
});
