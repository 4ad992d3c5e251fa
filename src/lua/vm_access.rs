//! The parts of its VM that a step can access: data and memory. `collector.rs` has the collector.

use super::call::Call;
use super::stack::Stack;
use super::vm_context::context_of;
use crate::memory::Memory;

impl Call<'_> {
    /// Returns the data of the VM, if the core created the VM and the data is a `T`.
    #[inline]
    pub(crate) fn data<T: Send + 'static>(&mut self) -> Option<&mut T> {
        self.data_and_stack().map(|(data, _)| data)
    }

    /// Returns the data of the VM as [`Call::data`] does, together with the values of the call.
    #[inline]
    pub(crate) fn data_and_stack<T: Send + 'static>(&mut self) -> Option<(&mut T, &mut Stack)> {
        let data = self.vm_ref().context()?.data_as::<T>();
        // SAFETY: the call is borrowed mutably, which is the only path to the data while Lua code runs.
        unsafe { Some((data?.as_mut(), &mut **self)) }
    }

    /// Returns the VM's memory, if the core created the VM.
    pub(crate) fn memory(&self) -> Option<&Memory> {
        context_of(self).map(|context| &context.memory)
    }

    /// Runs `step` without the VM's memory limit: a service that has used up its memory must be able to report this
    /// error.
    pub(crate) fn without_memory_limit<R>(&mut self, step: impl FnOnce(&mut Self) -> R) -> R {
        let limit = self.memory().map(|memory| memory.set_limit(0));
        #[cfg(feature = "alloc_failures")]
        let step = |call: &mut Self| super::alloc_failures::suspended(|| step(call));
        let result = step(self);
        if let (Some(memory), Some(limit)) = (self.memory(), limit) {
            memory.set_limit(limit);
        }
        result
    }
    /// From now on, allocation number `first` of this VM fails (0: none). If `fails_on` is true, all later allocations
    /// fail as well.
    #[cfg(feature = "alloc_failures")]
    pub(crate) fn set_alloc_failures(&mut self, first: u64, fails_on: bool) {
        let is_own = context_of(self).is_some();
        super::alloc_failures::set(self, is_own, first, fails_on);
    }
}
