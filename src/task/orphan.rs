//! Orphaned tasks: their token is an object that only their own stacks refer to, so no code can wake them.
//!
//! The coroutines of every task are anchored, even if no code can wake the task. Therefore a wait that has lasted for a
//! whole cycle of the collector is made weak: from then on, the task's coroutines stay alive only as long as other code
//! refers to the token. When no such reference is left, the task is queued as an orphan. When the task is taken from
//! the queue, it is reported and killed. A shorter wait costs nothing, and nearly all waits are shorter.

use super::Tasks;
use super::entry::{Phase, Tag, Task, TaskId};
use super::kill::KillResult;
use crate::lua::{Call, Coroutine, Fault};
use std::rc::Rc;

const MESSAGE: &str = "a task is lost: nothing refers to the object that it waits for, so nothing can wake it";

impl Tasks {
    /// Queues orphans. If the collector has completed a cycle, also makes long waits weak. Call this from time to time.
    #[inline]
    pub(crate) fn review_waits(self: &Rc<Self>, call: &mut Call<'_>) {
        self.queue_orphans();
        if self.threads.cycle_has_ended(call) {
            self.end_cycle(call);
        }
    }

    /// Makes waits weak if they have lasted for the whole cycle that has just ended.
    #[cold]
    fn end_cycle(self: &Rc<Self>, call: &mut Call<'_>) {
        let table = &mut *self.table.borrow_mut();
        let ended = table.cycle;
        table.cycle += 1;
        for id in 0..table.tasks.len() as TaskId {
            let task = table.task(id);
            let Phase::Waiting { cycle, weak } = task.phase else { continue };
            let is_long = cycle < ended && task.token.is_collectable();
            if !is_long || !table.still_waits(id) || weak {
                continue;
            }
            let task = table.task(id);
            let members = task.members().to_vec();
            // No Lua code runs in `weaken`, so `table` can stay borrowed.
            if self.threads.weaken(call, &members, task.front()) {
                table.task_mut(id).phase = Phase::Waiting { cycle, weak: true };
            }
        }
    }

    /// Queues the tasks whose token is no longer referenced.
    #[inline]
    fn queue_orphans(&self) {
        if !self.table.borrow().unreported.is_empty() {
            self.queue_unreported();
        }
        while let Some(own) = self.threads.take_orphan() {
            self.queue_orphan(own);
        }
    }

    /// Requeues the orphans that could not be reported.
    #[cold]
    fn queue_unreported(&self) {
        let table = &mut *self.table.borrow_mut();
        for id in std::mem::take(&mut table.unreported) {
            if table.task(id).phase == Phase::Reported {
                table.enqueue(id, Phase::Orphaned);
            }
        }
    }

    /// Queues the task whose own coroutine is `own`, if it still waits.
    #[cold]
    fn queue_orphan(&self, own: Coroutine) {
        let table = &mut *self.table.borrow_mut();
        let is_it = |task: &Task| task.own == own && matches!(task.phase, Phase::Waiting { weak: true, .. });
        let Some(id) = table.tasks.iter().position(is_it) else { return };
        let id = id as TaskId;
        if table.still_waits(id) {
            table.end_wait(id);
            table.enqueue(id, Phase::Orphaned);
        }
    }

    /// Handles an orphan that was taken from the queue: reports it like an error in the task, and kills it.
    #[cold]
    pub(super) fn report_orphan(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) {
        let height = call.count();
        self.table.borrow_mut().task_mut(id).phase = Phase::Reported;
        let reported = self.report(call, id);
        call.drop_to(height);
        if reported.is_err() {
            // There was not enough memory. The next review tries again.
            self.table.borrow_mut().unreported.push(id);
        }
    }

    /// Reports an orphan to the host, or to `on_error`, and kills it.
    fn report(self: &Rc<Self>, call: &mut Call<'_>, id: TaskId) -> Result<(), Fault> {
        let (own, front, tag) = {
            let table = self.table.borrow();
            let task = table.task(id);
            (task.own, task.front(), task.tag)
        };
        let co = self.threads.push(call, own)?;
        let innermost = self.threads.push(call, front)?;
        let message = call.create(MESSAGE)?;
        match self.host() {
            Some(host) => {
                host.failed(call, innermost, message, tag);
                // The called code may have ended the task.
                if call.coroutine(co).and_then(|co| self.task_of(co)) == Some(id) {
                    // The host has answered the request, so the kill must not answer it again.
                    self.set_tag(id, Tag { session: 0, ..tag });
                }
            }
            None => self.report_error(call, message, innermost)?,
        }
        if self.kill(call, co)? != KillResult::Killed {
            let text = call.create("an orphaned task could not be killed")?;
            self.log_error(call, "", text);
        }
        Ok(())
    }
}
