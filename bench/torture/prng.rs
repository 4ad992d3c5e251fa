//! A seeded xorshift64* generator for all random choices of the torture program. The same seed produces the same cases
//! in the same order, so that a failure can be reproduced. The relative timing of the connections can still differ.

pub(crate) struct Prng(u64);

impl Prng {
    /// Creates a generator. `seed` may be any number; 0 is replaced, because otherwise xorshift would return only 0.
    pub(crate) fn new(seed: u64) -> Prng {
        let mut prng = Prng(seed.max(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| _ = prng.next());
        prng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number from 0 to `bound` - 1, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The upper 32 bits are better mixed. The bias, which is below `bound` / 2^32, does not matter here.
        (((self.next() >> 32) * bound as u64) >> 32) as usize
    }

    /// Returns a number from `low` to `high`, both inclusive.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Returns true with a probability of 1/`n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `items`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns a length from 0 to `most`. The distribution is approximately log-uniform, so short lengths are as likely
    /// as long lengths.
    pub(crate) fn length(&mut self, most: usize) -> usize {
        let bits = self.below(most.ilog2() as usize + 2);
        self.below(1 << bits).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_range_and_repeat_with_the_seed() {
        let (mut one, mut two) = (Prng::new(7), Prng::new(7));
        for _ in 0..10_000 {
            assert_eq!(one.next(), two.next());
            assert!((3..=9).contains(&one.between(3, 9)));
            assert!(one.length(65_536) <= 65_536);
            two.between(3, 9);
            two.length(65_536);
        }
        assert_eq!(one.below(0), 0);
    }
}
