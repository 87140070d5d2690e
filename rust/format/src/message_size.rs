//! The memory that a message takes once it is decoded, measured before decoding: a field of two bytes can become a struct of
//! hundreds of bytes.

use crate::raw_fields::{Malformed, RawFields};

/// The parts of a message that grow with its bytes; parts that are not listed take no memory of their own.
#[derive(Debug)]
pub struct Shape(pub &'static [(u64, Part)]);

/// One field of a message.
#[derive(Debug)]
pub enum Part {
    /// Messages of so many bytes in memory, one for each occurrence, beside what lies below them.
    Message(usize, &'static Shape),
    /// The same, into a vector that was made large enough before (see [`count_fields`]).
    Counted(usize, &'static Shape),
    /// Varints, packed or not, of so many bytes in memory.
    Numbers(usize),
    /// Strings, bytes and map entries: so many bytes in memory for each occurrence, beside the content.
    Bytes(usize),
}

/// A growing vector holds up to three times its content while it moves.
const GROWTH: u64 = 3;

/// A field of a schema.
const FIELD: Shape = Shape(&[
    (2, Part::Bytes(0)),
    (5, Part::Bytes(0)),
    (9, Part::Bytes(0)),
    (10, MAP_ENTRY),
]);
/// An entry of a map of strings or bytes.
pub(crate) const MAP_ENTRY: Part = Part::Bytes(size_of::<(String, bytes::Bytes)>());
/// Fields of a schema.
pub(crate) const FIELDS: Part = Part::Counted(size_of::<crate::proto::file::Field>(), &FIELD);

/// The footer metadata of a data file without its statistics, which are decoded when they are asked for.
pub const METADATA: Shape = Shape(&[(2, Part::Numbers(4))]);
/// The manifest that a data file embeds for its schema.
pub const EMBEDDED_MANIFEST: Shape = Shape(&[(1, FIELDS), (5, MAP_ENTRY)]);
const EXTENT: Shape = Shape(&[(3, Part::Bytes(0))]);
const EXTENTS: Part = Part::Message(0, &EXTENT);
/// The extension block of a data file.
pub const EXTENSION: Shape = Shape(&[
    (3, EXTENTS),
    (4, EXTENTS),
    (5, EXTENTS),
    (6, EXTENTS),
    (7, EXTENTS),
]);
const VALIDITY: Shape = Shape(&[(2, EXTENTS)]);
const PAGE: Shape = Shape(&[(
    5,
    Part::Message(size_of::<crate::proto::pilum::Validity>(), &VALIDITY),
)]);
/// A column record of the extension block.
pub const COLUMN: Shape = Shape(&[(
    1,
    Part::Message(size_of::<crate::proto::pilum::PageExtension>(), &PAGE),
)]);

/// Bytes of memory that a field of a schema takes once it is decoded.
///
/// # Errors
/// When the message is no list of fields.
pub fn field_bytes(message: &[u8]) -> Result<u64, Malformed> {
    Ok(FIELD.num_bytes(message)? + size_of::<crate::proto::file::Field>() as u64)
}

impl Shape {
    /// The shape of the messages in a field, if they have one.
    #[must_use]
    pub fn below(&self, number: u64) -> Option<&'static Self> {
        match self.0.iter().find(|(it, _)| *it == number)? {
            (_, Part::Message(_, shape) | Part::Counted(_, shape)) => Some(shape),
            _ => None,
        }
    }

    /// Bytes of memory that decoding `message` takes at most.
    ///
    /// # Errors
    /// When it is no list of fields.
    pub fn num_bytes(&self, message: &[u8]) -> Result<u64, Malformed> {
        self.num_bytes_up_to(message, u64::MAX)
    }

    /// As [`num_bytes`](Self::num_bytes), without looking further once it is more than `most`.
    ///
    /// # Errors
    /// When it is no list of fields, as far as it was looked at.
    pub fn num_bytes_up_to(&self, message: &[u8], most: u64) -> Result<u64, Malformed> {
        let mut sum = 0_u64;
        for field in RawFields::new(message) {
            if sum > most {
                break;
            }
            let field = field?;
            let Some((_, part)) = self.0.iter().find(|(it, _)| *it == field.number) else {
                continue;
            };
            let content = &message[field.value];
            let len = content.len() as u64;
            sum = sum.saturating_add(match part {
                Part::Message(size, shape) => {
                    (*size as u64 * GROWTH).saturating_add(shape.num_bytes(content)?)
                }
                Part::Counted(size, shape) => {
                    (*size as u64).saturating_add(shape.num_bytes(content)?)
                }
                Part::Numbers(width) => {
                    let ends = content.iter().filter(|byte| **byte < 0x80).count() as u64;
                    ends * *width as u64 * GROWTH
                }
                Part::Bytes(size) => *size as u64 * GROWTH + len,
            });
        }
        Ok(sum)
    }
}

/// How often a message has a field at its top level; up to where it breaks.
#[must_use]
pub fn count_fields(message: &[u8], number: u64) -> usize {
    RawFields::new(message)
        .flatten()
        .filter(|field| field.number == number)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::file as proto;
    use prost::Message;

    #[test]
    fn honest_messages_take_little_and_tiny_parts_add_up() {
        let field = |id: i32| proto::Field {
            name: format!("a column with number {id}"),
            id,
            logical_type: "int64".to_owned(),
            ..Default::default()
        };
        let honest = proto::EmbeddedManifest {
            fields: (0..1000).map(field).collect(),
            ..Default::default()
        };
        let bytes = honest.encode_to_vec();
        let num_bytes = EMBEDDED_MANIFEST.num_bytes(&bytes).unwrap();
        let expected = 1000 * (size_of::<proto::Field>() as u64 + 31);
        assert!(num_bytes.abs_diff(expected) < 3000, "{num_bytes}");
        let tiny = [0x0a, 0].repeat(1000);
        let least = 1000 * size_of::<proto::Field>() as u64;
        assert_eq!(EMBEDDED_MANIFEST.num_bytes(&tiny), Ok(least));
        assert_eq!(count_fields(&tiny, 1), 1000);
        // Packed numbers of one byte are four each in memory.
        let offsets = proto::Metadata {
            batch_offsets: vec![1; 1000],
            ..Default::default()
        };
        assert_eq!(METADATA.num_bytes(&offsets.encode_to_vec()), Ok(12_000));
        assert_eq!(METADATA.num_bytes(&[0x10, 1].repeat(20)), Ok(20 * 12));
        assert!(METADATA.num_bytes(&[0x12, 0xff]).is_err());
        // Enough is enough: what follows is not looked at.
        let broken = [[0x10, 1].repeat(20), vec![0x12, 0xff]].concat();
        assert_eq!(METADATA.num_bytes_up_to(&broken, 100), Ok(9 * 12));
    }
}
