//! Reading the values of any Arrow array that holds bytes or text, without a copy.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};
use arrow_array::{Array, FixedSizeBinaryArray, GenericByteArray, GenericByteViewArray};
use arrow_schema::DataType;

use crate::error::{Error, Result};

/// An array of bytes or text of any layout.
#[derive(Debug)]
pub(crate) enum BytesArray<'a> {
    Binary(&'a GenericByteArray<BinaryType>),
    LargeBinary(&'a GenericByteArray<LargeBinaryType>),
    Utf8(&'a GenericByteArray<Utf8Type>),
    LargeUtf8(&'a GenericByteArray<LargeUtf8Type>),
    BinaryView(&'a GenericByteViewArray<BinaryViewType>),
    Utf8View(&'a GenericByteViewArray<StringViewType>),
    Fixed(&'a FixedSizeBinaryArray),
}

impl<'a> BytesArray<'a> {
    pub(crate) fn try_new(array: &'a dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Binary => Self::Binary(array.as_bytes()),
            DataType::LargeBinary => Self::LargeBinary(array.as_bytes()),
            DataType::Utf8 => Self::Utf8(array.as_bytes()),
            DataType::LargeUtf8 => Self::LargeUtf8(array.as_bytes()),
            DataType::BinaryView => Self::BinaryView(array.as_byte_view()),
            DataType::Utf8View => Self::Utf8View(array.as_byte_view()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary()),
            other => {
                let name = crate::arrow_name::arrow_name(other);
                return Err(Error::unsupported(
                    "the array",
                    format!("it holds {name}; binary or string is needed"),
                ));
            }
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Binary(array) => array,
            Self::LargeBinary(array) => array,
            Self::Utf8(array) => array,
            Self::LargeUtf8(array) => array,
            Self::BinaryView(array) => array,
            Self::Utf8View(array) => array,
            Self::Fixed(array) => array,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.array().len()
    }

    /// The bytes of a row, whether or not the row is null.
    #[inline]
    pub(crate) fn bytes(&self, row: usize) -> &'a [u8] {
        match self {
            Self::Binary(array) => array.value(row),
            Self::LargeBinary(array) => array.value(row),
            Self::Utf8(array) => array.value(row).as_bytes(),
            Self::LargeUtf8(array) => array.value(row).as_bytes(),
            Self::BinaryView(array) => array.value(row),
            Self::Utf8View(array) => array.value(row).as_bytes(),
            Self::Fixed(array) => array.value(row),
        }
    }

    /// The bytes of a row, or none for a null.
    pub(crate) fn value(&self, row: usize) -> Option<&'a [u8]> {
        self.array().is_valid(row).then(|| self.bytes(row))
    }
}
