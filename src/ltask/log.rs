//! The log queue: the log entries that the logger has not read.
//!
//! Entries are payloads that the service library packed. While there is no logger (no service has read an entry, and
//! none is set as reader), the scheduler's own messages are written to standard error immediately, so that errors in a
//! system without a logger are visible.
//!
//! The queue is bounded. When it is full, lines are dropped until half of it is free again; then a line reports how
//! many were dropped. A line that equals its service's last line is counted, not queued. A second later, or when the
//! service logs another line, a line reports how often the last line was repeated. Invariant: every line that was
//! pushed is queued, counted in `repeats`, or counted in `dropped`.

use super::message::{Payload, SYSTEM, ServiceId};
use super::statistics::Statistics;
use super::sync::lock;
use crate::codec::pack::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// The maximum size of all queued entries in bytes, including the overhead of each entry. A single entry may be larger.
const MAX_BYTES: usize = 64 << 20;
/// The time, in nanoseconds, for which new lines are compared with a last line, and after which the last line's
/// repetitions are reported.
const REPEAT_WINDOW: u64 = 1_000_000_000;
/// The maximum number of services whose last line is kept.
const MAX_LAST_LINES: usize = 16;
/// The maximum size in bytes of a line that is compared with the last line.
const MAX_COMPARED: usize = 4096;

/// An entry of the log.
pub(crate) struct Entry {
    /// Centiseconds since the Unix epoch.
    pub(crate) time: u64,
    /// The service that has logged the entry.
    pub(crate) service: ServiceId,
    /// The statistics of the service, which may have ended.
    pub(crate) statistics: Option<Arc<Statistics>>,
    pub(crate) payload: Payload,
}

impl Entry {
    fn new(service: ServiceId, statistics: Option<Arc<Statistics>>, payload: Payload) -> Entry {
        Entry { time: centiseconds(), service, statistics, payload }
    }

    fn text(service: ServiceId, statistics: Option<Arc<Statistics>>, level: &[u8], text: &str) -> Entry {
        let payload = Payload::pack(&[Value::String(level), Value::String(text.as_bytes())]);
        Entry::new(service, statistics, payload)
    }

    fn cost(&self) -> usize {
        size_of::<Entry>() + self.payload.as_slice().len()
    }
}

/// How a line that equals the previous line of its service is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repetition {
    /// The line is counted.
    Counted,
    /// The line is queued like any other line, because it is a program's output.
    Written,
}

/// The actions that the caller of `push` or `flush` must take next.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct PushResult {
    /// The service that must be notified that the queue is no longer empty, if any.
    pub(crate) reader: Option<ServiceId>,
    /// Whether `flush` must be called earlier than planned.
    pub(crate) flushes_earlier: bool,
}

/// Returns the time in centiseconds since the Unix epoch.
pub(crate) fn centiseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| (time.as_millis() / 10) as u64)
}

/// The log of a system.
pub(crate) struct Log {
    queue: Mutex<LogQueue>,
    /// The maximum number of entries in the queue.
    capacity: usize,
    /// Whether a service has read entries.
    is_read: AtomicBool,
    /// The service that is notified when the queue is no longer empty; 0 if there is none.
    reader: AtomicU32,
    /// The time at which `flush` must be called, in nanoseconds of the monotonic clock.
    next_flush: AtomicU64,
}

impl Log {
    /// Creates an empty log for `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Log {
        Log {
            queue: Mutex::default(),
            capacity,
            is_read: AtomicBool::new(false),
            reader: AtomicU32::new(0),
            next_flush: AtomicU64::new(u64::MAX),
        }
    }

    /// Queues an entry, counts it as a repetition, or drops it. `now` is the monotonic time in nanoseconds.
    pub(crate) fn push(
        &self, service: ServiceId, statistics: Option<Arc<Statistics>>, payload: Payload, repetition: Repetition,
        now: u64,
    ) -> PushResult {
        let mut queue = lock(&self.queue);
        let was_empty = queue.entries.is_empty();
        let line = payload.as_slice();
        let is_compared = repetition == Repetition::Counted && (1..=MAX_COMPARED).contains(&line.len());
        // An empty line never equals a last line.
        let compared: &[u8] = if is_compared { line } else { b"" };
        if !queue.count_repeat(service, compared, now, self.capacity) {
            let last = is_compared.then(|| LastLine {
                service,
                statistics: statistics.clone(),
                line: line.to_vec(),
                repeats: 0,
                deadline: now + REPEAT_WINDOW,
            });
            queue.add(Entry::new(service, statistics, payload), 1, self.capacity);
            // A dropped line does not count as the last line.
            if let Some(last) = last.filter(|_| queue.dropped == 0) {
                queue.keep_last_line(last, self.capacity);
            }
        }
        self.push_result(&queue, was_empty)
    }

    fn push_result(&self, queue: &LogQueue, was_empty: bool) -> PushResult {
        let reader = self.reader.load(Ordering::Relaxed);
        let next_flush = queue.next_flush();
        let before = self.next_flush.swap(next_flush, Ordering::Relaxed);
        PushResult {
            reader: (was_empty && !queue.entries.is_empty() && reader != 0).then_some(reader),
            flushes_earlier: next_flush < before,
        }
    }

    /// Returns the time at which `flush` must be called, in nanoseconds of the monotonic clock; u64::MAX if it need not
    /// be called.
    pub(crate) fn next_flush(&self) -> u64 {
        self.next_flush.load(Ordering::Relaxed)
    }

    /// Queues a report for each repeated line whose deadline has passed at the time `now`.
    pub(crate) fn flush(&self, now: u64) -> PushResult {
        let mut queue = lock(&self.queue);
        let was_empty = queue.entries.is_empty();
        queue.report_repeats(self.capacity, now, |last| last.deadline <= now);
        self.push_result(&queue, was_empty)
    }

    /// Takes the oldest entry.
    pub(crate) fn pop(&self) -> Option<Entry> {
        self.is_read.store(true, Ordering::Relaxed);
        lock(&self.queue).pop(self.capacity)
    }

    /// Takes the oldest entry, if any, after the system has ended. If the queue is empty, reports the remaining
    /// repetitions first, regardless of their deadlines.
    pub(crate) fn pop_last(&self) -> Option<Entry> {
        self.is_read.store(true, Ordering::Relaxed);
        let mut queue = lock(&self.queue);
        if queue.entries.is_empty() {
            queue.report_repeats(self.capacity, 0, |_| true);
        }
        queue.pop(self.capacity)
    }

    /// Whether there is a logger.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed) || self.reader.load(Ordering::Relaxed) != 0
    }

    /// Sets the service that is notified when the queue is no longer empty.
    pub(crate) fn set_reader(&self, service: ServiceId) {
        self.reader.store(service, Ordering::Relaxed);
    }
}

/// The entries of the log.
#[derive(Default)]
struct LogQueue {
    entries: VecDeque<Entry>,
    /// The size of all entries in bytes.
    bytes: usize,
    /// The number of dropped lines that have not been reported yet. While it is not 0, every new line is dropped.
    dropped: u64,
    /// The last lines of up to `MAX_LAST_LINES` services.
    last_lines: Vec<LastLine>,
}

impl LogQueue {
    /// Queues an entry that represents `lines` lines, or drops it.
    fn add(&mut self, entry: Entry, lines: u64, capacity: usize) {
        let bytes = self.bytes + entry.cost();
        let is_full = self.entries.len() >= capacity || bytes > MAX_BYTES && !self.entries.is_empty();
        if self.dropped > 0 || is_full {
            self.dropped += lines;
            return;
        }
        self.bytes = bytes;
        self.entries.push_back(entry);
    }

    fn pop(&mut self, capacity: usize) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.cost();
        let is_half = self.entries.len() <= capacity / 2 && self.bytes <= MAX_BYTES / 2;
        if self.dropped > 0 && is_half {
            let text = match std::mem::take(&mut self.dropped) {
                1 => "1 log line dropped: the logger is slower than the services".to_owned(),
                count => format!("{count} log lines dropped: the logger is slower than the services"),
            };
            let note = Entry::text(SYSTEM, None, b"error", &text);
            self.bytes += note.cost();
            self.entries.push_back(note);
        }
        Some(entry)
    }

    /// Reports the repetitions of the lines that `is_selected` selects.
    fn report_repeats(&mut self, capacity: usize, now: u64, is_selected: impl Fn(&LastLine) -> bool) {
        let mut reports = Vec::new();
        for last in self.last_lines.iter_mut().filter(|last| is_selected(last)) {
            if let Some(entry) = last.take_report() {
                reports.push(entry);
                last.deadline = now + REPEAT_WINDOW;
            }
        }
        for (entry, lines) in reports {
            self.add(entry, lines, capacity);
        }
    }

    /// If `line` equals the last line of `service`, counts the repetition and returns true. Otherwise reports the
    /// repetitions of the last line, removes the last line, and returns false.
    fn count_repeat(&mut self, service: ServiceId, line: &[u8], now: u64, capacity: usize) -> bool {
        let at = self.last_lines.iter().position(|one| one.service == service);
        let Some(at) = at else { return false };
        let last = &mut self.last_lines[at];
        let is_fresh = last.repeats > 0 || now < last.deadline;
        if is_fresh && last.line == line {
            last.repeats += 1;
            return true;
        }
        if let Some((entry, lines)) = self.last_lines.swap_remove(at).take_report() {
            self.add(entry, lines, capacity);
        }
        false
    }

    /// Keeps the last line of a service. If too many lines are kept, removes the oldest, and reports its repetitions.
    fn keep_last_line(&mut self, last: LastLine, capacity: usize) {
        if self.last_lines.len() >= MAX_LAST_LINES {
            let oldest = (0..self.last_lines.len()).min_by_key(|&at| self.last_lines[at].deadline);
            if let Some((entry, lines)) = oldest.and_then(|at| self.last_lines.swap_remove(at).take_report()) {
                self.add(entry, lines, capacity);
            }
        }
        self.last_lines.push(last);
    }

    /// Returns the time at which `flush` must be called; u64::MAX if it need not be called.
    fn next_flush(&self) -> u64 {
        let counted = self.last_lines.iter().filter(|last| last.repeats > 0);
        counted.map(|last| last.deadline).min().unwrap_or(u64::MAX)
    }
}

/// The last line of a service.
struct LastLine {
    service: ServiceId,
    statistics: Option<Arc<Statistics>>,
    line: Vec<u8>,
    /// The number of repetitions that have not been reported yet.
    repeats: u64,
    /// The time, in nanoseconds of the monotonic clock, after which the repetitions are reported, or after which an
    /// equal line is queued again.
    deadline: u64,
}

impl LastLine {
    /// Returns an entry that reports the repetitions, and the number of repetitions; None if there are none. Sets
    /// `repeats` to 0.
    fn take_report(&mut self) -> Option<(Entry, u64)> {
        let repeats = std::mem::take(&mut self.repeats);
        if repeats == 0 {
            return None;
        }
        let info = Payload::pack(&[Value::String(b"info")]);
        let level: &[u8] = if self.line.starts_with(info.as_slice()) { b"info" } else { b"error" };
        let text = match repeats {
            1 => "last message repeated 1 time".to_owned(),
            _ => format!("last message repeated {repeats} times"),
        };
        let entry = Entry::text(self.service, self.statistics.clone(), level, &text);
        Some((entry, repeats))
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
