//! Requests that a service has read but not answered. When the service dies, these requests are answered with an error.
//!
//! Most services have few such requests at a time. The first eight are in a list, in which a search is fast; further
//! requests are in a set.

use super::message::ServiceId;
use std::collections::HashSet;

const FEW: usize = 8;

/// The unanswered requests of a service.
#[derive(Default)]
pub(crate) struct Unanswered {
    few: Vec<(ServiceId, i64)>,
    many: HashSet<(ServiceId, i64)>,
}

impl Unanswered {
    /// Adds a request that was read.
    pub(crate) fn add(&mut self, from: ServiceId, session: i64) {
        if self.few.len() < FEW {
            self.few.push((from, session));
        } else {
            self.many.insert((from, session));
        }
    }

    /// Removes a request that was answered. Returns false if there is no such request.
    pub(crate) fn remove(&mut self, from: ServiceId, session: i64) -> bool {
        // The latest request is the most likely to be answered.
        match self.few.iter().rposition(|&one| one == (from, session)) {
            Some(at) => {
                self.few.swap_remove(at);
                true
            }
            None => self.many.remove(&(from, session)),
        }
    }

    /// Takes all requests.
    pub(crate) fn drain(&mut self) -> Vec<(ServiceId, i64)> {
        let mut all = std::mem::take(&mut self.few);
        all.extend(std::mem::take(&mut self.many));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_waits_until_it_is_answered() {
        let mut unanswered = Unanswered::default();
        for session in 1..=100 {
            unanswered.add(9, session);
        }
        for session in (1..=100).step_by(2) {
            assert!(unanswered.remove(9, session));
            assert!(!unanswered.remove(9, session));
        }
        let mut left = unanswered.drain();
        left.sort_unstable();
        let want: Vec<_> = (1..=50).map(|half| (9, half * 2)).collect();
        assert_eq!(left, want);
        assert!(unanswered.drain().is_empty());
    }
}
