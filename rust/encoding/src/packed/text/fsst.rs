//! Encoding 11, `fsst`: frequent byte sequences of 1 to 8 bytes stored as codes of one byte.
//!
//! Boncz, Neumann, Leis: FSST, Fast Random Access String Compression, VLDB 2020; trainer and decoder are our own.
//!
//! ```text
//! head   u8 symbols, at most 255 | u8 bytes of a group's start, 2 or 4 | u16 0
//!        u8 length of each symbol | their bytes, filled with zeros up to 4
//!        u32 start of each block in the body | start of each group of 32 values in its block
//! body   codes: the number of a symbol, or 255 and a byte as it is
//! below  lengths of the decoded values
//! ```

use std::ops::Range;

use super::fsst_train::{MOST_BYTES, Matcher, Symbol, train};
use super::starts::{GROUP, Starts, StartsBuilder};
use super::{Kernel, TextNode, TextValues};
use crate::error::Error;
use crate::packed::decoder::Numbers;
use crate::packed::encoding::Encoding;
use crate::packed::head::Head;
use crate::packed::node::{EncodedNode, Node, NodeId, num_blocks, to_u32};

/// The code before a byte that no symbol covers.
const ESCAPE: u8 = 255;

/// A parsed head, its symbols widened to 8 bytes.
#[derive(Debug)]
pub(crate) struct Fsst {
    id: NodeId,
    symbols: [[u8; MOST_BYTES]; 256],
    /// 0: no such symbol.
    lengths: [u8; 256],
    starts: Starts,
}

/// Symbols for a page, and the means to code text with them.
#[derive(Debug)]
pub(crate) struct Table {
    symbols: Vec<Symbol>,
    matcher: Matcher,
}

impl Table {
    /// Learns symbols from fixed places of the page.
    #[must_use]
    pub(crate) fn train(texts: &TextValues<'_>) -> Self {
        let symbols = train(texts);
        let matcher = Matcher::new(&symbols);
        Self { symbols, matcher }
    }

    /// Bytes of the head for so many values.
    #[must_use]
    pub(crate) fn head_length(&self, values: usize) -> usize {
        let symbols: usize = self.symbols.iter().map(|it| 1 + it.len()).sum();
        8 + symbols + num_blocks(values) * 4 + values.div_ceil(GROUP) * 2
    }

    /// Appends the codes of one value.
    pub(crate) fn encode_value(&self, text: &[u8], codes: &mut Vec<u8>) {
        let mut rest = text;
        while let Some(first) = rest.first() {
            if let Some((symbol, length)) = self.matcher.longest(rest) {
                codes.push(symbol);
                rest = &rest[length..];
            } else {
                codes.extend_from_slice(&[ESCAPE, *first]);
                rest = &rest[1..];
            }
        }
    }

    /// Stores all values.
    ///
    /// # Errors
    /// `Limit` if the body would exceed 4 GiB.
    pub(crate) fn encode(&self, texts: &TextValues<'_>) -> Result<EncodedNode, Error> {
        let mut node = EncodedNode::new(Encoding::Fsst, 0, texts.len());
        let mut starts = StartsBuilder::default();
        let body = &mut node.body;
        body.reserve(texts.bytes().len() / 2);
        for value in 0..texts.len() {
            if value % GROUP == 0 {
                starts.push(value, to_u32(body.len(), "codes of text in a page")?);
            }
            self.encode_value(texts.get(value), body);
        }
        to_u32(body.len(), "codes of text in a page")?;
        let head = &mut node.head;
        let count = self.symbols.len().to_le_bytes()[0];
        head.extend([count, starts.group_bytes(), 0, 0]);
        head.extend(self.symbols.iter().map(|it| it.len().to_le_bytes()[0]));
        for symbol in &self.symbols {
            head.extend_from_slice(symbol.bytes());
        }
        head.resize(head.len().next_multiple_of(4), 0);
        starts.write(head);
        node.children = vec![texts.length_node()];
        Ok(node)
    }
}

/// Checks a node of text in symbols.
///
/// # Errors
/// `Corrupt` if the head contradicts itself or the body.
pub(crate) fn parse(node: &Node<'_>, lengths: Box<dyn Numbers>) -> Result<TextNode<Fsst>, Error> {
    let id = node.id;
    let mut head = Head::of(node);
    let count = usize::from(head.u8()?);
    let group_bytes = head.u8()?;
    head.zeros(2)?;
    if !matches!(group_bytes, 2 | 4) {
        return Err(id.corrupt(format!("starts of {group_bytes} bytes")));
    }
    let mut symbols = [[0; MOST_BYTES]; 256];
    let mut lengths_of = [0; 256];
    let mut read = count;
    for (code, length) in head.bytes(count)?.iter().enumerate() {
        if !(1..=MOST_BYTES).contains(&usize::from(*length)) {
            return Err(id.corrupt(format!("symbol {code} has {length} bytes")));
        }
        let bytes = head.bytes(usize::from(*length))?;
        symbols[code][..bytes.len()].copy_from_slice(bytes);
        lengths_of[code] = *length;
        read += bytes.len();
    }
    head.zeros(read.next_multiple_of(4) - read)?;
    let starts = Starts::parse(node, &mut head, node.body.len, group_bytes)?;
    head.end()?;
    let kernel = Fsst {
        id,
        symbols,
        lengths: lengths_of,
        starts,
    };
    TextNode::of(node, lengths, kernel)
}

impl Kernel for Fsst {
    const UNIT: usize = GROUP;

    fn block_range(&self, block: usize) -> Result<Range<usize>, Error> {
        self.starts.block(block)
    }

    fn most_text(&self, bytes: usize) -> usize {
        bytes.saturating_mul(MOST_BYTES)
    }

    fn decode_block(
        &self,
        block: usize,
        bytes: &[u8],
        _: &[u32],
        text: &mut [u8],
    ) -> Result<(), Error> {
        let decoded = self.decode(bytes, text);
        decoded.ok_or_else(|| {
            self.id
                .corrupt_block(block, "codes do not stand for texts of these lengths")
        })
    }

    fn decode_group(
        &self,
        block: usize,
        group: usize,
        bytes: &[u8],
        _: usize,
        text: &mut [u8],
    ) -> Result<(), Error> {
        let codes = bytes.get(self.starts.group(block, group)?);
        self.decode_block(block, codes.unwrap_or_default(), &[], text)
    }
}

impl Fsst {
    /// Fills `text` from codes; `None` if they stand for a text of another length, a code has no symbol, or an escape no byte.
    fn decode(&self, codes: &[u8], text: &mut [u8]) -> Option<()> {
        let (mut at, mut index, mut sound) = (0, 0, true);
        while let Some(code) = codes.get(index) {
            let code = usize::from(*code);
            let (mut symbol, mut length) = (self.symbols[code], usize::from(self.lengths[code]));
            if code == usize::from(ESCAPE) {
                index += 1;
                (symbol[0], length) = (*codes.get(index)?, 1);
            }
            sound &= length > 0;
            // Every symbol is written with 8 bytes while they fit: the next one covers those behind its length.
            match text.get_mut(at..at + MOST_BYTES) {
                Some(slot) => slot.copy_from_slice(&symbol),
                None => text
                    .get_mut(at..at + length)?
                    .copy_from_slice(&symbol[..length]),
            }
            at += length;
            index += 1;
        }
        (sound && at == text.len()).then_some(())
    }
}
