//! A pseudo-random number generator for tests: generators with equal seeds return equal sequences of numbers.

/// SplitMix64: small, quick, the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`, or 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.any() >> 8) % limit.max(1) as u64) as usize
    }

    /// True in one of `of` cases.
    pub fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A number that breaks arithmetic more often than others.
    pub fn edge(&mut self) -> u64 {
        let near = self.below(3) as u64;
        match self.below(8) {
            0 => near,
            1 => (1 << 31) - 1 + near,
            2 => (1 << 32) - 1 + near,
            3 => (1 << 63) - 1 + near,
            4 => u64::MAX - near,
            5 => 1 << self.below(64),
            6 => self.any() >> self.below(64),
            _ => self.below(300) as u64,
        }
    }
}
