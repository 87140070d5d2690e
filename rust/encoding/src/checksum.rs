//! CRC-32C over fixed-size blocks: a `take` verifies the few blocks it touches, not whole pages.

use std::num::NonZeroUsize;

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli) of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// One CRC-32C per block of `block_size` bytes, the last block shorter, of the bytes of all pieces
/// one after the other. Without bytes there is no block.
pub fn block_checksums<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    block_size: NonZeroUsize,
) -> Vec<u32> {
    let block_size = block_size.get();
    let mut checksums = Vec::new();
    // The block that earlier pieces began, and how many bytes it has.
    let mut open: Option<(Digest, usize)> = None;
    for mut piece in pieces {
        if let Some((mut digest, filled)) = open.take() {
            let (head, rest) = piece.split_at(piece.len().min(block_size - filled));
            digest.update(head);
            let filled = filled + head.len();
            if filled < block_size {
                open = Some((digest, filled));
                continue;
            }
            checksums.push(finish(&digest));
            piece = rest;
        }
        let mut blocks = piece.chunks_exact(block_size);
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

/// Compares bytes that start at a block boundary with the checksums of their blocks. The error is
/// the first block (counted from the start of these bytes) that differs; bytes or checksums too
/// few for each other differ too.
pub fn verify_blocks(
    bytes: &[u8],
    expected: &[u32],
    block_size: NonZeroUsize,
) -> Result<(), usize> {
    let mut blocks = 0;
    for (index, block) in bytes.chunks(block_size.get()).enumerate() {
        if expected
            .get(index)
            .is_none_or(|expected| *expected != crc32c(block))
        {
            return Err(index);
        }
        blocks = index + 1;
    }
    if blocks == expected.len() {
        Ok(())
    } else {
        Err(blocks)
    }
}
