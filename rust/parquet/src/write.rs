//! Writing batches to a Parquet file: columns are encoded by several threads, every page has a checksum.

use std::io::{self, Write};
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath as LeafPath;
use pilum_common::Error as CommonError;
use pilum_store::{ObjectWriter, Store};

use crate::checksum::ChecksumStores;
use crate::contain::contained;
use crate::error::{Error, Result};

/// Fewer values than this are encoded by the calling thread.
const VALUES_PER_THREAD: usize = 1 << 15;

/// How to write a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Rows of a row group.
    pub row_group_rows: usize,
    /// A row group is ended when it has about so many encoded bytes.
    pub row_group_bytes: usize,
    /// Bytes of a page, before compression.
    pub page_bytes: usize,
    /// Rows of a page.
    pub page_rows: usize,
    /// Compression of pages.
    pub compression: FileCompression,
    /// Whether values that repeat are replaced by numbers of a dictionary.
    pub dictionary: bool,
    /// Bounds of pages and the places of rows, beside the bounds of row groups.
    pub page_index: bool,
    /// A CRC-32 in each page header.
    pub page_checksums: bool,
    /// Data pages of version 2, whose levels are not compressed.
    pub data_page_v2: bool,
    /// Columns with a Bloom filter, by path, such as `a.b`.
    pub bloom_filters: Vec<String>,
    /// Further metadata of the footer.
    pub key_value_metadata: Vec<(String, String)>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            row_group_rows: 1 << 20,
            row_group_bytes: 128 << 20,
            // What the specification of the format recommends: single rows cost little, and scans no more than with large pages.
            page_bytes: 8 << 10,
            page_rows: 20_000,
            compression: FileCompression::Zstd(None),
            dictionary: true,
            page_index: true,
            page_checksums: true,
            data_page_v2: false,
            bloom_filters: Vec::new(),
            key_value_metadata: Vec::new(),
        }
    }
}

/// Compression of pages, with a level where there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCompression {
    /// None.
    Uncompressed,
    /// Snappy.
    Snappy,
    /// LZ4 without frames, which all readers of today know.
    Lz4,
    /// Zstandard; level 1 unless given.
    Zstd(Option<i32>),
    /// Gzip; level 6 unless given.
    Gzip(Option<u32>),
    /// Brotli; level 1 unless given.
    Brotli(Option<u32>),
}

impl FileCompression {
    fn setting(self) -> Result<Compression> {
        let refused = |error: ParquetError| Error::invalid("compression_level", error.to_string());
        Ok(match self {
            Self::Uncompressed => Compression::UNCOMPRESSED,
            Self::Snappy => Compression::SNAPPY,
            Self::Lz4 => Compression::LZ4_RAW,
            Self::Zstd(level) => Compression::ZSTD(
                level
                    .map_or(Ok(ZstdLevel::default()), ZstdLevel::try_new)
                    .map_err(refused)?,
            ),
            Self::Gzip(level) => Compression::GZIP(
                level
                    .map_or(Ok(GzipLevel::default()), GzipLevel::try_new)
                    .map_err(refused)?,
            ),
            Self::Brotli(level) => Compression::BROTLI(
                level
                    .map_or(Ok(BrotliLevel::default()), BrotliLevel::try_new)
                    .map_err(refused)?,
            ),
        })
    }
}

impl WriteOptions {
    fn properties(&self) -> Result<WriterProperties> {
        for (name, value) in [
            ("row_group_rows", self.row_group_rows),
            ("row_group_bytes", self.row_group_bytes),
            ("page_bytes", self.page_bytes),
            ("page_rows", self.page_rows),
        ] {
            if value == 0 {
                return Err(Error::invalid(name, "must be at least 1"));
            }
        }
        let version = match self.data_page_v2 {
            true => WriterVersion::PARQUET_2_0,
            false => WriterVersion::PARQUET_1_0,
        };
        let statistics = match self.page_index {
            true => EnabledStatistics::Page,
            false => EnabledStatistics::Chunk,
        };
        let pairs = self.key_value_metadata.iter();
        let pairs: Vec<KeyValue> = pairs
            .map(|(key, value)| KeyValue::new(key.clone(), Some(value.clone())))
            .collect();
        let mut builder = WriterProperties::builder()
            .set_writer_version(version)
            .set_created_by(format!("pilum version {}", env!("CARGO_PKG_VERSION")))
            .set_max_row_group_row_count(Some(self.row_group_rows))
            .set_data_page_size_limit(self.page_bytes)
            .set_data_page_row_count_limit(self.page_rows)
            .set_write_batch_size(self.page_rows.min(1024))
            .set_compression(self.compression.setting()?)
            .set_dictionary_enabled(self.dictionary)
            .set_statistics_enabled(statistics)
            .set_offset_index_disabled(!self.page_index)
            .set_key_value_metadata((!pairs.is_empty()).then_some(pairs));
        if self.data_page_v2 {
            // The encoder would choose delta encodings, which not every reader has for every type.
            builder = builder.set_encoding(Encoding::PLAIN);
        }
        for path in &self.bloom_filters {
            builder = builder.set_column_bloom_filter_enabled(LeafPath::from(path.as_str()), true);
        }
        Ok(builder.build())
    }
}

/// Bytes that the encoder has produced and the store has not taken yet.
#[derive(Debug, Clone, Default)]
struct Produced(Arc<Mutex<Vec<u8>>>);

impl Produced {
    fn take(&self) -> Bytes {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

impl Write for Produced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One Parquet file being written. Dropped before [`finish`](Self::finish), it leaves no file behind.
pub struct FileWriter {
    out: Box<dyn ObjectWriter>,
    produced: Produced,
    writer: SerializedFileWriter<Produced>,
    factory: ArrowRowGroupWriterFactory,
    stores: Option<Arc<ChecksumStores>>,
    schema: SchemaRef,
    /// The columns of the row group being written; none between two.
    columns: Option<Vec<ArrowColumnWriter>>,
    group_rows: usize,
    num_groups: usize,
    num_rows: u64,
    options: WriteOptions,
}

impl std::fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWriter")
            .field("path", &self.path())
            .field("num_rows", &self.num_rows)
            .finish_non_exhaustive()
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenFile {
    /// Rows.
    pub num_rows: u64,
    /// Row groups.
    pub num_row_groups: usize,
    /// Size of the file in bytes.
    pub num_bytes: u64,
}

impl FileWriter {
    /// Begins the object `path` of a store, which must not exist, for batches of a schema.
    ///
    /// # Errors
    /// [`Error::Store`] when the name is taken; `CommonError::Unsupported` for a type that Parquet does not have.
    pub async fn create(
        store: &Store,
        path: &str,
        schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<Self> {
        let properties = options.properties()?;
        let stores = options.page_checksums.then(Arc::<ChecksumStores>::default);
        let produced = Produced::default();
        let mut settings = ArrowWriterOptions::new().with_properties(properties);
        if let Some(stores) = &stores {
            let stores: Arc<ChecksumStores> = Arc::clone(stores);
            settings = settings.with_page_store_factory(stores);
        }
        let begun = contained(path, || {
            ArrowWriter::try_new_with_options(produced.clone(), Arc::clone(schema), settings)?
                .into_serialized_writer()
        });
        let (writer, factory) = begun.map_err(|error| match error {
            // No bytes were read, so the schema is at fault.
            Error::Common(CommonError::Corrupt { reason, .. }) => {
                Error::invalid("the schema", reason)
            }
            error => error,
        })?;
        Ok(Self {
            out: store.writer(path).await?,
            produced,
            writer,
            factory,
            stores,
            schema: Arc::clone(schema),
            columns: None,
            group_rows: 0,
            num_groups: 0,
            num_rows: 0,
            options: options.clone(),
        })
    }

    /// The full address of the file, as it stands in errors.
    #[must_use]
    pub fn path(&self) -> &str {
        self.out.path()
    }

    /// Rows taken so far.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Bytes in the store so far; the row group being written is not among them.
    #[must_use]
    pub fn num_bytes(&self) -> u64 {
        self.out.position()
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for a batch of another schema or a value that cannot be written; after an error the writer can
    /// only be dropped.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.schema_ref().fields() != self.schema.fields() {
            return Err(Error::invalid(
                self.out.path(),
                "the batch has other columns than the file; write batches of one schema",
            ));
        }
        let mut start = 0;
        while start < batch.num_rows() {
            let room = self.options.row_group_rows - self.group_rows;
            let len = room.min(batch.num_rows() - start);
            self.encode(&batch.slice(start, len))?;
            start += len;
            self.group_rows += len;
            self.num_rows += len as u64;
            let columns = self.columns.iter().flatten();
            let num_bytes: usize = columns
                .map(ArrowColumnWriter::get_estimated_total_bytes)
                .sum();
            if self.group_rows >= self.options.row_group_rows
                || num_bytes >= self.options.row_group_bytes
            {
                self.end_row_group().await?;
            }
        }
        Ok(())
    }

    /// Writes the footer, and makes the file complete and durable.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn finish(mut self) -> Result<WrittenFile> {
        self.end_row_group().await?;
        let Self {
            mut out,
            produced,
            mut writer,
            ..
        } = self;
        encoded(out.path(), || writer.finish())?;
        out.write(produced.take()).await?;
        let num_bytes = out.finish().await?;
        Ok(WrittenFile {
            num_rows: self.num_rows,
            num_row_groups: self.num_groups,
            num_bytes,
        })
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let path = self.out.path();
        let columns = match &mut self.columns {
            Some(columns) => columns,
            None => {
                let made = encoded(path, || self.factory.create_column_writers(self.num_groups))?;
                self.columns.insert(made)
            }
        };
        let mut rest = columns.as_mut_slice();
        let mut work: Vec<(&Field, &ArrayRef, &mut [ArrowColumnWriter])> = Vec::new();
        for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
            let leaves = leaf_count(field);
            let (own, later) = rest.split_at_mut(leaves.min(rest.len()));
            rest = later;
            work.push((field, column, own));
        }
        encoded(path, || in_threads(batch.num_rows(), work))
    }

    async fn end_row_group(&mut self) -> Result<()> {
        let Some(columns) = self.columns.take() else {
            return Ok(());
        };
        let path = self.out.path();
        let (writer, stores) = (&mut self.writer, self.stores.as_ref());
        encoded(path, || {
            let mut group = writer.next_row_group()?;
            for (place, column) in columns.into_iter().enumerate() {
                let mut chunk = column.close()?;
                match stores {
                    None => chunk.append_to_row_group(&mut group)?,
                    Some(stores) => {
                        let (bytes, close): (Bytes, ColumnCloseResult) =
                            stores.chunk(place, chunk.close_mut())?;
                        group.append_column(&bytes, close)?;
                    }
                }
            }
            group.close().map(|_| ())
        })?;
        self.out.write(self.produced.take()).await?;
        self.group_rows = 0;
        self.num_groups += 1;
        Ok(())
    }
}

/// Calls the encoder: what it refuses are the rows of the caller.
fn encoded<T>(path: &str, work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    contained(path, work).map_err(|error| match error {
        Error::Common(CommonError::Corrupt { path, reason, .. }) => {
            Error::invalid(path, format!("the rows cannot be written: {reason}"))
        }
        error => error,
    })
}

/// Encodes the columns of a batch, by several threads if there is enough to do.
fn in_threads(
    rows: usize,
    work: Vec<(&Field, &ArrayRef, &mut [ArrowColumnWriter])>,
) -> Result<(), ParquetError> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let values = rows.saturating_mul(work.len());
    let threads = cores.min(work.len()).min(values / VALUES_PER_THREAD);
    if threads < 2 {
        return work.into_iter().try_for_each(write_column);
    }
    let queue = Mutex::new(work.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        let drain = || {
            while let Some(column) = next() {
                write_column(column)?;
            }
            Ok(())
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(drain)).collect();
        let own = drain();
        let joined = others.into_iter().map(|other| {
            let panicked = |_| {
                Err(ParquetError::General(
                    "the encoder of a column failed".to_owned(),
                ))
            };
            other.join().unwrap_or_else(panicked)
        });
        joined.fold(own, Result::and)
    })
}

fn write_column(
    (field, column, writers): (&Field, &ArrayRef, &mut [ArrowColumnWriter]),
) -> Result<(), ParquetError> {
    let leaves = compute_leaves(field, column)?;
    if leaves.len() != writers.len() {
        return Err(ParquetError::General(format!(
            "column `{}` has {} leaves and {} writers",
            field.name(),
            leaves.len(),
            writers.len()
        )));
    }
    for (leaf, writer) in leaves.iter().zip(writers) {
        writer.write(leaf)?;
    }
    Ok(())
}

/// The leaves of a column.
fn leaf_count(field: &Field) -> usize {
    use arrow_schema::DataType::{
        FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct,
    };
    match field.data_type() {
        Struct(members) => members.iter().map(|member| leaf_count(member)).sum(),
        List(item)
        | LargeList(item)
        | FixedSizeList(item, _)
        | Map(item, _)
        | ListView(item)
        | LargeListView(item) => leaf_count(item),
        _ => 1,
    }
}
