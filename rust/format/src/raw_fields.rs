//! Fields of an encoded message one by one: the little of protobuf's wire format that the generated code does not give.
//!
//! What is walked takes no memory, so that a reader can look at a message before it decodes it, or decode a long list part
//! by part. Our schemas know no groups: they are refused.

use std::ops::Range;

/// One field of an encoded message: its number and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawField {
    /// The number of the field.
    pub number: u64,
    /// Key, length and value.
    pub whole: Range<usize>,
    /// The value: a varint, the four or eight bytes of a fixed number, or the content of a length-delimited field.
    pub value: Range<usize>,
}

/// A message that is no list of fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {position} of the message")]
pub struct Malformed {
    /// What is wrong.
    pub reason: &'static str,
    /// Where, from the start of the message.
    pub position: usize,
}

/// The fields of a message at its top level, in their order. It ends after the first error.
#[derive(Debug, Clone)]
pub struct RawFields<'a> {
    message: &'a [u8],
    position: usize,
}

impl<'a> RawFields<'a> {
    /// Walks over `message`.
    #[must_use]
    pub fn new(message: &'a [u8]) -> Self {
        Self {
            message,
            position: 0,
        }
    }

    fn field(&mut self) -> Result<RawField, Malformed> {
        let start = self.position;
        let key = self.varint()?;
        let value_start = self.position;
        let len = match key & 7 {
            0 => {
                self.varint()?;
                let value = value_start..self.position;
                return Ok(self.raw(key, start, value));
            }
            1 => 8,
            2 => self.varint()?,
            5 => 4,
            _ => return Err(self.malformed("an unknown wire type")),
        };
        let value_start = self.position;
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| value_start.checked_add(len))
            .filter(|end| *end <= self.message.len());
        self.position =
            end.ok_or_else(|| self.malformed("a field that ends beyond its message"))?;
        Ok(self.raw(key, start, value_start..self.position))
    }

    fn raw(&self, key: u64, start: usize, value: Range<usize>) -> RawField {
        RawField {
            number: key >> 3,
            whole: start..self.position,
            value,
        }
    }

    fn malformed(&self, reason: &'static str) -> Malformed {
        Malformed {
            reason,
            position: self.position,
        }
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.message.get(self.position).copied();
            let byte = byte.ok_or_else(|| self.malformed("a cut varint"))?;
            self.position += 1;
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed("a varint without end"))
    }
}

impl Iterator for RawFields<'_> {
    type Item = Result<RawField, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.message.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.position = self.message.len();
        }
        Some(field)
    }
}

/// The message without the fields of some numbers, which a reader decodes one by one.
///
/// # Errors
/// When it is no list of fields.
pub fn without_fields(message: &[u8], numbers: &[u64]) -> Result<Vec<u8>, Malformed> {
    let stays = |field: &RawField| !numbers.contains(&field.number);
    let mut num_bytes = 0;
    for field in RawFields::new(message) {
        let field = field?;
        num_bytes += if stays(&field) { field.whole.len() } else { 0 };
    }
    let mut rest = Vec::with_capacity(num_bytes);
    for field in RawFields::new(message).flatten().filter(stays) {
        rest.extend_from_slice(&message[field.whole]);
    }
    Ok(rest)
}

/// The contents of the fields of one number.
///
/// # Errors
/// In the place of a field, when the message is no list of fields.
pub fn contents(
    message: &[u8],
    number: u64,
) -> impl Iterator<Item = Result<Range<usize>, Malformed>> + '_ {
    RawFields::new(message).filter_map(move |field| match field {
        Ok(field) => (field.number == number).then_some(Ok(field.value)),
        Err(error) => Some(Err(error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_where_they_lie() {
        // 1: varint 300; 2: "ab"; 3: fixed32; 4: fixed64; 2: "".
        let message = [
            &[0x08, 0xac, 0x02][..],
            &[0x12, 2, b'a', b'b'],
            &[0x1d, 1, 2, 3, 4],
            &[0x21, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x12, 0],
        ]
        .concat();
        let fields: Vec<_> = RawFields::new(&message).map(Result::unwrap).collect();
        let numbers: Vec<_> = fields.iter().map(|field| field.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 2]);
        let values: Vec<_> = fields.iter().map(|field| field.value.clone()).collect();
        assert_eq!(values, [1..3, 5..7, 8..12, 13..21, 23..23]);
        assert_eq!(fields[2].whole, 7..12);
        let texts: Vec<_> = contents(&message, 2).map(Result::unwrap).collect();
        assert_eq!(texts, [5..7, 23..23]);
        let rest = without_fields(&message, &[2, 4]).unwrap();
        assert_eq!(rest, [0x08, 0xac, 0x02, 0x1d, 1, 2, 3, 4]);
    }

    #[test]
    fn malformed_messages_end_the_walk() {
        for (message, reason) in [
            (&[0x08][..], "a cut varint"),
            (&[0x80; 11], "a varint without end"),
            (&[0x12, 5, 0], "a field that ends beyond its message"),
            (
                &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
                "a field that ends beyond its message",
            ),
            (&[0x1d, 1], "a field that ends beyond its message"),
            (&[0x0b], "an unknown wire type"),
            (&[0x0e, 0], "an unknown wire type"),
        ] {
            let mut fields = RawFields::new(message);
            assert_eq!(fields.next().unwrap().unwrap_err().reason, reason);
            assert!(fields.next().is_none());
            assert!(without_fields(message, &[]).is_err());
            assert!(contents(message, 9).next().unwrap().is_err());
        }
    }
}
