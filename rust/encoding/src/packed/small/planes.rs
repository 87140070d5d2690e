//! Encoding 16, `planes`: the bytes of integers by their place in the integer, 16,384 values at a time, each plane behind zstd.
//!
//! ```text
//! head   u8 kind: 0 = offsets, 1 = steps | u8 planes, 0..=8 | u16 0 | u32 0 | i64 base | u64 divisor, at least 1
//!        kind 1: i64 first value of each piece of 16,384 values
//!        u32 stored bytes of each plane, the lowest first, piece by piece
//! body   planes: 0 bytes = zeros, as many bytes as values = as they are, else zstd frames
//! ```
//!
//! An offset u stands for base + divisor * u. A step u stands for the value before + divisor * s, where s is u / 2, or for odd u
//! -(u + 1) / 2; the first step of a piece is 0, and the base is 0. Arithmetic wraps.

use std::ops::Range;

use super::frames::{Coder, decompress};
use crate::error::Error;
use crate::packed::decoder::{Bodies, BodyRange, Numbers};
use crate::packed::encoding::Encoding;
use crate::packed::head::{Head, word};
use crate::packed::node::{BLOCK, Body, EncodedNode, MAX_VALUES, Node, NodeId, to_u32};

/// Values of a piece.
const PIECE: usize = 16 * BLOCK;

/// Planes of the largest integer.
const MOST_PLANES: usize = 8;

/// Bytes of a value of a decoded piece.
const WORD: usize = 8;

/// What the stored integers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Offsets,
    Steps,
}

fn zigzag(step: i64) -> u64 {
    ((step << 1) ^ (step >> 63)).cast_unsigned()
}

fn unzigzag(word: u64) -> u64 {
    (word >> 1) ^ (word & 1).wrapping_neg()
}

fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Stores integers of `width` bytes, sign-extended to words, as planes of offsets or of steps: the smaller.
///
/// # Errors
/// `Limit` for a body of 4 GiB.
pub fn encode(words: &[u64], width: u8) -> Result<EncodedNode, Error> {
    let offsets = encode_as(words, width, Kind::Offsets)?;
    let steps = encode_as(words, width, Kind::Steps)?;
    // Steps take longer to decode than offsets, because the reader sums them, so they must save at least 10 %.
    let steps_save = steps.byte_len() * 10 <= offsets.byte_len() * 9;
    Ok(if steps_save { steps } else { offsets })
}

fn encode_as(words: &[u64], width: u8, kind: Kind) -> Result<EncodedNode, Error> {
    let (base, divisor, mut integers) = match kind {
        Kind::Offsets => offsets(words),
        Kind::Steps => steps(words),
    };
    let highest = integers.iter().fold(0, |bits, it| bits | it);
    let planes = (u64::BITS - highest.leading_zeros()).div_ceil(8) as usize;
    let mut node = EncodedNode::new(Encoding::Planes, width, words.len());
    let head = &mut node.head;
    head.extend([u8::from(kind == Kind::Steps), planes.to_le_bytes()[0]]);
    head.extend([0; 6]);
    head.extend(base.to_le_bytes());
    head.extend(divisor.to_le_bytes());
    if kind == Kind::Steps {
        let firsts = words.chunks(PIECE).filter_map(|it| it.first());
        head.extend(firsts.flat_map(|it| it.to_le_bytes()));
    }
    let mut coder = Coder::new();
    let mut plane = Vec::with_capacity(PIECE);
    for piece in integers.chunks_mut(PIECE) {
        for _ in 0..planes {
            plane.clear();
            plane.extend(piece.iter().map(|it| it.to_le_bytes()[0]));
            piece.iter_mut().for_each(|it| *it >>= 8);
            let stored = if plane.iter().all(|byte| *byte == 0) {
                0
            } else {
                coder.push(&plane, &mut node.body)
            };
            head.extend(to_u32(stored, "bytes of a plane")?.to_le_bytes());
        }
    }
    Ok(node)
}

/// Base, divisor and offsets.
fn offsets(words: &[u64]) -> (u64, u64, Vec<u64>) {
    let base = words
        .iter()
        .map(|it| it.cast_signed())
        .min()
        .unwrap_or(0)
        .cast_unsigned();
    let above = words.iter().map(|it| it.wrapping_sub(base));
    let divisor = above.clone().fold(0, gcd).max(1);
    (base, divisor, above.map(|it| it / divisor).collect())
}

/// Base 0, divisor and steps; the first of each piece is 0.
fn steps(words: &[u64]) -> (u64, u64, Vec<u64>) {
    let pairs = words.chunks(PIECE).flat_map(|piece| {
        let before = piece.iter().take(1).chain(piece);
        piece.iter().zip(before)
    });
    let steps: Vec<i64> = pairs
        .map(|(this, before)| this.wrapping_sub(*before).cast_signed())
        .collect();
    let divisor = steps
        .iter()
        .fold(0, |divisor, it| gcd(divisor, it.unsigned_abs()))
        .max(1);
    // A divisor of 2^63 is no i64: then the steps stay as they are.
    let divisor = i64::try_from(divisor).unwrap_or(1);
    let integers = steps.iter().map(|it| zigzag(it / divisor)).collect();
    (0, divisor.cast_unsigned(), integers)
}

/// A parsed head.
#[derive(Debug)]
pub(crate) struct Planes {
    id: NodeId,
    body: Body,
    values: usize,
    base: u64,
    divisor: u64,
    planes: usize,
    /// First value of each piece; `None`: offsets.
    firsts: Option<Vec<u64>>,
    /// Where each plane ends in the body, piece by piece.
    ends: Vec<u32>,
}

/// Checks a node of planes.
///
/// # Errors
/// `Corrupt` if the head contradicts itself or the body.
pub(crate) fn parse(node: &Node<'_>) -> Result<Planes, Error> {
    node.refuse_flags(0)?;
    let id = node.id;
    let mut head = Head::of(node);
    let [kind, planes] = [head.u8()?, head.u8()?];
    head.zeros(6)?;
    let [base, divisor] = [head.u64()?, head.u64()?];
    let planes = usize::from(planes);
    if planes > MOST_PLANES || divisor == 0 || (kind == 1 && base != 0) {
        return Err(id.corrupt(format!("{planes} planes, base {base}, divisor {divisor}")));
    }
    let pieces = node.values.min(MAX_VALUES).div_ceil(PIECE);
    let firsts = match kind {
        0 => None,
        1 => Some(head.words(pieces, 8)?),
        other => return Err(id.corrupt(format!("kind {other}"))),
    };
    let mut ends = head.u32s(pieces * planes)?;
    head.end()?;
    let mut end = 0_u32;
    for (index, stored) in ends.iter_mut().enumerate() {
        let piece = index / planes.max(1);
        let most = PIECE.min(node.values - piece * PIECE);
        let next = end
            .checked_add(*stored)
            .filter(|_| *stored as usize <= most);
        let Some(next) = next else {
            return Err(id.corrupt(format!(
                "a plane of {stored} bytes in piece {piece} of {most}"
            )));
        };
        (*stored, end) = (next, next);
    }
    node.expect_body(u64::from(end))?;
    Ok(Planes {
        id,
        body: node.body,
        values: node.values,
        base,
        divisor,
        planes,
        firsts,
        ends,
    })
}

impl Planes {
    /// Stored bytes of a plane of all pieces.
    fn stored(&self, plane: usize) -> Range<u32> {
        let end = self.ends.get(plane).copied().unwrap_or(0);
        let before = plane.checked_sub(1).and_then(|it| self.ends.get(it));
        before.copied().unwrap_or(0).min(end)..end
    }

    /// Decodes a piece to words, unless it is kept from the block before.
    fn provide(&self, piece: usize, bodies: &mut Bodies<'_>) -> Result<(), Error> {
        if bodies.piece(self.id, piece).is_some() {
            return Ok(());
        }
        let len = self
            .values
            .saturating_sub(piece.saturating_mul(PIECE))
            .min(PIECE);
        let mut words = vec![0_u64; len];
        let mut plane = vec![0; len];
        for index in 0..self.planes {
            let stored = self.stored(piece * self.planes + index);
            if stored.is_empty() {
                continue;
            }
            let stored = bodies.read(self.id, &self.body, stored)?;
            decompress(self.id, piece, stored, &mut plane)?;
            let shift = 8 * index;
            for (word, byte) in words.iter_mut().zip(&plane) {
                *word |= u64::from(*byte) << shift;
            }
        }
        let mut bytes = bodies.take_piece_memory(self.id);
        bytes.clear();
        bytes.reserve(len * WORD);
        match self.firsts.as_ref().map(|it| it.get(piece)) {
            None => {
                let values = words
                    .iter()
                    .map(|it| self.base.wrapping_add(self.divisor.wrapping_mul(*it)));
                bytes.extend(values.flat_map(u64::to_le_bytes));
            }
            Some(first) => {
                let mut value = first.copied().unwrap_or(0);
                for word in words {
                    value = value.wrapping_add(self.divisor.wrapping_mul(unzigzag(word)));
                    bytes.extend(value.to_le_bytes());
                }
            }
        }
        bodies.keep_piece(self.id, piece, 0, bytes);
        Ok(())
    }

    /// The words of a block, of 8 bytes each.
    fn block<'a>(&self, block: usize, bodies: &'a mut Bodies<'_>) -> Result<&'a [u8], Error> {
        let piece = block / (PIECE / BLOCK);
        self.provide(piece, bodies)?;
        let start = block % (PIECE / BLOCK) * BLOCK * WORD;
        let bytes = bodies.piece(self.id, piece).unwrap_or_default();
        let bytes = bytes.get(start..).unwrap_or_default();
        Ok(&bytes[..bytes.len().min(BLOCK * WORD)])
    }
}

impl Numbers for Planes {
    fn num_values(&self) -> usize {
        self.values
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        let first = block / (PIECE / BLOCK) * self.planes;
        let last = first + self.planes.saturating_sub(1);
        let (start, end) = (self.stored(first).start, self.stored(last).end);
        if start < end {
            let at = |byte: u32| self.body.start.saturating_add(byte);
            ranges.push((self.body.space, at(start)..at(end)));
        }
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let bytes = self.block(block, bodies)?;
        if bytes.len() != out.len() * WORD {
            return Err(self.id.corrupt_block(block, "there is no such block"));
        }
        for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(WORD)) {
            *value = word(bytes);
        }
        Ok(())
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let bytes = self.block(block, bodies)?;
        for (value, place) in out.iter_mut().zip(places) {
            let start = usize::from(*place) * WORD;
            let stored = bytes.get(start..start + WORD);
            let stored =
                stored.ok_or_else(|| self.id.corrupt_block(block, format!("no value {place}")))?;
            *value = word(stored);
        }
        Ok(())
    }
}
