//! How the values of one node lie in its page: the closed set of shapes.

use arrow_schema::DataType;

use crate::error::Error;

/// The shape of a node's page, derived from its type alone.
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
    /// Nothing of its own; the children have pages.
    Struct,
}

/// The shape of a page of equally sized values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedLayout {
    /// Leaf values per row: 1, or the product of all list sizes.
    pub items: u64,
    /// Bytes per leaf value; `None` = one bit.
    pub item_bytes: Option<u64>,
}

impl FixedLayout {
    /// Bytes per row where rows begin at whole bytes.
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

fn too_wide(items: u64, bytes: u64) -> Error {
    Error::corrupt(format!("a row of {items} items of {bytes} bytes"))
}

impl Layout {
    /// The layout of a type; [`Error::Unsupported`] names the types that v1 has no page for.
    pub fn of(data_type: &DataType) -> Result<Self, Error> {
        Ok(match data_type {
            DataType::Null => Self::Null,
            DataType::Utf8 => Self::Var {
                large: false,
                utf8: true,
            },
            DataType::LargeUtf8 => Self::Var {
                large: true,
                utf8: true,
            },
            DataType::Binary => Self::Var {
                large: false,
                utf8: false,
            },
            DataType::LargeBinary => Self::Var {
                large: true,
                utf8: false,
            },
            DataType::List(_) => Self::Offsets { large: false },
            DataType::LargeList(_) => Self::Offsets { large: true },
            DataType::Struct(_) => Self::Struct,
            DataType::Dictionary(key, _) => Self::Keys {
                width: integer_width(key)
                    .ok_or_else(|| Error::unsupported(format!("dictionary index {key}")))?,
            },
            _ => Self::Fixed(fixed_layout(data_type)?),
        })
    }
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
        | DataType::Time32(_) => one(4),
        DataType::Int64
        | DataType::UInt64
        | DataType::Float64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => one(8),
        DataType::Decimal128(_, _) => one(16),
        DataType::Decimal256(_, _) => one(32),
        DataType::FixedSizeBinary(n) => one(size(*n)?),
        DataType::FixedSizeList(item, n) => {
            let inner = match item.data_type() {
                DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::Struct(_)
                | DataType::List(_)
                | DataType::LargeList(_)
                | DataType::Null
                | DataType::Dictionary(_, _) => {
                    return Err(Error::unsupported(format!(
                        "fixed_size_list of {}",
                        item.data_type()
                    )));
                }
                inner => fixed_layout(inner)?,
            };
            let items = inner
                .items
                .checked_mul(size(*n)?)
                .ok_or_else(|| too_wide(inner.items, inner.item_bytes.unwrap_or(1)))?;
            FixedLayout { items, ..inner }
        }
        other => return Err(Error::unsupported(format!("type {other}"))),
    })
}

fn size(n: i32) -> Result<u64, Error> {
    u64::try_from(n).map_err(|_| Error::invalid(format!("size {n} of a fixed-size type")))
}

/// Sizes of the nested fixed-size lists of a type, outermost first; empty for other types.
pub(crate) fn list_sizes(data_type: &DataType) -> Vec<u64> {
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
