//! Protobuf messages field by field, as no honest writer would put them together.

use crate::mutate::mutate;
use crate::random::Random;

/// An encoded message.
#[derive(Debug, Clone, Default)]
pub struct Message(Vec<u8>);

/// A number as protobuf writes it.
#[must_use]
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

impl Message {
    /// A message without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, field: u64, value: u64) -> Self {
        self.0.extend(varint(field << 3));
        self.0.extend(varint(value));
        self
    }

    /// Adds a number of four bytes.
    #[must_use]
    pub fn fixed32(mut self, field: u64, value: u32) -> Self {
        self.0.extend(varint(field << 3 | 5));
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds text, bytes, packed numbers or a message.
    #[must_use]
    pub fn bytes(self, field: u64, content: impl AsRef<[u8]>) -> Self {
        self.many(field, content, 1)
    }

    /// Adds the same content `times` times.
    #[must_use]
    pub fn many(mut self, field: u64, content: impl AsRef<[u8]>, times: usize) -> Self {
        let content = content.as_ref();
        let mut encoded = varint(field << 3 | 2);
        encoded.extend(varint(content.len() as u64));
        encoded.extend(content);
        self.0.extend(encoded.repeat(times));
        self
    }

    /// The bytes.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// One field of an encoded message: its key, and the range of its value; the range of all of it.
struct Part {
    key: u64,
    whole: std::ops::Range<usize>,
    value: std::ops::Range<usize>,
}

fn parts(message: &[u8]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < message.len() {
        let start = at;
        let key = read_varint(message, &mut at)?;
        let value = at;
        let len = match key & 7 {
            0 => {
                read_varint(message, &mut at)?;
                0
            }
            1 => 8,
            2 => read_varint(message, &mut at)?,
            5 => 4,
            _ => return None,
        };
        let value = if key & 7 == 2 { at } else { value };
        at = at.checked_add(usize::try_from(len).ok()?)?;
        parts.push(Part {
            key,
            whole: start..at,
            value: value..at,
        });
        message.get(..at)?;
    }
    Some(parts)
}

fn read_varint(message: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *message.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Damages one field of a message, or of a message in it: other numbers, lengths, orders, repetitions; still a message.
#[must_use]
pub fn damage_message(message: &[u8], random: &mut Random) -> Vec<u8> {
    let Some(parts) = parts(message).filter(|parts| !parts.is_empty()) else {
        let mut bytes = message.to_vec();
        mutate(&mut bytes, random);
        return bytes;
    };
    let part = random.pick(&parts);
    let content = &message[part.value.clone()];
    let field = part.key >> 3;
    let new = match (part.key & 7, random.below(10)) {
        (_, 0) => Message::new(),
        (_, 1) => {
            let whole = &message[part.whole.clone()];
            // Inputs stay small, however deep it lies.
            Message(whole.repeat((2 + random.below(40)).min(1 + 10_000 / whole.len().max(1))))
        }
        (_, 2) => Message(message[random.pick(&parts).whole.clone()].to_vec()),
        (0, _) => Message::new().number(field, random.edge()),
        (2, 3) => Message::new().number(field, random.edge()),
        (2, 4) => Message::new().bytes(field, &content[..random.below(content.len() + 1)]),
        (2, 5) => Message::new().bytes(field, content.repeat(1 + random.below(4))),
        // What reads as a message mostly is one.
        (2, way) if way < 9 => Message::new().bytes(field, damage_message(content, random)),
        _ => {
            let mut bytes = content.to_vec();
            mutate(&mut bytes, random);
            match part.key & 7 {
                2 => Message::new().bytes(field, bytes),
                _ => {
                    bytes.resize(content.len(), 0);
                    Message([varint(part.key), bytes].concat())
                }
            }
        }
    };
    let (before, behind) = (&message[..part.whole.start], &message[part.whole.end..]);
    [before, new.as_ref(), behind].concat()
}
