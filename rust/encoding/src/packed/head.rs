//! Reads the little-endian fields of the head of a node and checks before each that the head is long enough.

use super::node::{Node, NodeId};
use crate::error::Error;

/// The bytes of a head that were not read yet.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    id: NodeId,
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    /// The head of a node, from its first byte.
    pub(crate) fn of(node: &Node<'a>) -> Self {
        Self {
            id: node.id,
            rest: node.head,
        }
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// `Corrupt` if the head ends before.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let Some((bytes, rest)) = self.rest.split_at_checked(count) else {
            let has = self.rest.len();
            return Err(self
                .id
                .corrupt(format!("the head ends: {count} bytes wanted, {has} left")));
        };
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    /// The next byte.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// The next 2 bytes.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next 4 bytes.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next 8 bytes.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The next `count` numbers of 2 bytes.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes): nothing is allocated for numbers that do not exist.
    pub(crate) fn u16s(&mut self, count: usize) -> Result<Vec<u16>, Error> {
        let bytes = self.bytes(count.saturating_mul(2))?;
        let (pairs, _) = bytes.as_chunks();
        Ok(pairs.iter().map(|it| u16::from_le_bytes(*it)).collect())
    }

    /// The next `count` numbers of 4 bytes.
    ///
    /// # Errors
    /// As [`u16s`](Self::u16s).
    pub(crate) fn u32s(&mut self, count: usize) -> Result<Vec<u32>, Error> {
        let bytes = self.bytes(count.saturating_mul(4))?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|it| u32::from_le_bytes(*it)).collect())
    }

    /// The next `count` numbers of `width` bytes, 0 to 8, zero-extended.
    ///
    /// # Errors
    /// As [`u16s`](Self::u16s). Numbers of 0 bytes are an empty list.
    pub(crate) fn words(&mut self, count: usize, width: u8) -> Result<Vec<u64>, Error> {
        let width = usize::from(width);
        if width == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.bytes(count.saturating_mul(width))?;
        Ok(bytes.chunks_exact(width).map(word).collect())
    }

    /// Refuses reserved bytes other than 0: a later version may give them a meaning.
    ///
    /// # Errors
    /// `Corrupt`; as [`bytes`](Self::bytes).
    pub(crate) fn zeros(&mut self, count: usize) -> Result<(), Error> {
        if self.bytes(count)?.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        Err(self.id.corrupt("reserved bytes of the head are not 0"))
    }

    /// Refuses a head with bytes after its last field.
    ///
    /// # Errors
    /// `Corrupt` names the number of bytes.
    pub(crate) fn end(self) -> Result<(), Error> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let rest = self.rest.len();
        Err(self
            .id
            .corrupt(format!("{rest} bytes more than the head has fields")))
    }
}

/// At most 8 little-endian bytes as a number.
pub(crate) fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(word)
}

/// Appends the low `width` bytes of a word.
pub(crate) fn push_word(bytes: &mut Vec<u8>, word: u64, width: u8) {
    let word = word.to_le_bytes();
    bytes.extend_from_slice(&word[..usize::from(width).min(8)]);
}
