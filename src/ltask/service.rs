//! A service: its VM, what it has received and not yet read, and what it owes to others.
//!
//! The value has one owner at a time, the thread that runs it or its mailbox, and moves between threads
//! whole; the C functions of the VM find it through the VM's allocator. Nothing in it is shared but the
//! `Card`.

use super::event::Event;
use super::fast::Fast;
use super::mailbox::Place;
use super::memory::{self, Memory};
use super::message::{Message, ServiceId, kind};
use super::pending::Pending;
use super::system::System;
use super::worker::Worker;
use crate::raw::{Text, embed, function};
use mlua::ffi::{self, lua_State};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::io::Write;
use std::marker::PhantomPinned;
use std::os::raw::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of a service from outside, while it runs or not.
#[derive(Default)]
pub(crate) struct Card {
    label: Mutex<String>,
    /// Nanoseconds that its slices on workers took.
    busy: AtomicU64,
    /// The CPU clock of the thread of its own (clockid_t), 0 when it has none.
    clock: AtomicI32,
    pub(crate) resumes: AtomicU64,
    pub(crate) memory: AtomicUsize,
    pub(crate) memory_most: AtomicUsize,
    pub(crate) coroutines: AtomicU64,
    /// One that was configured to have its own thread (G1).
    pub(crate) exclusive: AtomicBool,
    /// To be ended as soon as its slice is over.
    pub(crate) doomed: AtomicBool,
    /// The watchdog has reported a slice of it, and nobody has asked since.
    pub(crate) endless: AtomicBool,
    /// Requests that died with it: from, session.
    pub(crate) remains: Mutex<Vec<(ServiceId, i64)>>,
}

impl Card {
    /// The service's label.
    pub(crate) fn label(&self) -> String {
        let label = self.label.lock().unwrap_or_else(PoisonError::into_inner);
        label.clone()
    }

    /// Nanoseconds that it has run: the time of its slices, and the CPU time of the thread of its own, where
    /// slices are mostly waiting.
    pub(crate) fn busy(&self) -> u64 {
        let busy = self.busy.load(Ordering::Relaxed);
        busy + super::watch::clock_nanos(self.clock.load(Ordering::Relaxed))
    }

    /// The calling thread is the service's own from now on.
    pub(crate) fn own_clock(&self, clock: i32) {
        self.clock.store(clock, Ordering::Relaxed);
    }

    /// Changes the label.
    pub(crate) fn set_label(&self, text: &str) {
        let mut label = self.label.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone_into(&mut label);
    }
}

/// What a send came to, until the service reads it.
pub(crate) struct Receipt {
    pub(crate) kind: i64,
    /// The message, when it came back.
    pub(crate) returned: Option<Message>,
    /// The new service, for NEW.
    pub(crate) id: ServiceId,
}

/// A service as it moves between threads: its address stays, the VM's functions know it.
pub(crate) type Body = Box<Service>;

/// So many unread messages are the first that is reported.
pub(crate) const OVERLOAD: usize = 1024;

/// How a slice ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The main function waits for more.
    Yielded,
    /// It returned.
    Returned,
    /// It raised; that was logged.
    Failed,
}

/// See the file's head.
pub(crate) struct Service {
    pub(crate) id: ServiceId,
    /// The system outlives its services: it closes them before it goes.
    system: *const System,
    pub(crate) card: Arc<Card>,
    /// The VM's main state: never runs Lua code of the service, so that calls can be made on it when the
    /// main function is suspended or has failed.
    base: *mut lua_State,
    /// The coroutine of the main function.
    main: *mut lua_State,
    memory: Box<Memory>,
    /// Received and not yet read.
    pub(crate) batch: VecDeque<Message>,
    pub(crate) receipt: Option<Receipt>,
    /// Requests that were read and not answered.
    pub(crate) pending: Pending,
    /// The worker that runs it, null on a thread of its own.
    pub(crate) worker: *const Worker,
    pub(crate) place: Place,
    /// Wakes the thread of its own, if it has one or is about to.
    pub(crate) event: Option<Arc<Event>>,
    /// Runs on a thread of its own from the next slice on.
    pub(crate) detach: bool,
    /// Queued by `exclusive.send`, not delivered.
    pub(crate) sending: VecDeque<Message>,
    /// It has died: what its finalizers send as answers is not wanted.
    pub(crate) dead: bool,
    /// Its main function has raised.
    pub(crate) failed: bool,
    /// A panic has unwound a call of its VM: nothing may enter that again.
    broken: bool,
    /// Has an event descriptor.
    pub(crate) watched: bool,
    /// More unread messages than this are logged; 0 is never. See `watch_level`.
    pub(crate) overload: usize,
    /// Wants its next slice without a message.
    pub(crate) again: bool,
    /// When the present slice began, in nanoseconds of the monotonic clock.
    pub(crate) began: u64,
    /// The VM's functions reach this value while methods of it run, so no reference to it may be taken for
    /// the only one.
    _pinned: PhantomPinned,
    /// Where the present slice runs.
    pub(crate) running_place: Place,
    /// What our service library keeps.
    pub(crate) fast: Fast,
}

// SAFETY: one thread at a time has the value, and with it the VM; `system` is shared and outlives it,
// `worker` is set and read by the thread that runs the service.
unsafe impl Send for Service {}

impl Service {
    /// A service with a VM and no main function yet. The error is a message.
    pub(crate) fn new(system: &System, id: ServiceId, label: &str) -> Result<Box<Service>, String> {
        let card = Arc::new(Card::default());
        card.set_label(label);
        let mut service = Box::new(Service {
            id,
            system,
            card,
            base: std::ptr::null_mut(),
            main: std::ptr::null_mut(),
            memory: Memory::new(std::ptr::null_mut()),
            batch: VecDeque::new(),
            receipt: None,
            pending: Pending::default(),
            worker: std::ptr::null(),
            place: Place::Any,
            event: None,
            detach: false,
            sending: VecDeque::new(),
            dead: false,
            failed: false,
            broken: false,
            watched: false,
            overload: 0,
            again: false,
            began: 0,
            _pinned: PhantomPinned,
            running_place: Place::Any,
            fast: Fast::default(),
        });
        let owner: *mut Service = &mut *service;
        service.memory = Memory::new(owner.cast());
        // SAFETY: the memory is boxed and outlives the VM, which `close` ends.
        unsafe {
            let memory: *mut Memory = &mut *service.memory;
            service.base = new_state(memory.cast());
            if service.base.is_null() {
                return Err("not enough memory for a Lua state".into());
            }
            ffi::lua_atpanic(service.base, panicked);
            function!(set_up).push(service.base, 0);
            if ffi::lua_pcall(service.base, 0, 1, 0) != ffi::LUA_OK {
                return Err(take_message(service.base));
            }
            service.main = ffi::lua_tothread(service.base, -1);
            ffi::lua_rawsetp(service.base, ffi::LUA_REGISTRYINDEX, MAIN.pointer());
        }
        system.slots().describe(id, service.card.clone());
        Ok(service)
    }

    /// Sets the main function: Lua text, or a precompiled chunk.
    pub(crate) fn load(&mut self, source: &[u8], name: &CStr) -> Result<(), String> {
        // SAFETY: `base` is idle; loading reports errors by its result.
        unsafe {
            let loaded = ffi::luaL_loadbufferx(
                self.base,
                source.as_ptr().cast(),
                source.len(),
                name.as_ptr(),
                std::ptr::null(),
            );
            self.finish_load(loaded)
        }
    }

    /// Sets the main function from a file.
    pub(crate) fn load_file(&mut self, path: &CStr) -> Result<(), String> {
        // SAFETY: as for `load`.
        unsafe {
            crate::watched::lua::loads(path.as_ptr());
            let loaded = ffi::luaL_loadfilex(self.base, path.as_ptr(), std::ptr::null());
            self.finish_load(loaded)
        }
    }

    unsafe fn finish_load(&mut self, loaded: c_int) -> Result<(), String> {
        // SAFETY: the chunk or the message lies on top of `base`.
        unsafe {
            if loaded != ffi::LUA_OK {
                return Err(take_message(self.base));
            }
            ffi::lua_xmove(self.base, self.main, 1);
            start_collector(self.base);
        }
        Ok(())
    }

    /// The system it belongs to.
    pub(crate) fn system(&self) -> &System {
        // SAFETY: the system outlives its services.
        unsafe { &*self.system }
    }

    /// The VM's allocator.
    pub(crate) fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// The service that runs in this VM; None in a VM that is not a service's.
    ///
    /// # Safety
    /// `state` is valid. The reference must not be held across calls that run Lua code.
    pub(crate) unsafe fn of<'a>(state: *mut lua_State) -> Option<&'a mut Service> {
        // SAFETY: a VM with our allocator is a service's, whose box does not move.
        unsafe {
            let memory = memory::of(state)?;
            let service: *mut Service = (*memory).owner().cast();
            service.as_mut()
        }
    }

    /// Runs one slice. `step` is what the main function is resumed with, if anything. A panic does not leave it:
    /// the service has failed then.
    pub(crate) fn resume(&mut self, step: bool) -> Outcome {
        self.running_place = self.place;
        // What the panic may have left half done is the service's own, and the service ends.
        match catch_unwind(AssertUnwindSafe(|| self.run_slice(step))) {
            Ok(outcome) => outcome,
            Err(panic) => {
                self.give_up(&crate::raw::text_of(panic));
                Outcome::Failed
            }
        }
    }

    /// A panic came out of the VM, in the middle of a call: the VM is left as it is.
    #[cold]
    fn give_up(&mut self, reason: &Text) {
        self.failed = true;
        self.broken = true;
        self.fast.core = std::ptr::null_mut();
        let (id, label) = (self.id, self.card.label());
        let text = format!("service {id} ({label}) error: {reason}; its VM is given up");
        self.system().log_text(id, &text);
    }

    fn run_slice(&mut self, step: bool) -> Outcome {
        // SAFETY: this thread has the service; errors of the main function come back as a status.
        unsafe {
            if step {
                ffi::lua_pushboolean(self.main, 1);
            }
            let mut results = 0;
            let status = ffi::lua_resume(self.main, self.base, step.into(), &mut results);
            match status {
                ffi::LUA_YIELD => {
                    ffi::lua_settop(self.main, -results - 1);
                    Outcome::Yielded
                }
                ffi::LUA_OK => Outcome::Returned,
                // An error that the system's end has raised is no news.
                _ if self.system().is_quitting() => Outcome::Failed,
                _ => {
                    let message = self.describe_failure();
                    self.system().log_text(self.id, &message);
                    self.failed = true;
                    Outcome::Failed
                }
            }
        }
    }

    /// Message and traceback of the main function's error.
    unsafe fn describe_failure(&mut self) -> String {
        // SAFETY: `base` is idle.
        unsafe {
            function!(describe).push(self.base, 0);
            ffi::lua_pushlightuserdata(self.base, self.main.cast());
            ffi::lua_pcall(self.base, 1, 1, 0);
            let text = take_message(self.base);
            format!("service {} ({}) error: {text}", self.id, self.card.label())
        }
    }

    /// The coroutine of the main function.
    pub(crate) fn main_state(&self) -> *mut lua_State {
        self.main
    }

    /// Reads a message: from the batch, or what has arrived since it was taken.
    pub(crate) fn receive(&mut self) -> Option<Message> {
        loop {
            if self.batch.is_empty() && !self.refill() {
                self.system().tell_if_wanted(self.id, self.worker());
                return None;
            }
            let message = self.batch.pop_front()?;
            let system = self.system();
            if let Some(slot) = system.slots().get(self.id)
                && slot.mailbox.read(message.is_bounded())
            {
                system.tell_room(self.id, self.worker());
            }
            if message.is_external() {
                system.external_taken();
            }
            if message.wants_answer() {
                self.pending.add(message.from, message.session);
            }
            if message.kind == kind::ROOM {
                self.flush_sending();
                super::lua::flush(self, message.from);
                if self.fast.has_ready() {
                    return Some(message);
                }
                continue;
            }
            return Some(message);
        }
    }

    /// Takes what has arrived; whether there is something to read now.
    pub(crate) fn refill(&mut self) -> bool {
        // SAFETY: the system outlives its services.
        let system = unsafe { &*self.system };
        let Some(slot) = system.slots().get(self.id) else {
            return false;
        };
        let unread = slot.mailbox.refill(&mut self.batch);
        self.watch_level();
        unread > 0
    }

    /// Called when messages were taken from the mailbox: logs how many are unread, if that is wanted, each
    /// time that there are more than 1024, 2048, 4096 …; once all were read, from 1024 on again.
    #[inline]
    pub(crate) fn watch_level(&mut self) {
        if self.overload != 0 {
            self.report_level();
        }
    }

    fn report_level(&mut self) {
        let unread = self.batch.len();
        if unread == 0 {
            self.overload = OVERLOAD;
        }
        if unread <= self.overload {
            return;
        }
        while unread > self.overload {
            self.overload *= 2;
        }
        let text = format!("May overload, message queue length = {unread}");
        self.system().log_text(self.id, &text);
    }

    /// Whether there is nothing to read and nothing to run.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.batch.is_empty() && !self.refill() && !self.fast.has_ready()
    }

    /// How much there is for the next slice, which counts as begun: unread messages, an unread receipt.
    pub(crate) fn unread(&mut self) -> usize {
        let again = std::mem::take(&mut self.again) || self.receipt.is_some();
        self.batch.len() + usize::from(again)
    }

    /// The worker that runs this slice.
    pub(crate) fn worker(&self) -> Option<&Worker> {
        // SAFETY: set for the time of a slice, by the worker itself.
        unsafe { self.worker.as_ref() }
    }

    /// Delivers what `exclusive.send` queued and finds room, in order per receiver.
    pub(crate) fn flush_sending(&mut self) {
        let mut full: Vec<ServiceId> = Vec::new();
        for _ in 0..self.sending.len() {
            let Some(message) = self.sending.pop_front() else {
                return;
            };
            if full.contains(&message.to) {
                self.sending.push_back(message);
                continue;
            }
            let to = message.to;
            if let Err(message) = self.deliver(message) {
                full.push(to);
                self.sending.push_back(message);
            }
        }
    }

    /// Delivers a message of `exclusive.send`: a full mailbox gives it back, a missing one answers it.
    pub(crate) fn deliver(&mut self, message: Message) -> Result<(), Message> {
        use super::mailbox::Refusal;
        match self.system().post(message, self.id, self.worker()) {
            Ok(()) => Ok(()),
            Err((message, Refusal::Full)) => Err(message),
            Err((message, Refusal::Missing)) => {
                if message.wants_answer() {
                    self.system().refuse(&message, self.worker());
                }
                Ok(())
            }
        }
    }

    /// Copies the figures that others may ask for to the card.
    pub(crate) fn account(&mut self, nanos: u64) {
        let card = &self.card;
        let add = |cell: &AtomicU64, more| {
            cell.store(cell.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        if card.clock.load(Ordering::Relaxed) == 0 {
            add(&card.busy, nanos);
        }
        add(&card.resumes, 1);
        card.memory.store(self.memory.used(), Ordering::Relaxed);
        card.memory_most
            .store(self.memory.peak(), Ordering::Relaxed);
    }

    /// Ends the VM: pending `<close>` variables and finalizers run.
    pub(crate) fn close(mut self: Box<Self>) {
        self.dead = true;
        self.shut();
    }

    fn shut(&mut self) {
        if self.base.is_null() {
            return;
        }
        // A finalizer of a foreign native module may panic as well.
        if !self.broken
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.close_vm()))
        {
            self.give_up(&crate::raw::text_of(panic));
        }
        self.base = std::ptr::null_mut();
        if self.broken {
            // Its stack ends in calls that are no more, so not even its finalizers can run. It is lost, and its memory.
            let memory = Memory::new(std::ptr::null_mut());
            Box::leak(std::mem::replace(&mut self.memory, memory));
        }
    }

    fn close_vm(&mut self) {
        // SAFETY: this thread has the service, and nothing of it runs.
        unsafe {
            function!(close_coroutines).push(self.base, 0);
            if ffi::lua_pcall(self.base, 0, 0, 0) != ffi::LUA_OK {
                let message = take_message(self.base);
                self.system().log_text(self.id, &message);
            }
            ffi::lua_close(self.base);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shut();
    }
}

/// Takes the message on top of the stack.
unsafe fn take_message(state: *mut lua_State) -> String {
    // SAFETY: reads and pops the top.
    unsafe {
        let mut length = 0;
        let bytes = ffi::lua_tolstring(state, -1, &mut length);
        let text = match bytes.is_null() {
            true => "(error object is not a string)".to_owned(),
            false => {
                let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length);
                String::from_utf8_lossy(bytes).into_owned()
            }
        };
        ffi::lua_settop(state, -2);
        text
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;

static MAIN: crate::raw::object::Key = crate::raw::object::Key::new(7);

/// Lets the collector run. Its first cycle begins when the VM has doubled, as by default each later one does:
/// what there is now stays, and to go through it would be a tenth of a short service's work.
///
/// # Safety
/// `state` is valid.
pub(crate) unsafe fn start_collector(state: *mut lua_State) {
    // SAFETY: neither call raises or allocates.
    unsafe {
        ffi::lua_gc(state, ffi::LUA_GCRESTART);
        // The incremental collector of Lua 5.5 falls behind a program that makes little but objects with finalizers,
        // such as sockets: what waits to be freed grows without end. The generational one does not.
        #[cfg(feature = "lua55")]
        ffi::lua_gc(state, ffi::LUA_GCGEN);
        // A step backwards is so much that may be allocated before the next.
        #[cfg(not(feature = "lua55"))]
        {
            let kibibytes = ffi::lua_gc(state, ffi::LUA_GCCOUNT);
            ffi::lua_gc(state, ffi::LUA_GCSTEP, -kibibytes);
        }
    }
}

/// Opens the libraries; returns the coroutine of the main function.
unsafe extern "C-unwind" fn set_up(state: *mut lua_State) -> c_int {
    // SAFETY: a fresh state.
    unsafe {
        // What is made here stays.
        ffi::lua_gc(state, ffi::LUA_GCSTOP);
        ffi::luaL_openlibs(state);
        embed::install(state, Some(3));
        embed::install_first(state);
        crate::watched::lua::install(state);
        ffi::lua_newthread(state);
        1
    }
}

/// The message of a failed coroutine, with its traceback.
unsafe extern "C-unwind" fn describe(state: *mut lua_State) -> c_int {
    // SAFETY: the argument is the failed coroutine, whose error lies on top of its stack.
    unsafe {
        let failed: *mut lua_State = ffi::lua_touserdata(state, 1).cast();
        ffi::lua_xmove(failed, state, 1);
        let mut length = 0;
        ffi::luaL_tolstring(state, -1, &mut length);
        let text = ffi::lua_tolstring(state, -1, &mut length);
        ffi::luaL_traceback(state, failed, text, 0);
        1
    }
}

/// Closes the tasks, then the main function: their `<close>` variables run.
unsafe extern "C-unwind" fn close_coroutines(state: *mut lua_State) -> c_int {
    // SAFETY: runs in the idle main state.
    unsafe {
        ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        if ffi::lua_getfield(state, -1, c"lio.task".as_ptr()) == ffi::LUA_TTABLE {
            ffi::lua_getfield(state, -1, c"kill_all".as_ptr());
            ffi::lua_call(state, 0, 0);
        }
        ffi::lua_settop(state, 1);
        ffi::lua_getfield(state, -1, c"coroutine".as_ptr());
        ffi::lua_getfield(state, -1, c"close".as_ptr());
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, MAIN.pointer());
        if ffi::lua_isthread(state, -1) == 0 {
            return 0;
        }
        ffi::lua_call(state, 1, 2);
        if ffi::lua_toboolean(state, -2) == 0 {
            // The main function's own error was logged already; one of a `__close` comes here.
            return 0;
        }
        0
    }
}

/// Lua is about to abort the process: says why first.
unsafe extern "C-unwind" fn panicked(state: *mut lua_State) -> c_int {
    // SAFETY: the message lies on top.
    let message = unsafe { take_message(state) };
    let _ = writeln!(
        std::io::stderr(),
        "lio: unprotected error in a service: {message}"
    );
    0
}

unsafe fn new_state(memory: *mut c_void) -> *mut lua_State {
    #[cfg(feature = "lua55")]
    // SAFETY: the allocator's data lives as long as the VM.
    unsafe {
        ffi::lua_newstate(memory::allocate, memory, 0)
    }
    #[cfg(not(feature = "lua55"))]
    // SAFETY: as above.
    unsafe {
        ffi::lua_newstate(memory::allocate, memory)
    }
}
