//! How long a task runs without waiting: the state for the watchdog and for `max_run_time`.
//!
//! Invariant: the number of `work` changes whenever a task starts or continues, and whenever a task that works for many
//! clients, such as a web server's, begins work for another one. So if two checks find the same value, the same piece of
//! work has run in between. The work began at the latest when an interrupt first found it, which may be long before the
//! first check: while a C function runs, there is no check.

use crate::lua::{Fault, Work};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overrun {
    /// The work has not exceeded a limit, or has already been reported.
    None,
    /// The work has run for as long as the watchdog's limit, and has not been reported. The value is the time that it has
    /// run.
    Reported(Duration),
    /// The work has exceeded `max_run_time`: an error must be raised in it.
    Exceeded,
    /// The work has caught that error, and has run for `max_run_time` again. `is_first` is true at the first such check.
    ExceededAgain { is_first: bool },
}

/// The limits, and the state of the last check.
#[derive(Default, Debug)]
pub(crate) struct RunTime {
    pub(crate) work: Rc<Work>,
    /// The time after which the watchdog reports, and `max_run_time`; zero if there is none.
    watchdog: Cell<Duration>,
    max_run_time: Cell<Duration>,
    /// The number of the work that the last check found; `None` before the first check.
    seen: Cell<Option<u64>>,
    /// The CPU time of the thread when the work was first found.
    since: Cell<Duration>,
    is_reported: Cell<bool>,
    is_ended: Cell<bool>,
    /// When the error was first raised in the work, as the time that the work had run.
    exceeded_at: Cell<Option<Duration>>,
}

impl RunTime {
    /// Creates the state for the VM that does `work`, without limits.
    pub(crate) fn new(work: Rc<Work>) -> RunTime {
        RunTime { work, ..RunTime::default() }
    }

    /// Sets the limits; zero means that there is none.
    pub(crate) fn set_limits(&self, watchdog: Duration, max_run_time: Duration) {
        self.watchdog.set(watchdog);
        self.max_run_time.set(max_run_time);
    }

    /// Returns the watchdog's limit and `max_run_time`.
    pub(crate) fn limits(&self) -> (Duration, Duration) {
        (self.watchdog.get(), self.max_run_time.get())
    }

    /// Checks the running piece of work. `now` is the CPU time of the thread.
    pub(crate) fn check(&self, now: Duration) -> Overrun {
        let number = self.work.number();
        if self.seen.replace(Some(number)) != Some(number) || now < self.since.get() {
            self.since.set(self.work.found_at(number).map_or(now, |found_at| found_at.min(now)));
            self.is_reported.set(false);
            self.is_ended.set(false);
            self.exceeded_at.set(None);
        }
        let age = now - self.since.get();
        let (watchdog, max) = self.limits();
        match self.exceeded_at.get() {
            Some(at) if age >= at + max => return Overrun::ExceededAgain { is_first: !self.is_ended.replace(true) },
            None if !max.is_zero() && age >= max => {
                self.exceeded_at.set(Some(age));
                return Overrun::Exceeded;
            }
            _ => {}
        }
        if watchdog.is_zero() || age < watchdog || self.is_reported.replace(true) {
            return Overrun::None;
        }
        Overrun::Reported(age)
    }

    /// Returns the error for a task that exceeds `max_run_time`.
    pub(crate) fn error(&self) -> Fault {
        let limit = self.max_run_time.get().as_secs_f64();
        Fault::message(format_args!("max_run_time: the task has run for more than {limit} s without waiting"))
    }

    /// Returns the text of the report about a task that has caught that error.
    pub(crate) fn caught(&self) -> &'static str {
        "max_run_time: a task has caught the error and has not waited since; the task ends now"
    }

    /// Whether the running piece of work has exceeded `max_run_time`.
    pub(crate) fn has_exceeded(&self) -> bool {
        self.exceeded_at.get().is_some() && self.seen.get() == Some(self.work.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn with_limits(watchdog: u64, max_run_time: u64) -> RunTime {
        let run_time = RunTime::default();
        run_time.set_limits(millis(watchdog), millis(max_run_time));
        run_time
    }

    #[test]
    fn work_that_exceeds_the_limit_of_the_watchdog_is_reported_once() {
        let run_time = with_limits(100, 0);
        assert_eq!(run_time.check(millis(1000)), Overrun::None);
        assert_eq!(run_time.check(millis(1099)), Overrun::None);
        assert_eq!(run_time.check(millis(1100)), Overrun::Reported(millis(100)));
        assert_eq!(run_time.check(millis(9000)), Overrun::None);
        assert!(!run_time.has_exceeded());
    }

    #[test]
    fn other_work_begins_anew() {
        let run_time = with_limits(100, 0);
        for now in 1..100 {
            run_time.work.begin();
            assert_eq!(run_time.check(millis(100 * now)), Overrun::None);
        }
        assert_eq!(run_time.check(millis(10_000)), Overrun::Reported(millis(100)));
    }

    #[test]
    fn work_that_catches_the_error_gets_it_again_after_the_same_time() {
        let run_time = with_limits(0, 50);
        assert_eq!(run_time.check(millis(0)), Overrun::None);
        assert_eq!(run_time.check(millis(49)), Overrun::None);
        assert_eq!(run_time.check(millis(60)), Overrun::Exceeded);
        assert!(run_time.has_exceeded());
        assert_eq!(run_time.check(millis(109)), Overrun::None);
        assert_eq!(run_time.check(millis(110)), Overrun::ExceededAgain { is_first: true });
        assert_eq!(run_time.check(millis(111)), Overrun::ExceededAgain { is_first: false });
        run_time.work.begin();
        assert!(!run_time.has_exceeded());
        assert_eq!(run_time.check(millis(112)), Overrun::None);
        assert_eq!(run_time.check(millis(161)), Overrun::None);
        assert_eq!(run_time.check(millis(162)), Overrun::Exceeded);
    }

    #[test]
    fn the_time_of_a_c_function_counts_although_there_was_no_check() {
        let run_time = with_limits(0, 50);
        run_time.work.begin();
        run_time.work.find(millis(100));
        assert_eq!(run_time.check(millis(150)), Overrun::Exceeded);
        run_time.work.begin();
        assert_eq!(run_time.check(millis(250)), Overrun::None);
    }

    #[test]
    fn on_another_thread_with_less_cpu_time_the_work_begins_anew() {
        let run_time = with_limits(0, 50);
        assert_eq!(run_time.check(millis(1000)), Overrun::None);
        assert_eq!(run_time.check(millis(10)), Overrun::None);
        assert_eq!(run_time.check(millis(60)), Overrun::Exceeded);
    }
}
