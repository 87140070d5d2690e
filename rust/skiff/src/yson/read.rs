//! The YSON reader: text and binary tokens, one pass, strict.
//!
//! The reader accepts what the YTsaurus client accepts, except that it refuses NUL bytes between tokens, at which the client
//! stops as if the input ended there.

use std::borrow::Cow;
use std::ops::Range;

use super::limits::Limits;
use crate::error::{Error, Result};

/// Receives the tokens of a node in document order. Every method does nothing by default.
pub trait Visitor {
    /// `#`, the null of YSON.
    fn entity(&mut self) {}
    /// A boolean.
    fn boolean(&mut self, _value: bool) {}
    /// A signed integer.
    fn int64(&mut self, _value: i64) {}
    /// An unsigned integer.
    fn uint64(&mut self, _value: u64) {}
    /// A double.
    fn double(&mut self, _value: f64) {}
    /// A string, which is bytes.
    fn string(&mut self, _value: &[u8]) {}
    /// A list begins.
    fn begin_list(&mut self) {}
    /// The next item of a list begins.
    fn item(&mut self) {}
    /// The list ends.
    fn end_list(&mut self) {}
    /// A map begins.
    fn begin_map(&mut self) {}
    /// A key of the map or of the attribute map; its value follows.
    fn key(&mut self, _key: &[u8]) {}
    /// The map ends.
    fn end_map(&mut self) {}
    /// An attribute map begins; the value that has the attributes follows it.
    fn begin_attributes(&mut self) {}
    /// The attribute map ends.
    fn end_attributes(&mut self) {}
}

struct Nothing;

impl Visitor for Nothing {}

/// Checks that bytes are exactly one node.
///
/// # Errors
///
/// [`Error::Yson`] with the offset of the first byte that does not fit, [`Error::Limit`] beyond the limits.
pub fn validate(bytes: &[u8], limits: Limits) -> Result<()> {
    visit(bytes, limits, &mut Nothing)
}

/// Reads exactly one node and tells the visitor about its tokens. After an error the visitor has seen a part of the node.
///
/// # Errors
///
/// As [`validate`].
pub fn visit<V: Visitor>(bytes: &[u8], limits: Limits, visitor: &mut V) -> Result<()> {
    limits.check_size(bytes.len())?;
    let mut reader = Reader::new(bytes, limits);
    reader.node(visitor, 0)?;
    reader.skip_space();
    if reader.pos < bytes.len() {
        return Err(reader.unexpected("the end: a value is exactly one node"));
    }
    Ok(())
}

/// True when the first token of a well-formed node opens a map, which means a map without attributes.
#[must_use]
pub fn is_plain_map(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !is_space(**byte));
    first == Some(&b'{')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// A position in the bytes of a node.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) pos: usize,
    limits: Limits,
}

/// A key of the outermost map, and where the bytes of the key and of its value are.
pub(super) struct Entry<'a> {
    pub(super) key: Cow<'a, [u8]>,
    /// From the first byte of the key to the last one of the value.
    pub(super) pair: Range<usize>,
    pub(super) value: Range<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], limits: Limits) -> Self {
        Self {
            bytes,
            pos: 0,
            limits,
        }
    }

    /// The entries of a map without attributes, in document order.
    ///
    /// # Errors
    ///
    /// As [`validate`].
    pub(super) fn entries(mut self) -> Result<Vec<Entry<'a>>> {
        self.skip_space();
        if self.peek() != Some(b'{') {
            return Err(self.unexpected("a map without attributes"));
        }
        self.enter(0)?;
        let mut entries = Vec::new();
        loop {
            self.pos += 1;
            self.skip_space();
            if self.peek() == Some(b'}') {
                break;
            }
            let start = self.pos;
            let Some(key) = self.string()? else {
                return Err(self.unexpected("a key, which is a string"));
            };
            self.skip_space();
            if self.peek() != Some(b'=') {
                return Err(self.unexpected("`=`"));
            }
            self.pos += 1;
            let value = self.pos;
            self.node(&mut Nothing, 1)?;
            entries.push(Entry {
                key,
                pair: start..self.pos,
                value: value..self.pos,
            });
            self.skip_space();
            match self.peek() {
                Some(b';') => {}
                Some(b'}') => break,
                _ => return Err(self.unexpected("`;` or `}`")),
            }
        }
        self.pos += 1;
        self.skip_space();
        if self.pos < self.bytes.len() {
            return Err(self.unexpected("the end: a value is exactly one node"));
        }
        Ok(entries)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.pos += 1;
        }
    }

    pub(super) fn error(&self, offset: usize, reason: impl Into<String>) -> Error {
        Error::Yson {
            offset,
            reason: reason.into(),
        }
    }

    pub(super) fn unexpected(&self, expected: &str) -> Error {
        let found = match self.peek() {
            None => "the end of the bytes".to_owned(),
            Some(byte) => format!("`{}`", byte.escape_ascii()),
        };
        self.error(self.pos, format!("found {found}, expected {expected}"))
    }

    /// One value with its attributes, and the white space before it.
    fn node<V: Visitor>(&mut self, visitor: &mut V, depth: usize) -> Result<()> {
        self.skip_space();
        if self.peek() == Some(b'<') {
            self.enter(depth)?;
            visitor.begin_attributes();
            self.pairs(visitor, depth + 1, b'>')?;
            visitor.end_attributes();
            self.skip_space();
            if self.peek() == Some(b'<') {
                return Err(self.unexpected("a value: a value has at most one attribute map"));
            }
        }
        self.value(visitor, depth)
    }

    fn enter(&self, depth: usize) -> Result<()> {
        if depth >= self.limits.max_depth {
            let place = format!("YSON, byte {}: the node", self.pos);
            return Err(self.limits.too_deep(&place));
        }
        Ok(())
    }

    fn value<V: Visitor>(&mut self, visitor: &mut V, depth: usize) -> Result<()> {
        match self.peek() {
            Some(b'[') => {
                self.enter(depth)?;
                visitor.begin_list();
                self.items(visitor, depth + 1)?;
                visitor.end_list();
            }
            Some(b'{') => {
                self.enter(depth)?;
                visitor.begin_map();
                self.pairs(visitor, depth + 1, b'}')?;
                visitor.end_map();
            }
            Some(b'#') => {
                self.pos += 1;
                visitor.entity();
            }
            Some(b'%') => self.percent(visitor)?,
            Some(byte @ (4 | 5)) => {
                self.pos += 1;
                visitor.boolean(byte == 5);
            }
            Some(2) => {
                self.pos += 1;
                visitor.int64(unzigzag(self.varint()?));
            }
            Some(6) => {
                self.pos += 1;
                visitor.uint64(self.varint()?);
            }
            Some(3) => {
                self.pos += 1;
                let rest = self.bytes.get(self.pos..).unwrap_or_default();
                let Some(bytes) = rest.first_chunk() else {
                    return Err(self.error(self.bytes.len(), "a double ends early"));
                };
                self.pos += 8;
                visitor.double(f64::from_le_bytes(*bytes));
            }
            Some(b'0'..=b'9' | b'+' | b'-') => self.number(visitor)?,
            _ => match self.string()? {
                Some(string) => visitor.string(&string),
                None => return Err(self.unexpected("a value")),
            },
        }
        Ok(())
    }

    /// Items of a list, from its opening bracket to its closing one.
    fn items<V: Visitor>(&mut self, visitor: &mut V, depth: usize) -> Result<()> {
        self.pos += 1;
        loop {
            self.skip_space();
            if self.peek() == Some(b']') {
                break;
            }
            visitor.item();
            self.node(visitor, depth)?;
            self.skip_space();
            match self.peek() {
                Some(b';') => self.pos += 1,
                Some(b']') => break,
                _ => return Err(self.unexpected("`;` or `]`")),
            }
        }
        self.pos += 1;
        Ok(())
    }

    /// Keys and values of a map or attribute map, from its opening bracket to its closing one.
    fn pairs<V: Visitor>(&mut self, visitor: &mut V, depth: usize, close: u8) -> Result<()> {
        self.pos += 1;
        loop {
            self.skip_space();
            if self.peek() == Some(close) {
                break;
            }
            match self.string()? {
                Some(key) => visitor.key(&key),
                None => return Err(self.unexpected("a key, which is a string")),
            }
            self.skip_space();
            if self.peek() != Some(b'=') {
                return Err(self.unexpected("`=`"));
            }
            self.pos += 1;
            self.node(visitor, depth)?;
            self.skip_space();
            match self.peek() {
                Some(b';') => self.pos += 1,
                Some(byte) if byte == close => break,
                _ => return Err(self.unexpected("`;` or the closing bracket")),
            }
        }
        self.pos += 1;
        Ok(())
    }
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}
