//! Arrays of ids: differences to their minimum, two or four bytes wide where that is enough.

use crate::error::{Error, Result};
use crate::proto::table as proto;
use crate::proto::table::encoded_u64_array::{Array, U16Array, U32Array, U64Array};

/// Ids in the narrowest of three widths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdArray {
    U16 { base: u64, offsets: Vec<u16> },
    U32 { base: u64, offsets: Vec<u32> },
    U64(Vec<u64>),
}

impl IdArray {
    /// The narrowest array of `values`, whose smallest and largest are known.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the spread was compared with the width"
    )]
    pub(super) fn new(values: impl Iterator<Item = u64>, min: u64, max: u64) -> Self {
        let spread = max.saturating_sub(min);
        if spread <= u64::from(u16::MAX) {
            Self::U16 {
                base: min,
                offsets: values.map(|value| (value - min) as u16).collect(),
            }
        } else if spread <= u64::from(u32::MAX) {
            Self::U32 {
                base: min,
                offsets: values.map(|value| (value - min) as u32).collect(),
            }
        } else {
            Self::U64(values.collect())
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::U16 { offsets, .. } => offsets.len(),
            Self::U32 { offsets, .. } => offsets.len(),
            Self::U64(values) => values.len(),
        }
    }

    /// The value at `index`; decoding made sure that no sum overflows.
    pub(super) fn get(&self, index: usize) -> Option<u64> {
        match self {
            Self::U16 { base, offsets } => Some(base + u64::from(*offsets.get(index)?)),
            Self::U32 { base, offsets } => Some(base + u64::from(*offsets.get(index)?)),
            Self::U64(values) => values.get(index).copied(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// In ascending values: how many are less than `value`.
    pub(super) fn partition_point(&self, value: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(|found| found < value) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub(super) fn is_ascending(&self) -> bool {
        let mut values = self.iter();
        let Some(mut last) = values.next() else {
            return true;
        };
        values.all(|value| std::mem::replace(&mut last, value) < value)
    }

    pub(super) fn decode(array: proto::EncodedU64Array) -> Result<Self> {
        let whole = |bytes: &[u8], width: usize| {
            if bytes.len().is_multiple_of(width) {
                return Ok(());
            }
            Err(Error::corrupt(format!(
                "an id array of {} bytes is no multiple of {width}",
                bytes.len()
            )))
        };
        let decoded = match array.array {
            Some(Array::U16Array(U16Array { base, offsets })) => {
                whole(&offsets, 2)?;
                let (offsets, _) = offsets.as_chunks::<2>();
                let offsets = offsets
                    .iter()
                    .map(|bytes| u16::from_le_bytes(*bytes))
                    .collect();
                Self::U16 { base, offsets }
            }
            Some(Array::U32Array(U32Array { base, offsets })) => {
                whole(&offsets, 4)?;
                let (offsets, _) = offsets.as_chunks::<4>();
                let offsets = offsets
                    .iter()
                    .map(|bytes| u32::from_le_bytes(*bytes))
                    .collect();
                Self::U32 { base, offsets }
            }
            Some(Array::U64Array(U64Array { values })) => {
                whole(&values, 8)?;
                let (values, _) = values.as_chunks::<8>();
                Self::U64(
                    values
                        .iter()
                        .map(|bytes| u64::from_le_bytes(*bytes))
                        .collect(),
                )
            }
            // An empty message is what an empty 16 bit array at base 0 may be left as.
            None => Self::U16 {
                base: 0,
                offsets: Vec::new(),
            },
        };
        let (base, largest) = match &decoded {
            Self::U16 { base, offsets } => (*base, offsets.iter().max().map(|max| u64::from(*max))),
            Self::U32 { base, offsets } => (*base, offsets.iter().max().map(|max| u64::from(*max))),
            Self::U64(_) => (0, None),
        };
        if base.checked_add(largest.unwrap_or_default()).is_none() {
            return Err(Error::corrupt("an id array exceeds 64 bits"));
        }
        Ok(decoded)
    }

    pub(super) fn encode(&self) -> proto::EncodedU64Array {
        let array = match self {
            Self::U16 { base, offsets } => {
                let offsets: Vec<u8> = offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
                Array::U16Array(U16Array {
                    base: *base,
                    offsets: offsets.into(),
                })
            }
            Self::U32 { base, offsets } => {
                let offsets: Vec<u8> = offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
                Array::U32Array(U32Array {
                    base: *base,
                    offsets: offsets.into(),
                })
            }
            Self::U64(values) => {
                let values: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                Array::U64Array(U64Array {
                    values: values.into(),
                })
            }
        };
        proto::EncodedU64Array { array: Some(array) }
    }
}
