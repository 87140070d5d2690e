//! Where the blocks of a node of text begin in its body, and within a block the groups of 32 values.

use std::ops::Range;

use crate::error::Error;
use crate::packed::head::Head;
use crate::packed::node::{BLOCK, Node, NodeId, num_blocks};

/// Values of a group: a take decodes at most one group to get one value.
pub(super) const GROUP: usize = 32;

/// Groups of a full block.
const GROUPS: usize = BLOCK / GROUP;

/// Parsed starts. Each encoding chooses their unit: bytes of the body, or codes.
#[derive(Debug, Clone)]
pub(super) struct Starts {
    id: NodeId,
    /// One per block, and behind them the end of the last block.
    blocks: Vec<u32>,
    /// One per group, relative to its block; empty if the encoding has none.
    groups: Vec<u32>,
}

impl Starts {
    /// Reads `u32` per block and, if `group_bytes` is 2 or 4, a number of so many bytes per group.
    pub(super) fn parse(
        node: &Node<'_>,
        head: &mut Head<'_>,
        end: u32,
        group_bytes: u8,
    ) -> Result<Self, Error> {
        let id = node.id;
        let mut blocks = head.u32s(num_blocks(node.values))?;
        let begins = blocks.first().copied().unwrap_or(end);
        if begins != 0 {
            return Err(id.corrupt(format!("block 0 begins at {begins}")));
        }
        blocks.push(end);
        if let Some(block) = blocks.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(id.corrupt_block(block, "a text ends before the place at which it begins"));
        }
        let count = node.values.div_ceil(GROUP);
        let groups = match group_bytes {
            0 => Vec::new(),
            2 => head.u16s(count)?.into_iter().map(u32::from).collect(),
            4 => head.u32s(count)?,
            other => return Err(id.corrupt(format!("starts of {other} bytes"))),
        };
        for (block, groups) in groups.chunks(GROUPS).enumerate() {
            let length = blocks[block + 1] - blocks[block];
            let within = groups.last().is_some_and(|last| *last <= length);
            if groups.first() != Some(&0) || !groups.is_sorted() || !within {
                let what = format!("starts of groups do not ascend from 0 to {length}");
                return Err(id.corrupt_block(block, what));
            }
        }
        Ok(Self { id, blocks, groups })
    }

    /// Start and end of a block.
    pub(super) fn block(&self, block: usize) -> Result<Range<usize>, Error> {
        match self.blocks.get(block..).unwrap_or_default() {
            [start, end, ..] => Ok(*start as usize..*end as usize),
            _ => Err(self.id.corrupt_block(block, "there is no such block")),
        }
    }

    /// Start and end of a group, relative to its block.
    pub(super) fn group(&self, block: usize, group: usize) -> Result<Range<usize>, Error> {
        let of_block = self.block(block)?;
        let groups = self.groups.chunks(GROUPS).nth(block).unwrap_or_default();
        let Some(start) = groups.get(group) else {
            let what = format!("there is no group {group}");
            return Err(self.id.corrupt_block(block, what));
        };
        let end = groups.get(group + 1).map(|end| *end as usize);
        Ok(*start as usize..end.unwrap_or(of_block.len()))
    }
}

/// Collects starts while the values are coded one after the other.
#[derive(Debug, Default)]
pub(super) struct StartsBuilder {
    blocks: Vec<u32>,
    groups: Vec<u32>,
    most: u32,
}

impl StartsBuilder {
    /// Notes that value `value` begins at `position`; positions ascend.
    pub(super) fn push(&mut self, value: usize, position: u32) {
        if value.is_multiple_of(BLOCK) {
            self.blocks.push(position);
        }
        if value.is_multiple_of(GROUP) {
            let start = position - self.blocks.last().copied().unwrap_or(0);
            self.most = self.most.max(start);
            self.groups.push(start);
        }
    }

    /// Bytes of a group's start: 2, or 4 where a block is longer than 64 Ki.
    pub(super) fn group_bytes(&self) -> u8 {
        if self.most > u32::from(u16::MAX) {
            4
        } else {
            2
        }
    }

    /// Appends starts of blocks and groups, as [`Starts::parse`] reads them.
    pub(super) fn write(&self, head: &mut Vec<u8>) {
        self.write_blocks(head);
        let width = usize::from(self.group_bytes());
        for start in &self.groups {
            head.extend_from_slice(&start.to_le_bytes()[..width]);
        }
    }

    /// Appends starts of blocks only.
    pub(super) fn write_blocks(&self, head: &mut Vec<u8>) {
        for start in &self.blocks {
            head.extend_from_slice(&start.to_le_bytes());
        }
    }
}
