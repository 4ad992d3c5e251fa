//! Running tasks: resuming a coroutine, and handling how it stopped.
//!
//! Lua code that runs during these calls (a task, a finalizer, a handler) may call any function of this module.

use super::Tasks;
use super::entry::{Phase, Tag, Task, TaskId};
use super::nested::ResumeError;
use super::token::Token;
use super::wake::Ending;
use crate::event::clock::thread_nanos;
use crate::lua::{Call, Coroutine, Fault, Full, Resumed};
use std::rc::Rc;

/// The maximum number of tasks that are started inside each other. Lua allows 200 levels of C calls, and each start
/// takes two or three of them.
const MAX_DEPTH: u32 = 32;

impl Tasks {
    /// Queues a task that `acquire` has returned. Its function and `arguments` arguments are already on its stack.
    pub(crate) fn enqueue(&self, id: TaskId, arguments: i32, tag: Tag) {
        let table = &mut *self.table.borrow_mut();
        table.begin(id, Phase::Ready { arguments }, tag, self.now.get());
        table.ready_queue.push_back(id);
    }

    /// Runs a task that `acquire` has returned, up to its first wait. The topmost `count` values of the step's stack
    /// are its function and its arguments. If a task calls this, the calling task continues when the new one waits or
    /// ends. If the new coroutine's stack is full, the coroutine returns to the pool.
    #[inline]
    pub(crate) fn start(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, count: i32, tag: Tag) -> Result<(), Full> {
        let front = self.begin(id, tag);
        match self.resume_as_current(id, front, || self.threads.resume_with(call, front, count)) {
            Ok(resumed) => Ok(self.handle_stop(call, id, front, resumed)),
            Err(full) => {
                self.table.borrow_mut().count_end(id);
                self.release(id);
                Err(full)
            }
        }
    }

    /// Starts a task. Returns its coroutine.
    #[inline(always)]
    fn begin(&self, id: TaskId, tag: Tag) -> Coroutine {
        let table = &mut *self.table.borrow_mut();
        let task = table.begin(id, Phase::Running { raises: false }, tag, self.now.get());
        self.mark_running(task, false)
    }

    /// Whether one more task can be started inside the running one.
    pub(crate) fn may_spawn(&self) -> bool {
        self.depth.get() < MAX_DEPTH
    }

    /// Runs a task like `start`, and counts the nested calls. The function and `arguments` arguments are already on the
    /// task's stack.
    pub(crate) fn spawn(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, arguments: i32) {
        self.depth.set(self.depth.get() + 1);
        let front = self.begin(id, Tag::default());
        self.run(call, id, front, arguments);
        self.depth.set(self.depth.get() - 1);
    }

    /// Resumes the task that waits on a token, with the topmost `count` values of the step's stack. Returns whether a
    /// task was waiting. If the task's stack is full, the task waits again, and `Full` is returned.
    #[inline]
    pub(crate) fn resume_waiter(
        self: &Rc<Self>, call: &mut Call<'_>, token: Token, count: i32, ending: Ending,
    ) -> Result<bool, Full> {
        let (id, front) = {
            let table = &mut *self.table.borrow_mut();
            let Some(id) = table.take_waiter(token) else { return Ok(false) };
            (id, self.mark_running(table.task_mut(id), ending == Ending::Raises))
        };
        match self.resume_as_current(id, front, || self.threads.resume_with(call, front, count)) {
            Ok(resumed) => {
                self.handle_stop(call, id, front, resumed);
                Ok(true)
            }
            Err(full) => {
                self.table.borrow_mut().wait_again(id);
                Err(full)
            }
        }
    }

    /// Runs the tasks that are queued now. Tasks that are queued during the call are left for the next call. Returns
    /// whether the queue contains such tasks.
    pub(crate) fn run_ready(self: &Rc<Self>, call: &mut Call<'_>) -> bool {
        let queued = self.table.borrow().ready_queue.len();
        for _ in 0..queued {
            // Runs pending finalizers here: a finalizer may end a task, which must not happen after the task is taken
            // from the queue.
            call.resume_collector();
            let (id, woken) = {
                let table = &mut *self.table.borrow_mut();
                // A task, a handler or a finalizer may call `run_ready`, so the queue may be shorter than `queued`.
                let Some(id) = table.ready_queue.pop_front() else { break };
                (id, self.mark_woken(table.task_mut(id)))
            };
            match woken {
                Some((front, phase, values)) => self.resume_marked(call, id, front, phase, values),
                None => self.run_queued(call, id),
            }
        }
        self.end_round();
        self.has_ready()
    }

    /// Marks a task as running if it was woken or has yielded, has no chain, and no program has resumed its coroutine.
    /// Returns the coroutine, the former phase, and the number of values that were moved to the coroutine.
    #[inline(always)]
    fn mark_woken(&self, task: &mut Task) -> Option<(Coroutine, Phase, i32)> {
        let phase = task.phase;
        let (values, raises) = match phase {
            Phase::Woken { values, raises } => (values, raises),
            Phase::Yielded => (0, false),
            _ => return None,
        };
        let is_whole = task.chain.is_empty() && task.untouched > 0;
        is_whole.then(|| (self.mark_running(task, raises), phase, values))
    }

    /// Resumes a task that was marked as running, whose former phase is `phase`.
    #[inline(always)]
    fn resume_marked(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, front: Coroutine, phase: Phase, values: i32) {
        match self.resume_as_current(id, front, || self.threads.resume_suspended(call, front, values)) {
            Some(resumed) => self.handle_stop(call, id, front, resumed),
            // A program has closed or resumed the task's coroutine.
            None => {
                self.table.borrow_mut().task_mut(id).phase = phase;
                self.run_queued(call, id);
            }
        }
    }

    /// Handles a queued task that needs more than a plain resume.
    fn run_queued(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let (is_alive, phase) = {
            let table = &mut *self.table.borrow_mut();
            (table.is_alive(id), table.task(id).phase)
        };
        match phase {
            Phase::Ready { arguments } if is_alive => self.resume(call, id, arguments, false),
            Phase::Woken { values, raises } if is_alive => self.resume(call, id, values, raises),
            Phase::Yielded if is_alive => self.resume(call, id, 0, false),
            Phase::Severed if is_alive => match self.fail_front(id, ResumeError::Closed) {
                Some(values) => self.resume(call, id, values, false),
                None => self.end_without_coroutines(call, id),
            },
            Phase::Orphaned if is_alive => self.report_orphan(call, id),
            Phase::Dead => self.table.borrow_mut().vacate(id),
            _ => self.end(call, id),
        }
    }

    /// Ends a task that has no coroutine left.
    #[cold]
    fn end_without_coroutines(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        self.table.borrow_mut().count_end(id);
        self.end(call, id);
    }

    /// Ends a task whose coroutine a program has closed or resumed: sends the notifications, and releases the
    /// coroutine.
    #[cold]
    fn end(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let tag = {
            let task = &mut self.table.borrow_mut().tasks[id as usize];
            task.phase = Phase::Acquired;
            task.tag
        };
        self.notify_end(call, id);
        self.table.borrow_mut().discard(id);
        self.notify_killed(call, id, tag);
    }

    /// Marks a task as running and resumes it with the topmost `values` values on its stack.
    fn resume(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, values: i32, raises: bool) {
        let front = self.mark_running(self.table.borrow_mut().task_mut(id), raises);
        self.run(call, id, front, values);
    }

    /// Marks a task as running. Returns the coroutine to resume.
    #[inline]
    fn mark_running(&self, task: &mut Task, raises: bool) -> Coroutine {
        task.phase = Phase::Running { raises };
        if self.metering.get() {
            task.resumed_at = thread_nanos();
        }
        task.front()
    }

    /// Resumes a task that was marked as running with the topmost `values` values on its stack, until the task waits or
    /// ends.
    #[inline]
    fn run(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, front: Coroutine, values: i32) {
        let resumed = self.resume_as_current(id, front, || self.threads.resume(call, front, values));
        self.handle_stop(call, id, front, resumed);
    }

    /// Calls `resume`, which resumes the front of a task. During the call, the task is the current one.
    #[inline(always)]
    fn resume_as_current<R>(&self, id: TaskId, front: Coroutine, resume: impl FnOnce() -> R) -> R {
        // The task that was current before continues afterwards, and becomes the current one again.
        let outer = self.current.replace(Some((id, front)));
        self.run_time.work.begin();
        let resumed = resume();
        self.current.set(outer);
        self.run_time.work.begin();
        if self.metering.get() {
            self.add_running_time(id);
        }
        resumed
    }

    /// Called when a task's front has stopped. If necessary, ends the task, or continues the next coroutine outwards.
    #[inline(always)]
    fn handle_stop(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, front: Coroutine, resumed: Resumed) {
        match self.record_stop(id, front, resumed) {
            Stopped::Waits => {}
            Stopped::Finished(own, results, tag) => self.finish(call, id, own, results, tag),
            Stopped::Failed => self.fail(call, id),
            Stopped::Nested => self.continue_outwards(call, id, resumed),
        }
    }

    /// Handles a front that has stopped inside another coroutine. The outer coroutine continues.
    #[cold]
    fn continue_outwards(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, mut resumed: Resumed) {
        while let Some(values) = self.pass_outwards(id, resumed) {
            let front = self.mark_running(self.table.borrow_mut().task_mut(id), false);
            resumed = self.resume_as_current(id, front, || self.threads.resume(call, front, values));
            match self.record_stop(id, front, resumed) {
                Stopped::Waits => return,
                Stopped::Finished(own, results, tag) => return self.finish(call, id, own, results, tag),
                Stopped::Failed => return self.fail(call, id),
                Stopped::Nested => {}
            }
        }
        self.end_without_coroutines(call, id);
    }

    /// Records how a task's front stopped.
    #[inline(always)]
    fn record_stop(&self, id: TaskId, front: Coroutine, resumed: Resumed) -> Stopped {
        let table = &mut *self.table.borrow_mut();
        let task = table.task_mut(id);
        if let (Phase::Waiting { .. }, Resumed::Yielded(_)) = (task.phase, resumed) {
            self.threads.set_unwinding(false);
            return Stopped::Waits;
        }
        if !task.chain.is_empty() {
            return Stopped::Nested;
        }
        match resumed {
            Resumed::Yielded(results) => {
                self.threads.drop_values(front, results);
                // A plain yield lets the other tasks run.
                table.enqueue(id, Phase::Yielded);
                Stopped::Waits
            }
            Resumed::Returned(results) => {
                task.phase = Phase::Acquired;
                let (own, tag) = (task.own, task.tag);
                table.count_end(id);
                Stopped::Finished(own, results, tag)
            }
            Resumed::Failed => {
                task.phase = Phase::Acquired;
                table.count_end(id);
                Stopped::Failed
            }
        }
    }

    /// Handles a task that has returned. Its results are on the stack of its coroutine.
    fn finish(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, own: Coroutine, results: i32, tag: Tag) {
        if tag.session != 0
            && let Some(host) = self.host()
        {
            host.finished(call, self, own, results, tag);
        }
        self.threads.clear(own);
        self.notify_end(call, id);
        self.table.borrow_mut().return_to_pool(id);
    }

    /// Handles a task that has failed. Its error is on its stack, and its frames still exist.
    #[cold]
    fn fail(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let height = call.count();
        // If the report fails, the error cannot be reported elsewhere either.
        let _ = self.report_failure(call, id);
        call.drop_to(height);
        // The task may have failed for lack of memory before it woke the tasks that join it. Therefore `on_end` is
        // called for every failed task.
        self.table.borrow_mut().task_mut(id).watched = true;
        call.without_memory_limit(|call| self.notify_end(call, id));
        self.table.borrow_mut().discard(id);
    }

    /// Reports an error in a task to the host, or to `on_error`, and closes its coroutine.
    fn report_failure(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) -> Result<(), Fault> {
        let (own, tag) = {
            let table = self.table.borrow();
            (table.task(id).own, table.task(id).tag)
        };
        // The stack may grow for these values, although the task may have used up the memory.
        let (co, error) = call.without_memory_limit(|call| {
            let co = self.threads.push(call, own)?;
            let error = self.threads.move_from(call, own, 1).map_err(|_| Fault::message("stack overflow"))?;
            Ok::<_, Fault>((co, error))
        })?;
        let reported = match self.host() {
            Some(host) => Ok(host.failed(call, co, error, tag)),
            None => self.report_error(call, error, co),
        };
        let closed = call.without_memory_limit(|call| self.close_failed(call, co, error));
        reported.and(closed)
    }
}

/// How a task's front has stopped.
enum Stopped {
    /// The task waits, or has yielded.
    Waits,
    /// The task has returned. The fields are its coroutine, the number of results on the coroutine's stack, and its
    /// tag.
    Finished(Coroutine, i32, Tag),
    Failed,
    /// A coroutine inside the task's own has stopped.
    Nested,
}
