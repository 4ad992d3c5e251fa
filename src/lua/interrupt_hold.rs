//! Sections in which interrupts are held: the thread that runs a VM reads or changes a hook, which consists of several
//! values. If a signal changed the hook in between, the section would see, or leave, parts of two hooks. Therefore the
//! signal takes effect at the end of the section.

use super::hook::Hook;
use super::state::State;
use super::vm_context::{VmContext, context_of};
use mlua::ffi;

/// Holds the interrupts of a VM until the value is dropped.
pub(super) struct HeldInterrupts<'c>(&'c VmContext);

impl HeldInterrupts<'_> {
    /// Begins a section.
    pub(super) fn begin(context: &VmContext) -> HeldInterrupts<'_> {
        context.hold.enter();
        HeldInterrupts(context)
    }
}

impl Drop for HeldInterrupts<'_> {
    fn drop(&mut self) {
        while !self.0.hold.try_leave() {
            if let Some(on_interrupt) = self.0.on_interrupt.get() {
                (on_interrupt.set_hooks)(self.0);
            }
        }
    }
}

impl State {
    /// Returns the hook of this stack's coroutine. No signal changes it in the meantime.
    #[inline]
    pub(super) fn current_hook(&self) -> Hook {
        if !self.has_debug_hook() {
            return Hook::NONE;
        }
        let _held = context_of(self).map(HeldInterrupts::begin);
        self.debug_hook()
    }

    /// Returns the hook of interrupts if it is going to run before the coroutine's next instruction; otherwise no hook.
    pub(super) fn pending_interrupt(&self) -> Hook {
        let hook = self.current_hook();
        let is_pending = (hook.events, hook.count) == (ffi::LUA_MASKCOUNT, 1)
            && context_of(self).is_some_and(|context| context.is_of_interrupt(hook));
        if is_pending { hook } else { Hook::NONE }
    }
}
