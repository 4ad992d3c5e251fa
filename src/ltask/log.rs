//! The log queue: the lines of services, until the logger takes them.
//!
//! Entries are payloads that the service library packed. Without a logger (no service has ever taken an
//! entry), text goes to standard error at once, so that an error in a bare system is seen.
//!
//! The queue is bounded: when it is full, lines are dropped until half of it is free again, and a line says
//! how many were. A line that its service has just said is counted, not queued; a second later, or when
//! the service says something else, a line says how often it was repeated. Invariant: every line that was
//! pushed is queued, counted in `repeats`, or counted in `dropped`.

use super::message::{Payload, SYSTEM, ServiceId};
use super::statistics::Statistics;
use super::sync::lock;
use crate::codec::pack::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// The entries in the queue have at most so many bytes, each with what it costs itself; a single one may be
/// larger.
const MOST_BYTES: usize = 64 << 20;
/// So long, in nanoseconds, a line is known, and the repetitions of one are counted before that is said.
const WINDOW: u64 = 1_000_000_000;
/// The last lines of so many services are known.
const KNOWN: usize = 16;
/// Longer lines are not compared.
const LONGEST: usize = 4096;

/// One entry.
pub(crate) struct Entry {
    /// Centiseconds since the epoch.
    pub(crate) time: u64,
    /// Who says it; its statistics outlives it here.
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

/// What becomes of a line that is the same as its service's last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repetition {
    /// It is counted.
    Counted,
    /// It is a line like any other: a program's output.
    Written,
}

/// What the caller of `push` is to do.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Pushed {
    /// The service to be told that there are entries, if it does not know yet.
    pub(crate) reader: Option<ServiceId>,
    /// Whether `flush` is to be called earlier than was known.
    pub(crate) is_due: bool,
}

/// Centiseconds since the epoch.
pub(crate) fn centiseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| (time.as_millis() / 10) as u64)
}

/// The last line of a service.
struct Known {
    service: ServiceId,
    statistics: Option<Arc<Statistics>>,
    line: Vec<u8>,
    /// How often it was repeated and not said so.
    repeats: u64,
    /// Then it is no longer known, or that is said.
    until: u64,
}

impl Known {
    /// The entry that says how often it was repeated, and how many lines that stands for.
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
    /// What they cost.
    bytes: usize,
    /// How many lines were dropped and not said so. Until that is said every line is.
    dropped: u64,
    known: Vec<Known>,
}

impl Queue {
    /// Adds an entry that stands for `lines` lines, or drops them.
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

    /// Says how often the lines that `which` selects were repeated, and counts on.
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

    /// Counts a line that is known. Otherwise, its service's earlier line is told of and forgotten.
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

    /// Remembers a line. The one that is known longest goes, when there are too many.
    fn remember(&mut self, known: Known, most: usize) {
        if self.known.len() >= KNOWN {
            let oldest = (0..self.known.len()).min_by_key(|&at| self.known[at].until);
            if let Some((entry, lines)) = oldest.and_then(|at| self.known.swap_remove(at).tell()) {
                self.add(entry, lines, most);
            }
        }
        self.known.push(known);
    }

    /// When `flush` is to be called; u64::MAX is never.
    fn due(&self) -> u64 {
        let counted = self.known.iter().filter(|known| known.repeats > 0);
        counted.map(|known| known.until).min().unwrap_or(u64::MAX)
    }
}

/// See the file's head.
pub(crate) struct Log {
    queue: Mutex<Queue>,
    /// Entries that it holds at most.
    most: usize,
    /// Whether a service takes entries.
    read: AtomicBool,
    /// The service to be told when the queue is no longer empty; 0 is none.
    reader: AtomicU32,
    /// When `flush` is to be called, in nanoseconds of the monotonic clock.
    due: AtomicU64,
}

impl Log {
    /// An empty log that holds `most` entries.
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
        // An empty line is never known.
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
            // One that was dropped has not been said.
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

    /// When `flush` is to be called; u64::MAX is never.
    pub(crate) fn due(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    /// Says how often lines were repeated that have been counted long enough at time `now`.
    pub(crate) fn flush(&self, now: u64) -> Pushed {
        let mut queue = lock(&self.queue);
        let was_empty = queue.entries.is_empty();
        queue.tell(self.most, now, |known| known.until <= now);
        self.pushed(&queue, was_empty)
    }

    /// The oldest entry.
    pub(crate) fn pop(&self) -> Option<Entry> {
        self.read.store(true, Ordering::Relaxed);
        lock(&self.queue).pop(self.most)
    }

    /// The oldest entry, when the system has ended: nothing is counted any longer.
    pub(crate) fn pop_last(&self) -> Option<Entry> {
        self.read.store(true, Ordering::Relaxed);
        let mut queue = lock(&self.queue);
        if queue.entries.is_empty() {
            queue.tell(self.most, 0, |_| true);
        }
        queue.pop(self.most)
    }

    /// Whether a service takes entries.
    pub(crate) fn is_read(&self) -> bool {
        self.read.load(Ordering::Relaxed) || self.reader.load(Ordering::Relaxed) != 0
    }

    /// Makes `service` the one that is told.
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

    /// What is in the log: services, levels and texts. A packed short string is one byte and the text.
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
    fn a_full_queue_drops_lines_until_half_of_it_is_free() {
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
    fn the_bytes_are_bounded_and_a_line_that_is_larger_is_taken_alone() {
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
    fn a_repeated_line_is_counted_until_its_service_says_another() {
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
    fn a_count_is_due_after_a_second_and_begins_again() {
        let log = Log::new(100);
        log.set_reader(9);
        let first = Pushed { reader: Some(9), is_due: false };
        assert_eq!(say(&log, 5, "same", 7), first);
        assert_eq!(take(&log).len(), 1);
        assert_eq!(log.due(), u64::MAX);
        assert!(say(&log, 5, "same", 8).is_due);
        assert!(!say(&log, 5, "same", 9).is_due, "that is known");
        assert_eq!(log.due(), 7 + SECOND);
        log.flush(6 + SECOND);
        assert_eq!(take(&log), []);
        assert_eq!(log.flush(8 + SECOND).reader, Some(9));
        assert_eq!(take(&log), told(&[(5, "last message repeated 2 times")]));
        assert_eq!(log.due(), u64::MAX);
        say(&log, 5, "same", 9 + SECOND);
        assert_eq!(take(&log), [], "it goes on");
        log.flush(9 + 2 * SECOND);
        assert_eq!(take(&log), told(&[(5, "last message repeated 1 time")]));
        say(&log, 5, "same", 20 * SECOND);
        assert_eq!(take(&log), told(&[(5, "same")]), "after a pause it is new");
    }

    #[test]
    fn output_is_written_however_often_it_is_repeated() {
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

    /// How many lines an entry stands for.
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
