//! Tracebacks: the active functions of a coroutine, as text.

use super::call::Call;
use super::pusher::Pusher;
use super::returns::Push;
use super::state::State;
use super::vm_context::{self, VmContext};
use std::ffi::c_int;

/// A traceback of the running coroutine, from `level` on (0: the running function). If `message` is given, the
/// traceback begins with the string at that index.
pub(crate) struct Traceback {
    pub(crate) message: Option<c_int>,
    pub(crate) level: c_int,
}

impl Push for Traceback {
    const REFERS_TO_STACK: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        let running = State::reborrow(&to);
        to.trace(&running, self.message, self.level);
    }
}

/// A traceback of the main function of the VM; nil if the core did not create the VM.
pub(crate) struct MainTraceback;

impl Push for MainTraceback {
    fn push(&mut self, mut to: Pusher<'_>) {
        match vm_context::context_of(&to).and_then(VmContext::main_coroutine) {
            Some(main) => to.trace(&main, None, 0),
            None => to.push_nil(),
        }
    }
}

impl Call<'_> {
    /// Returns a traceback of the running coroutine, from `level` on; `None` if there is not enough memory.
    pub(crate) fn traceback(&mut self, level: c_int) -> Option<String> {
        let height = self.count();
        // The function that pushes the traceback adds one level.
        let created = self.create(Traceback { message: None, level: level + 1 });
        let text = created.ok().and_then(|index| self.string(index));
        let text = text.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        self.drop_to(height);
        text
    }
}
