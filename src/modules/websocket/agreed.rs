//! The parameters of the compression: those that an endpoint wants, and those that both have agreed on.

use crate::codec::websocket::negotiation::{Deflate, Direction, MAX_WINDOW_BITS};
use crate::lua::Object;

/// The agreed parameters of the compression, as a Lua object.
pub(crate) struct Agreed(pub(super) Deflate);

impl Object for Agreed {
    const NAME: &'static str = "lio.websocket.deflate";
}

/// Returns the parameters that this endpoint wants. Without a context, a message does not refer to earlier messages.
pub(super) fn preferences(keeps_context: bool) -> Deflate {
    let direction = Direction { keeps_context, window_bits: MAX_WINDOW_BITS };
    Deflate { client: direction, server: direction }
}
