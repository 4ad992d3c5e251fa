//! Creating anchors, coroutines, and probes for collector cycles.

use super::anchors::{
    ANCHOR_THREAD, AnchorThread, BY_PLACE, CLOSE, CYCLE, Coroutine, FIRST, MAX_SPARES, RESUME_ERROR_TEXTS,
    RESUME_ERRORS, SPARES, place,
};
use super::places::{Threads, anchors_lost};
use crate::lua::block::shared_key;
use crate::lua::call::Call;
use crate::lua::fault::Fault;
use crate::lua::hook::Hook;
use crate::lua::object::{self, Object};
use crate::lua::returns::{Push, Pusher};
use crate::lua::state::Kind;
use crate::lua::vm_context::{VmContext, context_of};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};
use std::rc::Rc;

/// The userdata block of the sentinel (see `anchors`).
#[derive(Clone, Copy)]
pub(super) struct Sentinel {
    threads: *const Threads,
    anchor_thread: *mut lua_State,
}

/// An object whose finalization shows that the collector has completed a cycle.
struct Probe(Rc<Threads>);

impl Object for Probe {
    const NAME: &'static str = "lio.probe";
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.anchors.ended.set(true);
    }
}

impl Threads {
    /// Creates the anchors of coroutines, once per VM. Lua's own `coroutine.close` must not have been replaced yet.
    pub(crate) fn create_anchors(self: &Rc<Self>, call: &mut Call<'_>) -> Result<(), Fault> {
        if !self.anchors.were_created() {
            let created = call.create(CreateAnchors(self.clone()))?;
            call.drop_to(created - 1);
        }
        Ok(())
    }

    /// Creates `count` coroutines with empty stacks. If memory runs out, creates fewer, but at least one.
    #[cold]
    pub(crate) fn create(self: &Rc<Self>, call: &mut Call<'_>, count: usize) -> Result<Vec<Coroutine>, Fault> {
        let height = call.count();
        let mut created = Vec::with_capacity(count);
        match self.create_places(call, count, Some(&mut created)) {
            Err(fault) if created.is_empty() => Err(fault),
            _ => {
                call.drop_to(height);
                Ok(created)
            }
        }
    }

    /// Creates `count` places. If `coroutines` is given, each place gets a new coroutine, which is appended to
    /// `coroutines`; otherwise the places are free.
    pub(super) fn create_places(
        self: &Rc<Self>, call: &mut Call<'_>, count: usize, coroutines: Option<&mut Vec<Coroutine>>,
    ) -> Result<(), Fault> {
        let height = call.count();
        let threads = self.clone();
        let result = call.create(CreatePlaces { threads, hook: call.current_hook(), count, coroutines });
        if result.is_ok() {
            call.drop_to(height);
        }
        result.map(drop)
    }

    /// Whether the collector has completed a cycle since this method last returned true.
    #[inline]
    pub(crate) fn cycle_has_ended(self: &Rc<Self>, call: &mut Call<'_>) -> bool {
        self.anchors.cycle_has_ended() && self.begin_cycle(call)
    }

    /// Starts observing the next cycle. Returns false if there is not enough memory.
    #[cold]
    pub(super) fn begin_cycle(self: &Rc<Self>, call: &mut Call<'_>) -> bool {
        if self.anchors.begin_cycle() {
            return true;
        }
        let height = call.count();
        // If there is not enough memory, the next call tries again.
        let _ = call.create(CreateProbes(self.clone()));
        call.drop_to(height);
        self.anchors.begin_cycle()
    }
}

/// Creates the anchors of a VM. Pushes nil.
pub(super) struct CreateAnchors(pub(super) Rc<Threads>);

impl Push for CreateAnchors {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.need(20, None);
        // The main state of a service's VM serves as the anchor thread. The main function's coroutine is below the
        // table, and the table contains the sentinel.
        let main_state = context_of(&to).and_then(VmContext::idle_main_state);
        let (height, is_main_state) = (to.count(), main_state.is_some());
        let mut anchor_thread = main_state.unwrap_or_else(|| to.push_coroutine());
        let sentinel = push_block(&mut to, Sentinel { threads: std::ptr::null(), anchor_thread: anchor_thread.state });
        to.push_table((FIRST + 2) as c_int, 0);
        let table = to.count();
        to.set_user_value(table - 1, 1, table);
        for number in 1..FIRST {
            to.push_boolean(false);
            to.set_item(number);
        }
        // The value at `height + 1` is the new anchor thread, or the sentinel if the main state is the anchor thread.
        to.push_copy(height + 1);
        to.set_item(ANCHOR_THREAD);
        for (number, text) in (RESUME_ERRORS..).zip(RESUME_ERROR_TEXTS) {
            to.push_string(text.to_bytes());
            to.set_item(number);
        }
        push_close_of_lua(&mut to);
        to.set_item(CLOSE);
        push_weak(&mut to, c"v");
        push_probe(&mut to, &self.0);
        to.set_item(1);
        to.set_item(CYCLE);
        push_weak(&mut to, c"v");
        to.set_item(BY_PLACE);
        push_metatable(&mut to, finalize_sentinel);
        set_block_metatable(&mut to, table - 1);
        if !is_main_state {
            to.push_copy(height + 1);
            to.register(shared_key::<Threads>());
        }
        // SAFETY: this is the block of the sentinel, which is on the stack. The anchor thread is set after all parts
        // have been created.
        unsafe { (*sentinel).threads = Rc::into_raw(self.0.clone()) };
        to.move_to(&mut anchor_thread, if is_main_state { 1 } else { 2 });
        to.drop_to(height);
        let anchors = &self.0.anchors;
        anchors.anchor_thread.set(Some(AnchorThread(anchor_thread.state)));
        anchors.vm.set(to.vm());
        to.push_nil();
    }
}

/// Pushes a userdata with `block` as its contents and one user value. Returns the address of the contents.
pub(super) fn push_block<T: Copy>(to: &mut Pusher<'_>, block: T) -> *mut T {
    let place: *mut T = to.push_block(size_of::<T>(), 1).cast();
    // SAFETY: the block is large enough, and Lua aligns it for pointers.
    unsafe { place.write(block) };
    place
}

/// Pushes a metatable with this finalizer. No program can get this table, so no program can change it.
pub(super) fn push_metatable(to: &mut Pusher<'_>, finalizer: ffi::lua_CFunction) {
    to.push_table(0, 1);
    to.push_function(finalizer);
    to.set_field(c"__gc");
}

/// Pops the table on top and makes it the metatable of the userdata at `index`.
pub(super) fn set_block_metatable(to: &mut Pusher<'_>, index: c_int) {
    to.check_kind(index, Kind::Userdata);
    to.check_kind(to.count(), Kind::Table);
    // SAFETY: the value at `index` is a userdata, and the popped value is a table.
    unsafe { ffi::lua_setmetatable(to.state(), index) };
}

/// Pushes a table with weak keys or values.
pub(super) fn push_weak(to: &mut Pusher<'_>, mode: &'static CStr) {
    to.push_table(1, 0);
    to.push_table(0, 1);
    to.push_string(mode.to_bytes());
    to.set_field(c"__mode");
    to.set_top_metatable();
}

/// Pushes a probe.
fn push_probe(to: &mut Pusher<'_>, threads: &Rc<Threads>) {
    object::push(to, || Some(Probe(threads.clone())));
}

/// Pushes the function `coroutine.close` if it is a C function, otherwise false.
fn push_close_of_lua(to: &mut Pusher<'_>) {
    to.push_registry_field(c"_LOADED");
    let libraries = to.count();
    to.push_string(b"coroutine");
    to.get_top(libraries);
    to.push_string(b"close");
    to.get_top(libraries + 1);
    if to.c_function(libraries + 2).is_none() {
        to.push_boolean(false);
    }
    to.replace_with_top(libraries);
}

/// The finalizer of the sentinel.
unsafe extern "C-unwind" fn finalize_sentinel(state: *mut lua_State) -> c_int {
    // SAFETY: only the collector calls this, with the sentinel, which is below the anchor thread's first frame, where
    // no program can reach it.
    unsafe {
        let sentinel: *mut Sentinel = ffi::lua_touserdata(state, 1).cast();
        let threads = std::mem::replace(&mut (*sentinel).threads, std::ptr::null());
        if !threads.is_null() {
            let threads = Rc::from_raw(threads);
            if threads.anchors.anchor_thread.get() == Some(AnchorThread((*sentinel).anchor_thread)) {
                threads.anchors.anchor_thread.set(None);
            }
        }
        0
    }
}

/// The operation of [`Threads::create_places`]. Pushes nil.
///
/// Several places are created at a time, because each allocation in the middle of a step can make the collector start a
/// new cycle early, see `protected`.
pub(super) struct CreatePlaces<'a> {
    pub(super) threads: Rc<Threads>,
    /// The hook of the new coroutines.
    pub(super) hook: Hook,
    pub(super) count: usize,
    /// Receives the new coroutines; `None` to create free places.
    pub(super) coroutines: Option<&'a mut Vec<Coroutine>>,
}

impl Push for CreatePlaces<'_> {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.need(10, None);
        let anchors = &self.threads.anchors;
        if !anchors.are_of(to.vm()) || !anchors.push_table(&mut to) {
            anchors_lost().raise(&mut to);
        }
        for _ in 0..self.count {
            match &mut self.coroutines {
                // A place is marked as used after the table contains its coroutine.
                Some(entered) => {
                    let co = self.threads.next_place();
                    let thread = to.push_coroutine();
                    self.hook.set_in_new(&thread);
                    to.set_item(place(co));
                    self.threads.fill_place(co, thread.state);
                    entered.push(co);
                }
                None => {
                    let co = self.threads.new_place();
                    to.push_boolean(false);
                    to.set_item(place(co));
                    self.threads.add_free_place(co);
                }
            }
        }
        to.push_nil();
    }
}

/// Creates spare probes for [`Anchors::begin_cycle`](super::anchors::Anchors::begin_cycle). Pushes nil.
pub(super) struct CreateProbes(pub(super) Rc<Threads>);

impl Push for CreateProbes {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.need(12, None);
        for number in SPARES..SPARES + MAX_SPARES {
            push_probe(&mut to, &self.0);
            self.0.anchors.set(&mut to, number);
        }
        to.push_nil();
    }
}
