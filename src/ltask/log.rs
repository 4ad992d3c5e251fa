//! The log queue: the lines of services that the logger has not read.
//!
//! Entries are payloads that the service library packed. If there is no logger (no service has ever read an entry),
//! text is written to standard error at once, so that an error in a bare system is seen.
//!
//! The queue is bounded. When it is full, lines are dropped until half of it is free again, and a line reports how many
//! were dropped. A line that equals its service's last line is counted, not queued. A second later, or when the service
//! logs another line, a line reports how often it was repeated. Invariant: every line that was pushed is queued,
//! counted in `repeats`, or counted in `dropped`.

use super::message::{Payload, SYSTEM, ServiceId};
use super::statistics::Statistics;
use super::sync::lock;
use crate::codec::pack::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of all queued entries at most, including the overhead of each. A single entry may be larger.
const MOST_BYTES: usize = 64 << 20;
/// How long a last line is kept, and how long its repetitions are counted before they are reported, in nanoseconds.
const WINDOW: u64 = 1_000_000_000;
/// Services whose last line is kept, at most.
const KNOWN: usize = 16;
/// Longer lines are not compared, in bytes.
const LONGEST: usize = 4096;

/// An entry of the log.
pub(crate) struct Entry {
    /// Centiseconds since the epoch.
    pub(crate) time: u64,
    /// The service that has logged it. The entry keeps the statistics after the service's end.
    pub(crate) service: ServiceId,
    pub(crate) statistics: Option<Arc<Statistics>>,
    pub(crate) payload: Payload,
}

impl Entry {
    fn new(service: ServiceId, statistics: Option<Arc<Statistics>>, payload: Payload) -> Entry {
        Entry { time: centiseconds(), service, statistics, payload }
    }

    fn text(service: ServiceId, statistics: Option<Arc<Statistics>>, level: &[u8], text: &str) -> Entry {
        let payload = Payload::of(&[Value::String(level), Value::String(text.as_bytes())]);
        Entry::new(service, statistics, payload)
    }

    fn cost(&self) -> usize {
        size_of::<Entry>() + self.payload.as_slice().len()
    }
}

/// What happens to a line that equals its service's last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repetition {
    /// It is counted.
    Counted,
    /// It is queued like any other line: it is a program's output.
    Written,
}

/// What the caller of `push` must do.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Pushed {
    /// The service to be notified that there are entries, if it was not notified yet.
    pub(crate) reader: Option<ServiceId>,
    /// Whether `flush` must be called earlier than planned.
    pub(crate) is_due: bool,
}

/// The time in centiseconds since the epoch.
pub(crate) fn centiseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| (time.as_millis() / 10) as u64)
}

/// The last line of a service.
struct Known {
    service: ServiceId,
    statistics: Option<Arc<Statistics>>,
    line: Vec<u8>,
    /// Repetitions that were not reported yet.
    repeats: u64,
    /// The time at which the line is forgotten, or its repetitions are reported.
    until: u64,
}

impl Known {
    /// Returns the entry that reports the repetitions, and their number. Sets the count to 0.
    fn tell(&mut self) -> Option<(Entry, u64)> {
        let repeats = std::mem::take(&mut self.repeats);
        if repeats == 0 {
            return None;
        }
        let info = Payload::of(&[Value::String(b"info")]);
        let level: &[u8] = match self.line.starts_with(info.as_slice()) {
            true => b"info",
            false => b"error",
        };
        let text = match repeats {
            1 => "last message repeated 1 time".to_owned(),
            _ => format!("last message repeated {repeats} times"),
        };
        let entry = Entry::text(self.service, self.statistics.clone(), level, &text);
        Some((entry, repeats))
    }
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// The bytes of all entries.
    bytes: usize,
    /// Lines that were dropped and not reported. While this is not 0, every line is dropped.
    dropped: u64,
    known: Vec<Known>,
}

impl Queue {
    /// Adds an entry that represents `lines` lines, or drops it.
    fn add(&mut self, entry: Entry, lines: u64, most: usize) {
        let bytes = self.bytes + entry.cost();
        let is_full = self.entries.len() >= most || bytes > MOST_BYTES && !self.entries.is_empty();
        if self.dropped > 0 || is_full {
            self.dropped += lines;
            return;
        }
        self.bytes = bytes;
        self.entries.push_back(entry);
    }

    fn pop(&mut self, most: usize) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.cost();
        let is_half = self.entries.len() <= most / 2 && self.bytes <= MOST_BYTES / 2;
        if self.dropped > 0 && is_half {
            let text = match std::mem::take(&mut self.dropped) {
                1 => "1 log line dropped: the logger is slower than the services".to_owned(),
                count => {
                    format!("{count} log lines dropped: the logger is slower than the services")
                }
            };
            let note = Entry::text(SYSTEM, None, b"error", &text);
            self.bytes += note.cost();
            self.entries.push_back(note);
        }
        Some(entry)
    }

    /// Reports the repetitions of the lines that `which` selects.
    fn tell(&mut self, most: usize, now: u64, which: impl Fn(&Known) -> bool) {
        let mut told = Vec::new();
        for known in self.known.iter_mut().filter(|known| which(known)) {
            if let Some(entry) = known.tell() {
                told.push(entry);
                known.until = now + WINDOW;
            }
        }
        for (entry, lines) in told {
            self.add(entry, lines, most);
        }
    }

    /// Counts a line that equals its service's last line, and returns true. Otherwise reports the repetitions of the
    /// last line, forgets that, and returns false.
    fn count(&mut self, service: ServiceId, line: &[u8], now: u64, most: usize) -> bool {
        let at = self.known.iter().position(|one| one.service == service);
        let Some(at) = at else { return false };
        let known = &mut self.known[at];
        let is_fresh = known.repeats > 0 || now < known.until;
        if is_fresh && known.line == line {
            known.repeats += 1;
            return true;
        }
        if let Some((entry, lines)) = self.known.swap_remove(at).tell() {
            self.add(entry, lines, most);
        }
        false
    }

    /// Keeps a last line. If there are too many, the oldest is forgotten.
    fn remember(&mut self, known: Known, most: usize) {
        if self.known.len() >= KNOWN {
            let oldest = (0..self.known.len()).min_by_key(|&at| self.known[at].until);
            if let Some((entry, lines)) = oldest.and_then(|at| self.known.swap_remove(at).tell()) {
                self.add(entry, lines, most);
            }
        }
        self.known.push(known);
    }

    /// The time at which `flush` must be called; u64::MAX is never.
    fn due(&self) -> u64 {
        let counted = self.known.iter().filter(|known| known.repeats > 0);
        counted.map(|known| known.until).min().unwrap_or(u64::MAX)
    }
}

/// The log of a system.
pub(crate) struct Log {
    queue: Mutex<Queue>,
    /// Entries in the queue at most.
    most: usize,
    /// Whether a service has read entries.
    read: AtomicBool,
    /// The service to be notified when the queue is no longer empty; 0 is none.
    reader: AtomicU32,
    /// The time at which `flush` must be called, in nanoseconds of the monotonic clock.
    due: AtomicU64,
}

impl Log {
    /// Creates an empty log for `most` entries.
    pub(crate) fn new(most: usize) -> Log {
        Log {
            queue: Mutex::default(),
            most,
            read: AtomicBool::new(false),
            reader: AtomicU32::new(0),
            due: AtomicU64::new(u64::MAX),
        }
    }

    /// Adds an entry, counts it, or drops it. `now` is the monotonic time in nanoseconds.
    pub(crate) fn push(
        &self, service: ServiceId, statistics: Option<Arc<Statistics>>, payload: Payload, repetition: Repetition,
        now: u64,
    ) -> Pushed {
        let mut queue = lock(&self.queue);
        let was_empty = queue.entries.is_empty();
        let line = payload.as_slice();
        let is_compared = repetition == Repetition::Counted && (1..=LONGEST).contains(&line.len());
        // An empty line never equals a last line.
        let compared: &[u8] = if is_compared { line } else { b"" };
        if !queue.count(service, compared, now, self.most) {
            let known = is_compared.then(|| Known {
                service,
                statistics: statistics.clone(),
                line: line.to_vec(),
                repeats: 0,
                until: now + WINDOW,
            });
            queue.add(Entry::new(service, statistics, payload), 1, self.most);
            // A dropped line is no last line.
            if let Some(known) = known.filter(|_| queue.dropped == 0) {
                queue.remember(known, self.most);
            }
        }
        self.pushed(&queue, was_empty)
    }

    fn pushed(&self, queue: &Queue, was_empty: bool) -> Pushed {
        let reader = self.reader.load(Ordering::Relaxed);
        let due = queue.due();
        let before = self.due.swap(due, Ordering::Relaxed);
        Pushed {
            reader: (was_empty && !queue.entries.is_empty() && reader != 0).then_some(reader),
            is_due: due < before,
        }
    }

    /// The time at which `flush` must be called, in nanoseconds of the monotonic clock; u64::MAX is never.
    pub(crate) fn due(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    /// Reports repetitions that have been counted long enough at the time `now`.
    pub(crate) fn flush(&self, now: u64) -> Pushed {
        let mut queue = lock(&self.queue);
        let was_empty = queue.entries.is_empty();
        queue.tell(self.most, now, |known| known.until <= now);
        self.pushed(&queue, was_empty)
    }

    /// Takes the oldest entry.
    pub(crate) fn pop(&self) -> Option<Entry> {
        self.read.store(true, Ordering::Relaxed);
        lock(&self.queue).pop(self.most)
    }

    /// Takes the oldest entry after the system's end. The remaining repetitions are reported at once.
    pub(crate) fn pop_last(&self) -> Option<Entry> {
        self.read.store(true, Ordering::Relaxed);
        let mut queue = lock(&self.queue);
        if queue.entries.is_empty() {
            queue.tell(self.most, 0, |_| true);
        }
        queue.pop(self.most)
    }

    /// Whether a service reads entries.
    pub(crate) fn is_read(&self) -> bool {
        self.read.load(Ordering::Relaxed) || self.reader.load(Ordering::Relaxed) != 0
    }

    /// Sets the service that is notified of entries.
    pub(crate) fn set_reader(&self, service: ServiceId) {
        self.reader.store(service, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn say(log: &Log, service: ServiceId, text: &str, now: u64) -> Pushed {
        say_as(log, service, text, Repetition::Counted, now)
    }

    fn say_as(log: &Log, service: u32, text: &str, repetition: Repetition, now: u64) -> Pushed {
        let payload = Payload::of(&[Value::String(b"error"), Value::String(text.as_bytes())]);
        log.push(service, None, payload, repetition, now)
    }

    /// Takes all entries: services and texts. A packed short string is one byte and the text.
    fn take(log: &Log) -> Vec<(ServiceId, String)> {
        let entries = std::iter::from_fn(|| log.pop());
        entries.map(|entry| (entry.service, text_of(&entry))).collect()
    }

    fn text_of(entry: &Entry) -> String {
        let head = Payload::of(&[Value::String(b"error")]);
        let bytes = entry.payload.as_slice();
        let rest = bytes.strip_prefix(head.as_slice()).expect("an error");
        let text = String::from_utf8_lossy(rest);
        text.chars().skip_while(|one| !one.is_ascii_alphanumeric()).collect()
    }

    fn told(texts: &[(ServiceId, &str)]) -> Vec<(ServiceId, String)> {
        let own = |&(service, text): &(ServiceId, &str)| (service, text.to_owned());
        texts.iter().map(own).collect()
    }

    #[test]
    fn a_full_queue_drops_lines_until_half_of_it_is_free_again() {
        let log = Log::new(4);
        for number in 1..=10 {
            say(&log, 5, &format!("line {number}"), 0);
        }
        for number in 1..=2 {
            assert_eq!(text_of(&log.pop().unwrap()), format!("line {number}"));
        }
        say(&log, 5, "later", 0);
        let note = "6 log lines dropped: the logger is slower than the services";
        let want = [(5, "line 3"), (5, "line 4"), (0, note), (5, "later")];
        assert_eq!(take(&log), told(&want));
    }

    #[test]
    fn the_bytes_are_bounded_and_an_empty_queue_takes_a_larger_line() {
        let log = Log::new(1000);
        let large = "x".repeat(MOST_BYTES + 1);
        say(&log, 5, &large, 0);
        say(&log, 5, "small", 0);
        assert_eq!(text_of(&log.pop().unwrap()), large);
        let note = "1 log line dropped: the logger is slower than the services";
        assert_eq!(take(&log), told(&[(0, note)]));
        assert_eq!(lock(&log.queue).bytes, 0);
        say(&log, 5, "again", 0);
        assert_eq!(take(&log), told(&[(5, "again")]));
    }

    #[test]
    fn a_repeated_line_is_counted_until_its_service_logs_another() {
        let log = Log::new(100);
        for service in [5, 6, 5, 6, 5] {
            say(&log, service, "same", 0);
        }
        say(&log, 5, "other", 0);
        let want = [(5, "same"), (6, "same"), (5, "last message repeated 2 times"), (5, "other")];
        assert_eq!(take(&log), told(&want));
        assert_eq!(text_of(&log.pop_last().unwrap()), "last message repeated 1 time");
        assert!(log.pop_last().is_none());
    }

    #[test]
    fn repetitions_are_reported_after_a_second_and_counted_again() {
        let log = Log::new(100);
        log.set_reader(9);
        let first = Pushed { reader: Some(9), is_due: false };
        assert_eq!(say(&log, 5, "same", 7), first);
        assert_eq!(take(&log).len(), 1);
        assert_eq!(log.due(), u64::MAX);
        assert!(say(&log, 5, "same", 8).is_due);
        assert!(!say(&log, 5, "same", 9).is_due, "the time has not changed");
        assert_eq!(log.due(), 7 + SECOND);
        log.flush(6 + SECOND);
        assert_eq!(take(&log), []);
        assert_eq!(log.flush(8 + SECOND).reader, Some(9));
        assert_eq!(take(&log), told(&[(5, "last message repeated 2 times")]));
        assert_eq!(log.due(), u64::MAX);
        say(&log, 5, "same", 9 + SECOND);
        assert_eq!(take(&log), [], "counting continues");
        log.flush(9 + 2 * SECOND);
        assert_eq!(take(&log), told(&[(5, "last message repeated 1 time")]));
        say(&log, 5, "same", 20 * SECOND);
        assert_eq!(take(&log), told(&[(5, "same")]), "after a pause it is a new line");
    }

    #[test]
    fn repeated_output_is_written_each_time() {
        let log = Log::new(100);
        say(&log, 5, "same", 0);
        say(&log, 5, "same", 0);
        for _ in 0..3 {
            say_as(&log, 5, "same", Repetition::Written, 0);
        }
        let repeated = (5, "last message repeated 1 time");
        let same = (5, "same");
        assert_eq!(take(&log), told(&[same, repeated, same, same, same]));
    }

    #[test]
    fn each_line_of_many_services_is_written_counted_or_dropped() {
        let log = Log::new(8);
        let mut lines = 0;
        for round in 0..500u32 {
            say(&log, 1 + round * 7 % 40, ["a", "b"][(round % 3 / 2) as usize], 0);
            if round % 5 == 0 {
                lines += stands_for(log.pop());
            }
        }
        while let Some(entry) = log.pop_last() {
            lines += stands_for(Some(entry));
        }
        assert_eq!(lines, 500);
    }

    /// How many lines an entry represents.
    fn stands_for(entry: Option<Entry>) -> u64 {
        let Some(entry) = entry else { return 0 };
        let text = text_of(&entry);
        let number = |from: &str| from.split(' ').next().unwrap().parse::<u64>().unwrap();
        if let Some(rest) = text.strip_prefix("last message repeated ") {
            return number(rest);
        }
        if text.contains("dropped") {
            return number(&text);
        }
        1
    }
}
