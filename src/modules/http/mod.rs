//! `lio.http`: the Rust part of `lualib/lio/web/` and `lualib/lio/http/`.
//!
//! | file | topic |
//! |---|---|
//! | [`server`], `machine` | the web server as a Lua object |
//! | [`serve`] | running the handlers |
//! | [`request`] | requests as handlers get them |
//! | [`respond`] | responses; the peer's address; detaching a connection |
//! | [`read`] | bodies of requests |
//! | [`routes`] | the routes of an app |
//! | [`site`], [`files`] | served folders; files as responses |
//! | [`html`] | texts that are sent as HTML; escaping |
//! | [`proxies`] | trusted proxies, and their reports about clients |
//! | [`form`], [`spool`] | multipart forms; temporary files |
//! | [`client`] | responses that a client receives |
//! | `memory` | the client's end of a connection in memory, for tests of an app |
//! | `transport` | the transports of connections |
//! | [`pairs`], `fields`, `limit` | conversions of arguments and results |

mod callbacks;
pub(crate) mod client;
mod fields;
pub(crate) mod files;
pub(crate) mod form;
pub(crate) mod html;
mod limit;
mod machine;
mod memory;
pub(crate) mod pairs;
mod proxies;
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

/// `http.percent_encode(text)`: returns `text` percent-encoded, except unreserved characters (RFC 3986 section 2.3).
const PERCENT_ENCODE: Function = Function::new(|call: &mut Call<'_>| {
    let mut escaped = Vec::new();
    uri::percent_encode(call.bytes(1)?, &mut escaped);
    Ok(escaped)
});

/// `http.reason(status)`: returns the reason phrase of the status.
const REASON: Function = Function::new(|call: &mut Call<'_>| {
    let status = call.integer_in(1, 100..=599, "status")? as u16;
    Ok(status::reason(status))
});

const FUNCTIONS: FunctionTable = functions! {
    body_of: read::BODY_OF, boundary: files::BOUNDARY, check_field: respond::CHECK_FIELD,
    choose_response: files::CHOOSE_RESPONSE, define_request_fields: request::DEFINE_REQUEST_FIELDS,
    escape_html: html::ESCAPE, html: html::NEW, media_type: files::MEDIA_TYPE, multipart: form::NEW,
    networks: proxies::NEW, open_compressed_copy: files::OPEN_COMPRESSED_COPY,
    parse_urlencoded: pairs::PARSE_URLENCODED, percent_encode: PERCENT_ENCODE, reason: REASON, responses: client::NEW,
    routes: routes::NEW, serve: serve::SERVE, server: server::NEW, site: site::NEW, spool: spool::NEW,
    text_of_html: html::TEXT_OF,
};

/// Functions whose first argument is a request that a server handles.
const REQUEST: FunctionTable = functions! {
    record_effect: respond::RECORD_EFFECT, set_field: respond::SET_FIELD, add_field: respond::ADD_FIELD,
    remove_field: respond::REMOVE_FIELD, get_field: respond::GET_FIELD, save_fields: respond::SAVE_FIELDS,
    restore_fields: respond::RESTORE_FIELDS, clear_fields: respond::CLEAR_FIELDS,
    drop_body_fields: respond::DROP_BODY_FIELDS, respond: respond::RESPOND, begin_body: respond::BEGIN_BODY,
    queue_chunk: respond::QUEUE_CHUNK, end_body: respond::END_BODY, send: respond::SEND,
    queue_file: respond::QUEUE_FILE, queued: respond::QUEUED, sent: respond::SENT,
    response_has_begun: respond::RESPONSE_HAS_BEGUN, is_head: respond::IS_HEAD, is_open: respond::IS_OPEN,
    close_after: respond::CLOSE_AFTER, detach: respond::DETACH, address: respond::ADDRESS,
    piece: read::PIECE, trailers: read::TRAILERS, used_tls: proxies::USED_TLS, tls: proxies::TLS, wait: read::WAIT,
    end_wait: read::END_WAIT,
};

/// Opens `lio.http`. `http.head` contains the functions that read the head of a request, and `http.request` the
/// functions for a request that a server handles.
pub(crate) const OPEN: Function = Function::new(|call: &mut Call<'_>| {
    let head = call.create(Module(<request::Request as Object>::METHODS))?;
    let request = call.create(Module(REQUEST))?;
    let values = vec![("head", Value::Argument(head)), ("request", Value::Argument(request))];
    Ok(ModuleWith { functions: FUNCTIONS, values })
});
