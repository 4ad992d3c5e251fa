//! The state of a task, for programs that inspect it.

use super::Tasks;
use super::entry::{Phase, Reason, TaskId};
use super::token::Token;
use crate::event::clock::{monotonic_nanos, thread_nanos};
use crate::lua::{Call, Fault};

/// The value or the session that a task waits on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitingOn {
    /// A Lua value, which was pushed at this stack index.
    Token(i32),
    Session(i64, Reason),
}

/// The state of a task that has not ended.
pub(crate) struct Report {
    /// The time since the task started, in seconds.
    pub(crate) age: f64,
    pub(crate) status: &'static str,
    pub(crate) waits: Option<WaitingOn>,
    /// The stack indexes of the task's coroutines, from the innermost outwards. The coroutines were pushed.
    pub(crate) coroutines: Vec<i32>,
}

impl Tasks {
    /// Returns the state of a task that has not ended. Pushes the values that the report refers to.
    pub(crate) fn inspect(&self, call: &mut Call<'_>, id: TaskId) -> Result<Report, Fault> {
        let (age, phase, token, reason, front) = {
            let table = self.table.borrow();
            let task = table.task(id);
            let age = monotonic_nanos().saturating_sub(task.started_at);
            (age, task.phase, task.token, task.reason, task.front())
        };
        let status = match phase {
            Phase::Running { .. } => "running",
            Phase::Waiting { .. } | Phase::Orphaned | Phase::Reported => "waiting",
            _ => "ready",
        };
        let waits = match token {
            _ if status != "waiting" => None,
            Token::Session(session) => Some(WaitingOn::Session(session, reason)),
            _ => {
                let pushed = self.threads.first_value(call, front);
                Some(WaitingOn::Token(pushed.map_err(|_| Fault::message("stack overflow"))?))
            }
        };
        // The nested coroutines of a running task are pushed from the innermost outwards, but a chain is pushed from
        // the task's own coroutine inwards.
        let first = match self.current() == Some(id) {
            true => self.threads.push_nested(call)?,
            false => call.count() + 1,
        };
        let inner = call.count();
        let last = self.push_members(call, id, 0)?;
        Ok(Report {
            age: age as f64 / 1e9,
            status,
            waits,
            coroutines: (first..=inner).chain((inner + 1..=last).rev()).collect(),
        })
    }

    /// Returns the CPU time of the running task in seconds, counted from an arbitrary point, so only differences are
    /// meaningful; `None` if no task is running. The first call starts the measurement of all resumes.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        let id = self.current()?;
        self.metering.set(true);
        self.add_running_time(id);
        Some(self.table.borrow().task(id).cpu_nanos as f64 / 1e9)
    }

    /// Adds the CPU time of a task's current resume so far to the task's CPU time.
    pub(super) fn add_running_time(&self, id: TaskId) {
        let now = thread_nanos();
        let task = &mut self.table.borrow_mut().tasks[id as usize];
        // If `resumed_at` is 0, the task was resumed before the measurement began.
        if task.resumed_at != 0 {
            task.cpu_nanos += now.saturating_sub(task.resumed_at);
        }
        task.resumed_at = now;
    }
}
