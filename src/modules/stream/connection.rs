//! The object `lio.connection`.

use crate::stream::Stream;
use crate::task::Tasks;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A stream that is a Lua object.
pub(crate) struct Connection {
    stream: Stream,
    /// The VM's tasks; set at the first wait of a task in `recv`.
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
