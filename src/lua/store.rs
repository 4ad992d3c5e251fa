//! Values that the core keeps for a VM: values that are being pushed, and values that exist once per VM.
//!
//! A memory error while a value is pushed skips the core's frames, so the values that these frames own would leak.
//! Therefore a value is parked here while it is pushed. If an error leaves a parked value behind, the next call that
//! parks a value drops it.
//!
//! `vm_context` describes where a VM has its store.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The store of a VM.
#[derive(Default)]
pub(super) struct Store {
    parked: RefCell<Vec<Entry>>,
    shared: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    closed: Cell<bool>,
}

/// A parked value.
struct Entry {
    /// The thread of the owner's frame, and the frame's address.
    thread: usize,
    frame: usize,
    /// Kept only to be dropped.
    _value: Box<dyn Any>,
}

/// Returns a number that identifies the running thread.
fn thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl Store {
    /// Keeps `value` until the same frame calls [`Store::release`] with the returned number. Until then, the returned
    /// pointer is valid. `frame` is the address of a local variable in that frame.
    pub(super) fn park<T: 'static>(&self, value: T, frame: usize) -> (usize, *mut T) {
        let mut value = Box::new(value);
        let pointer = &raw mut *value;
        let thread = thread();
        // A VM runs on one thread at a time, and the thread's stack grows down. So a frame that belongs to another
        // thread, or is not above this frame, has ended. If such a frame has left a value here, it ended with an error.
        let is_open = |entry: &Entry| entry.thread == thread && entry.frame > frame;
        let mut parked = self.parked.borrow_mut();
        let open = parked.iter().take_while(|entry| is_open(entry)).count();
        let stale = parked.split_off(open);
        parked.push(Entry { thread, frame, _value: value });
        drop(parked);
        // Dropped outside the borrow, because a destructor may park a value.
        drop(stale);
        (open, pointer)
    }

    /// Stops sharing values. Called when the VM closes, or when a script calls the finalizer.
    pub(super) fn close(&self) {
        self.closed.set(true);
        // Objects may still have references to the shared values.
        drop(self.shared.take());
    }

    /// Drops the value that was parked with this number, and all values that were parked after it.
    pub(super) fn release(&self, number: usize) {
        let mut parked = self.parked.borrow_mut();
        let number = number.min(parked.len());
        let done = parked.split_off(number);
        drop(parked);
        drop(done);
    }

    /// Returns the shared value of type `T`, which is created on first use; `None` once the store is closed.
    pub(super) fn shared<T: Default + 'static>(&self) -> Option<Rc<T>> {
        if self.closed.get() {
            return None;
        }
        let known =
            self.shared.borrow().iter().find_map(|(id, value)| (*id == TypeId::of::<T>()).then(|| value.clone()));
        if let Some(known) = known {
            return known.downcast().ok();
        }
        let created = Rc::new(T::default());
        self.shared.borrow_mut().push((TypeId::of::<T>(), created.clone()));
        Some(created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_an_ended_frame_is_dropped_by_the_next_one() {
        let store = Store::default();
        let (outer, left, next) = (Rc::new(1), Rc::new(2), Rc::new(3));
        let (outer_number, _) = store.park(outer.clone(), 1000);
        store.park(left.clone(), 500);
        let (number, pointer) = store.park(next.clone(), 500);
        assert_eq!(Rc::strong_count(&left), 1);
        assert_eq!(Rc::strong_count(&outer), 2);
        // SAFETY: this frame has parked the value and not released it yet.
        assert_eq!(unsafe { **pointer }, 3);
        store.release(number);
        assert_eq!(Rc::strong_count(&next), 1);
        store.park(left.clone(), 400);
        store.release(outer_number);
        assert_eq!(Rc::strong_count(&outer), 1);
        assert_eq!(Rc::strong_count(&left), 1);
    }

    #[test]
    fn a_vm_has_one_shared_value_of_a_type() {
        let store = Store::default();
        let one = store.shared::<Cell<u8>>().expect("open");
        one.set(7);
        assert_eq!(store.shared::<Cell<u8>>().expect("open").get(), 7);
        assert_eq!(store.shared::<Cell<u16>>().expect("open").get(), 0);
        store.closed.set(true);
        assert!(store.shared::<Cell<u8>>().is_none());
    }
}
