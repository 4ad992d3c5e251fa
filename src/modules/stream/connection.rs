//! The object `lio.connection`.

use crate::lua::{Call, Fault, Stack};
use crate::stream::Stream;
use crate::task::Tasks;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A stream that is a Lua object.
pub(crate) struct Connection {
    stream: Stream,
    /// The VM's tasks; set when a task first waits in `recv`.
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

/// Returns the connection at argument 1 of the call `name`, and the values of the call.
#[inline]
pub(super) fn of_call<'c>(
    call: &'c mut Call<'_>, name: &'static str,
) -> Result<(&'c mut Connection, &'c mut Stack), Fault> {
    call.object_and_stack::<Connection>(1).map_err(|fault| fault.in_call(name, 0))
}
