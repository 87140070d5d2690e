//! A packed page: parsed from its head once, then decoded block by block.

use std::ops::Range;

use super::bits::BLOCK_BYTES;
use super::cascade::Kind;
use super::decoder::{Bodies, BodyRange, TextOut};
use super::header::{Mode, NodeTable};
use super::node::{BLOCK, block_len, num_blocks};
use super::tree::{Decoder, build};
use crate::error::Error;

/// The parsed head of a packed page: owns what its blocks need, so that it can be kept for later reads.
#[derive(Debug)]
pub struct PackedPage {
    table: NodeTable,
    kind: Kind,
    decoder: Decoder,
}

impl PackedPage {
    /// Parses the head of a page of `page_length` bytes with `slots` values. Nothing of the bodies is read.
    ///
    /// # Errors
    /// `Corrupt` for a head that contradicts itself, the page or `slots`; `Unsupported` names an unknown encoding, flag or mode.
    pub fn parse(head: &[u8], page_length: u64, kind: Kind, slots: u64) -> Result<Self, Error> {
        let table = NodeTable::parse(head, page_length)?;
        if table.slots as u64 != slots {
            let has = table.slots;
            return Err(Error::corrupt(format!(
                "a packed page of {has} values where {slots} belong"
            )));
        }
        if kind != Kind::Texts && table.text_length != 0 {
            return Err(Error::corrupt("a packed page of numbers with text"));
        }
        let decoder = build(&table, head, kind)?;
        Ok(Self {
            table,
            kind,
            decoder,
        })
    }

    /// Values of the page.
    #[must_use]
    pub fn num_values(&self) -> usize {
        self.table.slots
    }

    /// Blocks of the page.
    #[must_use]
    pub fn num_blocks(&self) -> usize {
        num_blocks(self.table.slots)
    }

    /// Values of a block; 0 behind the last.
    #[must_use]
    pub fn block_len(&self, block: usize) -> usize {
        block_len(self.table.slots, block)
    }

    /// Bytes of all texts, as the header states them: no decoder allocates by it.
    #[must_use]
    pub fn text_length(&self) -> u64 {
        self.table.text_length
    }

    /// Bytes of the head; the bodies begin behind it.
    #[must_use]
    pub fn head_length(&self) -> usize {
        self.table.head_length
    }

    /// What the writer aimed at.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.table.mode
    }

    /// The encodings as `dictionary(front(fsst), for)`.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = String::new();
        // How many nodes of each open bracket are still to come.
        let mut open: Vec<u8> = Vec::new();
        for entry in &self.table.entries {
            text.push_str(entry.encoding.name());
            if entry.children > 0 {
                text.push('(');
                open.push(entry.children);
                continue;
            }
            while let Some(rest) = open.last_mut() {
                *rest -= 1;
                if *rest > 0 {
                    text.push_str(", ");
                    break;
                }
                text.push(')');
                open.pop();
            }
        }
        text
    }

    /// The ranges of the page that decoding a block reads, from the first byte of the page.
    pub fn plan(&self, block: usize, ranges: &mut Vec<Range<u64>>) {
        let mut bodies: Vec<BodyRange> = Vec::new();
        match &self.decoder {
            Decoder::Numbers(numbers) => numbers.plan(block, &mut bodies),
            Decoder::Wide(wide) => wide.plan(block, &mut bodies),
            Decoder::Plain(plain) => {
                super::decoder::Numbers::plan(plain, block, &mut bodies);
            }
            Decoder::Constant(_) => {}
            Decoder::Texts(texts) => texts.plan(block, &mut bodies),
            Decoder::Bits(bits) => bits.plan(block, &mut bodies),
        }
        let head = self.table.head_length as u64;
        let in_page = bodies.into_iter().filter(|(space, _)| space.is_none());
        ranges.extend(in_page.map(|(_, it)| head + u64::from(it.start)..head + u64::from(it.end)));
    }

    /// Appends a block of numbers or values of fixed size, as in a plain page; of bits, `ceil(values / 8)` bytes.
    ///
    /// # Errors
    /// `Corrupt` names node and block; `Missing` if bytes were not fetched; `InvalidInput` for a page of texts.
    pub fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let len = self.block_len(block);
        match &self.decoder {
            Decoder::Numbers(numbers) => {
                let mut words = [0; BLOCK];
                let words = &mut words[..len];
                numbers.decode_block(block, bodies, words)?;
                push_words(words, self.width(), out);
            }
            Decoder::Wide(wide) => {
                let (mut high, mut low) = ([0; BLOCK], [0; BLOCK]);
                wide.decode_block(block, bodies, &mut high[..len], &mut low[..len])?;
                push_halves(&high[..len], &low[..len], out);
            }
            Decoder::Plain(plain) => out.extend_from_slice(plain.block(block, bodies)?),
            Decoder::Constant(constant) => {
                for _ in 0..len {
                    out.extend_from_slice(constant.value());
                }
            }
            Decoder::Bits(bits) => {
                let bits: [u8; BLOCK_BYTES] = bits.decode_block(block, bodies)?;
                out.extend_from_slice(&bits[..len.div_ceil(8)]);
            }
            Decoder::Texts(_) => return Err(Error::invalid("numbers of a packed page of texts")),
        }
        Ok(())
    }

    /// Appends some values of a block by ascending place: whole values, of bits one byte each, 0 or 1.
    ///
    /// # Errors
    /// As [`decode_block`](Self::decode_block); `InvalidInput` for a place outside of the block.
    pub fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.check_places(block, places)?;
        match &self.decoder {
            Decoder::Numbers(numbers) => {
                let mut words = vec![0; places.len()];
                numbers.take(block, places, bodies, &mut words)?;
                push_words(&words, self.width(), out);
            }
            Decoder::Wide(wide) => {
                let (mut high, mut low) = (vec![0; places.len()], vec![0; places.len()]);
                wide.take(block, places, bodies, &mut high, &mut low)?;
                push_halves(&high, &low, out);
            }
            Decoder::Plain(plain) => {
                let width = usize::from(self.width());
                let bytes = plain.block(block, bodies)?;
                for &place in places {
                    let start = usize::from(place) * width;
                    out.extend_from_slice(bytes.get(start..start + width).unwrap_or(&[]));
                }
            }
            Decoder::Constant(constant) => {
                for _ in places {
                    out.extend_from_slice(constant.value());
                }
            }
            Decoder::Bits(bits) => {
                let bits: [u8; BLOCK_BYTES] = bits.decode_block(block, bodies)?;
                let bit = |place: usize| (bits[place / 8] >> (place % 8)) & 1;
                out.extend(places.iter().map(|&place| bit(usize::from(place) % BLOCK)));
            }
            Decoder::Texts(_) => return Err(Error::invalid("numbers of a packed page of texts")),
        }
        Ok(())
    }

    /// Appends a block of texts.
    ///
    /// # Errors
    /// As [`decode_block`](Self::decode_block); `InvalidInput` for a page of other values.
    pub fn decode_texts(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        match &self.decoder {
            Decoder::Texts(texts) => texts.decode_block(block, bodies, out),
            _ => Err(Error::invalid("texts of a packed page of numbers")),
        }
    }

    /// Appends some texts of a block by ascending place.
    ///
    /// # Errors
    /// As [`decode_texts`](Self::decode_texts); `InvalidInput` for a place outside of the block.
    pub fn take_texts(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        self.check_places(block, places)?;
        match &self.decoder {
            Decoder::Texts(texts) => texts.take(block, places, bodies, out),
            _ => Err(Error::invalid("texts of a packed page of numbers")),
        }
    }

    fn check_places(&self, block: usize, places: &[u16]) -> Result<(), Error> {
        let len = self.block_len(block);
        let is_inside = places.iter().all(|&place| usize::from(place) < len);
        if is_inside && places.is_sorted() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "places of block {block} with {len} values out of order or range"
        )))
    }

    fn width(&self) -> u8 {
        match self.kind {
            Kind::Numbers { width } | Kind::Fixed { width } => width,
            Kind::Texts | Kind::Bits => 0,
        }
    }
}

/// Appends the low bytes of words; 16 bytes are sign-extended.
fn push_words(words: &[u64], width: u8, out: &mut Vec<u8>) {
    match width {
        16 => {
            let wide = words.iter().map(|&it| i128::from(it.cast_signed()));
            out.extend(wide.flat_map(i128::to_le_bytes));
        }
        8 => out.extend(words.iter().flat_map(|it| it.to_le_bytes())),
        4 => out.extend(words.iter().flat_map(|it| low::<4>(*it))),
        2 => out.extend(words.iter().flat_map(|it| low::<2>(*it))),
        _ => out.extend(words.iter().flat_map(|it| low::<1>(*it))),
    }
}

fn low<const N: usize>(word: u64) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&word.to_le_bytes()[..N]);
    bytes
}

fn push_halves(high: &[u64], low: &[u64], out: &mut Vec<u8>) {
    for (high, low) in high.iter().zip(low) {
        out.extend(low.to_le_bytes());
        out.extend(high.to_le_bytes());
    }
}
