//! Tests of the log queue.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn push(log: &Log, service: ServiceId, text: &str, now: u64) -> PushResult {
    push_as(log, service, text, Repetition::Counted, now)
}

fn push_as(log: &Log, service: u32, text: &str, repetition: Repetition, now: u64) -> PushResult {
    let payload = Payload::pack(&[Value::String(b"error"), Value::String(text.as_bytes())]);
    log.push(service, None, payload, repetition, now)
}

/// Takes all entries. Returns the service id and the message of each entry.
fn drain(log: &Log) -> Vec<(ServiceId, String)> {
    let entries = std::iter::from_fn(|| log.pop());
    entries.map(|entry| (entry.service, text_of(&entry))).collect()
}

/// Returns the message of an entry, without the bytes that precede a packed string.
fn text_of(entry: &Entry) -> String {
    let head = Payload::pack(&[Value::String(b"error")]);
    let bytes = entry.payload.as_slice();
    let rest = bytes.strip_prefix(head.as_slice()).expect("an error");
    let text = String::from_utf8_lossy(rest);
    text.chars().skip_while(|one| !one.is_ascii_alphanumeric()).collect()
}

fn lines(texts: &[(ServiceId, &str)]) -> Vec<(ServiceId, String)> {
    let own = |&(service, text): &(ServiceId, &str)| (service, text.to_owned());
    texts.iter().map(own).collect()
}

#[test]
fn a_full_queue_drops_lines_until_half_of_it_is_free_again() {
    let log = Log::new(4);
    for number in 1..=10 {
        push(&log, 5, &format!("line {number}"), 0);
    }
    for number in 1..=2 {
        assert_eq!(text_of(&log.pop().unwrap()), format!("line {number}"));
    }
    push(&log, 5, "later", 0);
    let note = "6 log lines dropped: the logger is slower than the services";
    let expected = [(5, "line 3"), (5, "line 4"), (0, note), (5, "later")];
    assert_eq!(drain(&log), lines(&expected));
}

#[test]
fn the_bytes_are_bounded_and_an_empty_queue_takes_a_larger_line() {
    let log = Log::new(1000);
    let large = "x".repeat(MAX_BYTES + 1);
    push(&log, 5, &large, 0);
    push(&log, 5, "small", 0);
    assert_eq!(text_of(&log.pop().unwrap()), large);
    let note = "1 log line dropped: the logger is slower than the services";
    assert_eq!(drain(&log), lines(&[(0, note)]));
    assert_eq!(lock(&log.queue).bytes, 0);
    push(&log, 5, "again", 0);
    assert_eq!(drain(&log), lines(&[(5, "again")]));
}

#[test]
fn a_repeated_line_is_counted_until_its_service_logs_another() {
    let log = Log::new(100);
    for service in [5, 6, 5, 6, 5] {
        push(&log, service, "same", 0);
    }
    push(&log, 5, "other", 0);
    let expected = [(5, "same"), (6, "same"), (5, "last message repeated 2 times"), (5, "other")];
    assert_eq!(drain(&log), lines(&expected));
    assert_eq!(text_of(&log.pop_last().unwrap()), "last message repeated 1 time");
    assert!(log.pop_last().is_none());
}

#[test]
fn repetitions_are_reported_after_a_second_and_counted_again() {
    let log = Log::new(100);
    log.set_reader(9);
    let first = PushResult { reader: Some(9), flushes_earlier: false };
    assert_eq!(push(&log, 5, "same", 7), first);
    assert_eq!(drain(&log).len(), 1);
    assert_eq!(log.next_flush(), u64::MAX);
    assert!(push(&log, 5, "same", 8).flushes_earlier);
    assert!(!push(&log, 5, "same", 9).flushes_earlier, "the time of the next flush has not changed");
    assert_eq!(log.next_flush(), 7 + SECOND);
    log.flush(6 + SECOND);
    assert_eq!(drain(&log), []);
    assert_eq!(log.flush(8 + SECOND).reader, Some(9));
    assert_eq!(drain(&log), lines(&[(5, "last message repeated 2 times")]));
    assert_eq!(log.next_flush(), u64::MAX);
    push(&log, 5, "same", 9 + SECOND);
    assert_eq!(drain(&log), [], "counting continues");
    log.flush(9 + 2 * SECOND);
    assert_eq!(drain(&log), lines(&[(5, "last message repeated 1 time")]));
    push(&log, 5, "same", 20 * SECOND);
    assert_eq!(drain(&log), lines(&[(5, "same")]), "after a pause the line is queued again");
}

#[test]
fn repeated_output_is_written_each_time() {
    let log = Log::new(100);
    push(&log, 5, "same", 0);
    push(&log, 5, "same", 0);
    for _ in 0..3 {
        push_as(&log, 5, "same", Repetition::Written, 0);
    }
    let repeated = (5, "last message repeated 1 time");
    let same = (5, "same");
    assert_eq!(drain(&log), lines(&[same, repeated, same, same, same]));
}

#[test]
fn each_line_of_many_services_is_written_counted_or_dropped() {
    let log = Log::new(8);
    let mut count = 0;
    for round in 0..500u32 {
        push(&log, 1 + round * 7 % 40, ["a", "b"][(round % 3 / 2) as usize], 0);
        if round % 5 == 0 {
            count += line_count(log.pop());
        }
    }
    while let Some(entry) = log.pop_last() {
        count += line_count(Some(entry));
    }
    assert_eq!(count, 500);
}

/// Returns the number of lines that an entry represents.
fn line_count(entry: Option<Entry>) -> u64 {
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
