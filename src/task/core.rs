//! The core's books: which tasks there are, what each waits on, and the run queue. Called by the other
//! files of this folder, by the functions Lua sees, and by the scheduler.
//!
//! Invariants: a task is on the run queue at most once, and is exactly when its phase says so; a token
//! is in `waiting` exactly when a task of the phase `Waiting` has it; a thread that an entry names is
//! anchored in Lua's table (see pool.rs), so its state is valid.

use super::chain::Link;
use super::lost::Guard;
use super::pool::Pool;
use super::token::{Map, TextKeys, Token, Waiters};
use crate::raw::Function;
use mlua::ffi::{self, lua_State};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Names a coroutine of the core's, and the task that it runs.
pub(crate) type Slot = u32;

/// What a host attaches to a task: who waits for its result. Session 0: nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tag {
    /// The service that asked.
    pub(crate) from: u32,
    /// Its request.
    pub(crate) session: i64,
}

/// What the host of tagged tasks is told. The functions get the running `state`, with 4 free stack slots, and must not
/// raise. They run outside of any task, with the task already ended in the books.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    /// First argument of each call.
    pub(crate) data: *mut c_void,
    /// A task with a session returned; its results are the top `results` values of `co`'s stack. The
    /// core clears the stack afterwards and pools the coroutine.
    pub(crate) finished: unsafe fn(
        data: *mut c_void,
        state: *mut lua_State,
        co: *mut lua_State,
        results: c_int,
        tag: Tag,
    ),
    /// A task, with a session or not, raised: the error is on top of `co`'s stack, which still has its
    /// frames for a traceback. The core closes the coroutine afterwards.
    pub(crate) failed:
        unsafe fn(data: *mut c_void, state: *mut lua_State, co: *mut lua_State, tag: Tag),
    /// The VM closes: the core is gone.
    pub(crate) closed: unsafe fn(data: *mut c_void),
    /// Sets how much memory the VM may have, 0 for any, and returns the limit before.
    pub(crate) set_limit: unsafe fn(data: *mut c_void, limit: usize) -> usize,
    /// A wait on a session was cancelled that was for this.
    pub(crate) cancelled: unsafe fn(data: *mut c_void, errand: Errand),
    /// A task with a session was killed, or its coroutine closed by somebody, before it returned.
    pub(crate) killed: unsafe fn(data: *mut c_void, state: *mut lua_State, slot: Slot, tag: Tag),
}

/// How a wait ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// It returns the values that were moved over.
    Woken,
    /// It raises the value on top.
    Interrupted,
}

/// Where a slot's coroutine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// No coroutine.
    Vacant,
    /// Free for the next task.
    Pooled,
    /// Taken from the pool and not started, or just ended.
    Acquired,
    /// Queued: function and arguments lie on the stack.
    Ready,
    /// Queued: the wait's values lie on the stack.
    Woken,
    /// Queued after a plain yield.
    Yielded,
    /// Runs now.
    Running,
    /// Suspended in a wait.
    Waiting,
    /// Queued: nothing can end its wait any more. See lost.rs.
    Lost,
    /// The same, while it is reported.
    Buried,
    /// Taken from its wait and not yet resumed or queued.
    Taken,
    /// Queued: the front of its chain was closed or resumed by somebody, who resumed it is to be told.
    Severed,
    /// Ended by somebody who closed or resumed the coroutine himself; queued, to be cleared away.
    Stale,
    /// Killed while it was queued: the slot is vacant when its turn comes.
    Dead,
}

impl Phase {
    pub(super) fn is_living(self) -> bool {
        use Phase::*;
        matches!(
            self,
            Ready | Woken | Yielded | Running | Waiting | Taken | Severed | Lost | Buried
        )
    }

    pub(super) fn is_queued(self) -> bool {
        use Phase::*;
        matches!(
            self,
            Ready | Woken | Yielded | Severed | Lost | Stale | Dead
        )
    }
}

pub(super) struct Task {
    /// The task's own coroutine; null in a slot without one.
    pub(super) thread: *mut lua_State,
    /// The innermost of its chain (see chain.rs), which is what runs or waits: `thread` when there is none.
    pub(super) front: *mut lua_State,
    /// The others of the chain, from `thread` inwards.
    pub(super) parents: Vec<*mut lua_State>,
    /// What it waits on; also while `Woken`, what it waited on.
    pub(super) token: Token,
    pub(super) tag: Tag,
    /// Of a queued task: how many values on its stack the resume passes.
    pub(super) values: c_int,
    pub(super) phase: Phase,
    /// The wait that it is resumed in raises.
    pub(super) interrupted: bool,
    /// The function of `on_end` is to hear of its end.
    pub(super) watched: bool,
    /// What a wait on a session is for.
    pub(super) errand: Errand,
    /// When it began, by `Core::now`.
    pub(super) born: u64,
    /// The collector's cycle in which its wait began.
    pub(super) cycle: u32,
    /// Of one whose wait has lasted for long: see lost.rs. Null otherwise.
    pub(super) guard: *mut Guard,
    /// While `Core::metering`: CPU nanoseconds that its resumes took, and the thread's when the present one
    /// began. What former tasks of the slot took is in it.
    pub(super) spent: u64,
    pub(super) since: u64,
}

/// What a wait on a session is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Errand {
    /// Not known.
    #[default]
    Other,
    /// The answer of a service.
    Call(u32),
    /// A timer of the host's, by its id.
    Timer(u64),
}

/// A VM's tasks. Lives in a userdata that the registry holds.
pub(crate) struct Core {
    pub(super) tasks: Vec<Task>,
    /// Address of a coroutine → the slot that it is of, or in whose chain it is.
    pub(super) threads: Map<usize>,
    pub(super) pool: Pool,
    pub(super) queue: VecDeque<Slot>,
    pub(super) waiting: Waiters,
    pub(super) current: Option<Slot>,
    /// The innermost coroutine that runs, as far as the core knows; null when none does.
    pub(super) running: *mut lua_State,
    /// The innermost `resume` on the C stack since the core resumed the running task.
    pub(super) links: *const Link,
    /// The coroutines between the one that waits and its task's front yield, one after the other.
    pub(super) unwinding: bool,
    /// The coroutine that the core has just resumed, until its continuation has seen that.
    pub(super) handed: *mut lua_State,
    /// About what time it is, in nanoseconds of the monotonic clock.
    pub(crate) now: u64,
    /// How many cycles the collector has ended.
    pub(super) cycle: u32,
    /// How many `spawn`s are inside each other.
    pub(super) depth: u32,
    /// How many tasks live.
    pub(super) count: usize,
    /// How many of them have a tag that tells who asked.
    pub(super) requests: usize,
    /// Whether the tasks' CPU time is measured: from the first `task.busy` on.
    pub(super) metering: bool,
    pub(super) keys: TextKeys,
    pub(super) host: Option<Host>,
    /// Functions of C across which a wait may go, besides Lua's and those of the coroutine library.
    pub(super) permeable: Vec<Function>,
}

impl Core {
    pub(super) fn new() -> Self {
        Core {
            tasks: Vec::new(),
            threads: HashMap::default(),
            pool: Pool::default(),
            queue: VecDeque::new(),
            waiting: Waiters::default(),
            current: None,
            running: std::ptr::null_mut(),
            links: std::ptr::null(),
            unwinding: false,
            handed: std::ptr::null_mut(),
            now: crate::event::clock::monotonic_nanos(),
            cycle: 0,
            depth: 0,
            count: 0,
            requests: 0,
            metering: false,
            keys: TextKeys::new(),
            host: None,
            permeable: Vec::new(),
        }
    }

    /// A wait may go across this function, which calls Lua by `lua_callk`.
    pub(crate) fn let_through(&mut self, function: Function) {
        if !self.is_permeable(Some(function.address())) {
            self.permeable.push(function);
        }
    }

    /// Whether the C function at this address was given to [`Core::let_through`].
    pub(super) fn is_permeable(&self, address: Option<usize>) -> bool {
        let is_it = |function: &Function| address == Some(function.address());
        self.permeable.iter().any(is_it)
    }

    /// Sets who is told of the tasks' ends.
    pub(crate) fn set_host(&mut self, host: Host) {
        self.host = Some(host);
    }

    pub(super) fn task(&mut self, slot: Slot) -> &mut Task {
        &mut self.tasks[slot as usize]
    }

    /// The innermost coroutine that runs in a task, or in a `resume` of ours; null when none does.
    pub(crate) fn running(&self) -> *mut lua_State {
        self.running
    }

    /// The coroutine of a slot's task that runs or waits: onto its stack go the values of a resume.
    pub(crate) fn thread(&self, slot: Slot) -> *mut lua_State {
        self.tasks[slot as usize].front
    }

    /// The task that runs now.
    pub(crate) fn current(&self) -> Option<Slot> {
        self.current
    }

    /// The tag of a living task.
    pub(crate) fn tag(&self, slot: Slot) -> Tag {
        self.tasks[slot as usize].tag
    }

    /// Sets the tag of a living task, for instance once it has answered.
    pub(crate) fn set_tag(&mut self, slot: Slot, tag: Tag) {
        self.task(slot).tag = tag;
    }

    /// How many tasks wait on a session.
    pub(crate) fn sessions(&self) -> usize {
        self.waiting.sessions()
    }

    /// Whether a task can run.
    pub(crate) fn has_ready(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether all that is queued has yielded by itself, and so asked for nothing before the next message.
    pub(crate) fn only_yielded(&self) -> bool {
        let has_yielded = |slot: &Slot| self.tasks[*slot as usize].phase == Phase::Yielded;
        self.queue.iter().all(has_yielded)
    }

    /// How many coroutines were ever created for tasks.
    pub(crate) fn created(&self) -> u64 {
        self.pool.created
    }

    /// The running task, when a wait of `state`, its coroutine or one inside it, reaches the scheduler.
    ///
    /// # Safety
    /// `state` is the running state of this core's VM.
    #[inline]
    pub(crate) unsafe fn can_wait(core: *mut Core, state: *mut lua_State) -> Option<Slot> {
        // SAFETY: the caller's promise.
        unsafe {
            let can = match (*core).links.is_null() {
                true => (*core).running == state && ffi::lua_isyieldable(state) != 0,
                false => Core::check_way(core, state).is_ok(),
            };
            if can { (*core).current } else { None }
        }
    }

    /// Whether the coroutine that waits for the slot's task is suspended by a yield, and the others of its
    /// chain as well.
    #[inline]
    pub(super) fn is_suspended(&self, slot: Slot) -> bool {
        let task = &self.tasks[slot as usize];
        // SAFETY: an anchored coroutine's state is valid; the status is a plain field of it.
        task.parents.len() == self.intact(slot)
            && unsafe { ffi::lua_status(task.front) } == ffi::LUA_YIELD
    }

    /// Whether the slot's coroutine is as `enqueue` left it, neither started nor closed by somebody.
    fn is_fresh(&self, slot: Slot) -> bool {
        let task = &self.tasks[slot as usize];
        let mut frame = MaybeUninit::<ffi::lua_Debug>::uninit();
        // SAFETY: an anchored coroutine's state is valid. `lua_getstack`, which tells whether a function
        // is active, writes the record only.
        unsafe {
            ffi::lua_status(task.thread) == ffi::LUA_OK
                && ffi::lua_gettop(task.thread) == task.values + 1
                && ffi::lua_getstack(task.thread, 0, frame.as_mut_ptr()) == 0
        }
    }

    /// Whether the slot has a task that has not ended. One whose coroutine somebody else closed or
    /// resumed ends here.
    #[inline]
    pub(super) fn is_living(&mut self, slot: Slot) -> bool {
        let intact = match self.tasks[slot as usize].phase {
            Phase::Woken | Phase::Yielded | Phase::Waiting | Phase::Lost | Phase::Buried => {
                self.is_suspended(slot)
            }
            Phase::Ready => self.is_fresh(slot),
            Phase::Severed => {
                self.trim(slot);
                true
            }
            Phase::Running | Phase::Taken => true,
            _ => return false,
        };
        if !intact {
            self.lose(slot);
        }
        self.tasks[slot as usize].phase.is_living()
    }

    /// The task whose coroutine this is, living or not; not one inside of it.
    pub(crate) fn slot_of(&self, thread: *mut lua_State) -> Option<Slot> {
        let &slot = self.threads.get(&thread.addr())?;
        (self.tasks[slot as usize].thread == thread).then_some(slot)
    }

    /// Enters the running task as the waiter of `token`; the caller must then call `lua_yieldk` at once,
    /// with no values, from a function whose first stack slot holds the token when that is a value of
    /// Lua. `Err` when somebody waits on it already.
    pub(crate) fn park(&mut self, slot: Slot, token: Token) -> Result<(), ()> {
        if let Some(other) = self.waiting.insert(token, slot) {
            if self.is_suspended(other) {
                self.waiting.insert(token, other);
                return Err(());
            }
            self.lose(other);
            self.waiting.insert(token, slot);
        }
        let cycle = self.cycle;
        let task = self.task(slot);
        task.token = token;
        task.phase = Phase::Waiting;
        task.cycle = cycle;
        self.handed = std::ptr::null_mut();
        if !self.links.is_null() {
            self.extend_chain(slot);
        }
        Ok(())
    }

    /// Takes out the waiter of a token. The caller moves values onto its stack and resumes or queues it.
    pub(crate) fn take_waiter(&mut self, token: Token) -> Option<Slot> {
        let slot = self.waiting.remove(token)?;
        self.task(slot).phase = Phase::Taken;
        if !self.is_suspended(slot) {
            self.lose(slot);
            return None;
        }
        if !self.task(slot).guard.is_null() {
            self.hold(slot);
        }
        Some(slot)
    }

    /// The session of a task that waits for an answer of `service`, in a slot from `first` on; with the slot.
    pub(crate) fn next_call_to(&self, first: Slot, service: u32) -> Option<(Slot, i64)> {
        let tasks = self.tasks.iter().enumerate().skip(first as usize);
        for (slot, task) in tasks {
            if let Token::Session(session) = task.token
                && task.phase == Phase::Waiting
                && task.errand == Errand::Call(service)
            {
                return Some((slot as Slot, session));
            }
        }
        None
    }

    /// Notes what the running task is about to wait for on a session.
    pub(crate) fn set_errand(&mut self, slot: Slot, errand: Errand) {
        self.task(slot).errand = errand;
    }

    /// Puts a waiter back that was just taken out.
    pub(crate) fn put_back(&mut self, slot: Slot) {
        let token = self.task(slot).token;
        self.waiting.insert(token, slot);
        self.task(slot).phase = Phase::Waiting;
    }

    /// Whether somebody waits on the token.
    pub(super) fn is_waiting(&mut self, token: Token) -> bool {
        let Some(slot) = self.waiting.get(token) else {
            return false;
        };
        if !self.is_suspended(slot) {
            self.lose(slot);
            return false;
        }
        true
    }

    /// A living task is none any more.
    pub(super) fn uncount(&mut self, slot: Slot) {
        self.count -= 1;
        self.requests -= usize::from(self.tag(slot).from != 0);
    }

    /// How many tasks live.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many living tasks somebody asked for.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// Somebody closed or resumed a coroutine of the chain that waits: the task ends, or goes on where that
    /// one was resumed. `run_ready` sees to it.
    pub(super) fn lose(&mut self, slot: Slot) {
        let kept = self.intact(slot);
        self.cut_off(slot, kept);
        let after = match kept {
            0 => Phase::Stale,
            _ => Phase::Severed,
        };
        let task = self.task(slot);
        let before = std::mem::replace(&mut task.phase, after);
        let token = task.token;
        if before == Phase::Waiting {
            self.waiting.remove(token);
        }
        if !self.task(slot).guard.is_null() {
            self.hold(slot);
        }
        if after == Phase::Stale {
            self.uncount(slot);
        }
        if !before.is_queued() {
            self.queue.push_back(slot);
        }
    }

    /// Queues a task that `acquire` gave, with its function and `values` arguments on its stack.
    ///
    /// # Safety
    /// The stack is as said.
    pub(crate) unsafe fn enqueue(core: *mut Core, slot: Slot, values: c_int, tag: Tag) {
        // SAFETY: the caller's promise.
        unsafe {
            let now = (*core).now;
            let task = (*core).task(slot);
            task.phase = Phase::Ready;
            task.values = values;
            task.tag = tag;
            task.born = now;
            (*core).count += 1;
            (*core).requests += usize::from(tag.from != 0);
            (*core).queue.push_back(slot);
        }
    }

    /// Queues a task that `take_waiter` gave, with `values` values moved onto its stack.
    ///
    /// # Safety
    /// The stack is as said.
    pub(crate) unsafe fn wake(core: *mut Core, slot: Slot, values: c_int, how: How) {
        // SAFETY: the caller's promise.
        unsafe {
            let task = (*core).task(slot);
            task.phase = Phase::Woken;
            task.values = values;
            task.interrupted = how == How::Interrupted;
            (*core).queue.push_back(slot);
        }
    }

    /// For the continuation of a wait: whether an interrupt ended it, so that the value on top must be
    /// raised. To be called by every continuation, with its `state`: it also notices a coroutine that
    /// somebody resumed himself, which is in no task from then on.
    pub(crate) fn take_interrupt(&mut self, state: *mut lua_State) -> bool {
        if self.handed == state
            && let Some(slot) = self.current
        {
            self.handed = std::ptr::null_mut();
            return std::mem::take(&mut self.task(slot).interrupted);
        }
        self.taken_over(state);
        false
    }
}
