//! Sets to and from Arrow tables: one row per key, with columns `key`, `path`, `offset`, `size` and `raw`.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int64Builder, StringBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema};
use pilum_common::Error as CommonError;

use crate::document::malformed_value;
use crate::error::{Error, Result};
use crate::set::ReferenceSet;
use crate::value::Reference;

/// The columns of the table of a set. A row means what a row of Parquet references means, except that `size` is null for a
/// whole file, so that an empty range stays one.
#[must_use]
pub fn table_schema() -> Arc<Schema> {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("path", dictionary, true),
        Field::new("offset", DataType::Int64, false),
        Field::new("size", DataType::Int64, true),
        Field::new("raw", DataType::Binary, true),
    ]))
}

/// The keys of some numbers as rows; removed keys are left out.
///
/// # Errors
/// [`Error::Invalid`] for a malformed value.
pub fn table_batch(
    set: &ReferenceSet,
    numbers: impl Iterator<Item = usize>,
) -> Result<RecordBatch> {
    let mut keys = StringBuilder::new();
    let mut paths = StringDictionaryBuilder::<Int32Type>::new();
    let (mut offsets, mut sizes) = (Int64Builder::new(), Int64Builder::new());
    let mut raw = BinaryBuilder::new();
    let failed = |error: arrow_schema::ArrowError| {
        Error::from(CommonError::bug(format!(
            "the table of references: {error}"
        )))
    };
    for number in numbers {
        let Some((key, value)) = set.entry(number) else {
            continue;
        };
        keys.append_value(key);
        let (url, offset, size) = match &value {
            Reference::Inline(bytes) => {
                raw.append_value(bytes);
                paths.append_null();
                offsets.append_value(0);
                sizes.append_option(i64::try_from(bytes.len()).ok());
                continue;
            }
            Reference::File { url } => (url, 0, None),
            Reference::Range { url, offset, size } => (url, *offset, Some(*size)),
            Reference::Malformed { json } => {
                return Err(malformed_value(json).at(key));
            }
        };
        let Some(url) = url else {
            let fault = crate::error::Fault::type_of("the URL is null; a row needs one");
            return Err(fault.at(key, "URL"));
        };
        raw.append_null();
        paths.append(url).map_err(failed)?;
        offsets.append_value(offset);
        sizes.append_option(size);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(keys.finish()),
        Arc::new(paths.finish()),
        Arc::new(offsets.finish()),
        Arc::new(sizes.finish()),
        Arc::new(raw.finish()),
    ];
    RecordBatch::try_new(table_schema(), columns).map_err(failed)
}

/// Adds the rows of a table to a set. `raw` is stored as it stands: bytes that begin with `base64:` are decoded when they are
/// read. A row without `path` and `raw` is no key.
///
/// # Errors
/// `InvalidInput` for a table without these columns or with nulls among the keys.
pub fn add_batch(set: &mut ReferenceSet, batch: &RecordBatch) -> Result<()> {
    let column = |name: &str, wanted: &DataType| -> Result<ArrayRef> {
        let found = batch.column_by_name(name);
        let found = found.ok_or_else(|| {
            Error::invalid(format!("column {name:?}"), "the table has no such column")
        })?;
        cast(found, wanted)
            .map_err(|error| Error::invalid(format!("column {name:?}"), error.to_string()))
    };
    let keys = column("key", &DataType::Utf8)?;
    let paths = column("path", &DataType::Utf8)?;
    let (offsets, sizes) = (
        column("offset", &DataType::Int64)?,
        column("size", &DataType::Int64)?,
    );
    let raw = match batch.column_by_name("raw") {
        Some(_) => column("raw", &DataType::Binary)?,
        None => arrow_array::new_null_array(&DataType::Binary, batch.num_rows()),
    };
    let (keys, paths) = (keys.as_string::<i32>(), paths.as_string::<i32>());
    let (offsets, sizes) = (
        offsets.as_primitive::<Int64Type>(),
        sizes.as_primitive::<Int64Type>(),
    );
    let raw = raw.as_binary::<i32>();
    for row in 0..batch.num_rows() {
        if keys.is_null(row) {
            return Err(Error::invalid(
                format!("column \"key\", row {row}"),
                "the key is null",
            ));
        }
        let value = if raw.is_valid(row) {
            Reference::Inline(Cow::Borrowed(raw.value(row)))
        } else if paths.is_null(row) {
            continue;
        } else {
            let url = Some(Cow::Borrowed(paths.value(row)));
            let offset = if offsets.is_valid(row) {
                offsets.value(row)
            } else {
                0
            };
            if sizes.is_valid(row) {
                Reference::Range {
                    url,
                    offset,
                    size: sizes.value(row),
                }
            } else if offset == 0 {
                Reference::File { url }
            } else {
                return Err(Error::invalid(
                    format!("column \"size\", row {row}"),
                    "the size is null, which stands for a whole file, but the offset is not 0",
                ));
            }
        };
        set.insert(keys.value(row), &value)?;
    }
    Ok(())
}
