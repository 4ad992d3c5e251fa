use super::super::rate::Rate;
use std::time::Duration;

/// Returns how many of `count` messages at the time `millis` are admitted.
fn admitted(rate: &mut Rate, count: usize, millis: u64) -> usize {
    (0..count).filter(|_| rate.admit(Duration::from_millis(millis))).count()
}

#[test]
fn a_burst_of_two_seconds_is_admitted_and_then_the_rate() {
    let mut rate = Rate::new(10.0);
    assert_eq!(admitted(&mut rate, 100, 0), 20);
    assert_eq!(admitted(&mut rate, 100, 99), 0);
    assert_eq!(admitted(&mut rate, 100, 600), 6);
    assert_eq!(admitted(&mut rate, 100, 1_000_000), 20);
}

#[test]
fn a_rate_below_one_admits_single_messages() {
    let mut rate = Rate::new(0.1);
    assert_eq!(admitted(&mut rate, 3, 0), 1);
    assert_eq!(admitted(&mut rate, 3, 9_000), 0);
    assert_eq!(admitted(&mut rate, 3, 10_001), 1);
}
