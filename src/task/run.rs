//! Runs tasks: resumes a coroutine, and deals with how it came back.
//!
//! Lua code that runs in between (a task, a finalizer, a handler) calls everything here itself.

use super::Tasks;
use super::books::{Books, Phase, Tag, TaskId};
use super::nested::Refusal;
use super::wake::Ending;
use crate::event::clock::thread_nanos;
use crate::lua::{Call, Coroutine, Fault, Resumed};
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

    /// Runs a task that `acquire` gave, up to its first wait, with its function and `arguments` values handed over.
    /// Inside of a task, that one goes on when this one waits.
    #[inline]
    pub(crate) fn start(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, arguments: i32, tag: Tag) {
        let phase = Phase::Running { raises: false };
        self.books.borrow_mut().begin(id, phase, tag, self.now.get());
        self.resume(call, id, arguments, false);
    }

    /// Whether tasks may start inside of each other at this depth.
    pub(crate) fn may_spawn(&self) -> bool {
        self.depth.get() < DEEPEST
    }

    /// The same as `start`, for `spawn`.
    pub(crate) fn spawn(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, arguments: i32) {
        self.depth.set(self.depth.get() + 1);
        self.start(call, id, arguments, Tag::default());
        self.depth.set(self.depth.get() - 1);
    }

    /// Resumes a task that `take_waiter` gave, with `values` values handed over.
    #[inline]
    pub(crate) fn resume_now(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, values: i32, ending: Ending) {
        self.resume(call, id, values, ending == Ending::Raises);
    }

    /// Runs what is queued now. What these tasks queue is left for the next call. → whether there is more
    pub(crate) fn run_ready(self: &Rc<Self>, call: &mut Call<'_>) -> bool {
        let queued = self.books.borrow().queue.len();
        for _ in 0..queued {
            // Finalizers may end a task: not between here and its resume.
            call.wake_collector();
            let turn = {
                let books = &mut *self.books.borrow_mut();
                // A finalizer may call this inside of a handler: then the queue is shorter.
                let Some(id) = books.queue.pop_front() else { break };
                let woken = match books.task(id).phase {
                    Phase::Woken { values, raises } => Some((values, raises)),
                    Phase::Yielded => Some((0, false)),
                    _ => None,
                };
                match woken {
                    Some((values, raises)) if books.is_suspended(id) => {
                        (id, Some((self.set_running(books, id, raises), values)))
                    }
                    _ => (id, None),
                }
            };
            match turn {
                (id, Some((front, values))) => self.run(call, id, front, values),
                (id, None) => self.take_turn(call, id),
            }
        }
        self.end_round();
        self.has_ready()
    }

    /// The turn of a queued task that is not simply woken.
    fn take_turn(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let (living, phase) = {
            let books = &mut *self.books.borrow_mut();
            (books.is_living(id), books.task(id).phase)
        };
        match phase {
            Phase::Ready { arguments } if living => self.resume(call, id, arguments, false),
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
        let front = self.set_running(&mut self.books.borrow_mut(), id, raises);
        self.run(call, id, front, values);
    }

    /// A task runs from now on. → the coroutine to resume
    #[inline]
    fn set_running(&self, books: &mut Books, id: TaskId, raises: bool) -> Coroutine {
        let task = books.task_mut(id);
        task.phase = Phase::Running { raises };
        if self.metering.get() {
            task.since = thread_nanos();
        }
        task.front()
    }

    /// Resumes a task that was set running, until it waits or ends.
    #[inline]
    fn run(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, mut front: Coroutine, mut values: i32) {
        // A task that starts another one at once is in the middle of a call.
        let outer = self.current.get();
        loop {
            self.current.set(Some(id));
            let resumed = self.threads.resume(call, front, values);
            self.current.set(outer);
            if self.metering.get() {
                self.meter(id);
            }
            let next = match self.came_back(id, front, resumed) {
                After::Waits => return,
                After::Finished(results) => return self.finish(call, id, results),
                After::Failed => return self.fail(call, id),
                After::Nested => self.hand_up(id, resumed),
            };
            let Some(passed) = next else {
                return self.vanish(call, id);
            };
            values = passed;
            front = self.set_running(&mut self.books.borrow_mut(), id, false);
        }
    }

    /// Enters how a task's front came back.
    #[inline]
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
                books.uncount(id);
                After::Finished(results)
            }
            Resumed::Failed => {
                task.phase = Phase::Acquired;
                books.uncount(id);
                After::Failed
            }
        }
    }

    /// A task returned: its results are on its stack.
    fn finish(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId, results: i32) {
        let (own, tag) = {
            let books = self.books.borrow();
            (books.task(id).own, books.task(id).tag)
        };
        if tag.session != 0
            && let Some(host) = self.host()
        {
            let height = call.count();
            let first = self.threads.take(call, own, results);
            host.finished(call, first.map(|first| (first, results)), tag);
            call.drop_to(height);
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
    /// So many results are on its stack.
    Finished(i32),
    Failed,
    /// A coroutine inside of its own came back.
    Nested,
}
