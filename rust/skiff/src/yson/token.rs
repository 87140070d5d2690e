//! Tokens of YSON: strings of three forms, numbers as text and as binary, and the words behind `%`.

use std::borrow::Cow;

use super::read::{Reader, Visitor};
use crate::error::Result;

impl<'a> Reader<'a> {
    /// A string token of any of the three forms, or none when another token or no token begins here.
    pub(super) fn string(&mut self) -> Result<Option<Cow<'a, [u8]>>> {
        match self.peek() {
            Some(b'"') => self.quoted().map(Some),
            Some(1) => {
                let start = self.pos;
                self.pos += 1;
                let length = unzigzag32(self.varint()?);
                let Ok(length) = usize::try_from(length) else {
                    return Err(self.error(start, format!("a string of {length} bytes")));
                };
                let rest = self.bytes.get(self.pos..).unwrap_or_default();
                let Some(string) = rest.get(..length) else {
                    let reason = format!(
                        "a string of {length} bytes, of which {} are here",
                        rest.len()
                    );
                    return Err(self.error(start, reason));
                };
                self.pos += length;
                Ok(Some(Cow::Borrowed(string)))
            }
            Some(b'A'..=b'Z' | b'a'..=b'z' | b'_') => {
                let rest = self.bytes.get(self.pos..).unwrap_or_default();
                let is_part = |byte: &u8| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'%' | b'-')
                };
                let length = rest.iter().take_while(|byte| is_part(byte)).count();
                self.pos += length;
                Ok(rest.get(..length).map(Cow::Borrowed))
            }
            _ => Ok(None),
        }
    }

    fn quoted(&mut self) -> Result<Cow<'a, [u8]>> {
        let start = self.pos;
        self.pos += 1;
        let content = self.bytes.get(self.pos..).unwrap_or_default();
        let mut length = 0;
        let mut has_escape = false;
        loop {
            match content.get(length) {
                None => return Err(self.error(start, "a string without its closing quote")),
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escape = true;
                    length += 2;
                }
                Some(_) => length += 1,
            }
        }
        self.pos += length + 1;
        let content = content.get(..length).unwrap_or_default();
        Ok(if has_escape {
            Cow::Owned(super::escape::unescape(content))
        } else {
            Cow::Borrowed(content)
        })
    }

    pub(super) fn percent<V: Visitor>(&mut self, visitor: &mut V) -> Result<()> {
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        let (length, literal) = if rest.starts_with(b"%true") {
            (5, Literal::Boolean(true))
        } else if rest.starts_with(b"%false") {
            (6, Literal::Boolean(false))
        } else if rest.starts_with(b"%nan") {
            (4, Literal::Double(f64::NAN))
        } else if rest.starts_with(b"%inf") {
            (4, Literal::Double(f64::INFINITY))
        } else if rest.starts_with(b"%+inf") {
            (5, Literal::Double(f64::INFINITY))
        } else if rest.starts_with(b"%-inf") {
            (5, Literal::Double(f64::NEG_INFINITY))
        } else {
            let reason = "after `%` one of true, false, nan, inf, +inf, -inf is expected";
            return Err(self.error(self.pos, reason));
        };
        self.pos += length;
        match literal {
            Literal::Boolean(value) => visitor.boolean(value),
            Literal::Double(value) => visitor.double(value),
        }
        Ok(())
    }

    pub(super) fn number<V: Visitor>(&mut self, visitor: &mut V) -> Result<()> {
        #[derive(PartialEq)]
        enum Kind {
            Int64,
            Uint64,
            Double,
        }
        let start = self.pos;
        let mut kind = Kind::Int64;
        while let Some(byte) = self.peek() {
            match byte {
                b'0'..=b'9' | b'+' | b'-' => {}
                b'.' | b'e' | b'E' => kind = Kind::Double,
                b'u' => kind = Kind::Uint64,
                b'A'..=b'Z' | b'a'..=b'z' => {
                    return Err(self.unexpected("the rest of a number"));
                }
                _ => break,
            }
            self.pos += 1;
        }
        let literal = self.bytes.get(start..self.pos).unwrap_or_default();
        // The loop above let ASCII pass only.
        let literal = std::str::from_utf8(literal).unwrap_or_default();
        let is_read = match kind {
            Kind::Int64 => literal.parse().map(|value| visitor.int64(value)).is_ok(),
            Kind::Uint64 => {
                let digits = literal.strip_suffix('u').unwrap_or("-");
                digits.parse().map(|value| visitor.uint64(value)).is_ok()
            }
            Kind::Double => literal.parse().map(|value| visitor.double(value)).is_ok(),
        };
        if is_read {
            return Ok(());
        }
        let what = match kind {
            Kind::Int64 => "an int64",
            Kind::Uint64 => "a uint64",
            Kind::Double => "a double",
        };
        let shown: String = literal.chars().take(40).collect();
        Err(self.error(start, format!("`{shown}` is not {what}")))
    }

    pub(super) fn varint(&mut self) -> Result<u64> {
        let start = self.pos;
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let Some(byte) = self.peek() else {
                return Err(self.error(self.pos, "a binary number ends early"));
            };
            self.pos += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(start, "a binary number of more than 10 bytes"))
    }
}

enum Literal {
    Boolean(bool),
    Double(f64),
}

/// Length of a binary string: the format keeps the low 32 bits.
fn unzigzag32(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    let value = u32::from_le_bytes([a, b, c, d]);
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}
