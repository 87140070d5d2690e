//! The header of a packed page and its node table: written from encoded nodes, and parsed with all checks of places.

use std::ops::Range;

use super::encoding::Encoding;
use super::head::word;
use super::node::{Body, EncodedNode, MAX_VALUES, Node, NodeId, to_u32};
use crate::error::Error;

/// The first bytes of a packed page.
const MAGIC: [u8; 4] = *b"PKD1";
/// Bytes before the node table.
pub const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 24;
const MAX_NODES: usize = 16;
/// Heads begin at multiples of so many bytes.
const HEAD_ALIGNMENT: usize = 8;

/// The aim of the writer, speed or size. Readers decode both modes alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Lightweight encodings alone.
    Fast,
    /// Lightweight encodings, whose bytes an entropy coder compresses further.
    Small,
}

/// One entry of the node table.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) encoding: Encoding,
    pub(crate) parameter: u8,
    pub(crate) flags: u8,
    pub(crate) children: u8,
    pub(crate) values: usize,
    pub(crate) head: Range<usize>,
    pub(crate) body: Body,
}

/// Header and node table, places checked.
#[derive(Debug, Clone)]
pub(crate) struct NodeTable {
    pub(crate) slots: usize,
    pub(crate) mode: Mode,
    pub(crate) head_length: usize,
    pub(crate) body_length: usize,
    pub(crate) text_length: u64,
    /// A parent before its children.
    pub(crate) entries: Vec<Entry>,
}

fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("packed page: {what}"))
}

/// A field of 4 bytes; 64-bit targets hold all of them, and on others a length that is too large fits no page.
fn length(field: &[u8]) -> usize {
    usize::try_from(word(field)).unwrap_or(usize::MAX)
}

/// The length of the head of a page, header and node table included, from the first [`HEADER_BYTES`].
///
/// # Errors
/// `Corrupt` if they do not begin a packed page of `page_length` bytes.
pub fn head_length(header: &[u8], page_length: u64) -> Result<usize, Error> {
    let Some(header) = header.get(..HEADER_BYTES) else {
        let has = header.len();
        return Err(corrupt(format!("a header of {has} bytes")));
    };
    if header[..4] != MAGIC {
        return Err(corrupt(format!("it begins with {:02x?}", &header[..4])));
    }
    let (head, body) = (length(&header[12..16]), length(&header[16..20]));
    if (head as u64).checked_add(body as u64) != Some(page_length) {
        return Err(corrupt(format!(
            "a head of {head} and bodies of {body} bytes in a page of {page_length}"
        )));
    }
    let nodes = usize::from(header[8]);
    let least = HEADER_BYTES + ENTRY_BYTES * nodes;
    if nodes == 0 || nodes > MAX_NODES || head < least || head % HEAD_ALIGNMENT != 0 {
        return Err(corrupt(format!("{nodes} nodes in a head of {head} bytes")));
    }
    Ok(head)
}

impl NodeTable {
    /// Parses the head of a page.
    ///
    /// # Errors
    /// `Corrupt` for places that overlap, leave gaps or lie outside; `Unsupported` for an unknown encoding or mode.
    pub(crate) fn parse(head: &[u8], page_length: u64) -> Result<Self, Error> {
        let head_length = head_length(head, page_length)?;
        let Some(head) = head.get(..head_length) else {
            let has = head.len();
            return Err(corrupt(format!("{has} bytes of a head of {head_length}")));
        };
        let (header, rest) = head.split_at(HEADER_BYTES);
        let mode = match header[9] {
            0 => Mode::Fast,
            1 => Mode::Small,
            other => return Err(Error::unsupported(format!("mode {other} of a packed page"))),
        };
        if header[10..12] != [0; 2] || header[20..24] != [0; 4] {
            return Err(corrupt("reserved bytes of the header are not 0"));
        }
        let mut table = Self {
            slots: length(&header[4..8]),
            mode,
            head_length,
            body_length: length(&header[16..20]),
            text_length: word(&header[24..32]),
            entries: Vec::with_capacity(usize::from(header[8])),
        };
        let (entries, _) = rest.as_chunks::<ENTRY_BYTES>();
        for bytes in entries.iter().take(usize::from(header[8])) {
            table.entries.push(entry(bytes)?);
        }
        table.check_places(head)?;
        match table.entries.first() {
            Some(root) if root.values == table.slots => Ok(table),
            _ => Err(corrupt(format!(
                "the page has {} values, but its root node has another number of values",
                table.slots
            ))),
        }
    }

    /// Heads and bodies lie in order and fill the page; the body of the child of `coded` lies in decompressed bytes.
    fn check_places(&mut self, head: &[u8]) -> Result<(), Error> {
        let mut head_end = HEADER_BYTES + ENTRY_BYTES * self.entries.len();
        let mut body_end = 0_u64;
        let mut coded: Option<u8> = None;
        for (index, entry) in (0_u8..).zip(&mut self.entries) {
            let id = NodeId {
                index,
                encoding: entry.encoding,
            };
            if entry.values > MAX_VALUES {
                let values = entry.values;
                return Err(id.corrupt(format!("{values} values, {MAX_VALUES} at most")));
            }
            let Range { start, end } = entry.head;
            let padded = end.next_multiple_of(HEAD_ALIGNMENT);
            let padding = head.get(end..padded);
            if start != head_end || !padding.is_some_and(|it| it.iter().all(|&byte| byte == 0)) {
                return Err(id.corrupt(format!(
                    "its head lies at {start}..{end} where {head_end} is next"
                )));
            }
            head_end = padded;
            let start = match coded {
                Some(_) => 0,
                None => body_end,
            };
            if u64::from(entry.body.start) != start {
                let at = entry.body.start;
                return Err(id.corrupt(format!("its body lies at {at} where {start} is next")));
            }
            entry.body.space = coded;
            if coded.is_none() {
                body_end += u64::from(entry.body.len);
            }
            // A node `coded` has one child, which follows it.
            coded = (entry.encoding == Encoding::Coded).then_some(index);
        }
        if head_end != self.head_length || body_end != self.body_length as u64 {
            return Err(corrupt(format!(
                "heads end at {head_end} of {}, bodies at {body_end} of {}",
                self.head_length, self.body_length
            )));
        }
        Ok(())
    }

    /// A node, with its part of `head`, from which this table was parsed.
    ///
    /// # Errors
    /// `Corrupt` for a number outside of the table.
    pub(crate) fn node<'a>(&self, index: u8, head: &'a [u8]) -> Result<Node<'a>, Error> {
        let entry = self.entries.get(usize::from(index));
        let found = entry.and_then(|entry| Some((entry, head.get(entry.head.clone())?)));
        let (entry, head) = found.ok_or_else(|| corrupt(format!("no node {index}")))?;
        Ok(Node {
            id: NodeId {
                index,
                encoding: entry.encoding,
            },
            parameter: entry.parameter,
            flags: entry.flags,
            values: entry.values,
            head,
            body: entry.body,
        })
    }
}

fn entry(bytes: &[u8; ENTRY_BYTES]) -> Result<Entry, Error> {
    let [encoding, parameter, flags, children, rest @ ..] = bytes;
    let (words, _) = rest.as_chunks::<4>();
    let mut words = words.iter().map(|it| u32::from_le_bytes(*it));
    let mut next = || words.next().unwrap_or(0);
    let (values, head_offset, head_len) = (next(), next() as usize, next() as usize);
    let body = Body {
        space: None,
        start: next(),
        len: next(),
    };
    Ok(Entry {
        encoding: Encoding::of_number(*encoding)?,
        parameter: *parameter,
        flags: *flags,
        children: *children,
        values: values as usize,
        head: head_offset..head_offset.saturating_add(head_len),
        body,
    })
}

/// Lays out nodes as a page. `text_length` is the number of bytes of all texts, 0 for other values.
///
/// # Errors
/// `Limit` for a page of 4 GiB or more; `InvalidInput` for more than 16 nodes.
pub fn write_page(root: &EncodedNode, mode: Mode, text_length: u64) -> Result<Vec<u8>, Error> {
    let mut nodes = Vec::new();
    flatten(root, false, &mut nodes);
    let num_nodes = u8::try_from(nodes.len()).unwrap_or(u8::MAX);
    if usize::from(num_nodes) > MAX_NODES {
        return Err(Error::invalid(format!(
            "{num_nodes} nodes in a packed page, {MAX_NODES} at most"
        )));
    }
    let heads = nodes.iter().map(|(node, _)| padded(node.head.len()));
    let head_length = HEADER_BYTES + ENTRY_BYTES * nodes.len() + heads.sum::<usize>();
    let stored = |(node, in_coded): &(&EncodedNode, bool)| match in_coded {
        true => 0,
        false => node.body.len(),
    };
    let body_length: usize = nodes.iter().map(stored).sum();
    to_u32(
        head_length.saturating_add(body_length),
        "bytes of a packed page",
    )?;
    let mut page = Vec::with_capacity(head_length + body_length);
    page.extend(MAGIC);
    page.extend(to_u32(root.values, "values of a page")?.to_le_bytes());
    page.extend([num_nodes, u8::from(mode == Mode::Small), 0, 0]);
    page.extend(to_u32(head_length, "bytes of a head")?.to_le_bytes());
    page.extend(to_u32(body_length, "bytes of bodies")?.to_le_bytes());
    page.extend([0; 4]);
    page.extend(text_length.to_le_bytes());
    let (mut head, mut body) = (HEADER_BYTES + ENTRY_BYTES * nodes.len(), 0);
    for (node, in_coded) in &nodes {
        let children = u8::try_from(node.children.len()).unwrap_or(u8::MAX);
        page.extend([node.encoding.number(), node.parameter, node.flags, children]);
        let body_start = if *in_coded { 0 } else { body };
        for word in [
            node.values,
            head,
            node.head.len(),
            body_start,
            node.body.len(),
        ] {
            page.extend(to_u32(word, "bytes of a packed page")?.to_le_bytes());
        }
        head += padded(node.head.len());
        body += stored(&(node, *in_coded));
    }
    for (node, _) in &nodes {
        page.extend(&node.head);
        page.resize(page.len().next_multiple_of(HEAD_ALIGNMENT), 0);
    }
    for (node, _) in nodes.iter().filter(|(_, in_coded)| !in_coded) {
        page.extend(&node.body);
    }
    Ok(page)
}

fn padded(head: usize) -> usize {
    head.next_multiple_of(HEAD_ALIGNMENT)
}

/// Nodes in the order of the table, and whether the parent is `coded`.
fn flatten<'a>(node: &'a EncodedNode, in_coded: bool, nodes: &mut Vec<(&'a EncodedNode, bool)>) {
    nodes.push((node, in_coded));
    for child in &node.children {
        flatten(child, node.encoding == Encoding::Coded, nodes);
    }
}
