//! The opening handshake (RFC 6455 section 4): a server's response to a request, and a client's request.

use super::agreed::{Agreed, preferences};
use super::state::Shared;

use crate::codec::http1::fields::NO_FIELDS;
use crate::codec::http1::head::Progress;
use crate::codec::http1::response_head::{self, RequestKind};
use crate::codec::websocket::client::{self, Agreement};
use crate::codec::websocket::handshake::{accept, choose_protocol, is_valid_key};
use crate::codec::websocket::negotiation;
use crate::lua::{Call, Failure, Fault, FunctionTable, New, Nil, Object, functions, results};

/// Returns the strings in the list at `index`.
fn strings(call: &mut Call<'_>, index: i32) -> Result<Vec<Vec<u8>>, Fault> {
    let count = call.raw_length(index) as i64;
    let mut found = Vec::new();
    for number in 1..=count {
        let at = call.element(index, number)?;
        found.push(call.bytes(at)?.to_vec());
        call.drop_to(at - 1);
    }
    Ok(found)
}

results! {
    /// The result of `respond`: the value of Sec-WebSocket-Accept, the chosen subprotocol, the value of
    /// Sec-WebSocket-Extensions, and the parameters of the compression.
    pub(super) enum Response {
        Plain((String, Option<Vec<u8>>)),
        Compressed((String, Option<Vec<u8>>, String, New<Agreed>)),
        Malformed((Nil, &'static str)),
    }
}

/// `core.respond(key, protocols, supported, extensions, compresses, keeps_context)`: returns what the server's response
/// contains, or nil and a message if the request is malformed. `protocols` and `extensions` are lists of the values of the
/// fields; `supported` is a list of names.
pub(super) fn respond(call: &mut Call<'_>) -> Result<Response, Fault> {
    let malformed = |text| Ok(Response::Malformed((Nil, text)));
    let (protocols, supported, extensions) = (strings(call, 2)?, strings(call, 3)?, strings(call, 4)?);
    let key = call.bytes(1)?;
    if !is_valid_key(key) {
        return malformed("Sec-WebSocket-Key must be 16 bytes in base64");
    }
    let accept = accept(key);
    let Ok(protocol) = choose_protocol(protocols.iter().map(Vec::as_slice), &supported) else {
        return malformed("Sec-WebSocket-Protocol must be a list of tokens");
    };
    let protocol = protocol.cloned();
    let wanted = preferences(call.is_true(6));
    let Ok(agreed) = negotiation::respond(extensions.iter().map(Vec::as_slice), &wanted) else {
        return malformed("Sec-WebSocket-Extensions is malformed");
    };
    Ok(match agreed.filter(|_| call.is_true(5)) {
        Some((deflate, field)) => Response::Compressed((accept, protocol, field, New::of(Agreed(deflate)))),
        None => Response::Plain((accept, protocol)),
    })
}

/// The request of a client, whose response is awaited.
pub(crate) struct Request(client::Request);

impl Object for Request {
    const NAME: &'static str = "lio.websocket.request";
    const METHODS: FunctionTable = functions! { fields, check };
}

/// `core.request(protocols, compresses, keeps_context)`: returns the request of a client. Raises if a subprotocol is not a
/// token, or is there twice.
pub(super) fn request(call: &mut Call<'_>) -> Result<New<Request>, Fault> {
    let shared = call.shared::<Shared>()?;
    let random = shared.random().map_err(Fault::message)?;
    let protocols = strings(call, 1)?;
    let protocols = protocols.into_iter().map(|name| String::from_utf8_lossy(&name).into_owned()).collect();
    let deflate = call.is_true(2).then(|| preferences(call.is_true(3)));
    match client::Request::new(&random, protocols, deflate) {
        Ok(request) => Ok(New::of(Request(request))),
        Err(name) => Err(Fault::message(format_args!("'{name}' is not a token, or occurs twice"))),
    }
}

/// `request:fields()`: returns the fields of the request besides Host, as lines that end with CRLF.
fn fields(call: &mut Call<'_>) -> Result<String, Fault> {
    let fields = call.object::<Request>(1)?.0.fields();
    Ok(fields.into_iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect())
}

results! {
    /// The result of `check`: the subprotocol, and the parameters of the compression.
    enum Checked {
        Plain((bool, Option<String>)),
        Compressed((bool, Option<String>, New<Agreed>)),
    }
}

/// `request:check(head)`: checks the head of the server's response, which ends with an empty line. Returns true, the
/// subprotocol and the parameters of the compression; or `nil, message, code`: "protocol" for a malformed response,
/// "refused" for one that does not accept the request.
fn check(call: &mut Call<'_>) -> Result<Checked, Fault> {
    let refused = |text: String| Failure::composed("websocket", text, "refused");
    let head = call.bytes(2)?;
    let Some((status, fields)) = parse(head) else {
        return Err(Failure::new("websocket", "the response is not HTTP", "protocol").into());
    };
    let fields = fields.into_iter();
    let Agreement { protocol, deflate } = call.object::<Request>(1)?.0.check(status, fields).map_err(refused)?;
    Ok(match deflate {
        Some(deflate) => Checked::Compressed((true, protocol, New::of(Agreed(deflate)))),
        None => Checked::Plain((true, protocol)),
    })
}

/// The maximum size of the header section of a response, in bytes, and of the number of its fields.
const LIMITS: (usize, usize) = (64 * 1024, 200);

/// The name and the value of a field.
type Field<'h> = (&'h [u8], &'h [u8]);

/// Returns the status of a response, and the names and values of its fields; `None` if its head is malformed.
fn parse(head: &[u8]) -> Option<(u16, Vec<Field<'_>>)> {
    let mut table = NO_FIELDS;
    let parsed = response_head::parse(head, RequestKind::Other, LIMITS, &mut Progress::default(), &mut table);
    let parsed = parsed.ok().flatten()?;
    let fields = table[..parsed.field_count].iter().map(|field| (field.name.of(head), field.value.of(head)));
    Some((parsed.status, fields.collect()))
}
