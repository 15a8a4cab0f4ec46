//! The only generator of random numbers: everything that a seed decides comes from here, in one
//! fixed order.

use std::time::Duration;

/// A generator (`SplitMix64`): small, fast, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Chance(u64);

// === impl Chance ===

impl Chance {
    /// Begins with a seed. Neighbouring seeds have nothing in common.
    pub fn new(seed: u64) -> Self {
        let mut chance = Self(seed ^ 0x6c6f_636b_7374_6570);
        chance.0 = chance.number();
        chance
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        let drawn = self.number();
        if end == 0 { 0 } else { drawn % end }
    }

    /// A number of `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// Whether something happens that happens so many times in a thousand.
    pub fn per_mille(&mut self, times: u64) -> bool {
        self.below(1000) < times
    }

    /// A duration of `least` to `most` milliseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        self.micros(least * 1000, most * 1000)
    }

    /// A duration of `least` to `most` microseconds.
    pub fn micros(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.between(least, most))
    }

    /// One of these; none of nothing.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of.get(index).cloned()
    }

    /// One of two.
    pub fn either<T>(&mut self, one: T, other: T) -> T {
        if self.number() & 1 == 0 { one } else { other }
    }
}
