//! Encoding 10, `raw`: the bytes of the values as they are.
//!
//! Head: `u32` start of each block. Body: the bytes. Below it: the lengths.

use std::ops::Range;

use super::starts::{Starts, StartsBuilder};
use super::{Kernel, TextNode, TextValues};
use crate::error::Error;
use crate::packed::decoder::Numbers;
use crate::packed::encoding::Encoding;
use crate::packed::head::Head;
use crate::packed::node::{EncodedNode, Node, NodeId, to_u32};

/// Stores values as they are.
///
/// # Errors
/// `Limit` beyond 4 GiB of text.
pub(crate) fn encode(texts: &TextValues<'_>) -> Result<EncodedNode, Error> {
    to_u32(texts.bytes().len(), "bytes of text in a page")?;
    let mut starts = StartsBuilder::default();
    for block in texts.blocks() {
        starts.push(block.start, texts.offsets[block.start]);
    }
    let mut node = EncodedNode::new(Encoding::Raw, 0, texts.len());
    starts.write_blocks(&mut node.head);
    node.body = texts.bytes().to_vec();
    node.children = vec![texts.length_node()];
    Ok(node)
}

/// A parsed head.
#[derive(Debug)]
pub(crate) struct Raw {
    id: NodeId,
    starts: Starts,
}

/// Checks a node of raw text.
///
/// # Errors
/// `Corrupt` if the head contradicts itself or the body.
pub(crate) fn parse(node: &Node<'_>, lengths: Box<dyn Numbers>) -> Result<TextNode<Raw>, Error> {
    let mut head = Head::of(node);
    let starts = Starts::parse(node, &mut head, node.body.len, 0)?;
    head.end()?;
    let kernel = Raw {
        id: node.id,
        starts,
    };
    TextNode::of(node, lengths, kernel)
}

impl Kernel for Raw {
    const UNIT: usize = 1;

    fn block_range(&self, block: usize) -> Result<Range<usize>, Error> {
        self.starts.block(block)
    }

    fn most_text(&self, bytes: usize) -> usize {
        bytes
    }

    fn decode_block(
        &self,
        block: usize,
        bytes: &[u8],
        _: &[u32],
        text: &mut [u8],
    ) -> Result<(), Error> {
        let (has, wants) = (bytes.len(), text.len());
        if has != wants {
            let what = format!("{has} bytes of text, the lengths say {wants}");
            return Err(self.id.corrupt_block(block, what));
        }
        text.copy_from_slice(bytes);
        Ok(())
    }

    fn decode_group(
        &self,
        block: usize,
        _: usize,
        bytes: &[u8],
        skipped: usize,
        text: &mut [u8],
    ) -> Result<(), Error> {
        let bytes = bytes.get(skipped..).unwrap_or_default();
        let bytes = bytes.get(..text.len()).unwrap_or_default();
        self.decode_block(block, bytes, &[], text)
    }
}
