//! A seeded xorshift64* generator: the same seed gives the same cases in the same order, so that a failure can be run again
//! (what the timing between connections is, no seed decides). Every random choice of the torture program comes from here.

pub(crate) struct Prng(u64);

impl Prng {
    /// `seed` may be any number; 0, which xorshift cannot leave, is replaced.
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

    /// A number from 0 to `bound` - 1; 0 for a `bound` of 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The upper half: it is the better mixed one. A bias of 2^-32 does not matter here.
        (((self.next() >> 32) * bound as u64) >> 32) as usize
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of `items`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A length from 0 to `most`, short ones as likely as long ones (log-uniform).
    pub(crate) fn length(&mut self, most: usize) -> usize {
        let bits = self.below(most.ilog2() as usize + 2);
        self.below(1 << bits).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_in_its_ranges_and_repeats_by_seed() {
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
