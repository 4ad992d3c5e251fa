//! What the core keeps for a VM: values that wait until Lua has them, and those that a VM has one of.
//!
//! A memory error in the giving of a value skips the frames of the core; what they owned would leak. So it is parked here
//! meanwhile, and what an error has left behind is dropped by whoever parks something next.
//!
//! Where it lies, `home` says.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[derive(Default)]
pub(super) struct Store {
    parked: RefCell<Vec<Entry>>,
    shared: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    closed: Cell<bool>,
}

struct Entry {
    /// The thread whose stack its owner's frame is on, and where.
    thread: usize,
    frame: usize,
    /// Only to be dropped.
    _value: Box<dyn Any>,
}

/// Tells threads apart.
fn thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl Store {
    /// Keeps `value` until [`Store::leave`] is called with what this returns, by the same frame; `frame` is the address
    /// of a local of it. The pointer holds as long.
    pub(super) fn park<T: 'static>(&self, value: T, frame: usize) -> (usize, *mut T) {
        let mut value = Box::new(value);
        let pointer = &raw mut *value;
        let thread = thread();
        // A VM runs on one thread at a time, whose stack grows down: a frame of another thread, or below this one, or in
        // its place, has ended, by an error if it left anything.
        let is_open = |entry: &Entry| entry.thread == thread && entry.frame > frame;
        let mut parked = self.parked.borrow_mut();
        let open = parked.iter().take_while(|entry| is_open(entry)).count();
        let stale = parked.split_off(open);
        parked.push(Entry { thread, frame, _value: value });
        drop(parked);
        // Outside of the borrow: a destructor may park something.
        drop(stale);
        (open, pointer)
    }

    /// The VM closes, or a script says so: nothing is shared from now on.
    pub(super) fn close(&self) {
        self.closed.set(true);
        // Others may hold them still.
        drop(self.shared.take());
    }

    /// Drops what was parked under this number, and what was left behind it.
    pub(super) fn leave(&self, number: usize) {
        let mut parked = self.parked.borrow_mut();
        let number = number.min(parked.len());
        let done = parked.split_off(number);
        drop(parked);
        drop(done);
    }

    /// The value of type `T`, made at first use; `None` once the VM closes.
    pub(super) fn shared<T: Default + 'static>(&self) -> Option<Rc<T>> {
        if self.closed.get() {
            return None;
        }
        let known =
            self.shared.borrow().iter().find_map(|(id, value)| (*id == TypeId::of::<T>()).then(|| value.clone()));
        if let Some(known) = known {
            return known.downcast().ok();
        }
        let made = Rc::new(T::default());
        self.shared.borrow_mut().push((TypeId::of::<T>(), made.clone()));
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_ended_frame_has_left_is_dropped_by_the_next() {
        let store = Store::default();
        let (outer, left, next) = (Rc::new(1), Rc::new(2), Rc::new(3));
        let (outer_number, _) = store.park(outer.clone(), 1000);
        store.park(left.clone(), 500);
        let (number, pointer) = store.park(next.clone(), 500);
        assert_eq!(Rc::strong_count(&left), 1);
        assert_eq!(Rc::strong_count(&outer), 2);
        // SAFETY: parked by this frame and not left yet.
        assert_eq!(unsafe { **pointer }, 3);
        store.leave(number);
        assert_eq!(Rc::strong_count(&next), 1);
        store.park(left.clone(), 400);
        store.leave(outer_number);
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
