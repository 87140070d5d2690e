//! Encoding 17, `coded`: the body of the node below, cut into pieces that zstd compresses.
//!
//! ```text
//! head   u32 decoded bytes | u32 decoded bytes of a piece, the last is shorter | u32 stored bytes of each piece
//! body   pieces: as they are if they are stored in their decoded length, else zstd frames
//! below  the node whose body it is: its place is that in the decoded bytes
//! ```

use std::ops::Range;

use super::frames::{Coder, decompress};
use crate::error::Error;
use crate::packed::decoder::{Bodies, BodyRange, Numbers, TextOut, Texts};
use crate::packed::encoding::Encoding;
use crate::packed::head::Head;
use crate::packed::node::{Body, EncodedNode, Node, NodeId, to_u32};

/// Decoded bytes of a piece as the encoder cuts it.
const PIECE: usize = 64 << 10;

/// Most decoded bytes of a piece. A dictionary lies in one piece.
const MOST_PIECE: usize = 16 << 20;

/// Compresses the body of a node with zstd; `None` if that saves less than 3 %.
///
/// # Errors
/// `Limit` for a body of 4 GiB.
pub fn encode(node: &EncodedNode) -> Result<Option<EncodedNode>, Error> {
    let allowed = [
        Encoding::For,
        Encoding::Delta,
        Encoding::Raw,
        Encoding::Fsst,
        Encoding::Pair,
    ];
    if !allowed.contains(&node.encoding) || node.body.is_empty() {
        return Ok(None);
    }
    let mut coded = EncodedNode::new(Encoding::Coded, node.parameter, node.values);
    let decoded = to_u32(node.body.len(), "bytes of a body")?;
    coded.head.extend(decoded.to_le_bytes());
    coded
        .head
        .extend(to_u32(PIECE, "bytes of a piece")?.to_le_bytes());
    let mut coder = Coder::new();
    for piece in node.body.chunks(PIECE) {
        let stored = coder.push(piece, &mut coded.body);
        coded
            .head
            .extend(to_u32(stored, "bytes of a piece")?.to_le_bytes());
    }
    coded.children = vec![node.clone()];
    let saves = coded.byte_len() * 100 <= node.byte_len() * 97;
    Ok(saves.then_some(coded))
}

/// Pieces of a body, and what they decode to.
#[derive(Debug)]
struct Pieces {
    id: NodeId,
    body: Body,
    decoded: usize,
    piece: usize,
    /// Where each piece ends in the body.
    ends: Vec<u32>,
}

impl Pieces {
    fn parse(node: &Node<'_>) -> Result<Self, Error> {
        node.refuse_flags(0)?;
        let id = node.id;
        let mut head = Head::of(node);
        let [decoded, piece] = [head.u32()?, head.u32()?].map(|it| it as usize);
        if !(1..=MOST_PIECE).contains(&piece) {
            return Err(id.corrupt(format!("pieces of {piece} bytes")));
        }
        let mut ends = head.u32s(decoded.div_ceil(piece))?;
        head.end()?;
        let mut end = 0_u32;
        for (index, stored) in ends.iter_mut().enumerate() {
            let most = piece.min(decoded - index * piece);
            let next = end
                .checked_add(*stored)
                .filter(|_| *stored as usize <= most);
            let Some(next) = next else {
                return Err(id.corrupt(format!("piece {index} of {stored} bytes for {most}")));
            };
            (*stored, end) = (next, next);
        }
        node.expect_body(u64::from(end))?;
        Ok(Self {
            id,
            body: node.body,
            decoded,
            piece,
            ends,
        })
    }

    /// Stored bytes of a piece.
    fn stored(&self, piece: usize) -> Range<u32> {
        let end = self.ends.get(piece).copied().unwrap_or(0);
        let before = piece.checked_sub(1).and_then(|it| self.ends.get(it));
        before.copied().unwrap_or(0).min(end)..end
    }

    /// The pieces that hold the decoded bytes of these ranges which are those of this node.
    fn pieces(&self, ranges: &[BodyRange]) -> Range<usize> {
        let own = ranges.iter().filter(|(space, range)| {
            *space == Some(self.id.index) && !range.is_empty() && range.end as usize <= self.decoded
        });
        let (start, end) = own.fold((u32::MAX, 0), |(start, end), (_, range)| {
            (start.min(range.start), end.max(range.end))
        });
        if start >= end {
            return 0..0;
        }
        start as usize / self.piece..(end as usize).div_ceil(self.piece)
    }

    /// Plans the node below, `plan_below`, and replaces its ranges of decoded bytes by those of the pieces that hold them.
    fn plan(&self, ranges: &mut Vec<BodyRange>, plan_below: impl FnOnce(&mut Vec<BodyRange>)) {
        let mut below = Vec::new();
        plan_below(&mut below);
        let pieces = self.pieces(&below);
        let others = below
            .into_iter()
            .filter(|(space, _)| *space != Some(self.id.index));
        ranges.extend(others);
        if !pieces.is_empty() {
            let at = |byte: u32| self.body.start.saturating_add(byte);
            let (first, last) = (self.stored(pieces.start), self.stored(pieces.end - 1));
            ranges.push((self.body.space, at(first.start)..at(last.end)));
        }
    }

    /// Decompresses the pieces that hold the ranges which `plan_below` names, unless they are kept from the block before.
    fn provide(
        &self,
        bodies: &mut Bodies<'_>,
        plan_below: impl FnOnce(&mut Vec<BodyRange>),
    ) -> Result<(), Error> {
        let mut ranges = Vec::new();
        plan_below(&mut ranges);
        let wanted = self.pieces(&ranges);
        let kept = bodies.kept(self.id);
        let start = |piece: usize| piece * self.piece;
        let (from, to) = (start(wanted.start), start(wanted.end).min(self.decoded));
        if wanted.is_empty()
            || kept
                .as_ref()
                .is_some_and(|it| it.start <= from && to <= it.end)
        {
            return Ok(());
        }
        // A block may begin in the piece of the block before and end in the next: bytes of the former stay.
        let reused = kept.filter(|it| it.start <= from && from < it.end);
        let mut bytes = bodies.take_piece_memory(self.id);
        let mut next = wanted.start;
        if let Some(kept) = reused {
            bytes.drain(..from - kept.start);
            next = (from + bytes.len()).div_ceil(self.piece);
        } else {
            bytes.clear();
        }
        for piece in next..wanted.end {
            let length = self.piece.min(self.decoded - start(piece));
            let stored = bodies.read(self.id, &self.body, self.stored(piece))?;
            let at = bytes.len();
            // Above the stored bytes, but no more than `MOST_PIECE`: a frame can stand for many bytes.
            bytes.resize(at + length, 0);
            decompress(self.id, piece, stored, &mut bytes[at..])?;
        }
        let from = to_u32(from, "bytes of a body")?;
        bodies.keep_piece(self.id, wanted.start, from, bytes);
        Ok(())
    }
}

/// Numbers whose body is behind zstd.
#[derive(Debug)]
pub(crate) struct CodedNumbers {
    pieces: Pieces,
    numbers: Box<dyn Numbers>,
}

/// Texts whose body is behind zstd.
#[derive(Debug)]
pub(crate) struct CodedTexts {
    pieces: Pieces,
    texts: Box<dyn Texts>,
}

/// Checks a node over numbers.
///
/// # Errors
/// `Corrupt` if the head contradicts itself, the body, or the node below.
pub(crate) fn parse(node: &Node<'_>, numbers: Box<dyn Numbers>) -> Result<CodedNumbers, Error> {
    node.expect_values("values", numbers.num_values(), node.values)?;
    let pieces = Pieces::parse(node)?;
    Ok(CodedNumbers { pieces, numbers })
}

/// Checks a node over text.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_texts(node: &Node<'_>, texts: Box<dyn Texts>) -> Result<CodedTexts, Error> {
    node.expect_values("values", texts.num_values(), node.values)?;
    let pieces = Pieces::parse(node)?;
    Ok(CodedTexts { pieces, texts })
}

impl Numbers for CodedNumbers {
    fn num_values(&self) -> usize {
        self.numbers.num_values()
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        self.pieces
            .plan(ranges, |below| self.numbers.plan(block, below));
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        self.pieces
            .provide(bodies, |below| self.numbers.plan(block, below))?;
        self.numbers.decode_block(block, bodies, out)
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        self.pieces
            .provide(bodies, |below| self.numbers.plan(block, below))?;
        self.numbers.take(block, places, bodies, out)
    }
}

impl Texts for CodedTexts {
    fn num_values(&self) -> usize {
        self.texts.num_values()
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        self.pieces
            .plan(ranges, |below| self.texts.plan(block, below));
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        self.pieces
            .provide(bodies, |below| self.texts.plan(block, below))?;
        self.texts.decode_block(block, bodies, out)
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        self.pieces
            .provide(bodies, |below| self.texts.plan(block, below))?;
        self.texts.take(block, places, bodies, out)
    }
}
