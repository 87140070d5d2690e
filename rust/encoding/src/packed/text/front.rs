//! Encoding 14, `front`: sorted text, each value stored as the number of bytes that it shares with the one before, and the rest.
//!
//! No head, no body. Below it: the shared lengths, and the rests as a node of text (`raw`, `fsst` or `chars`).
//! Every 32nd value of a block shares nothing, so that one value is decoded from at most 31 before it.

use super::starts::GROUP;
use super::{TextValues, block_lengths};
use crate::error::Error;
use crate::packed::decoder::{Bodies, BodyRange, Numbers, TextOut, Texts};
use crate::packed::encoding::Encoding;
use crate::packed::head::Head;
use crate::packed::leaf;
use crate::packed::node::{EncodedNode, Node, NodeId};

/// What the nodes below hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Bytes that each value shares with the one before.
    pub(crate) shared: Vec<u32>,
    /// The rests, one behind the other.
    pub(crate) rests: Vec<u8>,
    /// Where each rest begins, and behind the last one its end.
    pub(crate) offsets: Vec<u32>,
}

/// Splits values into what they share with the one before and the rest.
#[must_use]
pub(crate) fn split(texts: &TextValues<'_>) -> Parts {
    let mut parts = Parts {
        shared: Vec::with_capacity(texts.len()),
        rests: Vec::new(),
        offsets: vec![0],
    };
    let (mut before, mut offset): (&[u8], u32) = (&[], 0);
    for (value, length) in texts.lengths().enumerate() {
        let text = texts.get(value);
        if value % GROUP == 0 {
            before = &[];
        }
        let same = text
            .iter()
            .zip(before)
            .take_while(|(this, other)| this == other);
        // As long as a text at most, whose length has 32 bits.
        let shared = same.fold(0, |count, _| count + 1);
        parts.shared.push(shared);
        parts.rests.extend_from_slice(&text[shared as usize..]);
        offset += length - shared;
        parts.offsets.push(offset);
        before = text;
    }
    parts
}

/// The node above shared lengths and the node of the rests.
#[must_use]
pub(crate) fn encode(shared: &[u32], rests: EncodedNode) -> EncodedNode {
    let mut node = EncodedNode::new(Encoding::Front, 0, shared.len());
    let shared: Vec<u64> = shared.iter().map(|it| u64::from(*it)).collect();
    node.children = vec![leaf::encode_lengths(&shared), rests];
    node
}

/// A node of sorted text.
#[derive(Debug)]
pub(crate) struct Front {
    id: NodeId,
    shared: Box<dyn Numbers>,
    rests: Box<dyn Texts>,
}

/// Checks a node of sorted text.
///
/// # Errors
/// `Corrupt` if it has a head or a body, or the nodes below have other numbers of values.
pub(crate) fn parse(
    node: &Node<'_>,
    shared: Box<dyn Numbers>,
    rests: Box<dyn Texts>,
) -> Result<Front, Error> {
    node.refuse_flags(0)?;
    node.expect_body(0)?;
    Head::of(node).end()?;
    node.expect_values("shared lengths", shared.num_values(), node.values)?;
    node.expect_values("rests of texts", rests.num_values(), node.values)?;
    let id = node.id;
    Ok(Front { id, shared, rests })
}

impl Texts for Front {
    fn num_values(&self) -> usize {
        self.shared.num_values()
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        self.shared.plan(block, ranges);
        self.rests.plan(block, ranges);
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        let shared = block_lengths(&*self.shared, block, bodies, self.id)?;
        // The rests are no longer than the texts, so the room that is left bounds them too.
        let mut rests = TextOut::with_limit(out.room());
        self.rests.decode_block(block, bodies, &mut rests)?;
        let total = self.total(block, &shared, &rests.lengths)?;
        // One shared length can stand for many bytes: `grow` refuses more than the caller allows.
        let text = out.grow(total)?;
        let (mut stored, mut before, mut start) = (rests.bytes.as_slice(), 0, 0);
        for (shared, rest) in shared.iter().zip(&rests.lengths) {
            let (shared, rest) = (*shared as usize, *rest as usize);
            text.copy_within(before..before + shared, start);
            let (bytes, others) = stored.split_at(rest);
            text[start + shared..start + shared + rest].copy_from_slice(bytes);
            (stored, before, start) = (others, start, start + shared + rest);
        }
        let lengths = shared.iter().zip(&rests.lengths);
        out.lengths
            .extend(lengths.map(|(shared, rest)| shared + rest));
        Ok(())
    }
}

impl Front {
    /// The bytes of all texts of a block, each of which shares no more bytes than the one before has.
    fn total(&self, block: usize, shared: &[u32], rests: &[u32]) -> Result<usize, Error> {
        let (mut before, mut total) = (0, 0_u64);
        for (place, (shared, rest)) in shared.iter().zip(rests).enumerate() {
            let most = if place % GROUP == 0 { 0 } else { before };
            let length = shared.checked_add(*rest);
            let Some(length) = length.filter(|_| *shared <= most) else {
                let what = format!("value {place} shares {shared} bytes of {most}, and has {rest}");
                return Err(self.id.corrupt_block(block, what));
            };
            before = length;
            total += u64::from(length);
        }
        usize::try_from(total).map_err(|_| {
            self.id
                .corrupt_block(block, format!("{total} bytes of text"))
        })
    }
}
