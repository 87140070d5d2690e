//! Protobuf messages field by field, as no honest writer would put them together.

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
