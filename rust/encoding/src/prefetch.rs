//! A hint to the processor that bytes will be read soon.
#![expect(unsafe_code, reason = "the only door to the prefetch instruction")]

/// Bytes that come from memory together.
const LINE: usize = 64;

/// Starts to bring bytes into the cache, and does not wait for them. Where there is no such instruction, nothing happens.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    // The last byte too: bytes that begin within a line end within one more than their length tells.
    for byte in bytes.iter().step_by(LINE).chain(bytes.last()) {
        line(byte);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn line(byte: &u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86_64 processor has the instruction. It takes any address and changes nothing but what is cached; this
    // one is that of a byte which may be read.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn line(_byte: &u8) {}

#[cfg(test)]
mod tests {
    use super::prefetch;

    /// Under a memory checker, an address beyond the bytes would show here.
    #[test]
    fn bytes_are_as_they_were() {
        let bytes: Vec<u8> = (0..=255).collect();
        for start in 0..bytes.len() {
            for end in start..=bytes.len() {
                prefetch(&bytes[start..end]);
            }
        }
        assert!(bytes.iter().copied().eq(0..=255));
    }
}
