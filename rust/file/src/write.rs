//! Writing one data file: record batches become pages, and the directory follows at the end (`docs/format.md`, sections 2 to 6).

mod record;
mod trailer;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;
use pilum_common::type_name;
use pilum_encoding::{
    EncodedPage, Layout, LevelValidity, StatisticsBuilder, block_checksums, encode_page,
    has_peer_statistics, has_statistics, items_child, list_child, struct_children,
};
use pilum_format::{Dictionaries, Field, FieldId, Schema};
use pilum_store::ObjectWriter;

use crate::error::{Error, Result};
use crate::events::EVENTS;
use crate::options::{Compat, WriteOptions};
use record::{PageRecord, ValidityRecord, Written};

/// A finished data file, as the table describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Path in the store.
    pub path: String,
    /// Ids of all fields, ascending.
    pub field_ids: Vec<FieldId>,
    /// Rows in the file.
    pub num_rows: u64,
    /// Size of the file.
    pub num_bytes: u64,
    /// CRC-32C of the Metadata message: beginning with it, checksums cover every byte of the file.
    pub metadata_crc32c: u32,
    /// Whether a reader that ignores the extension block would read wrong values.
    pub needs_extension: bool,
}

/// Streams record batches of one schema into one data file.
pub struct FileWriter {
    schema: Arc<Schema>,
    arrow: SchemaRef,
    options: WriteOptions,
    sink: Box<dyn ObjectWriter>,
    path: String,
    rows_per_page: Option<usize>,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    statistics: BTreeMap<FieldId, StatisticsBuilder>,
    /// Rows written by the files before this one, for errors that count rows.
    first_row: u64,
    written: Written,
}

impl std::fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWriter")
            .field("path", &self.path)
            .field("rows", &self.num_rows())
            .finish_non_exhaustive()
    }
}

/// An Arrow buffer as the owner of `Bytes`, which share its memory.
struct Shared(Buffer);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl FileWriter {
    /// A writer of the file `path` into `sink`. `first_row` is the number of rows that earlier files of the same write hold:
    /// errors count rows from the start of the caller's data.
    ///
    /// # Errors
    /// `InvalidInput` for a schema without columns, `Unsupported` for a column whose type cannot be stored, or under
    /// `compat="lance"` not in v1.
    pub fn new(
        schema: Arc<Schema>,
        path: impl Into<String>,
        sink: Box<dyn ObjectWriter>,
        options: WriteOptions,
        first_row: u64,
    ) -> Result<Self> {
        let path = path.into();
        let ids = schema.ids();
        let (Some(&first_id), Some(&last_id)) = (ids.iter().min(), ids.iter().max()) else {
            return Err(Error::InvalidInput {
                message: format!("{path}: a data file needs a column"),
            });
        };
        let needs_extension = schema.is_beyond_v1();
        options.check_types(&schema, &path)?;
        let rows =
            usize::try_from(i64::from(last_id) - i64::from(first_id) + 1).unwrap_or(usize::MAX);
        let mut columns = Vec::new();
        columns.resize_with(rows, Vec::new);
        let mut statistics = BTreeMap::new();
        for field in &schema.fields {
            add_statistics(field, &options, &mut statistics)?;
        }
        let written = Written {
            position: 0,
            batch_offsets: vec![0],
            columns,
            first_id,
            needs_extension,
        };
        let arrow = schema.to_arrow();
        Ok(Self {
            schema,
            arrow,
            options,
            sink,
            path,
            rows_per_page: None,
            pending: Vec::new(),
            pending_rows: 0,
            statistics,
            first_row,
            written,
        })
    }

    /// Rows given to [`write`](Self::write) so far.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.encoded_rows() + self.pending_rows as u64
    }

    fn encoded_rows(&self) -> u64 {
        self.written
            .batch_offsets
            .last()
            .map_or(0, |&rows| u64::from(rows.unsigned_abs()))
    }

    /// Bytes written so far, without the rows that wait until a page is full.
    #[must_use]
    pub fn num_bytes(&self) -> u64 {
        self.written.position
    }

    /// Rows per page of this file; `None` before the first rows were written, because their size decides.
    #[must_use]
    pub fn rows_per_page(&self) -> Option<usize> {
        self.rows_per_page
    }

    /// Adds rows. Columns are matched by position; dictionary columns hold keys into the values given to [`finish`](Self::finish).
    ///
    /// # Errors
    /// `InvalidInput` for other types than the schema's, a null in a column that is not nullable, or more rows than a file holds;
    /// `Lossy` for a value that v1 would lose, under `compat="lance"`; `Store` if the sink fails.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let rows_per_page = self.rows_per_page_for(batch);
        let mut rest = batch.clone();
        while self.pending_rows + rest.num_rows() >= rows_per_page {
            let head = rest.slice(0, rows_per_page - self.pending_rows);
            rest = rest.slice(head.num_rows(), rest.num_rows() - head.num_rows());
            self.pending.push(head);
            self.write_pending().await?;
        }
        if rest.num_rows() > 0 {
            self.pending_rows += rest.num_rows();
            self.pending.push(rest);
        }
        Ok(())
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        if batch.num_columns() != self.arrow.fields().len() {
            let message = format!(
                "a batch has {} columns, the schema {}",
                batch.num_columns(),
                self.arrow.fields().len()
            );
            return Err(Error::InvalidInput { message });
        }
        for (column, field) in batch.columns().iter().zip(self.arrow.fields()) {
            if !column.data_type().equals_datatype(field.data_type()) {
                let message = format!(
                    "column `{}` is {}, the table stores {}; cast it",
                    field.name(),
                    type_name(column.data_type()),
                    type_name(field.data_type())
                );
                return Err(Error::InvalidInput { message });
            }
        }
        let rows = self.num_rows() + batch.num_rows() as u64;
        if i32::try_from(rows).is_err() {
            let message = format!(
                "{}: a data file holds at most 2,147,483,647 rows",
                self.path
            );
            return Err(Error::InvalidInput { message });
        }
        Ok(())
    }

    fn rows_per_page_for(&mut self, batch: &RecordBatch) -> usize {
        let options = &self.options;
        *self.rows_per_page.get_or_insert_with(|| {
            let bytes: usize = batch.columns().iter().map(slice_bytes).sum();
            let rows = options.rows_per_page(bytes as u64 / batch.num_rows().max(1) as u64);
            usize::try_from(rows).unwrap_or(usize::MAX).max(1)
        })
    }

    /// Encodes and writes the rows that wait, as one batch of pages.
    async fn write_pending(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.pending);
        self.pending_rows = 0;
        let batch = match batches.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            many => arrow_select::concat::concat_batches(many[0].schema_ref(), many).map_err(
                |error| Error::InvalidInput {
                    message: format!("{}: {error}", self.path),
                },
            )?,
        };
        let schema = Arc::clone(&self.schema);
        let mut buffers = Vec::new();
        for (field, column) in schema.fields.iter().zip(batch.columns()) {
            let mut node = Node {
                field,
                path: &field.name,
                hidden: None,
                in_list: false,
                is_plain_item: false,
            };
            self.encode(&mut node, column, &mut buffers)?;
            for buffer in buffers.drain(..) {
                self.sink.write(buffer).await?;
            }
        }
        let rows = self.encoded_rows() + batch.num_rows() as u64;
        self.written
            .batch_offsets
            .push(i32::try_from(rows).unwrap_or(i32::MAX));
        Ok(())
    }

    /// Encodes one node and those below it, and appends their bytes to `buffers` in file order.
    fn encode(
        &mut self,
        node: &mut Node<'_>,
        array: &ArrayRef,
        buffers: &mut Vec<Bytes>,
    ) -> Result<()> {
        let field = node.field;
        let failed = |error| Error::page("the data to write", node.path, error);
        if is_aligned(&field.data_type) {
            self.align(buffers);
        }
        let start = self.written.position;
        let hidden = node.hidden.as_ref();
        let mut page =
            encode_page(array.as_ref(), field.nullable, hidden, start).map_err(failed)?;
        let is_text = matches!(Layout::of(&field.data_type), Ok(Layout::Var { .. }));
        if is_text && !field.nullable && node.is_plain_item {
            // Other readers take the items of every list for nullable: an empty text would be null for them.
            page = encode_page(array.as_ref(), true, hidden, start).map_err(failed)?;
        }
        if page.needs_extension() {
            if self.options.compat == Compat::Lance {
                return Err(self.lossy(node, &page));
            }
            self.written.needs_extension = true;
        }
        if !node.in_list
            && let Some(statistics) = self.statistics.get_mut(&field.id)
        {
            statistics
                .push_page(array.as_ref(), node.hidden.as_ref())
                .map_err(failed)?;
        }
        self.record(field, page, buffers);
        let no_such = |what| Error::InvalidInput {
            message: format!("column `{}` is no {what}", node.path),
        };
        let hidden = node.hidden.as_ref();
        let (below, in_list) = match Layout::of(&field.data_type).map_err(failed)? {
            Layout::Struct => {
                let members = array.as_struct_opt().ok_or_else(|| no_such("struct"))?;
                let children = struct_children(members, hidden).map_err(failed)?;
                (children, node.in_list)
            }
            Layout::Offsets { .. } => {
                let items = list_child(array.as_ref(), hidden).map_err(failed)?;
                (vec![(items, None)], true)
            }
            Layout::Items { .. } => {
                let lists = array.as_fixed_size_list_opt();
                let lists = lists.ok_or_else(|| no_such("fixed-size list"))?;
                (vec![items_child(lists, hidden).map_err(failed)?], true)
            }
            _ => return Ok(()),
        };
        let is_plain_item = matches!(field.data_type, DataType::List(_) | DataType::LargeList(_));
        for (child, (values, hidden)) in field.children.iter().zip(below) {
            let path = format!("{}.{}", node.path, child.name);
            let mut below = Node {
                field: child,
                path: &path,
                hidden,
                in_list,
                is_plain_item,
            };
            self.encode(&mut below, &values, buffers)?;
        }
        Ok(())
    }

    fn lossy(&self, node: &Node<'_>, page: &EncodedPage) -> Error {
        let (row, count, what) = page.lossy.as_ref().map_or((0, 0, "these values"), |lossy| {
            (lossy.first_row, lossy.count, lossy.what)
        });
        // Inside a list, a row of the page is an item and not a row of the table: name the first row of the batch instead.
        let row = if node.in_list { 0 } else { row };
        let first_row = self.first_row + self.encoded_rows() + row;
        Error::Lossy {
            column: node.path.to_owned(),
            first_row,
            count,
            what: what.to_owned(),
        }
    }

    /// Appends the bytes of a page to `buffers` and its position to the directory.
    fn record(&mut self, field: &Field, page: EncodedPage, buffers: &mut Vec<Bytes>) {
        let position = self.written.position;
        let block = self.options.checksum_block;
        let mut record = PageRecord {
            pointer: position + page.pointer,
            length: page.length,
            in_table: !has_members(&field.data_type),
            position,
            num_bytes: page.byte_len,
            ..PageRecord::default()
        };
        if let Some(block) = block {
            record.checksums = block_checksums(page.buffers.iter().map(Buffer::as_slice), block);
        }
        for buffer in page.buffers {
            self.push(buffer, buffers);
        }
        for level in page.validity {
            record.validity.push(match level {
                LevelValidity::V1 => ValidityRecord::V1,
                LevelValidity::AllValid => ValidityRecord::AllValid,
                LevelValidity::AllNull => ValidityRecord::AllNull,
                LevelValidity::Bitmap(bits) => {
                    let checksums = block.map(|block| block_checksums([bits.as_slice()], block));
                    let (position, num_bytes) = (self.written.position, bits.len() as u64);
                    self.push(bits, buffers);
                    ValidityRecord::Bitmap {
                        position,
                        num_bytes,
                        checksums: checksums.unwrap_or_default(),
                    }
                }
            });
        }
        let row = usize::try_from(field.id - self.written.first_id).unwrap_or(0);
        if let Some(column) = self.written.columns.get_mut(row) {
            column.push(record);
        }
    }

    fn push(&mut self, buffer: Buffer, buffers: &mut Vec<Bytes>) {
        if !buffer.is_empty() {
            self.written.position += buffer.len() as u64;
            buffers.push(Bytes::from_owner(Shared(buffer)));
        }
    }

    fn align(&mut self, buffers: &mut Vec<Bytes>) {
        let gap = self
            .written
            .position
            .next_multiple_of(self.options.alignment.max(1))
            - self.written.position;
        if let Ok(gap) = usize::try_from(gap) {
            self.push(Buffer::from_vec(vec![0_u8; gap]), buffers);
        }
    }

    /// Writes the rows that wait, then statistics, dictionary values, manifest, checksums and directory, and makes the file
    /// durable.
    ///
    /// # Errors
    /// `InvalidInput` for a file without rows, because no empty file is ever written, and for dictionary values that hold nulls;
    /// otherwise as [`write`](Self::write).
    pub async fn finish(mut self, dictionaries: &Dictionaries) -> Result<WrittenFile> {
        self.write_pending().await?;
        if self.encoded_rows() == 0 {
            return Err(Error::InvalidInput {
                message: format!("{}: a data file needs a row", self.path),
            });
        }
        let num_rows = self.encoded_rows();
        let statistics = std::mem::take(&mut self.statistics);
        let trailer = trailer::encode(
            &self.schema,
            &self.written,
            statistics,
            dictionaries,
            &self.options,
        )?;
        self.sink.write(Bytes::from(trailer.bytes)).await?;
        let num_bytes = self.sink.finish().await?;
        tracing::debug!(
            target: EVENTS,
            path = self.path,
            bytes = num_bytes,
            rows = num_rows,
            batches = self.written.batch_offsets.len() - 1,
            needs_extension = trailer.needs_extension,
            "write"
        );
        let mut field_ids = self.schema.ids();
        field_ids.sort_unstable();
        Ok(WrittenFile {
            path: self.path,
            field_ids,
            num_rows,
            num_bytes,
            metadata_crc32c: trailer.metadata_crc32c,
            needs_extension: trailer.needs_extension,
        })
    }
}

/// A node of the schema that is being encoded.
struct Node<'a> {
    field: &'a Field,
    /// Dotted path of the column, for errors.
    path: &'a str,
    /// Slots that are null because an ancestor is.
    hidden: Option<NullBuffer>,
    in_list: bool,
    /// This is the item of a list: other readers take it for nullable.
    is_plain_item: bool,
}

/// Whether readers use pages of this type as Arrow buffers, which should start aligned.
fn is_aligned(data_type: &DataType) -> bool {
    matches!(
        Layout::of(data_type),
        Ok(Layout::Fixed(_) | Layout::Keys { .. } | Layout::Offsets { .. })
    )
}

/// Whether this is a struct with members: its pair in the page table is (0, 0).
fn has_members(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Struct(members) if !members.is_empty())
}

/// Statistics are kept for leaves at top level or inside structs, not below lists.
fn add_statistics(
    field: &Field,
    options: &WriteOptions,
    builders: &mut BTreeMap<FieldId, StatisticsBuilder>,
) -> Result<()> {
    let has_statistics = match options.extended_statistics {
        true => has_statistics(&field.data_type),
        false => has_peer_statistics(&field.data_type),
    };
    if matches!(field.data_type, DataType::Struct(_)) {
        for child in &field.children {
            add_statistics(child, options, builders)?;
        }
    } else if has_statistics && builders.len() < options.max_statistics {
        let builder = StatisticsBuilder::new(&field.data_type)
            .map_err(|error| Error::page("the data to write", &field.name, error))?;
        let builder = match options.extended_statistics {
            true => builder.covering_nan(),
            false => builder,
        };
        builders.insert(field.id, builder);
    }
    Ok(())
}

/// About how many Arrow bytes the rows of a slice take, to choose a page size.
fn slice_bytes(array: &ArrayRef) -> usize {
    array
        .to_data()
        .get_slice_memory_size()
        .unwrap_or_else(|_| array.get_array_memory_size())
}
