//! A hash that is equal on every machine and in every version.

use std::hash::Hasher;

/// FNV-1a with 64 bits: equal on every machine and in every version.
#[derive(Debug, Clone)]
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        // The low bits of FNV are its weakest: fold the high ones into them.
        self.0 ^ (self.0 >> 32)
    }
}
