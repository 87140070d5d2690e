//! The wire tree: which bytes a value has. Names do not influence the bytes.

use std::fmt;
use std::sync::Arc;

/// How a value is laid out on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireType {
    /// No bytes.
    Nothing,
    /// One byte, 0 or 1.
    Boolean,
    /// Two's complement, 1 byte.
    Int8,
    /// Two's complement, 2 bytes, little-endian like all that follow.
    Int16,
    /// Two's complement, 4 bytes.
    Int32,
    /// Two's complement, 8 bytes.
    Int64,
    /// Two's complement, 16 bytes.
    Int128,
    /// Two's complement, 32 bytes.
    Int256,
    /// Unsigned, 1 byte.
    Uint8,
    /// Unsigned, 2 bytes.
    Uint16,
    /// Unsigned, 4 bytes.
    Uint32,
    /// Unsigned, 8 bytes.
    Uint64,
    /// Unsigned, 16 bytes.
    Uint128,
    /// Unsigned, 32 bytes.
    Uint256,
    /// IEEE 754 binary64.
    Double,
    /// A length of 4 bytes, then bytes.
    String32,
    /// A length of 4 bytes, then one YSON node.
    Yson32,
    /// The children in order.
    Tuple,
    /// A tag of 1 byte, then the child of this number.
    Variant8,
    /// A tag of 2 bytes, then the child of this number.
    Variant16,
    /// Any number of tags of 1 byte with the child of this number, then `FF`.
    RepeatedVariant8,
    /// Any number of tags of 2 bytes with the child of this number, then `FF FF`.
    RepeatedVariant16,
}

/// Names of the newest library head that table formats do not use; no released client accepts them.
const UNSUPPORTED: [&str; 7] = [
    "float",
    "var_int32",
    "var_int64",
    "string_var",
    "string_fixed",
    "variant_var",
    "repeated_block_var",
];

impl WireType {
    const ALL: [Self; 22] = [
        Self::Nothing,
        Self::Boolean,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Int128,
        Self::Int256,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Uint128,
        Self::Uint256,
        Self::Double,
        Self::String32,
        Self::Yson32,
        Self::Tuple,
        Self::Variant8,
        Self::Variant16,
        Self::RepeatedVariant8,
        Self::RepeatedVariant16,
    ];

    /// The name in schemas.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Boolean => "boolean",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Int128 => "int128",
            Self::Int256 => "int256",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Uint128 => "uint128",
            Self::Uint256 => "uint256",
            Self::Double => "double",
            Self::String32 => "string32",
            Self::Yson32 => "yson32",
            Self::Tuple => "tuple",
            Self::Variant8 => "variant8",
            Self::Variant16 => "variant16",
            Self::RepeatedVariant8 => "repeated_variant8",
            Self::RepeatedVariant16 => "repeated_variant16",
        }
    }

    /// The type of a name, matched exactly, or why there is none.
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|wire| wire.name() == name).ok_or_else(|| {
            if UNSUPPORTED.contains(&name) {
                format!("unsupported wire type `{name}`: table formats and released clients do not use it")
            } else {
                format!("unknown wire type `{name}`")
            }
        })
    }

    /// True for tuples and all variants, which have children.
    #[must_use]
    pub fn is_complex(self) -> bool {
        matches!(
            self,
            Self::Tuple
                | Self::Variant8
                | Self::Variant16
                | Self::RepeatedVariant8
                | Self::RepeatedVariant16
        )
    }

    /// True where tags have 2 bytes.
    pub(crate) fn is_wide(self) -> bool {
        matches!(self, Self::Variant16 | Self::RepeatedVariant16)
    }
}

impl fmt::Display for WireType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A node of the wire tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WireNode {
    /// The layout.
    pub wire_type: WireType,
    /// The name; empty when there is none.
    pub name: String,
    /// The children of a complex type.
    pub children: Vec<Arc<WireNode>>,
}

impl WireNode {
    /// A node without children.
    #[must_use]
    pub fn simple(wire_type: WireType) -> Self {
        Self::complex(wire_type, Vec::new())
    }

    /// A node with children.
    #[must_use]
    pub fn complex(wire_type: WireType, children: Vec<Arc<Self>>) -> Self {
        Self {
            wire_type,
            name: String::new(),
            children,
        }
    }

    /// `variant8<nothing; node>`.
    #[must_use]
    pub fn optional(node: Self) -> Self {
        let nothing = Self::simple(WireType::Nothing);
        Self::complex(WireType::Variant8, vec![Arc::new(nothing), Arc::new(node)])
    }

    /// The same node under a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The value of an optional, which is `variant8<nothing; value>` exactly.
    #[must_use]
    pub fn optional_value(&self) -> Option<&Self> {
        match self.children.as_slice() {
            [nothing, value]
                if self.wire_type == WireType::Variant8
                    && nothing.wire_type == WireType::Nothing =>
            {
                Some(value)
            }
            _ => None,
        }
    }
}

impl fmt::Display for WireNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(value) = self.optional_value() {
            return write!(f, "optional<{value}>");
        }
        f.write_str(self.wire_type.name())?;
        if !self.wire_type.is_complex() {
            return Ok(());
        }
        f.write_str("<")?;
        for (number, child) in self.children.iter().enumerate() {
            if number > 0 {
                f.write_str("; ")?;
            }
            if !child.name.is_empty() {
                write!(f, "{}: ", child.name)?;
            }
            write!(f, "{child}")?;
        }
        f.write_str(">")
    }
}
