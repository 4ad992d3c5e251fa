//! Where a coroutine is, as text.

use super::call::Call;
use super::home::{self, Home};
use super::pusher::Pusher;
use super::returns::Push;
use super::returns::sealed::Sealed;
use std::ffi::c_int;

/// The string at an index with a traceback of the running coroutine behind it, from a level on: 0 is the running function.
#[cfg(feature = "vendored")]
pub(crate) struct Traceback {
    pub(crate) message: c_int,
    pub(crate) level: c_int,
}

#[cfg(feature = "vendored")]
impl Sealed for Traceback {}
#[cfg(feature = "vendored")]
impl Push for Traceback {
    const REFERS: bool = true;
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_traceback(Some(self.message), self.level);
    }
}

/// A traceback alone.
struct Here {
    level: c_int,
}

impl Sealed for Here {}
impl Push for Here {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_traceback(None, self.level);
    }
}

/// Where the main function of the VM is, one of ours; nil in any other.
pub(crate) struct MainTraceback;

impl Sealed for MainTraceback {}
impl Push for MainTraceback {
    fn push(&mut self, mut to: Pusher<'_>) {
        match home::of(&to).and_then(Home::main) {
            Some(main) => to.trace(&main, None, 0),
            None => to.push_nil(),
        }
    }
}

impl Call<'_> {
    /// Where the running coroutine is, from `level` on; `None` for want of memory.
    pub(crate) fn traceback(&mut self, level: c_int) -> Option<String> {
        let height = self.count();
        // The function that pushes it is one level more.
        let made = self.create(Here { level: level + 1 });
        let text = made.ok().and_then(|index| self.string(index));
        let text = text.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        self.drop_to(height);
        text
    }
}
