//! Which tasks there are, who waits on what, and the run queue. Nothing here runs Lua code.
//!
//! Invariants: a task is on the queue at most once, and is exactly when its phase says so; a token is in `waiting`
//! exactly when a task of the phase `Waiting` has it.

use super::entry::{Phase, Tag, Task, TaskId};
use super::pool::Pool;
use super::token::{TextKeys, Token};
use super::waiters::Waiters;
use crate::lua::{Coroutine, Identity, Threads};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// The books of a VM's tasks.
pub(super) struct Books {
    pub(super) threads: Rc<Threads>,
    pub(super) tasks: Vec<Task>,
    /// Coroutine → the task that it is of, or in whose chain it is.
    pub(super) by_thread: FxHashMap<Identity, TaskId>,
    pub(super) pool: Pool,
    pub(super) queue: VecDeque<TaskId>,
    pub(super) waiting: Waiters,
    pub(super) keys: TextKeys,
    /// Orphans whose report failed.
    pub(super) unreported: Vec<TaskId>,
    /// How many cycles the collector has ended.
    pub(super) cycle: u32,
    /// How many tasks live.
    pub(super) count: usize,
    /// How many of them have a tag that tells which service asked.
    pub(super) requests: usize,
}

impl Books {
    pub(super) fn new(threads: Rc<Threads>) -> Self {
        Books {
            threads,
            tasks: Vec::new(),
            by_thread: FxHashMap::default(),
            pool: Pool::default(),
            queue: VecDeque::new(),
            waiting: Waiters::default(),
            keys: TextKeys::default(),
            unreported: Vec::new(),
            cycle: 0,
            count: 0,
            requests: 0,
        }
    }

    #[inline]
    pub(super) fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id as usize]
    }

    #[inline]
    pub(super) fn task_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id as usize]
    }

    pub(super) fn only_yielded(&self) -> bool {
        let mut queued = self.queue.iter();
        queued.all(|&id| self.task(id).phase == Phase::Yielded)
    }

    /// A task begins.
    #[inline]
    pub(super) fn begin(&mut self, id: TaskId, phase: Phase, tag: Tag, now: u64) -> &mut Task {
        self.count += 1;
        self.requests += usize::from(tag.from != 0);
        let task = self.task_mut(id);
        task.phase = phase;
        task.tag = tag;
        task.born = now;
        task
    }

    /// A living task is none any more.
    #[inline]
    pub(super) fn uncount(&mut self, id: TaskId) {
        self.count -= 1;
        self.requests -= usize::from(self.task(id).tag.from != 0);
    }

    /// Puts a task at the end of the queue, in a phase of those that are queued.
    #[inline]
    pub(super) fn queue(&mut self, id: TaskId, phase: Phase) {
        self.task_mut(id).phase = phase;
        self.queue.push_back(id);
    }

    /// Whether the coroutine that waits for a task is suspended by a yield, and the others of its chain as well.
    #[inline(always)]
    pub(super) fn is_suspended(&self, id: TaskId) -> bool {
        let task = self.task(id);
        match task.chain.is_empty() {
            true => task.untouched > 0 && self.threads.is_suspended(task.own),
            false => self.intact(id) == task.chain.len(),
        }
    }

    /// How many of a task's coroutines are suspended, as they must be, from its own inwards up to the first that is not.
    #[cold]
    pub(super) fn intact(&self, id: TaskId) -> usize {
        let task = self.task(id);
        let members = task.members();
        let untouched = members.len().min(task.untouched as usize);
        self.threads.count_suspended(&members[..untouched])
    }

    /// Takes out the task that waits on a token.
    #[inline(always)]
    pub(super) fn take_waiter(&mut self, token: Token) -> Option<TaskId> {
        let id = self.waiting.remove(token)?;
        if !self.is_suspended(id) {
            self.lose(id);
            return None;
        }
        self.hold(id);
        self.task_mut(id).phase = Phase::Taken;
        Some(id)
    }

    /// Lets a task wait again that `take_waiter` gave.
    #[cold]
    pub(super) fn put_back(&mut self, id: TaskId) {
        let (token, cycle) = (self.task(id).token, self.cycle);
        self.waiting.insert(token, id);
        self.task_mut(id).phase = Phase::Waiting { cycle, weak: false };
    }

    /// A task whose token was taken out waits again, or is lost.
    #[cold]
    pub(super) fn not_woken(&mut self, id: TaskId) {
        match self.is_suspended(id) {
            true => {
                self.hold(id);
                self.put_back(id);
            }
            false => self.lose(id),
        }
    }

    /// Whether a task has not ended. One whose coroutine a program has closed or resumed ends here.
    #[inline]
    pub(super) fn is_living(&mut self, id: TaskId) -> bool {
        use Phase::{Orphaned, Ready, Reported, Running, Severed, Taken, Waiting, Woken, Yielded};
        let task = self.task(id);
        let is_intact = match task.phase {
            Woken { .. } | Yielded | Waiting { .. } | Orphaned | Reported => self.is_suspended(id),
            Ready { arguments } => self.threads.is_fresh(task.own, arguments),
            Severed => {
                let kept = self.intact(id);
                self.cut_off(id, kept);
                true
            }
            Running { .. } | Taken => true,
            _ => return false,
        };
        if !is_intact {
            self.lose(id);
        }
        self.task(id).phase.is_living()
    }

    /// Whether a task of the phase `Waiting` still does. One whose coroutine a program has closed or resumed is lost.
    pub(super) fn still_waits(&mut self, id: TaskId) -> bool {
        let suspended = self.is_suspended(id);
        if !suspended {
            self.lose(id);
        }
        suspended
    }

    /// The task whose own coroutine this is.
    pub(super) fn task_of(&self, co: Identity) -> Option<TaskId> {
        let &id = self.by_thread.get(&co)?;
        (self.threads.identity(self.task(id).own) == co).then_some(id)
    }

    pub(super) fn living(&mut self, co: Identity) -> Option<TaskId> {
        let id = self.task_of(co)?;
        self.is_living(id).then_some(id)
    }

    /// The living task in whose chain this coroutine is, its own included.
    #[inline]
    pub(super) fn member_of(&mut self, co: Identity) -> Option<TaskId> {
        let &id = self.by_thread.get(&co)?;
        let living = self.is_living(id);
        // Those inside of one that is lost are members no more.
        (living && self.by_thread.get(&co) == Some(&id)).then_some(id)
    }

    /// Which task waits on the token, if one does still.
    pub(super) fn waiter(&mut self, token: Token) -> Option<TaskId> {
        let id = self.waiting.get(token)?;
        self.still_waits(id).then_some(id)
    }

    /// Whether a token on which `other` waited is that of `id`, which was entered: if the other waits no more. Else it is
    /// the other's again.
    #[cold]
    pub(super) fn take_over_wait(&mut self, token: Token, id: TaskId, other: TaskId) -> bool {
        let free = !self.is_suspended(other);
        if free {
            self.lose(other);
        }
        self.waiting.insert(token, if free { id } else { other });
        free
    }

    /// A program has closed or resumed a coroutine of a task that does not run: the task ends, or goes on where that one
    /// was resumed. Its turn in the queue sees to it.
    pub(super) fn lose(&mut self, id: TaskId) {
        self.end_wait(id);
        let kept = self.intact(id);
        self.cut_off(id, kept);
        let phase = match kept {
            0 => Phase::Stale,
            _ => Phase::Severed,
        };
        if kept == 0 {
            self.uncount(id);
        }
        let was_queued = self.task(id).phase.is_queued();
        self.task_mut(id).phase = phase;
        if !was_queued {
            self.queue.push_back(id);
        }
    }

    /// If a task waits, its token is not waited on any more, and its coroutines stay.
    pub(super) fn end_wait(&mut self, id: TaskId) {
        if let Phase::Waiting { .. } = self.task(id).phase {
            let token = self.task(id).token;
            self.waiting.remove(token);
            self.hold(id);
        }
    }

    /// The coroutines of a task that waits stay for a cycle of the collector more.
    pub(super) fn hold(&mut self, id: TaskId) {
        let task = &mut self.tasks[id as usize];
        if let Phase::Waiting { weak, .. } = &mut task.phase
            && std::mem::take(weak)
        {
            self.threads.strengthen(task.own);
        }
    }

    /// Of a task's coroutines only the first `kept` are members, or its own alone.
    pub(super) fn cut_off(&mut self, id: TaskId, kept: usize) {
        let task = &mut self.tasks[id as usize];
        if task.chain.is_empty() {
            return;
        }
        for gone in task.chain.drain(kept.clamp(1, task.chain.len())..) {
            self.by_thread.remove(&self.threads.identity(gone));
            self.threads.release(gone);
        }
        if task.chain.len() == 1 {
            task.chain.clear();
        }
        if kept > 0 {
            task.untouched = u32::MAX;
        }
    }

    /// A coroutine runs although it was not resumed from here. If it was a task's, it is no more, nor are those inside.
    pub(super) fn taken_over(&mut self, co: Identity) {
        let Some(&id) = self.by_thread.get(&co) else { return };
        let place = self.place_of(id, co);
        if let Some(place) = place {
            self.task_mut(id).untouched = place as u32;
        }
        // This ends its task or cuts its chain; what runs goes on.
        self.is_living(id);
    }

    /// Which of a task's coroutines this is: 0 is its own.
    pub(super) fn place_of(&self, id: TaskId, co: Identity) -> Option<usize> {
        let mut members = self.task(id).members().iter();
        members.position(|&member| self.threads.identity(member) == co)
    }

    /// A vacant task or a new one, for this coroutine.
    pub(super) fn enter(&mut self, own: Coroutine) -> TaskId {
        let id = match self.pool.vacant.pop() {
            Some(id) => {
                *self.task_mut(id) = Task::new(own);
                id
            }
            None => {
                // Most services never have a second one.
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

    /// Leaves a task's coroutines to the collector. It is vacant afterwards, or when its turn in the queue comes.
    pub(super) fn discard(&mut self, id: TaskId) {
        self.cut_off(id, 1);
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

    /// Makes a task vacant that was killed while it was queued.
    pub(super) fn vacate(&mut self, id: TaskId) {
        self.task_mut(id).phase = Phase::Vacant;
        self.pool.vacant.push(id);
    }
}
