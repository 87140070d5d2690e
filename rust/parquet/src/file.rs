//! One Parquet file: its footer and its page index, which are checked before rows are decoded by them.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use bytes::Bytes;
use parquet::DecodeResult;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::page_index::{PageIndexBuilder, PageIndexProvider};
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataBuilder,
    ParquetMetaDataPushDecoder,
};
use parquet::file::page_index::offset_index::PageLocation;
use pilum_store::{ReadAt, Store};
use tokio::sync::OnceCell;

use crate::contain::contained;
use crate::error::{Error, Result};
use crate::limits::ReadLimits;
use crate::{pages, thrift};

/// Read at once from the end of the file: most footers are smaller.
const TAIL_BYTES: u64 = 64 << 10;
const MAGIC_BYTES: u64 = 8;

/// An open Parquet file. It never changes, and is shared by all that read it.
#[derive(Debug)]
pub struct ParquetFile {
    source: Arc<dyn ReadAt>,
    limits: ReadLimits,
    /// The types in which the columns are read, where they are not those of the footer.
    options: ArrowReaderOptions,
    footer: ArrowReaderMetadata,
    /// The footer with the page index that the file has.
    indexed: OnceCell<ArrowReaderMetadata>,
    /// The footer with the page index; where the writer left out the first rows of pages, they were read from page headers.
    mapped: OnceCell<ArrowReaderMetadata>,
}

impl ParquetFile {
    /// Opens the object `path` of a store. It costs one request, or two if the footer is longer than 64 KiB; a remote object
    /// of unknown size one more.
    ///
    /// # Errors
    /// `CommonError::Corrupt` for a file that is no Parquet file or has a damaged footer, `CommonError::Unsupported` for an encrypted
    /// one, `CommonError::Limit` for a footer beyond the limits.
    pub async fn open(
        store: &Store,
        path: &str,
        size: Option<u64>,
        limits: &ReadLimits,
    ) -> Result<Arc<Self>> {
        Self::of_source(store.open_file(path, size).await?, limits).await
    }

    /// As [`open`](Self::open), for bytes that are open already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn of_source(source: Arc<dyn ReadAt>, limits: &ReadLimits) -> Result<Arc<Self>> {
        let path = source.path();
        let (range, bytes) = read_footer(source.as_ref(), limits).await?;
        let metadata = contained(path, || {
            let mut decoder = ParquetMetaDataPushDecoder::try_new(source.size())?
                .with_page_index_policy(PageIndexPolicy::Skip);
            decoder.push_range(range, bytes)?;
            decoder.try_decode()
        })?;
        let DecodeResult::Data(metadata) = metadata else {
            return Err(Error::corrupt(path, "the footer ends early"));
        };
        check_footer(path, source.size(), &metadata)?;
        let footer = contained(path, || {
            ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new())
        })?;
        Ok(Arc::new(Self {
            source,
            limits: limits.clone(),
            options: ArrowReaderOptions::new(),
            footer,
            indexed: OnceCell::new(),
            mapped: OnceCell::new(),
        }))
    }

    /// The same file, of which the strings in `column` are read as they are stored in most files: `int32` numbers of the values in
    /// a dictionary. A column of other types is read as it is.
    ///
    /// # Errors
    /// `CommonError::Unsupported` and `CommonError::Corrupt` for a column that cannot be read so.
    pub fn with_dictionary(&self, column: &str) -> Result<Arc<Self>> {
        let fields = self.schema().fields().iter();
        let fields = fields.map(|field| match field.name() == column {
            true => as_dictionary(field),
            false => Arc::clone(field),
        });
        let schema =
            Schema::new_with_metadata(fields.collect::<Vec<_>>(), self.schema().metadata().clone());
        let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
        let footer = contained(self.path(), || {
            ArrowReaderMetadata::try_new(Arc::clone(self.metadata()), options.clone())
        })?;
        Ok(Arc::new(Self {
            source: Arc::clone(&self.source),
            limits: self.limits.clone(),
            options,
            footer,
            indexed: OnceCell::new(),
            mapped: OnceCell::new(),
        }))
    }

    /// The full address of the file, as it stands in errors.
    #[must_use]
    pub fn path(&self) -> &str {
        self.source.path()
    }

    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.source.size()
    }

    /// The columns as Arrow types; those of the writer, if it recorded them.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.footer.schema()
    }

    /// The footer as the `parquet` crate has it, without the page index.
    #[must_use]
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.footer.metadata()
    }

    /// Rows in the file.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.metadata().file_metadata().num_rows().cast_unsigned()
    }

    /// Rows of each row group.
    pub fn row_group_rows(&self) -> impl Iterator<Item = u64> {
        let groups = self.metadata().row_groups().iter();
        groups.map(|group| group.num_rows().cast_unsigned())
    }

    pub(crate) fn source(&self) -> &Arc<dyn ReadAt> {
        &self.source
    }

    pub(crate) fn limits(&self) -> &ReadLimits {
        &self.limits
    }

    pub(crate) fn footer(&self) -> &ArrowReaderMetadata {
        &self.footer
    }

    /// The footer with the page index of the file, where it has one. The first call reads it.
    pub(crate) async fn indexed(&self) -> Result<&ArrowReaderMetadata> {
        self.indexed
            .get_or_try_init(|| async {
                let has_index = self.metadata().row_groups().iter().any(|group| {
                    let mut columns = group.columns().iter();
                    columns.any(|column| column.offset_index_offset().is_some())
                });
                match has_index {
                    true => self.read_page_index().await,
                    false => Ok(self.footer.clone()),
                }
            })
            .await
    }

    /// As [`indexed`](Self::indexed); for local files the rows of pages are read from the page headers where the writer left
    /// out the offset index. That takes about a microsecond for each page.
    pub(crate) async fn with_row_map(&self) -> Result<&ArrowReaderMetadata> {
        self.mapped
            .get_or_try_init(|| async {
                let indexed = self.indexed().await?;
                if self.source.mapped().is_none() {
                    return Ok(indexed.clone());
                }
                self.add_row_map(indexed).await
            })
            .await
    }

    fn with_index(&self, index: impl PageIndexProvider + 'static) -> Result<ArrowReaderMetadata> {
        let metadata = ParquetMetaDataBuilder::new_from_metadata(self.metadata().as_ref().clone())
            .set_page_index(Some(Arc::new(index)))
            .build();
        contained(self.path(), || {
            ArrowReaderMetadata::try_new(Arc::new(metadata), self.options.clone())
        })
    }

    async fn read_page_index(&self) -> Result<ArrowReaderMetadata> {
        let path = self.path();
        let mut num_bytes = 0_u64;
        let mut decoder = contained(path, || {
            ParquetMetaDataPushDecoder::try_new_with_metadata(
                self.size(),
                self.metadata().as_ref().clone(),
            )
            .map(|decoder| decoder.with_page_index_policy(PageIndexPolicy::Optional))
        })?;
        loop {
            let step = contained(path, || decoder.try_decode_page_index())?;
            match step {
                DecodeResult::NeedsData(ranges) => {
                    for range in &ranges {
                        num_bytes = num_bytes.saturating_add(range.end.saturating_sub(range.start));
                    }
                    if num_bytes > self.limits.footer_bytes {
                        return Err(Error::limit(
                            format!("{path}: the page index"),
                            format!("{num_bytes} bytes"),
                            format!("{} bytes", self.limits.footer_bytes),
                        ));
                    }
                    let bytes = self.source.read_ranges(&ranges).await?;
                    for (range, bytes) in ranges.iter().zip(&bytes) {
                        self.check_index_bytes(range, bytes)?;
                    }
                    contained(path, || decoder.push_ranges(ranges, bytes))?;
                }
                DecodeResult::Data((_, Some(index))) => {
                    return self.with_index(self.checked_index(index)?);
                }
                DecodeResult::Data((_, None)) | DecodeResult::Finished => {
                    return Ok(self.footer.clone());
                }
            }
        }
    }

    /// Checks the lengths in the structures of the page index before the decoder reads them.
    fn check_index_bytes(&self, range: &Range<u64>, bytes: &[u8]) -> Result<()> {
        for column in self.columns() {
            for index in [column.column_index_range(), column.offset_index_range()] {
                let Some(index) = index.filter(|index| index.start >= range.start) else {
                    continue;
                };
                let start = usize::try_from(index.start - range.start).unwrap_or(usize::MAX);
                let end =
                    usize::try_from(index.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
                if let Some(index) = bytes.get(start..end) {
                    thrift::check(index).map_err(|fault| {
                        Error::corrupt(self.path(), format!("the page index: {fault}"))
                    })?;
                }
            }
        }
        Ok(())
    }

    fn columns(&self) -> impl Iterator<Item = &ColumnChunkMetaData> {
        self.metadata()
            .row_groups()
            .iter()
            .flat_map(|group| group.columns())
    }

    /// The page index; rows are found by it, so a wrong one is an error.
    fn checked_index(
        &self,
        index: parquet::file::metadata::page_index::PageIndex,
    ) -> Result<parquet::file::metadata::page_index::PageIndex> {
        for (group, row_group) in self.metadata().row_groups().iter().enumerate() {
            for (leaf, column) in row_group.columns().iter().enumerate() {
                let Some(pages) = index.page_locations(group, leaf) else {
                    continue;
                };
                let statistics = index.column_index(group, leaf);
                let is_matched = statistics.is_none_or(|it| it.num_pages() == pages.len() as u64);
                if !is_matched || !are_in_chunk(pages, row_group.num_rows(), column) {
                    return Err(Error::corrupt(
                        self.path(),
                        format!(
                            "the page index of column `{}` in row group {group} does not fit its pages",
                            column.column_path().string()
                        ),
                    ));
                }
            }
        }
        Ok(index)
    }

    async fn add_row_map(&self, indexed: &ArrowReaderMetadata) -> Result<ArrowReaderMetadata> {
        let metadata = indexed.metadata();
        let known = metadata.page_index();
        let num_leaves = metadata.file_metadata().schema_descr().num_columns();
        let mut added = PageIndexBuilder::new(metadata.num_row_groups(), num_leaves);
        let mut has_added = false;
        for (group, row_group) in metadata.row_groups().iter().enumerate() {
            for (leaf, column) in row_group.columns().iter().enumerate() {
                if let Some(known) = known {
                    if let Some(index) = known.column_index(group, leaf) {
                        added.put_column_index(index.clone(), group, leaf);
                    }
                    if let Some(index) = known.offset_index(group, leaf) {
                        added.put_offset_index(index.clone(), group, leaf);
                        continue;
                    }
                }
                let (start, len) = column.byte_range();
                let found = pages::pages(self.source.as_ref(), start..start + len).await?;
                let is_repeated = column.column_descr().max_rep_level() > 0;
                let rows = row_group.num_rows().cast_unsigned();
                if let Some(map) = pages::row_map(&found, rows, is_repeated) {
                    added.put_offset_index(map, group, leaf);
                    has_added = true;
                }
            }
        }
        match has_added {
            true => self.with_index(added.build()),
            false => Ok(indexed.clone()),
        }
    }
}

/// A field whose strings, in lists too, are numbers of a dictionary.
fn as_dictionary(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        DataType::List(item) => DataType::List(as_dictionary(item)),
        DataType::LargeList(item) => DataType::LargeList(as_dictionary(item)),
        other => other.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// The bytes from the footer to the end of the file, and their range.
async fn read_footer(source: &dyn ReadAt, limits: &ReadLimits) -> Result<(Range<u64>, Bytes)> {
    let (path, size) = (source.path(), source.size());
    let no_parquet =
        |reason: &str| Error::corrupt(path, format!("it is no Parquet file: {reason}"));
    if size < 12 {
        return Err(no_parquet(&format!(
            "it has {size} bytes, and the smallest has 12"
        )));
    }
    let mut bytes = source.read_tail(TAIL_BYTES.min(size)).await?;
    let mut start = size - bytes.len() as u64;
    let word = |at: usize| {
        bytes
            .get(at..at + 4)
            .and_then(|it| <[u8; 4]>::try_from(it).ok())
    };
    let end = bytes.len().saturating_sub(8);
    let (len, magic) = (
        word(end).unwrap_or_default(),
        word(end + 4).unwrap_or_default(),
    );
    match &magic {
        b"PAR1" => {}
        b"PARE" => return Err(Error::encrypted(path)),
        _ => return Err(no_parquet("its last bytes are not PAR1")),
    }
    let len = u64::from(u32::from_le_bytes(len));
    if len + MAGIC_BYTES > size {
        return Err(Error::corrupt(
            path,
            format!("its footer declares {len} bytes, and the file has {size}"),
        ));
    }
    if len > limits.footer_bytes {
        return Err(Error::limit(
            format!("{path}: the footer"),
            format!("{len} bytes"),
            format!("{} bytes", limits.footer_bytes),
        ));
    }
    let footer = size - MAGIC_BYTES - len;
    if footer < start {
        let range = footer..size;
        let read = source.read_ranges(std::slice::from_ref(&range)).await?;
        bytes = read.into_iter().next().unwrap_or_default();
        start = footer;
    }
    let at = usize::try_from(footer - start).unwrap_or(usize::MAX);
    let until = bytes.len().saturating_sub(8);
    let body = bytes.get(at..until).unwrap_or_default();
    let damaged = |fault| Error::corrupt(path, format!("the footer: {fault}"));
    thrift::check(body).map_err(damaged)?;
    let depth = thrift::schema_depth(body).map_err(damaged)?;
    if depth > limits.nesting {
        return Err(Error::limit(
            format!("{path}: the schema"),
            format!("{depth} levels"),
            format!("{} levels", limits.nesting),
        ));
    }
    Ok((start..size, bytes))
}

/// Checks that the counts and byte ranges in the footer fit the file and each other.
fn check_footer(path: &str, size: u64, metadata: &ParquetMetaData) -> Result<()> {
    let damaged = |reason: String| Err(Error::corrupt(path, reason));
    let mut rows = 0_i64;
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        let Some(sum) = rows
            .checked_add(row_group.num_rows())
            .filter(|_| row_group.num_rows() >= 0)
        else {
            return damaged(format!(
                "row group {group} declares {} rows",
                row_group.num_rows()
            ));
        };
        rows = sum;
        for column in row_group.columns() {
            let name = || {
                format!(
                    "column `{}` in row group {group}",
                    column.column_path().string()
                )
            };
            if column.file_path().is_some() {
                let feature = format!("{} in another file", name());
                let hint = "open the file that has the rows";
                return Err(Error::unsupported(path, feature, hint));
            }
            let start = column
                .dictionary_page_offset()
                .filter(|offset| *offset > 0)
                .unwrap_or_else(|| column.data_page_offset());
            let end = start.checked_add(column.compressed_size());
            let fits = start >= 0
                && column.compressed_size() >= 0
                && end.is_some_and(|end| end.cast_unsigned() <= size);
            if !fits || column.uncompressed_size() < 0 {
                return damaged(format!("{} lies outside of the file", name()));
            }
            let is_flat = column.column_descr().max_rep_level() == 0;
            if column.num_values() < 0 || is_flat && column.num_values() != row_group.num_rows() {
                return damaged(format!(
                    "{} declares {} values, and the row group {} rows",
                    name(),
                    column.num_values(),
                    row_group.num_rows()
                ));
            }
            for index in [
                (column.column_index_offset(), column.column_index_length()),
                (column.offset_index_offset(), column.offset_index_length()),
            ] {
                let (Some(offset), Some(len)) = index else {
                    continue;
                };
                let end = offset.checked_add(i64::from(len));
                if offset < 0 || len < 0 || end.is_none_or(|end| end.cast_unsigned() > size) {
                    return damaged(format!(
                        "the page index of {} lies outside of the file",
                        name()
                    ));
                }
            }
        }
    }
    if rows != metadata.file_metadata().num_rows() {
        return damaged(format!(
            "the footer declares {} rows, and its row groups {rows}",
            metadata.file_metadata().num_rows()
        ));
    }
    Ok(())
}

/// Whether pages lie in their chunk one after the other, and their first rows ascend from 0.
fn are_in_chunk(pages: &[PageLocation], num_rows: i64, column: &ColumnChunkMetaData) -> bool {
    let (start, len) = column.byte_range();
    let (mut at, mut row) = (start, -1);
    for page in pages {
        let (Ok(offset), Ok(size)) = (
            u64::try_from(page.offset),
            u64::try_from(page.compressed_page_size),
        ) else {
            return false;
        };
        let is_first = row == -1;
        if offset < at
            || offset.saturating_add(size) > start + len
            || page.first_row_index < row
            || is_first && page.first_row_index != 0
            || page.first_row_index > num_rows
        {
            return false;
        }
        (at, row) = (offset + size, page.first_row_index);
    }
    !pages.is_empty() || num_rows == 0
}
