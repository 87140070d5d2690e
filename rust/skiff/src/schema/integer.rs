//! Integers up to 64 bits that are read from and written to the wire with a check of their range.

use std::fmt;

use arrow_schema::DataType;

use super::node::WireType;

/// An integer type, of the wire or of Arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Integer {
    pub(crate) bytes: usize,
    pub(crate) is_signed: bool,
}

impl Integer {
    const fn new(bytes: usize, is_signed: bool) -> Self {
        Self { bytes, is_signed }
    }

    pub(crate) fn of_wire(wire: WireType) -> Option<Self> {
        Some(match wire {
            WireType::Int8 => Self::new(1, true),
            WireType::Int16 => Self::new(2, true),
            WireType::Int32 => Self::new(4, true),
            WireType::Int64 => Self::new(8, true),
            WireType::Uint8 => Self::new(1, false),
            WireType::Uint16 => Self::new(2, false),
            WireType::Uint32 => Self::new(4, false),
            WireType::Uint64 => Self::new(8, false),
            _ => return None,
        })
    }

    /// The integer that an Arrow value is stored as. Times are their number in the unit of their type.
    pub(crate) fn of_arrow(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 => Self::new(1, true),
            DataType::Int16 => Self::new(2, true),
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Self::new(4, true),
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_) => Self::new(8, true),
            DataType::UInt8 => Self::new(1, false),
            DataType::UInt16 => Self::new(2, false),
            DataType::UInt32 => Self::new(4, false),
            DataType::UInt64 => Self::new(8, false),
            _ => return None,
        })
    }

    /// The number of little-endian bytes.
    pub(crate) fn read(self, bytes: &[u8]) -> i128 {
        let is_negative = self.is_signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 16];
        for (to, from) in wide.iter_mut().zip(bytes) {
            *to = *from;
        }
        i128::from_le_bytes(wide)
    }

    /// True when every number of `other` has a form in this type.
    pub(crate) fn holds_all(self, other: Self) -> bool {
        let bits = other.bytes * 8;
        if other.is_signed {
            self.holds(-(1_i128 << (bits - 1))) && self.holds((1_i128 << (bits - 1)) - 1)
        } else {
            self.holds((1_i128 << bits) - 1)
        }
    }

    /// True when the number has a form in this type.
    pub(crate) fn holds(self, value: i128) -> bool {
        let bits = self.bytes * 8;
        if self.is_signed {
            (-(1_i128 << (bits - 1))..1_i128 << (bits - 1)).contains(&value)
        } else {
            (0..1_i128 << bits).contains(&value)
        }
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_signed { "" } else { "u" };
        write!(f, "{sign}int{}", self.bytes * 8)
    }
}
