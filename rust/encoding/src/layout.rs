//! The layout of a node's page, derived from its Arrow type: a closed set (`docs/format.md`, section 3).

use arrow_schema::{DataType, Field, IntervalUnit};
use pilum_common::type_name;

use crate::error::Error;

/// The layout of a node's page, derived from its type alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// No bytes.
    Null,
    /// Values of equal size: also fixed-size lists, flattened.
    Fixed(FixedLayout),
    /// Bytes, then 8-byte absolute offsets.
    Var {
        /// Arrow offsets are 64 bits wide.
        large: bool,
        /// Values must be UTF-8.
        utf8: bool,
    },
    /// Offsets of a list into its child's page.
    Offsets {
        /// 8 bytes per offset instead of 4.
        large: bool,
    },
    /// Keys into dictionary values that are stored elsewhere.
    Keys {
        /// Bytes per key.
        width: u64,
    },
    /// No bytes of its own; the children have pages.
    Struct,
    /// A fixed-size list whose items have a page: no bytes of its own.
    Items {
        /// Items per list.
        size: u64,
    },
}

/// The layout of a page of equally sized values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedLayout {
    /// Leaf values per row: 1, or the product of all list sizes.
    pub items: u64,
    /// Bytes per leaf value; `None` = one bit.
    pub item_bytes: Option<u64>,
}

impl FixedLayout {
    /// Bytes per row where rows begin at whole bytes; `None` for values of one bit.
    ///
    /// # Errors
    /// `Corrupt` for a row of 2^64 bytes or more.
    pub fn row_bytes(self) -> Result<Option<u64>, Error> {
        self.item_bytes
            .map(|bytes| {
                bytes
                    .checked_mul(self.items)
                    .ok_or_else(|| too_wide(self.items, bytes))
            })
            .transpose()
    }
}

/// Whether a list type has offsets of 8 bytes and not of 4.
///
/// # Errors
/// `InvalidInput` for a type that has no offsets of its own (not merely nested ones).
pub(crate) fn has_large_offsets(data_type: &DataType) -> Result<bool, Error> {
    match Layout::of(data_type)? {
        Layout::Offsets { large } => Ok(large),
        _ => Err(Error::invalid(format!(
            "{} is no list",
            type_name(data_type)
        ))),
    }
}

fn too_wide(items: u64, bytes: u64) -> Error {
    Error::corrupt(format!("a row of {items} items of {bytes} bytes"))
}

impl Layout {
    /// The layout of a type.
    ///
    /// # Errors
    /// `Unsupported` names a type that has no page.
    pub fn of(data_type: &DataType) -> Result<Self, Error> {
        Ok(match data_type {
            DataType::Null => Self::Null,
            DataType::Utf8 | DataType::Utf8View => Self::Var {
                large: false,
                utf8: true,
            },
            DataType::LargeUtf8 => Self::Var {
                large: true,
                utf8: true,
            },
            DataType::Binary | DataType::BinaryView => Self::Var {
                large: false,
                utf8: false,
            },
            DataType::LargeBinary => Self::Var {
                large: true,
                utf8: false,
            },
            DataType::List(_) | DataType::ListView(_) => Self::Offsets { large: false },
            DataType::LargeList(_) | DataType::LargeListView(_) => Self::Offsets { large: true },
            DataType::Map(entries, _) => {
                check_entries(entries)?;
                Self::Offsets { large: false }
            }
            DataType::Struct(_) => Self::Struct,
            DataType::FixedSizeList(item, n) if !is_flat(item.data_type()) => {
                Self::of(item.data_type())?;
                Self::Items { size: size(*n)? }
            }
            DataType::Dictionary(key, _) => Self::Keys {
                width: integer_width(key).ok_or_else(|| {
                    Error::unsupported(format!("dictionary index {}", type_name(key)))
                })?,
            },
            _ => Self::Fixed(fixed_layout(data_type)?),
        })
    }
}

/// A map is a list of pairs, and neither a pair nor its key is ever null.
fn check_entries(entries: &Field) -> Result<(), Error> {
    match entries.data_type() {
        DataType::Struct(pair)
            if pair.len() == 2 && !entries.is_nullable() && !pair[0].is_nullable() =>
        {
            Ok(())
        }
        other => Err(Error::unsupported(format!(
            "map with entries of {}: a map has a key and a value, pair and key without nulls",
            type_name(other)
        ))),
    }
}

/// Values of one size, or fixed-size lists of such values: they are stored flattened in one page.
pub(crate) fn is_flat(data_type: &DataType) -> bool {
    let mut current = data_type;
    while let DataType::FixedSizeList(item, _) = current {
        current = item.data_type();
    }
    matches!(current, DataType::Boolean | DataType::FixedSizeBinary(_))
        || current.is_numeric()
        || current.is_temporal()
}

fn integer_width(data_type: &DataType) -> Option<u64> {
    if data_type.is_dictionary_key_type() {
        data_type.primitive_width().map(|w| w as u64)
    } else {
        None
    }
}

/// The sizes of a fixed-size type, lists flattened.
pub(crate) fn fixed_layout(data_type: &DataType) -> Result<FixedLayout, Error> {
    let one = |bytes: u64| FixedLayout {
        items: 1,
        item_bytes: Some(bytes),
    };
    Ok(match data_type {
        DataType::Boolean => FixedLayout {
            items: 1,
            item_bytes: None,
        },
        DataType::Int8 | DataType::UInt8 => one(1),
        DataType::Int16 | DataType::UInt16 | DataType::Float16 => one(2),
        DataType::Int32
        | DataType::UInt32
        | DataType::Float32
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Decimal32(_, _)
        | DataType::Interval(IntervalUnit::YearMonth) => one(4),
        DataType::Int64
        | DataType::UInt64
        | DataType::Float64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Decimal64(_, _)
        | DataType::Interval(IntervalUnit::DayTime) => one(8),
        DataType::Decimal128(_, _) | DataType::Interval(IntervalUnit::MonthDayNano) => one(16),
        DataType::Decimal256(_, _) => one(32),
        DataType::FixedSizeBinary(n) => one(size(*n)?),
        DataType::FixedSizeList(item, n) => {
            let inner = fixed_layout(item.data_type())?;
            let items = inner
                .items
                .checked_mul(size(*n)?)
                .ok_or_else(|| too_wide(inner.items, inner.item_bytes.unwrap_or(1)))?;
            FixedLayout { items, ..inner }
        }
        other => return Err(Error::unsupported(format!("type {}", type_name(other)))),
    })
}

fn size(n: i32) -> Result<u64, Error> {
    u64::try_from(n).map_err(|_| Error::invalid(format!("size {n} of a fixed-size type")))
}

/// Sizes of the nested fixed-size lists of a flattened type, outermost first; empty for other types.
pub(crate) fn list_sizes(data_type: &DataType) -> Vec<u64> {
    if !is_flat(data_type) {
        return Vec::new();
    }
    let (mut sizes, mut current) = (Vec::new(), data_type);
    while let DataType::FixedSizeList(item, n) = current {
        // Negative sizes are refused by `fixed_layout`, which every path takes first.
        sizes.push(u64::try_from(*n).unwrap_or(0));
        current = item.data_type();
    }
    sizes
}

/// Bytes per row of a type with whole-byte rows of one size, `None` for all others (bits included).
pub fn fixed_width(data_type: &DataType) -> Option<u64> {
    match Layout::of(data_type).ok()? {
        Layout::Fixed(fixed) => fixed.row_bytes().ok()?,
        Layout::Keys { width } => Some(width),
        _ => None,
    }
}
