//! Values of a block that an encoding of floats can't hold: `u16` place and the value, behind each other in the body.

use std::ops::Range;

use crate::error::Error;
use crate::packed::decoder::{Bodies, BodyRange};
use crate::packed::head::{Head, push_word, word};
use crate::packed::node::{BLOCK, Body, EncodedNode, Node, NodeId, block_len};

/// Bytes of a place.
const PLACE: usize = 2;

/// Parsed numbers of exceptions.
#[derive(Debug)]
pub(super) struct Exceptions {
    id: NodeId,
    body: Body,
    values: usize,
    /// Where the exceptions of each block end in the body; empty if there are none.
    ends: Vec<u32>,
    /// Bytes of an exception.
    entry: u32,
}

impl Exceptions {
    /// Reads the numbers of exceptions, `u16` a block, which are there if `flag` is 1.
    pub(super) fn parse(
        node: &Node<'_>,
        head: &mut Head<'_>,
        flag: u8,
        value_bytes: u8,
    ) -> Result<Self, Error> {
        let id = node.id;
        let entry = PLACE as u64 + u64::from(value_bytes);
        let counts = match flag {
            0 => Vec::new(),
            1 => head.u16s(node.num_blocks())?,
            other => return Err(id.corrupt(format!("flag {other} before numbers of exceptions"))),
        };
        let total: u64 = counts.iter().map(|it| u64::from(*it)).sum();
        node.expect_body(total * entry)?;
        let wrong = counts
            .iter()
            .enumerate()
            .position(|(block, count)| usize::from(*count) > block_len(node.values, block));
        if let Some(block) = wrong {
            return Err(id.corrupt_block(block, "more exceptions than values"));
        }
        // The body, whose length has 32 bits, holds them all.
        let mut end = 0;
        let entry = u32::from(value_bytes) + 2;
        let next_end = |count: &u16| {
            end += u32::from(*count) * entry;
            end
        };
        Ok(Self {
            id,
            body: node.body,
            values: node.values,
            ends: counts.iter().map(next_end).collect(),
            entry,
        })
    }

    fn range(&self, block: usize) -> Range<u32> {
        let end = self.ends.get(block).copied().unwrap_or(0);
        let before = block.checked_sub(1).and_then(|it| self.ends.get(it));
        before.copied().unwrap_or(0).min(end)..end
    }

    pub(super) fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        let Range { start, end } = self.range(block);
        if start < end {
            let at = |byte: u32| self.body.start.saturating_add(byte);
            ranges.push((self.body.space, at(start)..at(end)));
        }
    }

    /// Calls `set` with place and value of each exception of a block.
    pub(super) fn for_each(
        &self,
        block: usize,
        bodies: &Bodies<'_>,
        mut set: impl FnMut(usize, u64),
    ) -> Result<(), Error> {
        let range = self.range(block);
        if range.is_empty() {
            return Ok(());
        }
        let bytes = bodies.read(self.id, &self.body, range)?;
        let len = block_len(self.values, block);
        let mut least = 0;
        for entry in bytes.chunks_exact(self.entry as usize) {
            let (place, value) = entry.split_at(PLACE);
            let place = usize::from(u16::from_le_bytes([place[0], place[1]]));
            if place < least || place >= len {
                let what = format!("an exception at {place} of {len}, {least} is the least");
                return Err(self.id.corrupt_block(block, what));
            }
            set(place, word(value));
            least = place + 1;
        }
        Ok(())
    }
}

/// Collects exceptions of a page.
#[derive(Debug)]
pub(super) struct ExceptionsBuilder {
    counts: Vec<u16>,
    body: Vec<u8>,
    value_bytes: u8,
    count: usize,
}

impl ExceptionsBuilder {
    pub(super) fn new(values: usize, value_bytes: u8) -> Self {
        Self {
            counts: vec![0; values.div_ceil(BLOCK)],
            body: Vec::new(),
            value_bytes,
            count: 0,
        }
    }

    pub(super) fn push(&mut self, value: usize, word: u64) {
        self.counts[value / BLOCK] += 1;
        self.body
            .extend_from_slice(&(value % BLOCK).to_le_bytes()[..PLACE]);
        push_word(&mut self.body, word, self.value_bytes);
        self.count += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Whether the head holds numbers of exceptions.
    pub(super) fn flag(&self) -> u8 {
        u8::from(self.count > 0)
    }

    /// Appends the numbers to the head, and makes the body.
    pub(super) fn write(self, node: &mut EncodedNode) {
        if self.count > 0 {
            for count in &self.counts {
                node.head.extend(count.to_le_bytes());
            }
        }
        node.body = self.body;
    }
}
