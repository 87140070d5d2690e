//! What all decoders share: the traits that they implement, the bytes that they read, and the buffer of decoded text.
//!
//! A decoder is made from heads alone and owns what it needs, so it can be cached; bodies are read per block from [`Bodies`].

use std::fmt::Debug;
use std::ops::Range;

use super::node::{BLOCK, Body, NodeId, block_len};
use crate::error::Error;
use crate::source::PageSource;

/// A range of body bytes, after the space that the range counts in: see [`Body::space`].
pub(crate) type BodyRange = (Option<u8>, Range<u32>);

/// Decodes numbers of at most 64 bits to words. The low bytes of a word hold the value. The bytes above the size of the
/// type have no meaning. Offsets, codes and lengths use the whole word.
pub(crate) trait Numbers: Debug + Send + Sync {
    /// Values in all blocks.
    fn num_values(&self) -> usize;

    /// The ranges of bodies that a block needs, those of nodes below included.
    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>);

    /// Decodes a block into `out`, which has exactly its length.
    ///
    /// # Errors
    /// `Corrupt` names node and block; `Missing` if bytes were not fetched.
    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error>;

    /// Decodes the values at some ascending places of a block; `out` has one value per place.
    ///
    /// # Errors
    /// As [`decode_block`](Self::decode_block).
    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut [u64],
    ) -> Result<(), Error> {
        let mut values = [0; BLOCK];
        let values = &mut values[..block_len(self.num_values(), block)];
        self.decode_block(block, bodies, values)?;
        for (value, &place) in out.iter_mut().zip(places) {
            *value = values.get(usize::from(place)).copied().unwrap_or(0);
        }
        Ok(())
    }
}

/// Texts or binary values.
pub(crate) trait Texts: Debug + Send + Sync {
    /// Values in all blocks.
    fn num_values(&self) -> usize;

    /// The ranges of bodies that a block needs, those of nodes below included.
    fn plan(&self, block: usize, ranges: &mut Vec<BodyRange>);

    /// Appends the values of a block: one length per value, and exactly as many bytes as the lengths sum to.
    ///
    /// # Errors
    /// `Corrupt` names node and block; `Missing` if bytes were not fetched; `Limit` for more bytes than `out` may hold.
    fn decode_block(
        &self,
        block: usize,
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error>;

    /// Appends some values of a block, by ascending place in it.
    ///
    /// # Errors
    /// As [`decode_block`](Self::decode_block).
    fn take(
        &self,
        block: usize,
        places: &[u16],
        bodies: &mut Bodies<'_>,
        out: &mut TextOut,
    ) -> Result<(), Error> {
        let mut whole = TextOut::with_limit(out.limit);
        self.decode_block(block, bodies, &mut whole)?;
        let (mut place, mut start, mut end) = (0, 0, 0);
        for &wanted in places {
            while place <= usize::from(wanted) {
                start = end;
                end += whole
                    .lengths
                    .get(place)
                    .map_or(0, |&length| length as usize);
                place += 1;
            }
            if let Some(text) = whole.bytes.get(start..end) {
                out.push(text)?;
            }
        }
        Ok(())
    }
}

/// Texts that decoders append.
#[derive(Debug, Default)]
pub struct TextOut {
    /// Bytes of each text.
    pub lengths: Vec<u32>,
    /// The bytes of all texts, one after the other.
    pub bytes: Vec<u8>,
    /// Most bytes that `bytes` may hold.
    limit: usize,
}

impl TextOut {
    /// Returns an empty buffer that refuses more than `limit` bytes of text.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            lengths: Vec::new(),
            bytes: Vec::new(),
            limit,
        }
    }

    /// Appends `additional` zero bytes, for the caller to write into, and returns them.
    ///
    /// # Errors
    /// `Limit` for more bytes than this buffer may hold; nothing is allocated in that case.
    pub(crate) fn grow(&mut self, additional: usize) -> Result<&mut [u8], Error> {
        let start = self.bytes.len();
        let end = start.checked_add(additional).filter(|&it| it <= self.limit);
        let end = end.ok_or_else(|| Error::Limit {
            what: "bytes of text".to_owned(),
            actual: (start as u64).saturating_add(additional as u64),
            limit: self.limit as u64,
        })?;
        self.bytes.resize(end, 0);
        Ok(&mut self.bytes[start..])
    }

    /// Number of bytes that this buffer may still take.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }

    /// Appends one text.
    ///
    /// # Errors
    /// As [`grow`](Self::grow); `Limit` for a text of 2^32 bytes.
    pub(crate) fn push(&mut self, text: &[u8]) -> Result<(), Error> {
        let length = super::node::to_u32(text.len(), "bytes of one text")?;
        self.grow(text.len())?.copy_from_slice(text);
        self.lengths.push(length);
        Ok(())
    }
}

/// Bytes that a node decompressed, kept because the next blocks may need them.
#[derive(Debug)]
struct Decompressed {
    node: u8,
    /// Number of the decompressed piece, as the node counts its pieces.
    piece: usize,
    /// Where `bytes` begin in the space of the node.
    start: u32,
    bytes: Vec<u8>,
}

/// The bodies of one page, and the pieces that were decompressed last, one per node.
#[derive(Debug)]
pub struct Bodies<'a> {
    source: Source<'a>,
    decompressed: Vec<Decompressed>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Bytes(&'a [u8]),
    /// The file, and the position of the first body byte.
    File(&'a dyn PageSource, u64),
}

impl Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::File(_, position) => write!(f, "file from byte {position}"),
        }
    }
}

impl<'a> Bodies<'a> {
    /// All bodies of a page in memory: what lies behind the head.
    #[must_use]
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        Self {
            source: Source::Bytes(bytes),
            decompressed: Vec::new(),
        }
    }

    /// Bodies in a file; `position` is that of the first byte behind the head.
    pub fn of_file(source: &'a dyn PageSource, position: u64) -> Self {
        Self {
            source: Source::File(source, position),
            decompressed: Vec::new(),
        }
    }

    /// Bytes of a body; `range` counts from its first byte.
    ///
    /// # Errors
    /// `Corrupt` for a range outside of the body, `Missing` if its bytes were not fetched.
    pub(crate) fn read(&self, id: NodeId, body: &Body, range: Range<u32>) -> Result<&[u8], Error> {
        let outside = || {
            let (start, end, len) = (range.start, range.end, body.len);
            id.corrupt(format!("bytes {start}..{end} of a body of {len} bytes"))
        };
        if range.start > range.end || range.end > body.len {
            return Err(outside());
        }
        let start = body.start.checked_add(range.start).ok_or_else(outside)?;
        let end = body.start.checked_add(range.end).ok_or_else(outside)?;
        if start == end {
            return Ok(&[]);
        }
        let Some(node) = body.space else {
            return match self.source {
                Source::Bytes(bytes) => bytes
                    .get(start as usize..end as usize)
                    .ok_or(Error::Missing(u64::from(start)..u64::from(end))),
                Source::File(source, position) => {
                    let at = |byte: u32| position.checked_add(u64::from(byte));
                    let range = at(start).zip(at(end)).ok_or_else(outside)?;
                    source.slice(range.0..range.1)
                }
            };
        };
        let kept = self.decompressed.iter().find(|it| it.node == node);
        let bytes = kept.and_then(|it| {
            let start = start.checked_sub(it.start)? as usize;
            it.bytes.get(start..end.checked_sub(it.start)? as usize)
        });
        bytes.ok_or_else(outside)
    }

    /// Which bytes of its space a node keeps.
    pub(crate) fn kept(&self, node: NodeId) -> Option<Range<usize>> {
        let mut kept = self.decompressed.iter();
        let kept = kept.find(|it| it.node == node.index)?;
        let start = kept.start as usize;
        Some(start..start + kept.bytes.len())
    }

    /// The decompressed bytes of a node, if they are those of `piece`.
    pub(crate) fn piece(&self, node: NodeId, piece: usize) -> Option<&[u8]> {
        let mut kept = self.decompressed.iter();
        let kept = kept.find(|it| it.node == node.index && it.piece == piece);
        kept.map(|it| it.bytes.as_slice())
    }

    /// Keeps decompressed bytes of a node in place of its earlier ones. Bodies whose [`space`](Body::space) is the node are
    /// read from them; `start` is their place in that space.
    pub(crate) fn keep_piece(&mut self, node: NodeId, piece: usize, start: u32, bytes: Vec<u8>) {
        self.decompressed.retain(|it| it.node != node.index);
        self.decompressed.push(Decompressed {
            node: node.index,
            piece,
            start,
            bytes,
        });
    }

    /// Takes the decompressed bytes of a node, to use them or their memory for the next piece.
    pub(crate) fn take_piece_memory(&mut self, node: NodeId) -> Vec<u8> {
        let place = self
            .decompressed
            .iter()
            .position(|it| it.node == node.index);
        place.map_or_else(Vec::new, |at| self.decompressed.swap_remove(at).bytes)
    }
}

/// Values `range` of `numbers`, which may span blocks; `out` has exactly as many values.
///
/// # Errors
/// `Corrupt` as of [`Numbers::decode_block`].
pub(crate) fn decode_range(
    numbers: &dyn Numbers,
    range: Range<usize>,
    bodies: &mut Bodies<'_>,
    out: &mut [u64],
) -> Result<(), Error> {
    let (mut at, mut rest) = (range.start, out);
    let mut values = [0; BLOCK];
    while !rest.is_empty() {
        let (block, place) = (at / BLOCK, at % BLOCK);
        let len = block_len(numbers.num_values(), block);
        let count = len.saturating_sub(place).min(rest.len());
        if count == 0 {
            return Err(Error::corrupt(format!(
                "packed page: value {at} of {}",
                numbers.num_values()
            )));
        }
        let (head, tail) = rest.split_at_mut(count);
        if count == len {
            numbers.decode_block(block, bodies, head)?;
        } else {
            let values = &mut values[..len];
            numbers.decode_block(block, bodies, values)?;
            head.copy_from_slice(&values[place..place + count]);
        }
        at += count;
        rest = tail;
    }
    Ok(())
}

/// All values of `numbers`. For nodes whose number of values was bounded before.
///
/// # Errors
/// `Corrupt` as of [`Numbers::decode_block`].
pub(crate) fn decode_all(
    numbers: &dyn Numbers,
    bodies: &mut Bodies<'_>,
) -> Result<Vec<u64>, Error> {
    let mut out = vec![0; numbers.num_values()];
    decode_range(numbers, 0..numbers.num_values(), bodies, &mut out)?;
    Ok(out)
}
