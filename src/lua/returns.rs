//! Values that a step returns to Lua, and how they are pushed after the step.

pub(crate) use super::pusher::Pusher;
use super::vm_context;
use std::ffi::c_int;
use std::mem::ManuallyDrop;

/// One value for Lua. Only this folder defines what each type pushes; bounds in other folders use [`Pushable`].
pub(crate) trait Push {
    /// Whether the value may refer to values on the function's stack.
    const REFERS_TO_STACK: bool = false;
    /// Pushes the value. This can raise an error, so the value stays in its place and keeps what it owns.
    fn push(&mut self, to: Pusher<'_>);
}

/// One value for Lua, as a bound for generic code in other folders.
pub(crate) trait Pushable: Push + 'static {}
impl<T: Push + 'static> Pushable for T {}

/// One or several values for Lua.
pub(crate) trait Values: Sized + 'static {
    /// Pushes the values, as [`Push::push`] does. Returns their number.
    fn push_all(&mut self, to: Pusher<'_>) -> c_int;
}

/// Calls `push` with `value`, which is parked during the call if it owns anything.
#[inline(always)]
pub(super) fn with_parked<T: 'static, R>(
    mut value: T, to: Pusher<'_>, push: impl FnOnce(&mut T, Pusher<'_>) -> R,
) -> R {
    match std::mem::needs_drop::<T>() {
        true => push_parked(value, to, push),
        false => push(&mut value, to),
    }
}

/// Parks the value in the VM's store while `push` runs.
#[inline(never)]
fn push_parked<T: 'static, R>(value: T, mut to: Pusher<'_>, push: impl FnOnce(&mut T, Pusher<'_>) -> R) -> R {
    let mark = 0u8;
    match vm_context::store_of(&mut to) {
        Some(store) => {
            let (number, parked) = store.park(value, (&raw const mark).addr());
            // SAFETY: a parked value stays until it is released, below. A raise skips only plain data.
            let pushed = push(unsafe { &mut *parked }, to);
            store.release(number);
            pushed
        }
        // A script has removed the store, so a memory error would leak the value.
        None => {
            let mut kept = ManuallyDrop::new(Box::new(value));
            let pushed = push(&mut kept, to);
            drop(ManuallyDrop::into_inner(kept));
            pushed
        }
    }
}

/// `nil`.
#[derive(Clone, Copy)]
pub(crate) struct Nil;

/// The value at a stack index of the function: an argument, or a value that a step has pushed.
#[derive(Clone, Copy)]
pub(crate) struct Argument(pub(crate) c_int);

/// A byte string.
pub(crate) type Bytes = bytes::Bytes;

macro_rules! string {
    ($($type:ty),*) => {
        $(impl Push for $type {
            #[inline(always)]
            fn push(&mut self, mut to: Pusher<'_>) {
                to.push_string(self.as_ref());
            }
        })*
    };
}
string!(&'static str, &'static [u8], String, Vec<u8>, Bytes);

impl<T: Push> Push for Option<T> {
    const REFERS_TO_STACK: bool = T::REFERS_TO_STACK;
    #[inline(always)]
    fn push(&mut self, mut to: Pusher<'_>) {
        match self {
            Some(value) => value.push(to),
            None => to.push_nil(),
        }
    }
}

impl<T: Push + 'static> Values for T {
    #[inline(always)]
    fn push_all(&mut self, to: Pusher<'_>) -> c_int {
        self.push(to);
        1
    }
}

macro_rules! tuple {
    ($count:literal: $($name:ident)*) => {
        impl<$($name: Push + 'static),*> Values for ($($name,)*) {
            #[inline(always)]
            #[allow(non_snake_case, unused_variables, unused_mut)]
            fn push_all(&mut self, mut to: Pusher<'_>) -> c_int {
                let ($($name,)*) = self;
                $($name.push(to.reborrow());)*
                $count
            }
        }
    };
}
tuple!(0:);
tuple!(1: A);
tuple!(2: A B);
tuple!(3: A B C);
tuple!(4: A B C D);
tuple!(5: A B C D E);
tuple!(6: A B C D E F);
tuple!(7: A B C D E F G);

/// Values, followed by more values if there are any.
pub(crate) struct Extended<V, M>(pub(crate) V, pub(crate) Option<M>);

impl<V: Values, M: Values> Values for Extended<V, M> {
    #[inline(always)]
    fn push_all(&mut self, mut to: Pusher<'_>) -> c_int {
        let count = self.0.push_all(to.reborrow());
        let Some(more) = &mut self.1 else { return count };
        // A step reserves room for only one of the two lists.
        to.need(10, None);
        count + more.push_all(to)
    }
}

/// Any number of values.
pub(crate) struct Many<T>(pub(crate) Vec<T>);

impl<T: Push + 'static> Values for Many<T> {
    fn push_all(&mut self, mut to: Pusher<'_>) -> c_int {
        let count = c_int::try_from(self.0.len()).unwrap_or(c_int::MAX);
        to.need(count, Some(c"too many values"));
        for value in &mut self.0 {
            value.push(to.reborrow());
        }
        count
    }
}
