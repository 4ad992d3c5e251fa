//! Runs tasks: resumes a coroutine, and deals with how it came back.
//!
//! Lua code that runs in between (a task, a finalizer, a handler) calls everything here itself.

use super::Tasks;
use super::entry::{Phase, Tag, Task, TaskId};
use super::nested::Refusal;
use super::token::Token;
use super::wake::Ending;
use crate::event::clock::thread_nanos;
use crate::lua::{Call, Coroutine, Fault, Full, Resumed};
use std::rc::Rc;

/// So many tasks are started inside each other; Lua allows 200 levels of C calls, of which one needs two or three.
const DEEPEST: u32 = 32;

impl Tasks {
    /// Queues a task that `acquire` gave, with its function and `arguments` values handed over.
    pub(crate) fn enqueue(&self, id: TaskId, arguments: i32, tag: Tag) {
        let books = &mut *self.books.borrow_mut();
        books.begin(id, Phase::Ready { arguments }, tag, self.now.get());
        books.queue.push_back(id);
    }

    /// Runs a task that `acquire` gave, up to its first wait: the topmost `count` values of the step's stack are its function
    /// and its arguments. Inside of a task, that one goes on when this one waits. What its stack cannot take gives it back.
    #[inline]
    pub(crate) fn start(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, count: i32, tag: Tag) -> Result<(), Full> {
        let front = self.begin(id, tag);
        match self.enter(id, front, || self.threads.resume_with(call, front, count)) {
            Ok(resumed) => Ok(self.settle(call, id, front, resumed)),
            Err(full) => {
                self.books.borrow_mut().uncount(id);
                self.release(id);
                Err(full)
            }
        }
    }

    /// A task runs that has just begun. → its coroutine
    #[inline(always)]
    fn begin(&self, id: TaskId, tag: Tag) -> Coroutine {
        let books = &mut *self.books.borrow_mut();
        let task = books.begin(id, Phase::Running { raises: false }, tag, self.now.get());
        self.set_running(task, false)
    }

    /// Whether tasks may start inside of each other at this depth.
    pub(crate) fn may_spawn(&self) -> bool {
        self.depth.get() < DEEPEST
    }

    /// The same as `start`, for `spawn`: with function and arguments handed over.
    pub(crate) fn spawn(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, arguments: i32) {
        self.depth.set(self.depth.get() + 1);
        let front = self.begin(id, Tag::default());
        self.run(call, id, front, arguments);
        self.depth.set(self.depth.get() - 1);
    }

    /// Resumes the task that waits on a token, with the topmost `count` values of the step's stack; one whose stack cannot
    /// take them waits again. → whether there was one
    #[inline]
    pub(crate) fn resume_waiter(
        self: &Rc<Self>, call: &mut Call<'_>, token: Token, count: i32, ending: Ending,
    ) -> Result<bool, Full> {
        let (id, front) = {
            let books = &mut *self.books.borrow_mut();
            let Some(id) = books.take_waiter(token) else { return Ok(false) };
            (id, self.set_running(books.task_mut(id), ending == Ending::Raises))
        };
        match self.enter(id, front, || self.threads.resume_with(call, front, count)) {
            Ok(resumed) => {
                self.settle(call, id, front, resumed);
                Ok(true)
            }
            Err(full) => {
                self.books.borrow_mut().put_back(id);
                Err(full)
            }
        }
    }

    /// Runs what is queued now. What these tasks queue is left for the next call. → whether there is more
    pub(crate) fn run_ready(self: &Rc<Self>, call: &mut Call<'_>) -> bool {
        let queued = self.books.borrow().queue.len();
        for _ in 0..queued {
            // Finalizers may end a task: not between here and its resume.
            call.wake_collector();
            let (id, woken) = {
                let books = &mut *self.books.borrow_mut();
                // A finalizer may call this inside of a handler: then the queue is shorter.
                let Some(id) = books.queue.pop_front() else { break };
                (id, self.set_woken(books.task_mut(id)))
            };
            match woken {
                Some((front, phase, values)) => self.go_on(call, id, front, phase, values),
                None => self.take_turn(call, id),
            }
        }
        self.end_round();
        self.has_ready()
    }

    /// A task runs from now on that was simply woken, or gave way, if it is suspended still. → its coroutine, what phase it
    /// was in, and how many values were handed over
    #[inline(always)]
    fn set_woken(&self, task: &mut Task) -> Option<(Coroutine, Phase, i32)> {
        let phase = task.phase;
        let (values, raises) = match phase {
            Phase::Woken { values, raises } => (values, raises),
            Phase::Yielded => (0, false),
            _ => return None,
        };
        let is_whole = task.chain.is_empty() && task.untouched > 0;
        is_whole.then(|| (self.set_running(task, raises), phase, values))
    }

    /// Resumes a task that was set running out of `phase`.
    #[inline(always)]
    fn go_on(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, front: Coroutine, phase: Phase, values: i32) {
        match self.enter(id, front, || self.threads.resume_suspended(call, front, values)) {
            Some(resumed) => self.settle(call, id, front, resumed),
            // A program has closed or resumed its coroutine.
            None => {
                self.books.borrow_mut().task_mut(id).phase = phase;
                self.take_turn(call, id);
            }
        }
    }

    /// The turn of a queued task that is not simply woken.
    fn take_turn(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let (living, phase) = {
            let books = &mut *self.books.borrow_mut();
            (books.is_living(id), books.task(id).phase)
        };
        match phase {
            Phase::Ready { arguments } if living => self.resume(call, id, arguments, false),
            Phase::Woken { values, raises } if living => self.resume(call, id, values, raises),
            Phase::Yielded if living => self.resume(call, id, 0, false),
            Phase::Severed if living => match self.tell_front(id, Refusal::Closed) {
                Some(values) => self.resume(call, id, values, false),
                None => self.vanish(call, id),
            },
            Phase::Orphaned if living => self.report_orphan(call, id),
            Phase::Dead => self.books.borrow_mut().vacate(id),
            _ => self.end(call, id),
        }
    }

    /// None of a living task's coroutines is left.
    #[cold]
    fn vanish(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        self.books.borrow_mut().uncount(id);
        self.end(call, id);
    }

    /// Lets the coroutine of a task go that a program has ended.
    #[cold]
    fn end(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let tag = {
            let task = &mut self.books.borrow_mut().tasks[id as usize];
            task.phase = Phase::Acquired;
            task.tag
        };
        self.tell_end(call, id);
        self.books.borrow_mut().discard(id);
        self.tell_killed(call, id, tag);
    }

    fn resume(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, values: i32, raises: bool) {
        let front = self.set_running(self.books.borrow_mut().task_mut(id), raises);
        self.run(call, id, front, values);
    }

    /// A task runs from now on. → the coroutine to resume
    #[inline]
    fn set_running(&self, task: &mut Task, raises: bool) -> Coroutine {
        task.phase = Phase::Running { raises };
        if self.metering.get() {
            task.since = thread_nanos();
        }
        task.front()
    }

    /// Resumes a task that was set running, with the values that were handed over, until it waits or ends.
    #[inline]
    fn run(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, front: Coroutine, values: i32) {
        let resumed = self.enter(id, front, || self.threads.resume(call, front, values));
        self.settle(call, id, front, resumed);
    }

    /// Has `resume` resume the front of a task.
    #[inline(always)]
    fn enter<R>(&self, id: TaskId, front: Coroutine, resume: impl FnOnce() -> R) -> R {
        // A task that starts another one at once is in the middle of a call.
        let outer = self.current.replace(Some((id, front)));
        let resumed = resume();
        self.current.set(outer);
        if self.metering.get() {
            self.meter(id);
        }
        resumed
    }

    /// Deals with how a task's front came back.
    #[inline(always)]
    fn settle(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, front: Coroutine, resumed: Resumed) {
        match self.came_back(id, front, resumed) {
            After::Waits => {}
            After::Finished(own, results, tag) => self.finish(call, id, own, results, tag),
            After::Failed => self.fail(call, id),
            After::Nested => self.go_outwards(call, id, resumed),
        }
    }

    /// The front of a task came back that runs inside of another coroutine, which goes on.
    #[cold]
    fn go_outwards(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, mut resumed: Resumed) {
        while let Some(values) = self.hand_up(id, resumed) {
            let front = self.set_running(self.books.borrow_mut().task_mut(id), false);
            resumed = self.enter(id, front, || self.threads.resume(call, front, values));
            match self.came_back(id, front, resumed) {
                After::Waits => return,
                After::Finished(own, results, tag) => return self.finish(call, id, own, results, tag),
                After::Failed => return self.fail(call, id),
                After::Nested => {}
            }
        }
        self.vanish(call, id);
    }

    /// Enters how a task's front came back.
    #[inline(always)]
    fn came_back(&self, id: TaskId, front: Coroutine, resumed: Resumed) -> After {
        let books = &mut *self.books.borrow_mut();
        let task = books.task_mut(id);
        if let (Phase::Waiting { .. }, Resumed::Yielded(_)) = (task.phase, resumed) {
            self.threads.set_unwinding(false);
            return After::Waits;
        }
        if !task.chain.is_empty() {
            return After::Nested;
        }
        match resumed {
            Resumed::Yielded(results) => {
                self.threads.drop_values(front, results);
                // A plain yield gives way to the others.
                books.queue(id, Phase::Yielded);
                After::Waits
            }
            Resumed::Returned(results) => {
                task.phase = Phase::Acquired;
                let (own, tag) = (task.own, task.tag);
                books.uncount(id);
                After::Finished(own, results, tag)
            }
            Resumed::Failed => {
                task.phase = Phase::Acquired;
                books.uncount(id);
                After::Failed
            }
        }
    }

    /// A task returned: its results are on the stack of its own coroutine.
    fn finish(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, own: Coroutine, results: i32, tag: Tag) {
        if tag.session != 0
            && let Some(host) = self.host()
        {
            host.finished(call, self, own, results, tag);
        }
        self.threads.clear(own);
        self.tell_end(call, id);
        self.books.borrow_mut().keep(id);
    }

    /// A task raised: the error is on its stack, whose frames are there still.
    #[cold]
    fn fail(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let height = call.count();
        // What cannot be told for want of a stack cannot be told anywhere else.
        let _ = self.tell_failure(call, id);
        call.drop_to(height);
        // It may have failed at its very end, for want of memory: who waits for it is told by this function.
        self.books.borrow_mut().task_mut(id).watched = true;
        self.without_limit(call, |call| self.tell_end(call, id));
        self.books.borrow_mut().discard(id);
    }

    fn tell_failure(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) -> Result<(), Fault> {
        let (own, tag) = {
            let books = self.books.borrow();
            (books.task(id).own, books.task(id).tag)
        };
        let co = self.threads.push(call, own)?;
        let error = self.threads.take(call, own, 1).map_err(|_| Fault::message("stack overflow"))?;
        match self.host() {
            Some(host) => host.failed(call, co, error, tag),
            None => self.tell_error(call, error, co)?,
        }
        self.without_limit(call, |call| self.close_failed(call, co, error))
    }
}

/// What a task does next.
enum After {
    /// Nothing: it waits, or gives way.
    Waits,
    /// So many results are on the stack of its own coroutine.
    Finished(Coroutine, i32, Tag),
    Failed,
    /// A coroutine inside of its own came back.
    Nested,
}
