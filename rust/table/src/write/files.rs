//! Data files: batches are cut into whole pages, pages fill one file after the other.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema as ArrowSchema};
use futures::stream::{Stream, StreamExt};
use pilum_file::{Compat, FileWriter};
use pilum_format::dictionary_validity;
use pilum_format::{DataFile, Field, Fragment, Schema};
use pilum_store::Store;
use uuid::Uuid;

use super::event;
use super::finished_files::FinishedFiles;
use super::incoming::Origin;
use super::options::WriteOptions;
use super::staged::StagedFragments;
use crate::error::{Error, Result};
use crate::read::options::{ROW_ADDRESS, ROW_ID};
use crate::read::snapshot::Snapshot;
use crate::versions::durable_put::remove_files;
use crate::write::dictionary_builder::DictionaryBuilders;
use crate::write::schema_adapter::SchemaAdapter;

/// Version numbers of the data files that are written.
const FILE_VERSION: (u32, u32) = (0, 2);
/// Rows per page of tables with dictionaries, whose pages are cut here.
const KEYED_PAGE_ROWS: u64 = 8192;

/// As [`write_fragments`](super::write_fragments), for a stream of batches of `batch_schema` from `origin`.
pub(crate) async fn write_stream(
    store: &Store,
    appends_to: Option<&Snapshot>,
    (batch_schema, origin): (&ArrowSchema, Origin),
    batches: impl Stream<Item = Result<RecordBatch>>,
    options: &WriteOptions,
) -> Result<StagedFragments> {
    if options.max_rows_per_file == 0 || options.max_rows_per_page == Some(0) {
        return Err(Error::invalid(
            "max_rows_per_file, max_rows_per_page",
            "must be at least 1",
        ));
    }
    let options = &options.for_table(appends_to);
    let (schema, dictionaries) = match appends_to {
        Some(base) => (
            Arc::clone(base.schema()),
            DictionaryBuilders::of_table(base.dictionaries())?,
        ),
        None => {
            let schema = Schema::from_arrow(batch_schema, 0)?;
            check_names(&schema)?;
            (Arc::new(schema), DictionaryBuilders::default())
        }
    };
    let adapter = SchemaAdapter::new(&schema, batch_schema, origin)?;
    let files = Files::new(store, adapter, dictionaries, options);
    let new = files.write_to_end(batches).await?;
    Ok(StagedFragments {
        read_version: appends_to.map_or(0, Snapshot::version),
        ..new
    })
}

/// Refuses names that a condition, a key or a read would take for the row id or the row address.
fn check_names(schema: &Schema) -> Result<()> {
    let taken = |field: &&Field| field.name == ROW_ID || field.name == ROW_ADDRESS;
    match schema.fields.iter().find(taken) {
        None => Ok(()),
        Some(field) => Err(Error::invalid(
            format!("column `{}`", field.name),
            "is the name of a column that every table has; rename it",
        )),
    }
}

/// Writes columns of `schema` to one file for each of `lens`, which are numbers of rows. The dictionaries continue those
/// given.
pub(crate) async fn write_files_of(
    store: &Store,
    (schema, dictionaries): (&Arc<Schema>, &BTreeMap<i32, ArrayRef>),
    batch_schema: &ArrowSchema,
    batches: impl Stream<Item = Result<RecordBatch>>,
    lens: VecDeque<u64>,
    options: &WriteOptions,
) -> Result<StagedFragments> {
    let adapter = SchemaAdapter::new(schema, batch_schema, Origin::Table)?;
    let dictionaries = DictionaryBuilders::of_table(dictionaries)?;
    let mut files = Files::new(store, adapter, dictionaries, options);
    files.lens = lens;
    files.write_to_end(batches).await
}

/// The data files of one write, one after the other.
struct Files<'a> {
    store: &'a Store,
    adapter: SchemaAdapter,
    dictionaries: DictionaryBuilders,
    options: &'a WriteOptions,
    layout: pilum_file::WriteOptions,
    /// Batches that wait until they fill a page, where pages are cut here.
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    /// The file being written and its name below `data/`.
    open: Option<(FileWriter, String)>,
    fragments: Vec<Fragment>,
    paths: FinishedFiles,
    num_rows: u64,
    num_bytes: u64,
    /// Rows of each further file; without them the options say when a file is full.
    lens: VecDeque<u64>,
}

impl<'a> Files<'a> {
    fn new(
        store: &'a Store,
        adapter: SchemaAdapter,
        dictionaries: DictionaryBuilders,
        options: &'a WriteOptions,
    ) -> Self {
        let mut layout = options.layout.clone();
        layout.compat = options.compat.unwrap_or_default();
        layout.max_rows_per_page = options.max_rows_per_page.or(layout.max_rows_per_page);
        if adapter.has_dictionaries() {
            // Batches that wait for their page hold plain keys, because concatenating dictionary arrays would renumber
            // the keys. So pages are cut here, and not by the file writer.
            layout.max_rows_per_page.get_or_insert(KEYED_PAGE_ROWS);
        }
        if let Some(rows) = &mut layout.max_rows_per_page {
            *rows = (*rows).min(options.max_rows_per_file);
        }
        Self {
            store,
            adapter,
            dictionaries,
            options,
            layout,
            waiting: Vec::new(),
            waiting_rows: 0,
            open: None,
            fragments: Vec::new(),
            paths: FinishedFiles::new(store),
            num_rows: 0,
            num_bytes: 0,
            lens: VecDeque::new(),
        }
    }

    /// The fragments of all batches; after an error their files are removed.
    async fn write_to_end(
        mut self,
        batches: impl Stream<Item = Result<RecordBatch>>,
    ) -> Result<StagedFragments> {
        let written = self.write_all(batches).await;
        match written.and_then(|()| self.dictionaries_written()) {
            Ok(dictionaries) => Ok(self.into_fragments(dictionaries)),
            Err(error) => {
                drop(self.open.take());
                remove_files(self.store, &self.paths).await;
                self.paths.release();
                Err(error)
            }
        }
    }

    async fn write_all(&mut self, batches: impl Stream<Item = Result<RecordBatch>>) -> Result<()> {
        // Types that the table cannot store are refused before the first row is read.
        (self.layout).check_types(self.adapter.schema(), self.store.uri())?;
        let mut batches = pin!(batches);
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if self.adapter.schema().fields.is_empty() && batch.num_rows() > 0 {
                return Err(Error::invalid(
                    "the data",
                    "have rows and no column; add a column",
                ));
            }
            let batch = self.adapter.keyed(&batch, &mut self.dictionaries)?;
            if self.layout.compat == Compat::Lance && self.dictionaries.has_empty() {
                let dictionaries = self.dictionaries.arrays()?;
                self.check_dictionaries(&dictionaries)?;
            }
            if self.adapter.has_dictionaries() {
                self.wait(batch).await?;
            } else {
                self.write(batch).await?;
            }
        }
        if self.waiting_rows > 0 {
            self.write_waiting().await?;
        }
        self.close().await
    }

    /// Collects batches into whole pages.
    async fn wait(&mut self, mut batch: RecordBatch) -> Result<()> {
        let page = self.layout.max_rows_per_page.unwrap_or(KEYED_PAGE_ROWS);
        while batch.num_rows() > 0 {
            // The end of a file ends the page too.
            let until_page = page.saturating_sub(self.waiting_rows as u64);
            let room = self
                .room()
                .saturating_sub(self.waiting_rows as u64)
                .min(until_page)
                .max(1);
            let rows = usize::try_from(room)
                .unwrap_or(usize::MAX)
                .min(batch.num_rows());
            self.waiting.push(batch.slice(0, rows));
            self.waiting_rows += rows;
            batch = batch.slice(rows, batch.num_rows() - rows);
            if self.waiting_rows as u64 >= page.min(self.room()) {
                self.write_waiting().await?;
            }
        }
        Ok(())
    }

    async fn write_waiting(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_rows = 0;
        let batch = self.adapter.stored(&waiting, &mut self.dictionaries)?;
        self.write(batch).await
    }

    /// Rows that the open file, or else the next one, has room for.
    fn room(&self) -> u64 {
        let used = self.open.as_ref().map_or(0, |(file, _)| file.num_rows());
        self.most_rows().saturating_sub(used)
    }

    /// Rows at which the open file, or else the next one, is full.
    fn most_rows(&self) -> u64 {
        let most = self.options.max_rows_per_file;
        self.lens.front().copied().unwrap_or(most)
    }

    async fn write(&mut self, mut batch: RecordBatch) -> Result<()> {
        while batch.num_rows() > 0 {
            let rows = usize::try_from(self.room())
                .unwrap_or(usize::MAX)
                .min(batch.num_rows());
            let head = batch.slice(0, rows);
            batch = batch.slice(rows, batch.num_rows() - rows);
            if self.open.is_none() {
                self.open = Some(self.create().await?);
            }
            let Some((file, _)) = &mut self.open else {
                continue;
            };
            file.write(&head).await?;
            let (rows, bytes) = (file.num_rows(), file.num_bytes());
            let is_too_large = self.lens.is_empty() && bytes >= self.options.max_bytes_per_file;
            if rows >= self.most_rows() || is_too_large {
                self.close().await?;
                self.lens.pop_front();
            }
        }
        Ok(())
    }

    // `&mut`, because a file writer is `Send` and not `Sync`: a shared reference would make the future not `Send`.
    async fn create(&mut self) -> Result<(FileWriter, String)> {
        let name = data_file_name();
        let path = format!("data/{name}");
        let sink = self.store.writer(&path).await?;
        let schema = Arc::clone(self.adapter.schema());
        let file = FileWriter::new(schema, path, sink, self.layout.clone(), self.num_rows)?;
        Ok((file, name))
    }

    async fn close(&mut self) -> Result<()> {
        let Some((file, name)) = self.open.take() else {
            return Ok(());
        };
        // Noted before the file is finished: a failing finish may leave the file behind.
        self.paths.add(format!("data/{name}"));
        let dictionaries = self.dictionaries.arrays()?;
        if self.layout.compat == Compat::Lance {
            self.check_dictionaries(&dictionaries)?;
        }
        let written = file.finish(&dictionaries).await?;
        self.num_rows += written.num_rows;
        self.num_bytes += written.num_bytes;
        event::file(self.store, &name, written.num_rows, written.num_bytes);
        let file = DataFile {
            path: name,
            field_ids: written.field_ids,
            file_version: FILE_VERSION,
            byte_len: written.num_bytes,
            metadata_crc32c: Some(written.metadata_crc32c),
            needs_extension: written.needs_extension,
        };
        self.fragments.push(Fragment {
            files: vec![file],
            physical_rows: written.num_rows,
            ..Fragment::default()
        });
        Ok(())
    }

    /// Lance v1 reads an empty dictionary value as null.
    fn check_dictionaries(&self, dictionaries: &BTreeMap<i32, ArrayRef>) -> Result<()> {
        for (id, values) in dictionaries {
            let Some(field) = self.adapter.schema().field_by_id(*id) else {
                continue;
            };
            if dictionary_validity(values).is_some() {
                return Err(Error::invalid(
                    format!("column `{}`", field.name),
                    "Lance v1 cannot hold an empty value in a dictionary; change the value, or pass \
                     compat=\"lossless\" to keep it: pylance can then no longer read the table",
                ));
            }
        }
        Ok(())
    }

    fn dictionaries_written(&mut self) -> Result<BTreeMap<i32, ArrayRef>> {
        for field in self.adapter.schema().walk() {
            if let DataType::Dictionary(_, values) = &field.data_type {
                self.dictionaries.ensure(field.id, values);
            }
        }
        self.dictionaries.arrays()
    }

    fn into_fragments(mut self, dictionaries: BTreeMap<i32, ArrayRef>) -> StagedFragments {
        self.paths.release();
        StagedFragments {
            fragments: self.fragments,
            schema: Arc::clone(self.adapter.schema()),
            dictionaries,
            read_version: 0,
            num_rows: self.num_rows,
            num_bytes: self.num_bytes,
        }
    }
}

/// A unique name: random bits come first, so that object stores spread the files.
fn data_file_name() -> String {
    let uuid = Uuid::new_v4();
    let bytes = uuid.as_bytes();
    let mut name = String::with_capacity(56);
    name.extend(bytes[..3].iter().map(|byte| format!("{byte:08b}")));
    name.extend(bytes[3..].iter().map(|byte| format!("{byte:02x}")));
    name.push_str(".lance");
    name
}
