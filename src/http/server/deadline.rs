//! The deadlines of connections: their timers, and what happens when a deadline has passed. `close` sets the deadline
//! of a closing connection; this file sets all other deadlines. The header time starts in `request.rs`, with the first
//! byte of a head.
//!
//! A timer is moved only if it would fire too late, and set again if it has fired too early. So the requests on a busy
//! connection do not use the timer queue.

use super::connection::State;
use super::settings::{Clock, Time};
use super::work::{ResumeReason, Work};
use super::{Phase, Server, Transport};
use crate::codec::http1::reject::Reject;
use crate::event::timers::Queue;

impl<T: Transport> Server<T> {
    /// Sets the deadline of a connection to `at`.
    #[inline]
    pub(super) fn set_deadline(&mut self, slot: usize, at: Time) {
        let deadline = &mut self.connections[slot].deadline;
        deadline.at = at;
        if at < deadline.timer_at {
            self.move_timer(slot, at);
        }
    }

    /// Makes the connection wait for the events that it is armed for, until the deadline of its state. The keep-alive
    /// time starts here, after each response.
    #[inline]
    pub(super) fn park(&mut self, slot: usize, clock: Clock) {
        let settings = &self.settings;
        let connection = &mut self.connections[slot];
        connection.requests_in_turn = 0;
        let deadline = match &mut connection.state {
            State::Idle { since } => since.get_or_insert(clock.now).saturating_add(settings.keep_alive_time),
            State::ProxyHeader { since } => since.get_or_insert(clock.now).saturating_add(settings.header_time),
            State::Handshake { since } => since.get_or_insert(clock.now).saturating_add(settings.handshake_time),
            State::Head { since, .. } => since.saturating_add(settings.header_time),
            State::Discarding { since, .. } => since.get_or_insert(clock.now).saturating_add(settings.body_time),
            State::Blocked { .. } => clock.now.saturating_add(settings.write_time),
            State::Handling(_) | State::Lingering => return,
        };
        let is_unused =
            matches!(connection.state, State::Idle { .. } | State::ProxyHeader { .. } | State::Handshake { .. });
        let falls_idle = self.phase == Phase::Draining && is_unused;
        // Without a registration, the connection would wait forever.
        if falls_idle || !connection.transport.is_registered() {
            return self.close(slot);
        }
        self.set_deadline(slot, deadline);
    }

    pub(super) fn free_timer(&mut self, slot: usize) {
        if let Some(timer) = self.connections[slot].deadline.timer.take() {
            self.deadlines.free(timer);
        }
    }

    /// Returns the time at which [`Server::expire`] must be called; `None` if there is no deadline.
    pub(crate) fn next_deadline(&mut self) -> Option<Time> {
        self.deadlines.next_due()
    }

    /// Handles connections whose deadline has passed. [`Server::next`] returns the resulting work for tasks.
    pub(crate) fn expire(&mut self, clock: Clock) {
        while let Some((timer, _)) = self.deadlines.expire(clock.now) {
            let slot = self.timed[Queue::slot(timer)];
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.deadline.timer_at = Time::MAX;
            let at = connection.deadline.at;
            match at <= clock.now {
                true => self.time_out(slot, clock),
                false if at < Time::MAX => self.move_timer(slot, at),
                false => {}
            }
        }
    }

    /// Sets the deadline of a connection whose handler waits.
    pub(super) fn set_wait_deadline(&mut self, slot: usize) {
        let read = self.body_deadline(slot);
        if let State::Handling(handling) = &self.connections[slot].state {
            let at = read.into_iter().chain(handling.waits().write).min();
            self.set_deadline(slot, at.unwrap_or(Time::MAX));
        }
    }

    fn move_timer(&mut self, slot: usize, at: Time) {
        let deadline = &mut self.connections[slot].deadline;
        let timer = match deadline.timer {
            Some(timer) => timer,
            None => {
                let timer = self.deadlines.create(false);
                let timer_slot = Queue::slot(timer);
                if self.timed.len() <= timer_slot {
                    self.timed.resize(timer_slot + 1, usize::MAX);
                }
                self.timed[timer_slot] = slot;
                deadline.timer = Some(timer);
                timer
            }
        };
        deadline.timer_at = at;
        self.deadlines.set(timer, at);
    }

    fn time_out(&mut self, slot: usize, clock: Clock) {
        let read_deadline = self.body_deadline(slot);
        let connection = &mut self.connections[slot];
        connection.deadline.at = Time::MAX;
        let id = connection.request(slot);
        match &mut connection.state {
            State::Handling(handling) => {
                let has_passed = |deadline: Option<Time>| deadline.is_some_and(|at| at <= clock.now);
                if has_passed(read_deadline) {
                    handling.end_read_wait(clock.now);
                    self.notifications.push_back(Work::Resume { id, reason: ResumeReason::ReadTimeOut });
                }
                if has_passed(handling.waits().write) {
                    handling.extras().waits.write = None;
                    self.notifications.push_back(Work::Resume { id, reason: ResumeReason::WriteTimeOut });
                }
                self.set_wait_deadline(slot);
            }
            State::Head { .. } => {
                let reject = Reject::new(408, "the request arrives too slowly");
                self.refuse(slot, reject, clock);
                self.enqueue(slot);
            }
            _ => self.close(slot),
        }
    }

    /// Returns the deadline of a body that a handler waits for: a fixed time, extended for each byte received, but at
    /// most the fixed time after the last byte. Only the time spent waiting counts.
    fn body_deadline(&self, slot: usize) -> Option<Time> {
        let connection = &self.connections[slot];
        let State::Handling(handling) = &connection.state else { return None };
        let extras = handling.extras_ref()?;
        let since = extras.waits.read?;
        let available = self.read_buffer.bytes(slot, &connection.input).len();
        let received = handling.body.received() + available as u64;
        let earned = received as f64 / self.settings.body_rate * 1e9;
        // With a rate of 0 there is no limit.
        let earned = if earned.is_nan() { Time::MAX } else { earned as Time };
        let body_time = self.settings.body_time;
        let left = body_time.saturating_add(earned).saturating_sub(extras.waited);
        let left_without_progress = body_time.saturating_sub(extras.stalled);
        Some(since.saturating_add(left.min(left_without_progress)))
    }
}
