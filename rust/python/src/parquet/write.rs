//! Exports: rows into one Parquet file, or into the files of a folder.

use arrow_schema::SchemaRef;
use pilum_parquet::{
    CommonError, Error, ExportOptions, Exporter, FileCompression, WriteOptions, WrittenFile,
};
use pyo3::prelude::*;

use crate::arguments::{self, Count, Pairs};
use crate::errors::{Failure, guarded};
use crate::feed::{Fed, feed};
use crate::ffi::import;
use crate::progress::Progress;

/// Writes rows to one file, or to the files of a folder. Returns the root and path, rows, row groups and bytes of each file.
#[pyfunction]
#[pyo3(signature = (
    rows, uri, *, row_group_rows=None, row_group_bytes=None, page_bytes=None, page_rows=None, compression=None,
    compression_level=None, dictionary=true, page_index=true, page_checksums=true, data_page_v2=false, bloom_filters=None,
    metadata=None, max_rows_per_file=None, partition_by=None, durability="full", storage_options=None, progress=None
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
#[expect(
    clippy::type_complexity,
    reason = "rows of a table, which Python gives names"
)]
pub(crate) fn parquet_write(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    uri: String,
    row_group_rows: Option<Count>,
    row_group_bytes: Option<Count>,
    page_bytes: Option<Count>,
    page_rows: Option<Count>,
    compression: Option<&str>,
    compression_level: Option<i32>,
    dictionary: bool,
    page_index: bool,
    page_checksums: bool,
    data_page_v2: bool,
    bloom_filters: Option<Vec<String>>,
    metadata: Option<Pairs>,
    max_rows_per_file: Option<Count>,
    partition_by: Option<Vec<String>>,
    durability: &str,
    storage_options: Option<Pairs>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<(String, u64, u64, u64)>)> {
    guarded(|| {
        let size = |given: Option<Count>, or: usize| given.map_or(or, Count::size);
        let mut file = WriteOptions::default();
        file.row_group_rows = size(row_group_rows, file.row_group_rows);
        file.row_group_bytes = size(row_group_bytes, file.row_group_bytes);
        file.page_bytes = size(page_bytes, file.page_bytes);
        file.page_rows = size(page_rows, file.page_rows);
        file.compression = compression_of(compression, compression_level)?;
        file.dictionary = dictionary;
        file.page_index = page_index;
        file.page_checksums = page_checksums;
        file.data_page_v2 = data_page_v2;
        file.bloom_filters = bloom_filters.unwrap_or_default();
        file.key_value_metadata = arguments::properties(metadata).into_iter().collect();
        let mut options = ExportOptions::default();
        options.file = file;
        options.max_rows_per_file = max_rows_per_file.map(Count::get);
        options.partition_by = partition_by.unwrap_or_default();
        options.durability = arguments::durability(durability)?;
        let storage = arguments::storage_options(storage_options);
        let progress = Progress::new(progress, rows)?;
        let source = import(rows)?;
        let schema = SchemaRef::clone(source.schema());
        let write = move |fed| async move {
            let mut exporter = Exporter::create(&uri, &storage, &schema, &options).await?;
            match write_all(&mut exporter, fed).await {
                Ok(files) => Ok((exporter.root().to_owned(), files)),
                Err(error) => {
                    exporter.discard().await;
                    Err(error)
                }
            }
        };
        let (root, files) = feed(py, source, progress, write)?;
        let files = files.into_iter().map(|(path, file)| {
            (
                path,
                file.num_rows,
                file.num_row_groups as u64,
                file.num_bytes,
            )
        });
        Ok((root, files.collect()))
    })
}

async fn write_all(
    exporter: &mut Exporter,
    rows: Fed,
) -> Result<Vec<(String, WrittenFile)>, Error> {
    for batch in rows {
        let batch = batch
            .map_err(|error| CommonError::invalid("the data to write failed", error.to_string()))?;
        exporter.write(&batch).await?;
    }
    exporter.finish().await
}

fn compression_of(word: Option<&str>, level: Option<i32>) -> Result<FileCompression, Failure> {
    let positive = || {
        level
            .map(u32::try_from)
            .transpose()
            .map_err(|_| Failure::invalid("compression_level must not be negative here"))
    };
    Ok(match word.unwrap_or("zstd") {
        "zstd" => FileCompression::Zstd(level),
        "gzip" => FileCompression::Gzip(positive()?),
        "brotli" => FileCompression::Brotli(positive()?),
        word if level.is_some() => {
            return Err(Failure::invalid(format!(
                "compression {word:?} has no levels"
            )));
        }
        "none" => FileCompression::Uncompressed,
        "snappy" => FileCompression::Snappy,
        "lz4" => FileCompression::Lz4,
        word => {
            return Err(Failure::invalid(format!(
                "compression is \"zstd\", \"snappy\", \"lz4\", \"gzip\", \"brotli\" or \"none\", not {word:?}"
            )));
        }
    })
}
