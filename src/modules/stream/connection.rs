//! What a `lio.connection` is.

use crate::stream::Stream;
use crate::task::Tasks;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A stream as Lua holds it.
pub(crate) struct Connection {
    stream: Stream,
    /// The VM's tasks, once one has waited in a `recv`.
    pub(super) tasks: Option<Rc<Tasks>>,
}

impl From<Stream> for Connection {
    fn from(stream: Stream) -> Self {
        Connection { stream, tasks: None }
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
