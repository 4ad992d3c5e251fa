//! The object `lio.connection`.

use crate::lua::{Call, Fault, Stack};
use crate::modules::websocket::state::WebSocket;
use crate::stream::Stream;
use crate::task::Tasks;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A stream that is a Lua object.
pub(crate) struct Connection {
    stream: Stream,
    /// The VM's tasks; set when a task first waits in `recv`.
    pub(super) tasks: Option<Rc<Tasks>>,
    /// The state of the protocol, if the connection speaks WebSocket.
    websocket: Option<Box<WebSocket>>,
}

impl Connection {
    /// Makes the connection speak WebSocket.
    pub(crate) fn start_websocket(&mut self, websocket: WebSocket) {
        self.websocket = Some(Box::new(websocket));
    }

    /// Whether a close frame was sent, or the connection is closed.
    #[inline]
    pub(crate) fn has_sent_close(&self) -> bool {
        self.stream.is_closed() || self.websocket.as_ref().is_none_or(|websocket| websocket.has_sent_close())
    }

    /// Returns the stream and the state of WebSocket, if there is one.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut Stream, Option<&mut WebSocket>) {
        (&mut self.stream, self.websocket.as_deref_mut())
    }
}

impl From<Stream> for Connection {
    fn from(stream: Stream) -> Self {
        Connection { stream, tasks: None, websocket: None }
    }
}

impl Deref for Connection {
    type Target = Stream;
    #[inline]
    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl DerefMut for Connection {
    #[inline]
    fn deref_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

/// Returns the connection at argument 1 of the call `name`, and the values of the call.
#[inline]
pub(super) fn of_call<'c>(
    call: &'c mut Call<'_>, name: &'static str,
) -> Result<(&'c mut Connection, &'c mut Stack), Fault> {
    call.object_and_stack::<Connection>(1).map_err(|fault| fault.in_call(name, 0))
}
