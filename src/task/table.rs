//! The task table: all tasks, the waiting task of each token, and the ready queue. Checks whether a program has closed
//! or resumed the coroutine of a task. Nothing here runs Lua code.
//!
//! Invariants: a task is in the queue if and only if [`Phase::is_queued`] is true for its phase, and at most once. A
//! token is in `waiting` if and only if a task in the phase `Waiting` has this token.

use super::entry::{Phase, Tag, Task, TaskId};
use super::pool::Pool;
use super::token::{TextKeys, Token};
use super::waiters::Waiters;
use crate::lua::{Coroutine, Identity, Threads};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// The task table of a VM.
#[derive(Default)]
pub(super) struct TaskTable {
    pub(super) threads: Rc<Threads>,
    pub(super) tasks: Vec<Task>,
    /// The task of each coroutine that is a task's own or in a task's chain.
    pub(super) by_thread: FxHashMap<Identity, TaskId>,
    pub(super) pool: Pool,
    pub(super) ready_queue: VecDeque<TaskId>,
    pub(super) waiting: Waiters,
    pub(super) keys: TextKeys,
    /// Orphans that could not be reported.
    pub(super) unreported: Vec<TaskId>,
    /// How many cycles the collector has completed.
    pub(super) cycle: u32,
    /// How many tasks have not ended.
    pub(super) count: usize,
    /// How many of these tasks have a tag with a sender.
    pub(super) requests: usize,
}

impl TaskTable {
    #[inline]
    pub(super) fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id as usize]
    }

    #[inline]
    pub(super) fn task_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id as usize]
    }

    /// Whether all queued tasks have yielded without a wait.
    pub(super) fn only_yielded(&self) -> bool {
        let mut queued = self.ready_queue.iter();
        queued.all(|&id| self.task(id).phase == Phase::Yielded)
    }

    /// Records that a task starts, in the phase `phase`.
    #[inline]
    pub(super) fn begin(&mut self, id: TaskId, phase: Phase, tag: Tag, now: u64) -> &mut Task {
        self.count += 1;
        self.requests += usize::from(tag.from != 0);
        let task = self.task_mut(id);
        task.phase = phase;
        task.tag = tag;
        task.started_at = now;
        task
    }

    /// Subtracts a task from the counts of tasks that have not ended.
    #[inline]
    pub(super) fn count_end(&mut self, id: TaskId) {
        self.count -= 1;
        self.requests -= usize::from(self.task(id).tag.from != 0);
    }

    /// Puts a task at the end of the queue. `phase` must be a phase of queued tasks.
    #[inline]
    pub(super) fn enqueue(&mut self, id: TaskId, phase: Phase) {
        self.task_mut(id).phase = phase;
        self.ready_queue.push_back(id);
    }

    /// Whether all coroutines of a task are suspended by a yield, and no program has resumed one of them.
    #[inline(always)]
    pub(super) fn is_suspended(&self, id: TaskId) -> bool {
        let task = self.task(id);
        match task.chain.is_empty() {
            true => task.untouched > 0 && self.threads.is_suspended(task.own),
            false => self.count_intact(id) == task.chain.len(),
        }
    }

    /// Counts a task's coroutines, from its own coroutine inwards. Stops at the first coroutine that is not suspended
    /// by a yield, or that a program has resumed.
    #[cold]
    pub(super) fn count_intact(&self, id: TaskId) -> usize {
        let task = self.task(id);
        let members = task.members();
        let untouched = members.len().min(task.untouched as usize);
        self.threads.count_suspended(&members[..untouched])
    }

    /// Ends the wait on a token. Returns the task that waited; `None` if no task waited, or if a program has closed or
    /// resumed its coroutine.
    #[inline(always)]
    pub(super) fn take_waiter(&mut self, token: Token) -> Option<TaskId> {
        let id = self.waiting.remove(token)?;
        if !self.is_suspended(id) {
            self.invalidate(id);
            return None;
        }
        self.keep_strong(id);
        self.task_mut(id).phase = Phase::Taken;
        Some(id)
    }

    /// Lets a task that `take_waiter` has returned wait again.
    #[cold]
    pub(super) fn wait_again(&mut self, id: TaskId) {
        let (token, cycle) = (self.task(id).token, self.cycle);
        self.waiting.insert(token, id);
        self.task_mut(id).phase = Phase::Waiting { cycle, weak: false };
    }

    /// Lets a task whose wait was removed wait again, unless a program has closed or resumed one of its coroutines.
    #[cold]
    pub(super) fn restore_wait(&mut self, id: TaskId) {
        if self.still_waits(id) {
            self.keep_strong(id);
            self.wait_again(id);
        }
    }

    /// Whether a task has not ended. If a program has closed or resumed the task's coroutine, the task ends here.
    #[inline]
    pub(super) fn is_alive(&mut self, id: TaskId) -> bool {
        use Phase::{Orphaned, Ready, Reported, Running, Severed, Taken, Waiting, Woken, Yielded};
        let task = self.task(id);
        let is_intact = match task.phase {
            Woken { .. } | Yielded | Waiting { .. } | Orphaned | Reported => self.is_suspended(id),
            Ready { arguments } => self.threads.is_fresh(task.own, arguments),
            Severed => {
                let kept = self.count_intact(id);
                self.truncate_chain(id, kept);
                true
            }
            Running { .. } | Taken => true,
            _ => return false,
        };
        if !is_intact {
            self.invalidate(id);
        }
        self.task(id).phase.is_alive()
    }

    /// Whether a task in the phase `Waiting` still waits. If a program has closed or resumed the task's coroutine, the
    /// wait ends here.
    pub(super) fn still_waits(&mut self, id: TaskId) -> bool {
        let suspended = self.is_suspended(id);
        if !suspended {
            self.invalidate(id);
        }
        suspended
    }

    /// Returns the task whose own coroutine is `co`.
    pub(super) fn task_of(&self, co: Identity) -> Option<TaskId> {
        let &id = self.by_thread.get(&co)?;
        (self.threads.identity(self.task(id).own) == co).then_some(id)
    }

    /// Returns the task whose own coroutine is `co`, if the task has not ended.
    pub(super) fn alive_task(&mut self, co: Identity) -> Option<TaskId> {
        let id = self.task_of(co)?;
        self.is_alive(id).then_some(id)
    }

    /// Returns the task that has `co` as its own coroutine or in its chain, if the task has not ended.
    #[inline]
    pub(super) fn member_of(&mut self, co: Identity) -> Option<TaskId> {
        let &id = self.by_thread.get(&co)?;
        let is_alive = self.is_alive(id);
        // The check may have removed the inner coroutines from the chain.
        (is_alive && self.by_thread.get(&co) == Some(&id)).then_some(id)
    }

    /// Returns the task that waits on the token, if there is one.
    pub(super) fn waiter(&mut self, token: Token) -> Option<TaskId> {
        let id = self.waiting.get(token)?;
        self.still_waits(id).then_some(id)
    }

    /// Called after `id` has replaced `other` as the waiter of a token. If `other` still waits, makes it the waiter
    /// again. Returns whether `id` is the waiter.
    #[cold]
    pub(super) fn replace_waiter(&mut self, token: Token, id: TaskId, other: TaskId) -> bool {
        let free = !self.still_waits(other);
        self.waiting.insert(token, if free { id } else { other });
        free
    }

    /// Called when a program has closed or resumed a coroutine of a task that does not run. When the task is taken from
    /// the queue, it ends, or continues in the coroutine that was resuming that coroutine.
    pub(super) fn invalidate(&mut self, id: TaskId) {
        self.end_wait(id);
        let kept = self.count_intact(id);
        self.truncate_chain(id, kept);
        let phase = match kept {
            0 => {
                self.count_end(id);
                Phase::Stale
            }
            _ => Phase::Severed,
        };
        self.enqueue_once(id, phase);
    }

    /// Like `enqueue`, for a task that may already be in the queue.
    pub(super) fn enqueue_once(&mut self, id: TaskId, phase: Phase) {
        let was_queued = self.task(id).phase.is_queued();
        self.task_mut(id).phase = phase;
        if !was_queued {
            self.ready_queue.push_back(id);
        }
    }

    /// If the task waits, removes its wait. The task's coroutines stay alive.
    pub(super) fn end_wait(&mut self, id: TaskId) {
        if let Phase::Waiting { .. } = self.task(id).phase {
            let token = self.task(id).token;
            self.waiting.remove(token);
            self.keep_strong(id);
        }
    }

    /// Keeps the coroutines of a waiting task alive for at least one more cycle of the collector.
    pub(super) fn keep_strong(&mut self, id: TaskId) {
        let task = &mut self.tasks[id as usize];
        if let Phase::Waiting { weak, .. } = &mut task.phase
            && std::mem::take(weak)
        {
            self.threads.strengthen(task.own);
        }
    }

    /// Removes all coroutines from a task's chain except the first `kept`. The task's own coroutine always stays.
    pub(super) fn truncate_chain(&mut self, id: TaskId, kept: usize) {
        let task = &mut self.tasks[id as usize];
        if task.chain.is_empty() {
            return;
        }
        for removed in task.chain.drain(kept.clamp(1, task.chain.len())..) {
            self.by_thread.remove(&self.threads.identity(removed));
            self.threads.release(removed);
        }
        if task.chain.len() == 1 {
            task.chain.clear();
        }
        if kept > 0 {
            task.untouched = u32::MAX;
        }
    }

    /// Called for a coroutine that runs although this module has not resumed it. Removes the coroutine, and the
    /// coroutines inside it, from their task.
    pub(super) fn handle_foreign_resume(&mut self, co: Identity) {
        let Some(&id) = self.by_thread.get(&co) else { return };
        let position = self.position_in_chain(id, co);
        if let Some(position) = position {
            self.task_mut(id).untouched = position as u32;
        }
        // This ends the coroutine's task or shortens its chain. The coroutine itself continues.
        self.is_alive(id);
    }

    /// Returns the position of a coroutine in a task's chain; 0 is the task's own coroutine.
    pub(super) fn position_in_chain(&self, id: TaskId, co: Identity) -> Option<usize> {
        let mut members = self.task(id).members().iter();
        members.position(|&member| self.threads.identity(member) == co)
    }

    /// Adds a task with the coroutine `own`. Returns the task's id. Vacant ids are used first.
    pub(super) fn add(&mut self, own: Coroutine) -> TaskId {
        let id = match self.pool.vacant.pop() {
            Some(id) => {
                *self.task_mut(id) = Task::new(own);
                id
            }
            None => {
                // Most services never have a second task.
                if self.tasks.is_empty() {
                    self.tasks.reserve_exact(1);
                }
                self.tasks.push(Task::new(own));
                self.tasks.len() as TaskId - 1
            }
        };
        self.by_thread.insert(self.threads.identity(own), id);
        self.pool.created += 1;
        id
    }

    /// Releases a task's coroutines to the collector. The task's id becomes vacant now or, if the task is queued, when
    /// the task is taken from the queue.
    pub(super) fn discard(&mut self, id: TaskId) {
        self.truncate_chain(id, 1);
        let task = self.task_mut(id);
        task.watched = false;
        let was_queued = task.phase.is_queued();
        task.phase = if was_queued { Phase::Dead } else { Phase::Vacant };
        let own = task.own;
        self.by_thread.remove(&self.threads.identity(own));
        self.threads.release(own);
        if !was_queued {
            self.pool.vacant.push(id);
        }
    }

    /// Frees the id of a task that was killed while it was queued.
    pub(super) fn vacate(&mut self, id: TaskId) {
        self.task_mut(id).phase = Phase::Vacant;
        self.pool.vacant.push(id);
    }
}
