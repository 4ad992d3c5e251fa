//! The beginning and the end of a wait.

use super::Tasks;
use super::entry::{Phase, Reason, TaskId};
use super::nested::MAX_CHAIN;
use super::table::TaskTable;
use super::token::Token;
use crate::lua::{Call, Fault, Stack};
use std::rc::Rc;

/// Why a wait cannot begin.
pub(crate) enum WaitError {
    /// The wait cannot reach the scheduler, see [`Tasks::refuse`].
    Unreachable,
    /// A task is already waiting on the token.
    InUse,
    /// There is not enough memory.
    Fault(Fault),
}

/// The path on which a wait of the running step reaches the scheduler: the running task, and the number of coroutines
/// inside its front that wait with it. The path is valid only if the wait begins immediately.
#[derive(Clone, Copy)]
pub(crate) struct WaitPath {
    task: TaskId,
    depth: u32,
}

impl Tasks {
    /// Returns the path on which a wait of the running step would reach the scheduler; `None` if the step cannot wait.
    #[inline(always)]
    pub(crate) fn wait_path(&self, stack: &Stack) -> Option<WaitPath> {
        let (task, front) = self.current.get()?;
        let depth = self.threads.yield_depth(stack, front).ok()?;
        Some(WaitPath { task, depth })
    }

    /// Whether a wait of the running step would reach the scheduler.
    #[inline]
    pub(crate) fn can_wait(&self, stack: &Stack) -> bool {
        self.wait_path(stack).is_some()
    }

    /// Returns the token for the value at `index`; `None` for nil and NaN.
    #[inline]
    pub(crate) fn token(&self, stack: &Stack, index: i32) -> Option<Token> {
        Token::of(stack, index, &self.table.borrow().keys)
    }

    /// Registers the running task as the one that waits on `token`. The step must then yield immediately, without
    /// values. If the token is a Lua value, the value must be in the first stack slot of the function. The step that
    /// follows the yield calls [`Tasks::ends_with_error`].
    #[inline(always)]
    pub(crate) fn wait(self: &Rc<Self>, call: &mut Call<'_>, token: Token, reason: Reason) -> Result<(), WaitError> {
        match self.wait_path(call) {
            Some(path) => self.wait_on_path(call, path, token, reason),
            None => Err(WaitError::Unreachable),
        }
    }

    /// Like [`Tasks::wait`], with a path that [`Tasks::wait_path`] has returned to the same step.
    #[inline]
    pub(crate) fn wait_on_path(
        self: &Rc<Self>, call: &mut Call<'_>, path: WaitPath, token: Token, reason: Reason,
    ) -> Result<(), WaitError> {
        let WaitPath { task: id, depth } = path;
        let depth = depth as usize;
        let table = &mut *self.table.borrow_mut();
        if let Some(other) = table.waiting.insert(token, id)
            && !table.replace_waiter(token, id, other)
        {
            return Err(WaitError::InUse);
        }
        if depth != 0
            && let Err(error) = self.extend_chain(call, table, id, depth)
        {
            table.waiting.remove(token);
            return Err(error);
        }
        let cycle = table.cycle;
        let task = table.task_mut(id);
        task.token = token;
        task.reason = reason;
        task.phase = Phase::Waiting { cycle, weak: false };
        self.threads.forget_last_resumed();
        Ok(())
    }

    /// Adds the `depth` coroutines inside the task's front to the task's chain, since they wait with the task.
    #[cold]
    fn extend_chain(
        self: &Rc<Self>, call: &mut Call<'_>, table: &mut TaskTable, id: TaskId, depth: usize,
    ) -> Result<(), WaitError> {
        if depth + table.task(id).chain.len() > MAX_CHAIN {
            return Err(WaitError::Unreachable);
        }
        // No Lua code runs in this call, so `table` can stay borrowed.
        let inner = self.threads.anchor_nested(call).map_err(WaitError::Fault)?;
        for &co in &inner {
            table.by_thread.insert(self.threads.identity(co), id);
        }
        let task = table.task_mut(id);
        if task.chain.is_empty() {
            task.chain.push(task.own);
        }
        task.chain.extend(inner);
        self.threads.set_unwinding(true);
        Ok(())
    }

    /// Called by the step after a wait. Returns whether the wait raises the value on top of the stack as an error. If a
    /// program has resumed the coroutine itself, removes the coroutine from its task and returns false.
    #[inline]
    pub(crate) fn ends_with_error(&self, stack: &Stack) -> bool {
        if !self.is_resumed_here(stack) {
            return false;
        }
        let Some(id) = self.current() else { return false };
        let table = &mut *self.table.borrow_mut();
        let phase = &mut table.task_mut(id).phase;
        let raises = *phase == Phase::Running { raises: true };
        if raises {
            *phase = Phase::Running { raises: false };
        }
        raises
    }

    /// Called by the step after a yield. Returns whether this module has resumed the task. If not, removes the
    /// coroutine from its task.
    #[inline(always)]
    pub(crate) fn is_resumed_here(&self, stack: &Stack) -> bool {
        let here = self.threads.take_last_resumed(stack);
        if !here {
            self.table.borrow_mut().handle_foreign_resume(stack.running());
        }
        here
    }

    /// Whether a task waits on the token.
    pub(crate) fn is_waiting(&self, token: Token) -> bool {
        self.table.borrow_mut().waiter(token).is_some()
    }
}
