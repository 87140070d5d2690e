//! Encoding 5, `dictionary`: the distinct values in ascending order, and a code per value. Without head and body.
//!
//! Numbers ascend as i64, texts as bytes. Codes are compared with the number of values block by block.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use super::decoder::{Bodies, BodyRange, Numbers, TextOut, Texts, decode_all};
use super::encoding::Encoding;
use super::head::Head;
use super::node::{BLOCK, EncodedNode, Node, NodeId, block_len, num_blocks};
use super::{leaf, run};
use crate::error::Error;

/// Most values of a dictionary.
pub(crate) const MAX_ENTRIES: usize = 32_768;
/// Most bytes of all texts of a dictionary: a reader decodes all of them into memory at once.
pub(crate) const MAX_TEXT_BYTES: usize = 16 << 20;

/// A dictionary: its values `V`, and how they are kept decoded, `D`.
#[derive(Debug)]
pub(crate) struct Dictionary<V: ?Sized, D> {
    id: NodeId,
    values: Box<V>,
    codes: Box<dyn Numbers>,
    decoded: OnceLock<D>,
}

/// A dictionary of numbers.
pub(crate) type NumberDictionary = Dictionary<dyn Numbers, Vec<u64>>;

/// A dictionary of texts.
pub(crate) type TextDictionary = Dictionary<dyn Texts, DecodedTexts>;

#[derive(Debug)]
pub(crate) struct DecodedTexts {
    /// Where each text begins, and where the last one ends.
    offsets: Vec<usize>,
    bytes: Vec<u8>,
}

impl DecodedTexts {
    fn get(&self, code: u64) -> Option<&[u8]> {
        let code = usize::try_from(code).ok()?;
        let range = *self.offsets.get(code)?..*self.offsets.get(code.checked_add(1)?)?;
        self.bytes.get(range)
    }
}

impl<V: ?Sized, D> Dictionary<V, D> {
    fn new(
        node: &Node<'_>,
        values: Box<V>,
        entries: usize,
        codes: Box<dyn Numbers>,
    ) -> Result<Self, Error> {
        node.refuse_flags(0)?;
        node.expect_body(0)?;
        Head::of(node).end()?;
        node.expect_values("codes", codes.num_values(), node.values)?;
        if entries > MAX_ENTRIES || entries > node.values / 2 {
            let values = node.values;
            return Err(node
                .id
                .corrupt(format!("{entries} entries for {values} values")));
        }
        Ok(Self {
            id: node.id,
            values,
            codes,
            decoded: OnceLock::new(),
        })
    }

    /// The ranges of a block of codes and, until they are decoded, those of all entries, which `plan_entries` names by block.
    fn plan_with(
        &self,
        block: usize,
        entries: usize,
        ranges: &mut Vec<BodyRange>,
        plan_entries: impl Fn(usize, &mut Vec<BodyRange>),
    ) {
        if self.decoded.get().is_none() {
            for block in 0..num_blocks(entries) {
                plan_entries(block, ranges);
            }
        }
        self.codes.plan(block, ranges);
    }

    fn not_ascending(&self) -> Error {
        self.id.corrupt("its entries do not ascend")
    }
}

/// Numbers, or the lengths of texts.
///
/// # Errors
/// `Corrupt` for more entries than half of the values, or another number of codes.
pub(crate) fn parse(
    node: &Node<'_>,
    values: Box<dyn Numbers>,
    codes: Box<dyn Numbers>,
) -> Result<NumberDictionary, Error> {
    let entries = values.num_values();
    Dictionary::new(node, values, entries, codes)
}

/// # Errors
/// As [`parse`].
pub(crate) fn parse_texts(
    node: &Node<'_>,
    values: Box<dyn Texts>,
    codes: Box<dyn Numbers>,
) -> Result<TextDictionary, Error> {
    let entries = values.num_values();
    Dictionary::new(node, values, entries, codes)
}

fn out_of_range(id: NodeId, block: usize, code: u64, entries: usize) -> Error {
    id.corrupt_block(block, format!("code {code} of {entries} entries"))
}

impl NumberDictionary {
    fn decoded(&self, bodies: &mut Bodies<'_>) -> Result<&[u64], Error> {
        if let Some(decoded) = self.decoded.get() {
            return Ok(decoded);
        }
        let values = decode_all(self.values.as_ref(), bodies)?;
        let ascends = values.is_sorted_by(|a, b| a.cast_signed() < b.cast_signed());
        if !ascends {
            return Err(self.not_ascending());
        }
        Ok(self.decoded.get_or_init(|| values))
    }

    /// Replaces codes by values.
    fn replace(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        codes: &mut [u64],
    ) -> Result<(), Error> {
        let values = self.decoded(bodies)?;
        let most = codes.iter().copied().max().unwrap_or(0);
        if !codes.is_empty() && most >= values.len() as u64 {
            return Err(out_of_range(self.id, block, most, values.len()));
        }
        for code in codes {
            let at = usize::try_from(*code).unwrap_or(usize::MAX);
            *code = values.get(at).copied().unwrap_or(0);
        }
        Ok(())
    }
}

impl Numbers for NumberDictionary {
    fn num_values(&self) -> usize {
        self.codes.num_values()
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        let entries = self.values.num_values();
        self.plan_with(block, entries, ranges, |block, ranges| {
            self.values.plan(block, ranges);
        });
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        self.codes.decode_block(block, bodies, out)?;
        self.replace(block, bodies, out)
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        self.codes.take(block, places, bodies, out)?;
        self.replace(block, bodies, out)
    }
}

impl TextDictionary {
    fn decoded(&self, bodies: &mut Bodies<'_>) -> Result<&DecodedTexts, Error> {
        if let Some(decoded) = self.decoded.get() {
            return Ok(decoded);
        }
        let entries = self.values.num_values();
        let mut texts = TextOut::with_limit(MAX_TEXT_BYTES);
        for block in 0..num_blocks(entries) {
            self.values.decode_block(block, bodies, &mut texts)?;
        }
        let mut offsets = Vec::with_capacity(texts.lengths.len() + 1);
        let mut end = 0_usize;
        offsets.push(0);
        for &length in &texts.lengths {
            end = end.saturating_add(length as usize);
            offsets.push(end);
        }
        if offsets.len() != entries + 1 || end != texts.bytes.len() {
            return Err(self.id.corrupt("its entries have other lengths"));
        }
        let decoded = DecodedTexts {
            offsets,
            bytes: texts.bytes,
        };
        let mut entries = (0..entries as u64).map(|code| decoded.get(code));
        let mut before = entries.next();
        for entry in entries {
            if before >= Some(entry) {
                return Err(self.not_ascending());
            }
            before = Some(entry);
        }
        Ok(self.decoded.get_or_init(|| decoded))
    }

    fn push(
        &self,
        block: usize,
        codes: &[u64],
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        let decoded = self.decoded(bodies)?;
        let entries = decoded.offsets.len() - 1;
        let mut total = 0_usize;
        for &code in codes {
            let text = decoded
                .get(code)
                .ok_or_else(|| out_of_range(self.id, block, code, entries))?;
            out.lengths
                .push(super::node::to_u32(text.len(), "bytes of one text")?);
            total = total.saturating_add(text.len());
        }
        let mut rest = out.grow(total)?;
        for text in codes.iter().filter_map(|&code| decoded.get(code)) {
            let Some((target, behind)) = rest.split_at_mut_checked(text.len()) else {
                break;
            };
            target.copy_from_slice(text);
            rest = behind;
        }
        Ok(())
    }
}

impl Texts for TextDictionary {
    fn num_values(&self) -> usize {
        self.codes.num_values()
    }

    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>) {
        let entries = self.values.num_values();
        self.plan_with(block, entries, ranges, |block, ranges| {
            self.values.plan(block, ranges);
        });
    }

    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        let mut codes = [0; BLOCK];
        let codes = &mut codes[..block_len(self.codes.num_values(), block)];
        self.codes.decode_block(block, bodies, codes)?;
        self.push(block, codes, bodies, out)
    }

    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        let mut codes = vec![0; places.len()];
        self.codes.take(block, places, bodies, &mut codes)?;
        self.push(block, &codes, bodies, out)
    }
}

/// Stores codes as runs if that saves more than 5 %, and in one node otherwise.
fn encode_codes(codes: &[u64]) -> EncodedNode {
    let node = leaf::encode_codes(codes);
    let changes = codes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if changes > codes.len() / 2 {
        return node;
    }
    let runs = run::encode(codes, node.parameter);
    // Runs take twice the time to decode, so they must save more than 5 %.
    match runs.byte_len() * 20 < node.byte_len() * 19 {
        true => runs,
        false => node,
    }
}

/// Numbers of `width` bytes as words; `None` if they have more than 32,768 distinct values or more than half of their number.
#[must_use]
pub fn encode(values: &[u64], width: u8) -> Option<EncodedNode> {
    let most = MAX_ENTRIES.min(values.len() / 2);
    // The map is only looked up and never iterated, so its order cannot change the bytes.
    let mut codes_of = HashMap::new();
    let mut sorted = Vec::new();
    let mut last = None;
    for &value in values {
        if last != Some(value) && codes_of.insert(value, 0_u64).is_none() {
            sorted.push(value);
            if sorted.len() > most {
                return None;
            }
        }
        last = Some(value);
    }
    sorted.sort_unstable_by_key(|value| value.cast_signed());
    for (code, value) in (0..).zip(&sorted) {
        codes_of.insert(*value, code);
    }
    let mut last = (0, 0);
    let codes: Vec<u64> = values
        .iter()
        .enumerate()
        .map(|(at, value)| {
            if at == 0 || last.0 != *value {
                last = (*value, codes_of.get(value).copied().unwrap_or(0));
            }
            last.1
        })
        .collect();
    let mut node = EncodedNode::new(Encoding::Dictionary, width, values.len());
    node.children = vec![leaf::encode_entries(&sorted, width), encode_codes(&codes)];
    Some(node)
}

/// Texts; `encode_entries` makes the node of the sorted distinct texts. `None` as of [`encode`], or for entries of more than 16 MiB.
pub fn encode_texts<'a>(
    texts: &[&'a [u8]],
    encode_entries: impl FnOnce(&[&'a [u8]]) -> EncodedNode,
) -> Option<EncodedNode> {
    let most = MAX_ENTRIES.min(texts.len() / 2);
    let mut entries = BTreeMap::new();
    let mut total = 0;
    for &text in texts {
        if entries.insert(text, 0_u64).is_none() {
            total += text.len();
            if entries.len() > most || total > MAX_TEXT_BYTES {
                return None;
            }
        }
    }
    for (code, entry) in (0..).zip(entries.values_mut()) {
        *entry = code;
    }
    let codes: Vec<u64> = texts
        .iter()
        .map(|text| entries.get(text).copied().unwrap_or(0))
        .collect();
    let sorted: Vec<&[u8]> = entries.into_keys().collect();
    let mut node = EncodedNode::new(Encoding::Dictionary, 0, texts.len());
    node.children = vec![encode_entries(&sorted), encode_codes(&codes)];
    Some(node)
}
