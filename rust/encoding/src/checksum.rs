//! CRC-32C over blocks of fixed size, so that reading a few rows verifies a few blocks and not whole pages.

mod cpu_prefetch;

use std::num::NonZeroUsize;

use crc_fast::{CrcAlgorithm, Digest};

use cpu_prefetch::prefetch;

/// CRC-32C (Castagnoli) of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// One CRC-32C per block of `block_size` bytes of all `buffers`, taken as one sequence of bytes. The last
/// block may be shorter. Without bytes there is no block.
pub fn block_checksums<'a>(
    buffers: impl IntoIterator<Item = &'a [u8]>,
    block_size: NonZeroUsize,
) -> Vec<u32> {
    let block_size = block_size.get();
    let mut checksums = Vec::new();
    // The block that earlier buffers began, and how many bytes it has.
    let mut open: Option<(Digest, usize)> = None;
    for mut bytes in buffers {
        if let Some((mut digest, filled)) = open.take() {
            let (head, rest) = bytes.split_at(bytes.len().min(block_size - filled));
            digest.update(head);
            let filled = filled + head.len();
            if filled < block_size {
                open = Some((digest, filled));
                continue;
            }
            checksums.push(finish(&digest));
            bytes = rest;
        }
        let mut blocks = bytes.chunks_exact(block_size);
        checksums.extend(blocks.by_ref().map(crc32c));
        let tail = blocks.remainder();
        if !tail.is_empty() {
            let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
            digest.update(tail);
            open = Some((digest, tail.len()));
        }
    }
    checksums.extend(open.map(|(digest, _)| finish(&digest)));
    checksums
}

#[expect(clippy::cast_possible_truncation, reason = "the algorithm has 32 bits")]
fn finish(digest: &Digest) -> u32 {
    digest.finalize() as u32
}

/// How many blocks [`find_damaged`] prefetches ahead of the one that it checks: 8 KiB of the usual 512-byte blocks, about
/// as much as one core can load from memory at one time.
const AHEAD: usize = 16;

/// A block: the caller's key for it, its bytes, and its little-endian CRC-32C.
type Block<'a, K> = (K, &'a [u8], &'a [u8; 4]);

/// The key of the first block whose CRC-32C is not the expected one.
///
/// For blocks that lie scattered in memory: while one block is checked, later ones are loaded into the cache. With 9,000
/// scattered blocks that saves three quarters of the time. Blocks that lie in order are checked faster by a plain loop.
///
/// # Errors
/// The first error among the `blocks`.
pub fn find_damaged<'a, K: Copy, E>(
    blocks: impl IntoIterator<Item = Result<Block<'a, K>, E>>,
) -> Result<Option<K>, E> {
    let is_damaged = |bytes, checksum: &[u8; 4]| crc32c(bytes) != u32::from_le_bytes(*checksum);
    let mut ahead: [Option<Block<'_, K>>; AHEAD] = [None; AHEAD];
    let mut count = 0;
    for block in blocks {
        let (key, bytes, checksum) = block?;
        prefetch(bytes);
        prefetch(checksum);
        let due = ahead[count % AHEAD].replace((key, bytes, checksum));
        count += 1;
        if let Some((key, bytes, checksum)) = due
            && is_damaged(bytes, checksum)
        {
            return Ok(Some(key));
        }
    }
    // The blocks still waiting, the oldest first.
    let waiting = (0..AHEAD).filter_map(|index| ahead[(count + index) % AHEAD]);
    let mut damaged = waiting.filter(|(_, bytes, checksum)| is_damaged(bytes, checksum));
    Ok(damaged.next().map(|(key, ..)| key))
}
