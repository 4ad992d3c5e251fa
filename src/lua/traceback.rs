//! Where a coroutine is, as text.

use super::call::Call;
use super::home;
use super::pusher::Pusher;
use super::returns::Push;
use super::returns::sealed::Sealed;
use mlua::ffi;
use std::ffi::c_int;
use std::ptr;

/// The string at an index with a traceback of the running coroutine behind it, from a level on: 0 is the running function.
pub(crate) struct Traceback {
    pub(crate) message: c_int,
    pub(crate) level: c_int,
}

impl Sealed for Traceback {}
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
        let main = home::of(&to).map_or(ptr::null_mut(), |home| home.main.get());
        match main.is_null() {
            true => to.push_nil(),
            // SAFETY: the main function's coroutine lives as long as the VM.
            false => unsafe { ffi::luaL_traceback(to.state(), main, ptr::null(), 0) },
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
