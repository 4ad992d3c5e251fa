//! Sections in which interrupts are held: the thread that runs a VM reads or changes a hook, which consists of several
//! values. If a signal changed the hook in between, the section would see, or leave, parts of two hooks. Therefore the
//! signal takes effect at the end of the section.

use super::interrupt;
use super::vm_context::VmContext;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, compiler_fence};

/// Whether interrupts of a VM are held. Only the thread that runs the VM, and its signal handler, access the fields.
#[derive(Default)]
pub(super) struct Hold {
    /// The number of sections, which may be nested.
    sections: AtomicU32,
    /// Whether an interrupt has to take effect at the end of the outermost section.
    is_pending: AtomicBool,
}

impl Hold {
    /// Called by the signal handler. Returns whether interrupts are held; if so, the interrupt takes effect later.
    pub(super) fn defers(&self) -> bool {
        let is_held = self.sections.load(Relaxed) > 0;
        if is_held {
            self.defer();
        }
        is_held
    }

    /// Lets an interrupt take effect at the end of the outermost section.
    pub(super) fn defer(&self) {
        self.is_pending.store(true, Relaxed);
    }

    fn enter(&self) {
        self.sections.store(self.sections.load(Relaxed) + 1, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Ends a section and returns true, unless an interrupt is pending at the end of the outermost section: then the
    /// section goes on, and the caller interrupts the VM and calls this again.
    fn try_leave(&self) -> bool {
        compiler_fence(SeqCst);
        let outer = self.sections.load(Relaxed) - 1;
        self.sections.store(outer, Relaxed);
        compiler_fence(SeqCst);
        // From here on, signals have an immediate effect, so an interrupt that is pending came before.
        if outer > 0 || !self.is_pending.load(Relaxed) {
            return true;
        }
        self.enter();
        self.is_pending.store(false, Relaxed);
        false
    }
}

/// Holds the interrupts of a VM until the value is dropped.
pub(super) struct HeldInterrupts<'c>(&'c VmContext);

impl HeldInterrupts<'_> {
    pub(super) fn begin(context: &VmContext) -> HeldInterrupts<'_> {
        context.hold.enter();
        HeldInterrupts(context)
    }
}

impl Drop for HeldInterrupts<'_> {
    fn drop(&mut self) {
        while !self.0.hold.try_leave() {
            interrupt::interrupt(self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_takes_effect_at_the_end_of_the_outermost_section() {
        let hold = Hold::default();
        assert!(!hold.defers());
        hold.enter();
        hold.enter();
        assert!(hold.defers());
        assert!(hold.try_leave(), "the inner section");
        assert!(hold.defers());
        assert!(!hold.try_leave(), "an interrupt is pending");
        assert!(hold.defers(), "the section goes on");
        assert!(!hold.try_leave());
        assert!(hold.try_leave());
        assert!(!hold.defers());
        hold.enter();
        assert!(hold.try_leave(), "nothing is pending");
    }
}
