//! `lio.websocket.core`: WebSocket on connections of `lio.net`, for `lualib/lio/websocket/`.
//!
//! | file | topic |
//! |---|---|
//! | [`state`] | the state of one connection |
//! | `agreed` | the parameters of the compression |
//! | `handshake` | the opening handshake of both sides |
//! | `pass` | passing messages to callbacks |
//! | `receive` | receiving messages, with and without waiting |
//! | `send` | sending messages and control frames; one message to many connections |

mod agreed;
mod handshake;
mod pass;
mod receive;
mod send;
pub(crate) mod state;

use crate::codec::websocket::reader::Limits;
use crate::codec::websocket::{Role, writer};
use crate::lua::{Call, Fault, Function, FunctionTable, Module, functions};
use crate::modules::stream::connection::Connection;
use agreed::Agreed;
use state::{Shared, WebSocket};

/// `core.start(c, is_client, deflate, max_message, max_frame, max_ratio, compress_from, max_rate)`: makes a connection
/// speak WebSocket after the handshake. `deflate` is a result of the handshake, or nil; the sizes are in bytes;
/// `max_rate` is in messages per second, above 0, or nil.
fn start(call: &mut Call<'_>) -> Result<(), Fault> {
    let shared = call.shared::<Shared>()?;
    let role = if call.is_true(2) { Role::Client } else { Role::Server };
    let deflate = call.as_object::<Agreed>(3).map(|agreed| agreed.0);
    let limits = Limits {
        message: call.integer_in(4, 1..=i64::MAX, "max_message")? as u64,
        frame: call.integer_in(5, 1..=i64::MAX, "max_frame")? as u64,
        ratio: call.integer_in(6, 1..=i64::from(u32::MAX), "max_ratio")? as u32,
        ..Limits::default()
    };
    let threshold = call.integer_in(7, 0..=i64::MAX, "compress_from")? as usize;
    let settings = writer::Settings { threshold, ..writer::Settings::default() };
    let mut websocket = WebSocket::new(role, limits, deflate, settings, shared);
    if !call.is_none(8) {
        websocket.limit_rate(call.number(8)?);
    }
    call.object_mut::<Connection>(1)?.start_websocket(websocket);
    Ok(())
}

const FUNCTIONS: FunctionTable = functions! {
    start, receive::receiver, receive::poller, pass::passer, send::send, send::ping, close = send::send_close,
    send::take_life, send::broadcast, handshake::respond, handshake::request,
};

/// Opens `lio.websocket.core`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS)));
