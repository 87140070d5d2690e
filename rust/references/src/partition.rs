//! One Parquet file of a set: the references of consecutive chunks of one array.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, Int64Array, RecordBatch, StringArray,
    new_null_array,
};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use pilum_common::Error as CommonError;

use crate::error::{Error, Result};
use crate::value::Reference;

/// The columns of one file, by row.
#[derive(Debug)]
pub(crate) struct Partition {
    paths: DictionaryArray<Int32Type>,
    offsets: Int64Array,
    sizes: Int64Array,
    raw: BinaryArray,
}

const MOST_ROWS: i64 = 1 << 24;
/// What a file may unpack to: files of repeated values compress well, so the bound is generous.
const MOST_BYTES: i64 = 1 << 30;

impl Partition {
    /// Decodes a file of any writer: missing columns, columns of the null type and other integer types are accepted.
    ///
    /// # Errors
    /// `Corrupt` for damaged files, `Limit` for those that unpack to very much.
    pub(crate) fn decode(path: &str, file: Bytes) -> Result<Self> {
        // The Parquet library panics at some damaged files.
        let decoded = catch_unwind(AssertUnwindSafe(|| Self::decoded(path, file)));
        decoded.unwrap_or_else(|_| Err(Error::corrupt(path, "the Parquet file is damaged")))
    }

    fn decoded(path: &str, file: Bytes) -> Result<Self> {
        let damaged = |error: &dyn std::fmt::Display| {
            Error::corrupt(path, format!("a damaged Parquet file: {error}"))
        };
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
            .map_err(|error| damaged(&error))?;
        let metadata = builder.metadata();
        let num_rows = metadata.file_metadata().num_rows();
        let unpacked: i64 = metadata
            .row_groups()
            .iter()
            .fold(0, |sum, it| sum.saturating_add(it.total_byte_size()));
        if !(0..=MOST_ROWS).contains(&num_rows) || !(0..=MOST_BYTES).contains(&unpacked) {
            return Err(Error::from(CommonError::limit(
                path,
                format!("{num_rows} rows of {unpacked} bytes"),
                format!("{MOST_ROWS} rows and {MOST_BYTES} bytes"),
            )));
        }
        let schema = Arc::clone(builder.schema());
        let reader = builder
            .with_batch_size(65_536)
            .build()
            .map_err(|error| damaged(&error))?;
        let batches: Vec<RecordBatch> = reader
            .collect::<Result<_, _>>()
            .map_err(|error| damaged(&error))?;
        let batch = concat_batches(&schema, &batches).map_err(|error| damaged(&error))?;
        let column = |name: &str, wanted: &DataType| -> Result<ArrayRef> {
            let Some(found) = batch.column_by_name(name) else {
                return Ok(new_null_array(wanted, batch.num_rows()));
            };
            // Some writers store a column of nulls as integers.
            if found.null_count() == found.len() {
                return Ok(new_null_array(wanted, found.len()));
            }
            cast(found, wanted).map_err(|error| damaged(&format!("column {name}: {error}")))
        };
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let paths = column("path", &DataType::Utf8)?;
        let paths = cast(&paths, &dictionary).map_err(|error| damaged(&error))?;
        Ok(Self {
            paths: paths.as_dictionary::<Int32Type>().clone(),
            offsets: column("offset", &DataType::Int64)?
                .as_primitive::<Int64Type>()
                .clone(),
            sizes: column("size", &DataType::Int64)?
                .as_primitive::<Int64Type>()
                .clone(),
            raw: column("raw", &DataType::Binary)?.as_binary::<i32>().clone(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// The value of a row; `None` for a missing chunk.
    pub(crate) fn get(&self, row: usize) -> Option<Reference<'_>> {
        if row >= self.len() {
            return None;
        }
        if self.raw.is_valid(row) {
            return Some(Reference::Inline(Cow::Borrowed(self.raw.value(row))));
        }
        let number = self.paths.key(row)?;
        let urls = self.paths.values().as_string::<i32>();
        if number >= urls.len() || urls.is_null(number) {
            return None;
        }
        let url = Some(Cow::Borrowed(urls.value(number)));
        let number = |array: &Int64Array| {
            if array.is_valid(row) {
                array.value(row)
            } else {
                0
            }
        };
        Some(match (number(&self.offsets), number(&self.sizes)) {
            (0, 0) => Reference::File { url },
            (offset, size) => Reference::Range { url, offset, size },
        })
    }
}

/// What `pandas` wants to know of the columns; fastparquet reads integers as such because of it.
const PANDAS: &str = concat!(
    r#"{"index_columns": [], "column_indexes": [{"name": null, "field_name": null, "pandas_type": "unicode", "#,
    r#""numpy_type": "object", "metadata": null}], "columns": ["#,
    r#"{"name": "path", "field_name": "path", "pandas_type": "unicode", "numpy_type": "object", "metadata": null}, "#,
    r#"{"name": "offset", "field_name": "offset", "pandas_type": "int64", "numpy_type": "int64", "metadata": null}, "#,
    r#"{"name": "size", "field_name": "size", "pandas_type": "int64", "numpy_type": "int64", "metadata": null}, "#,
    r#"{"name": "raw", "field_name": "raw", "pandas_type": "bytes", "numpy_type": "object", "metadata": null}], "#,
    r#""creator": {"library": "pilum", "version": "1"}, "pandas_version": "2.0.0"}"#
);

/// Collects the rows of one file.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    paths: Vec<Option<String>>,
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    raw: Vec<Option<Vec<u8>>>,
}

impl Rows {
    /// Rows of missing chunks.
    pub(crate) fn missing(count: usize) -> Self {
        Self {
            paths: vec![None; count],
            offsets: vec![0; count],
            sizes: vec![0; count],
            raw: vec![None; count],
        }
    }

    /// Sets a row to inline bytes, in the form of the column `raw`.
    pub(crate) fn set_raw(&mut self, row: usize, bytes: &[u8]) {
        if let Some(slot) = self.raw.get_mut(row) {
            *slot = Some(bytes.to_vec());
        }
    }

    /// Sets a row to a file, or to a range of one.
    pub(crate) fn set_range(&mut self, row: usize, url: &str, range: Option<(i64, i64)>) {
        let (offset, size) = range.unwrap_or((0, 0));
        if let (Some(path), Some(at), Some(length)) = (
            self.paths.get_mut(row),
            self.offsets.get_mut(row),
            self.sizes.get_mut(row),
        ) {
            *path = Some(url.to_owned());
            (*at, *length) = (offset, size);
        }
    }

    /// The rows as a file that every reader takes: an ordinary text column with a dictionary, statistics, and `pandas` metadata.
    pub(crate) fn encode(self, path: &str) -> Result<Bytes> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::from(CommonError::bug(format!(
                "{path} cannot be encoded: {error}"
            )))
        };
        let schema = Arc::new(Schema::new(vec![
            Field::new("path", DataType::Utf8, true),
            Field::new("offset", DataType::Int64, false),
            Field::new("size", DataType::Int64, false),
            Field::new("raw", DataType::Binary, true),
        ]));
        let raw: Vec<Option<&[u8]>> = self.raw.iter().map(Option::as_deref).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter(self.paths)),
            Arc::new(Int64Array::from(self.offsets)),
            Arc::new(Int64Array::from(self.sizes)),
            Arc::new(BinaryArray::from_iter(raw)),
        ];
        let batch =
            RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|error| failed(&error))?;
        let level = ZstdLevel::try_new(3).map_err(|error| failed(&error))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::PLAIN)
            .set_column_dictionary_enabled(ColumnPath::from("path"), true)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            // Rows stay in one dictionary page, whatever the lengths of the URLs.
            .set_dictionary_page_size_limit(usize::MAX / 4)
            .set_max_row_group_row_count(Some(batch.num_rows().max(1)))
            .set_key_value_metadata(Some(vec![KeyValue::new(
                "pandas".to_owned(),
                PANDAS.to_owned(),
            )]))
            .build();
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true);
        let mut out = Vec::new();
        let mut writer = ArrowWriter::try_new_with_options(&mut out, schema, options)
            .map_err(|error| failed(&error))?;
        writer.write(&batch).map_err(|error| failed(&error))?;
        writer.close().map_err(|error| failed(&error))?;
        Ok(out.into())
    }
}
