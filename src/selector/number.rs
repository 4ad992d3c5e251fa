//! Maps by descriptor. The system gives the numbers out, the smallest that is free, so no key is chosen by a peer,
//! and a hash need not withstand one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::os::fd::RawFd;

/// Values by descriptor.
pub(crate) type Numbers<T> = HashMap<RawFd, T, BuildHasherDefault<Spread>>;

/// A multiplication, which spreads neighbours over the whole word.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_i32(&mut self, number: i32) {
        self.0 = u64::from(number as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_descriptor_is_found_again() {
        let mut numbers = Numbers::default();
        for number in 0..10_000 {
            numbers.insert(number, number);
        }
        for number in (0..10_000).step_by(3) {
            assert_eq!(numbers.remove(&number), Some(number));
        }
        assert_eq!(numbers.get(&3), None);
        assert_eq!(numbers.get(&9_998), Some(&9_998));
    }
}
