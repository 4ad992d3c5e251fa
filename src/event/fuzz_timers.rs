//! A part of the fuzzer `selector`: the timers, compared with a list.

use super::timers::Queue;
use crate::codec::fuzz_input::Input;

/// A timer of the model: the id, the due time and the order of the setting, and whether the timer fires only once.
type Timer = (u64, Option<(u64, u64)>, bool);

/// Runs operations on timers, and compares the result with a list.
pub(super) fn timers(data: &[u8]) -> usize {
    let mut input = Input(data);
    let mut queue = Queue::default();
    let mut model: Vec<Timer> = Vec::new();
    let (mut order, mut fired, mut freed) = (0, 0, Vec::new());
    while !input.0.is_empty() {
        let (operation, number) = (input.byte(), usize::from(input.byte()));
        let at = if model.is_empty() { usize::MAX } else { number % model.len() };
        match operation % 8 {
            0 if model.len() < 200 => {
                let once = number & 1 != 0;
                model.push((queue.create(once), None, once));
            }
            1..=3 if at != usize::MAX => {
                order += 1;
                let due = u64::from(input.byte());
                assert!(queue.set(model[at].0, due));
                model[at].1 = Some((due, order));
            }
            4 if at != usize::MAX => {
                assert!(queue.clear(model[at].0));
                model[at].1 = None;
            }
            5 if at != usize::MAX => {
                let (id, ..) = model.swap_remove(at);
                assert!(queue.free(id));
                freed.push(id);
            }
            6 => {
                if let Some(id) = freed.get(number % freed.len().max(1)) {
                    assert!(!queue.free(*id) && !queue.set(*id, 1) && !queue.clear(*id), "an id is never used again");
                }
            }
            _ => {
                let now = number as u64;
                loop {
                    let first = model.iter().enumerate().filter_map(|(at, one)| Some((one.1?, at))).min();
                    assert_eq!(queue.next_due(), first.map(|((due, _), _)| due));
                    let expired = queue.expire(now);
                    let Some(((_, _), at)) = first.filter(|((due, _), _)| *due <= now) else {
                        assert_eq!(expired, None, "a timer fires too early");
                        break;
                    };
                    assert_eq!(expired, Some((model[at].0, model[at].2)), "the timer that is due first");
                    fired += 1;
                    model[at].1 = None;
                    if model[at].2 {
                        freed.push(model.swap_remove(at).0);
                    }
                }
            }
        }
        assert_eq!(queue.len(), model.len());
    }
    fired
}

/// Returns an input to begin with.
pub(super) fn timer_seed() -> Vec<u8> {
    let create = [0, 0, 0, 1, 0, 0];
    let set = [1, 0, 9, 1, 1, 9, 1, 2, 5, 1, 0, 9];
    [&[0][..], &create, &set, &[7, 4, 7, 9, 4, 0, 5, 0, 6, 0, 7, 255]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_of_timers_fires_them_in_order() {
        assert_eq!(timers(&timer_seed()[1..]), 3);
    }
}
