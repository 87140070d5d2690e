//! Conversions between the layouts of text and bytes.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, StringArray, StringViewArray,
    builder::{BinaryBuilder, BinaryViewBuilder, LargeBinaryBuilder},
    cast::AsArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType};

/// `string`, `large_string` and `string_view`.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// `binary`, `large_binary`, `binary_view` and `fixed_size_binary`.
pub(crate) fn is_binary(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

/// Why a value was refused, for messages.
pub(crate) fn reason(to: &DataType) -> String {
    match to {
        DataType::FixedSizeBinary(size) => format!("it has not {size} bytes"),
        to if is_text(to) => "its bytes are not UTF-8".to_owned(),
        _ => "all values together exceed the 2 GiB that 32 bit offsets reach; use the large type"
            .to_owned(),
    }
}

/// Reads the bytes of each row.
pub(crate) fn reader<'a>(array: &'a dyn Array) -> Option<Box<dyn Fn(usize) -> &'a [u8] + 'a>> {
    macro_rules! read {
        ($values:expr) => {{
            let values = $values;
            Box::new(move |row: usize| AsRef::<[u8]>::as_ref(values.value(row)))
        }};
    }
    Some(match array.data_type() {
        DataType::Utf8 => read!(array.as_string_opt::<i32>()?),
        DataType::LargeUtf8 => read!(array.as_string_opt::<i64>()?),
        DataType::Utf8View => read!(array.as_string_view_opt()?),
        DataType::Binary => read!(array.as_binary_opt::<i32>()?),
        DataType::LargeBinary => read!(array.as_binary_opt::<i64>()?),
        DataType::BinaryView => read!(array.as_binary_view_opt()?),
        DataType::FixedSizeBinary(_) => read!(array.as_fixed_size_binary_opt()?),
        _ => return None,
    })
}

/// Converts text and bytes.
///
/// # Errors
/// The first row whose value the type does not hold; row 0 for other types.
pub(crate) fn texts(
    array: &dyn Array,
    to: &DataType,
    valid: Option<&NullBuffer>,
) -> Result<ArrayRef, usize> {
    let read = reader(array).ok_or(0_usize)?;
    let rows = array.len();
    let is_valid = |row: usize| valid.is_none_or(|valid| valid.is_valid(row));
    let values = (0..rows).map(|row| is_valid(row).then(|| read(row)));
    if is_text(to) && !is_text(array.data_type()) {
        let broken = |bytes: Option<&[u8]>| bytes.is_some_and(|b| std::str::from_utf8(b).is_err());
        if let Some(row) = values.clone().position(broken) {
            return Err(row);
        }
    }
    // Builders with 32 bit offsets panic when these overflow.
    if matches!(to, DataType::Utf8 | DataType::Binary) {
        let mut total = 0_usize;
        for (row, value) in values.clone().enumerate() {
            total = total.saturating_add(value.map_or(0, <[u8]>::len));
            if i32::try_from(total).is_err() {
                return Err(row);
            }
        }
    }
    macro_rules! build {
        ($builder:ty) => {{
            let mut builder = <$builder>::new();
            for value in values {
                builder.append_option(value);
            }
            builder.finish()
        }};
    }
    let not_text = |_: ArrowError| 0_usize;
    Ok(match to {
        DataType::Binary => Arc::new(build!(BinaryBuilder)) as ArrayRef,
        DataType::LargeBinary => Arc::new(build!(LargeBinaryBuilder)),
        DataType::BinaryView => Arc::new(build!(BinaryViewBuilder)),
        DataType::Utf8 => {
            let bytes: BinaryArray = build!(BinaryBuilder);
            Arc::new(StringArray::try_from_binary(bytes).map_err(not_text)?)
        }
        DataType::LargeUtf8 => {
            let bytes: LargeBinaryArray = build!(LargeBinaryBuilder);
            Arc::new(LargeStringArray::try_from_binary(bytes).map_err(not_text)?)
        }
        DataType::Utf8View => {
            let bytes: BinaryViewArray = build!(BinaryViewBuilder);
            let text: StringViewArray = bytes.to_string_view().map_err(not_text)?;
            Arc::new(text)
        }
        DataType::FixedSizeBinary(size) => {
            let wrong = |bytes: Option<&[u8]>| {
                bytes.is_some_and(|bytes| i32::try_from(bytes.len()) != Ok(*size))
            };
            if let Some(row) = values.clone().position(wrong) {
                return Err(row);
            }
            let built = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, *size);
            Arc::new(built.map_err(|_| 0_usize)?)
        }
        _ => return Err(0),
    })
}
