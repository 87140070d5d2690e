//! A hint to the processor that bytes will be read soon.
#![expect(
    unsafe_code,
    reason = "the prefetch instruction is only reachable through an intrinsic"
)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// Starts to load bytes into the cache and does not wait for them. On processors other than x86_64 it does nothing.
#[inline]
pub(super) fn prefetch(bytes: &[u8]) {
    // The last byte too: bytes that begin in the middle of a line may end in one more line.
    for byte in bytes.iter().step_by(LINE).chain(bytes.last()) {
        line(byte);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn line(byte: &u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86_64 processor has the instruction. It accepts any address, reads no value and changes only the cache;
    // this address is that of a byte behind a reference.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn line(_byte: &u8) {}

#[cfg(test)]
mod tests {
    use super::prefetch;

    /// A memory checker would report an address beyond the bytes.
    #[test]
    fn prefetching_leaves_bytes_as_they_are() {
        let bytes: Vec<u8> = (0..=255).collect();
        for start in 0..bytes.len() {
            for end in start..=bytes.len() {
                prefetch(&bytes[start..end]);
            }
        }
        assert!(bytes.iter().copied().eq(0..=255));
    }
}
