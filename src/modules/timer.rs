//! `lio.timer`: timer queues as Lua objects. Each timer has one value, which its queue keeps.

use crate::event::clock::{VmClock, monotonic, monotonic_nanos};
use crate::event::timers::Queue;
use crate::lua::object::Object;
use crate::lua::{Argument, Call, Fault, Field, Function, FunctionTable, Maybe, Module, New, functions};
use std::rc::Rc;

/// A timer queue, and the clock of its VM.
pub(crate) struct Timers {
    pub(crate) queue: Queue,
    clock: Rc<VmClock>,
    alarm: Option<Alarm>,
}

/// Wakes the service whose timers these are, if it owns no loop. A loop needs no alarm, because it reads the time of the
/// next timer before it waits.
struct Alarm {
    /// The time for which the service will be woken, in nanoseconds of the monotonic clock.
    planned: u64,
    /// Makes the system wake the service at a time, instead of at the time of the previous call.
    plan: Box<dyn FnMut(u64)>,
}

impl Timers {
    /// Returns the time of the VM's clock in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.clock.nanos()
    }

    /// Sets or moves a timer, to a time in nanoseconds of the VM's clock. Returns whether the timer exists.
    pub(crate) fn set(&mut self, id: u64, due: u64) -> bool {
        let exists = self.queue.set(id, due);
        let due = self.clock.to_monotonic(due);
        if let Some(alarm) = &mut self.alarm
            && due < alarm.planned
        {
            alarm.planned = due;
            (alarm.plan)(due);
        }
        exists
    }

    /// From now on, `plan` is called with the time at which the owner must be woken, instead of at the time before.
    pub(crate) fn set_alarm(&mut self, plan: Box<dyn FnMut(u64)>) {
        self.alarm = Some(Alarm { planned: u64::MAX, plan });
        self.plan_next();
    }

    /// Removes the alarm.
    pub(crate) fn remove_alarm(&mut self) {
        self.alarm = None;
    }

    /// Plans the next wakeup if the time of the last one has passed. The owner calls this after a round of its loop.
    fn plan_next(&mut self) {
        let Some(alarm) = &mut self.alarm else { return };
        if alarm.planned != u64::MAX && alarm.planned > monotonic_nanos() {
            return;
        }
        let due = self.queue.next_due();
        alarm.planned = due.map_or(u64::MAX, |due| self.clock.to_monotonic(due));
        if alarm.planned != u64::MAX {
            (alarm.plan)(alarm.planned);
        }
    }
}

/// The user value that refers to the list of the timers' values, by slot.
pub(crate) const VALUES: Field<Timers> = Field::new(1);

impl Object for Timers {
    const NAME: &'static str = "lio.timers";
    const USER_VALUES: i32 = 1;
    const METHODS: FunctionTable = functions! {
        add, cancel = free, create, set, clear, free, next, expire, skip, plan_next: PLAN_NEXT, count: COUNT,
    };
}

/// Returns the queue at argument 1.
fn queue<'c>(call: &'c mut Call<'_>) -> Result<&'c mut Queue, Fault> {
    Ok(&mut call.object_mut::<Timers>(1)?.queue)
}

/// Converts the seconds at argument `index` to nanoseconds. The maximum is a century. The result is rounded up, so that
/// no timer fires early.
pub(crate) fn nanos(call: &Call<'_>, index: i32) -> Result<u64, Fault> {
    let seconds = call.number(index)?;
    if seconds.is_nan() {
        return Err(Fault::argument(index, "time is not a number"));
    }
    Ok((seconds.clamp(0.0, 3.2e9) * 1e9).ceil() as u64)
}

/// `timer.new()`: returns an empty queue.
fn new(call: &mut Call<'_>) -> Result<New<Timers>, Fault> {
    Ok(New::of(Timers { queue: Queue::default(), clock: call.shared()?, alarm: None }))
}

/// Returns the time that is `seconds`, the argument at `index`, from now.
fn due_in(call: &Call<'_>, index: i32) -> Result<u64, Fault> {
    Ok(call.object::<Timers>(1)?.clock.nanos() + nanos(call, index)?)
}

/// Creates a timer with the value at `value`.
fn create_timer(call: &mut Call<'_>, value: i32, once: bool) -> Result<u64, Fault> {
    let id = queue(call)?.create(once);
    let stored = call.set_entry(1, VALUES, Queue::slot(id) + 1, value);
    if stored.is_err() {
        queue(call)?.free(id);
    }
    stored.map(|()| id)
}

/// `timers:add(seconds, value)`: returns the id of a new timer, which fires once and is then freed.
fn add(call: &mut Call<'_>) -> Result<i64, Fault> {
    let due = due_in(call, 2)?;
    call.any(3)?;
    let id = create_timer(call, 3, true)?;
    call.object_mut::<Timers>(1)?.set(id, due);
    Ok(id as i64)
}

/// `timers:create(value)`: returns the id of a new timer that is not set, and that exists until `free`.
fn create(call: &mut Call<'_>) -> Result<i64, Fault> {
    call.any(2)?;
    Ok(create_timer(call, 2, false)? as i64)
}

/// `timers:set(id, seconds)`: sets or moves a timer. Returns whether the timer exists. Moving a timer to a later time
/// is almost free.
fn set(call: &mut Call<'_>) -> Result<bool, Fault> {
    let id = call.integer(2)? as u64;
    let due = due_in(call, 3)?;
    Ok(call.object_mut::<Timers>(1)?.set(id, due))
}

/// `timers:clear(id)`: stops a timer until it is set again. Returns whether the timer exists.
fn clear(call: &mut Call<'_>) -> Result<bool, Fault> {
    let id = call.integer(2)? as u64;
    Ok(queue(call)?.clear(id))
}

/// `timers:free(id)`, `timers:cancel(id)`: frees a timer. Returns whether the timer existed.
fn free(call: &mut Call<'_>) -> Result<bool, Fault> {
    let id = call.integer(2)? as u64;
    let found = queue(call)?.free(id);
    if found {
        call.clear_entry(1, VALUES, Queue::slot(id) + 1)?;
    }
    Ok(found)
}

/// `timers:next()`: returns the number of seconds until the next timer fires (0 if a timer is due); nil if no timer is
/// set.
fn next(call: &mut Call<'_>) -> Result<Option<f64>, Fault> {
    let Timers { queue, clock, .. } = call.object_mut::<Timers>(1)?;
    Ok(queue.next_due().map(|due| due.saturating_sub(clock.nanos()) as f64 / 1e9))
}

/// `timers:expire()`: returns the value and the id of the next timer that is due; nothing if no timer is due.
fn expire(call: &mut Call<'_>) -> Result<Maybe<(Argument, i64)>, Fault> {
    let Timers { queue, clock, .. } = call.object_mut::<Timers>(1)?;
    let Some((id, freed)) = queue.expire(clock.nanos()) else { return Ok(Maybe(None)) };
    let index = Queue::slot(id) + 1;
    let value = call.entry(1, VALUES, index)?;
    if freed {
        call.clear_entry(1, VALUES, index)?;
    }
    Ok(Maybe(Some((Argument(value), id as i64))))
}

/// `timers:skip()`: moves the paused clock to the time at which the next timer fires. Returns whether a timer is set.
fn skip(call: &mut Call<'_>) -> Result<bool, Fault> {
    let Timers { queue, clock, .. } = call.object_mut::<Timers>(1)?;
    let due = queue.next_due();
    clock.advance_to(due.unwrap_or(0));
    Ok(due.is_some())
}

/// `timers:count()`: returns the number of timers, set or not.
const COUNT: Function = Function::method(|timers: &Timers| timers.queue.len() as i64);

/// `timers:plan_next()`: called after a round of the loop of a service that owns no loop; plans the time at which the
/// system wakes the service again.
const PLAN_NEXT: Function = Function::method_mut(|timers: &mut Timers| timers.plan_next());

/// `timer.pause()`: pauses the clock of this VM, for tests. Returns whether it was running.
fn pause(call: &mut Call<'_>) -> Result<bool, Fault> {
    let clock = call.shared::<VmClock>()?;
    let was_running = !clock.is_paused();
    clock.pause();
    Ok(was_running)
}

/// `timer.resume()`: makes the clock of this VM continue.
fn resume(call: &mut Call<'_>) -> Result<(), Fault> {
    call.shared::<VmClock>()?.resume();
    Ok(())
}

/// `timer.advance(seconds)`: moves the paused clock forward.
fn advance(call: &mut Call<'_>) -> Result<(), Fault> {
    let nanos = nanos(call, 1)?;
    let clock = call.shared::<VmClock>()?;
    clock.advance_to(clock.nanos() + nanos);
    Ok(())
}

/// `timer.real()`: returns the time of the monotonic clock in seconds, even if the clock of this VM is paused.
fn real(_: &mut Call<'_>) -> Result<f64, Fault> {
    Ok(monotonic())
}

/// Opens `lio.timer`.
pub(crate) const OPEN: Function =
    Function::new(|_: &mut Call<'_>| Ok(Module(functions! { new, pause, resume, advance, real })));
