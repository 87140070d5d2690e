//! Writing rows: batches into data files, and one commit that makes them part of the table.
//!
//! Data files are complete and durable before the commit names them. Whatever fails before leaves the table as
//! it was, and the files are removed; only when nobody knows whether the commit happened do they stay.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Schema as ArrowSchema};
use bytes::Bytes;
use futures::stream::{Stream, StreamExt};
use pilum_file::{Compat, FileWriter, Schema, dictionary_validity};
use pilum_store::{Durability, Store};
use prost::Message;
use uuid::Uuid;

use crate::commit::{CommitOptions, DEFAULT_RETRIES, commit, remove_files};
use crate::commit_id;
use crate::conflict::Reason;
use crate::conform::Conform;
use crate::error::{Error, Result};
use crate::expect::Expectation;
use crate::fragment::{DataFile, Fragment};
use crate::growing::{GrowingDictionaries, longer};
use crate::proto;
use crate::rekey::rekey;
use crate::snapshot::Snapshot;
use crate::statement::Turns;
use crate::transaction::{Operation, Transaction};

/// Version numbers of the data files that are written.
const FILE_VERSION: (u32, u32) = (0, 2);
/// Rows per page of tables with dictionaries, whose pages are cut here.
const KEYED_PAGE_ROWS: u64 = 8192;

/// What to do with a table that exists, or does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum WriteMode {
    /// Make a new table; fail if there is one.
    #[default]
    Create,
    /// Add rows; make the table if there is none.
    Append,
    /// Replace rows and schema; make the table if there is none.
    Overwrite,
}

/// How to write rows.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WriteOptions {
    /// What to do with a table that exists, or does not.
    pub mode: WriteMode,
    /// What happens to values that version 1 cannot hold.
    pub compat: Compat,
    /// A data file is closed when it has so many rows.
    pub max_rows_per_file: u64,
    /// A data file is closed when it has about so many bytes.
    pub max_bytes_per_file: u64,
    /// Rows per page; `None` chooses by the width of a row.
    pub max_rows_per_page: Option<u64>,
    /// Give the rows of a new table ids that stay theirs.
    pub stable_row_ids: bool,
    /// What an acknowledged write promises.
    pub durability: Durability,
    /// The caller's words about the commit.
    pub properties: BTreeMap<String, String>,
    /// The caller's id for the commit: the same id commits once.
    pub commit_id: Option<String>,
    /// What must hold of the version that the write's follows.
    pub expect: Option<Expectation>,
    /// Attempts to commit after the first one.
    pub retries: u32,
    /// Layout of the data files: page alignment and checksums.
    pub layout: pilum_file::WriteOptions,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            mode: WriteMode::Create,
            compat: Compat::Lossless,
            max_rows_per_file: 1 << 20,
            max_bytes_per_file: 90 << 30,
            max_rows_per_page: None,
            stable_row_ids: false,
            durability: Durability::Full,
            properties: BTreeMap::new(),
            commit_id: None,
            expect: None,
            retries: DEFAULT_RETRIES,
            layout: pilum_file::WriteOptions::default(),
        }
    }
}

/// What a write did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Written {
    /// The version that has the rows.
    pub snapshot: Snapshot,
    /// Rows written by this call.
    pub num_rows: u64,
    /// Bytes of the data files written by this call.
    pub num_bytes: u64,
    /// Attempts to commit; 0 if the commit id was committed before.
    pub attempts: u32,
    /// An earlier call with the same commit id did it all; this one wrote nothing.
    pub was_committed_before: bool,
}

/// Data files that no version names yet.
#[derive(Debug, Clone)]
pub struct NewFragments {
    /// Without ids: the commit assigns them.
    pub fragments: Vec<Fragment>,
    /// The schema that they were written with.
    pub schema: Arc<Schema>,
    /// Values of the dictionary columns, by field id.
    pub dictionaries: BTreeMap<i32, ArrayRef>,
    /// Rows in the files.
    pub num_rows: u64,
    /// Bytes of the files.
    pub num_bytes: u64,
}

/// Writes the rows of `batches` and commits them.
///
/// # Errors
/// [`Error::InvalidInput`] lists how the data do not fit the table. Whatever the error, unless it is
/// [`Error::CommitUnknown`], the table is as it was.
pub async fn write(
    store: &Store,
    batches: impl RecordBatchReader,
    options: &WriteOptions,
) -> Result<Written> {
    let store = store.clone().with_durability(options.durability);
    let base = Snapshot::try_newest(&store).await?;
    if let Some(snapshot) = commit_id::of(&store, options.commit_id.as_deref()).await? {
        let (num_rows, num_bytes, attempts) = (0, 0, 0);
        return Ok(Written {
            snapshot,
            num_rows,
            num_bytes,
            attempts,
            was_committed_before: true,
        });
    }
    if let Some(base) = &base {
        check_base(base, options)?;
    }
    // What costs nothing to know is told before a file is written; the commit checks it all.
    if let Some(expected @ Expectation::Version(_)) = &options.expect {
        expected.check(&store, base.as_ref(), "write").await?;
    }
    let appends_to = base.as_ref().filter(|_| options.mode == WriteMode::Append);
    let mut new = write_fragments(&store, appends_to, batches, options).await?;
    let (num_rows, num_bytes) = (new.num_rows, new.num_bytes);
    let mut base = base;
    let mut turns = Turns::new(options.retries);
    let committed = loop {
        let committed = commit_fragments(&store, base.clone(), new.clone(), options).await;
        let is_diverged = matches!(
            &committed,
            Err(Error::Conflict {
                reason: Reason::Dictionary(_),
                ..
            })
        );
        let committed = match committed {
            Err(error) if is_diverged => match turns.again(error).await {
                // The rows are in the files: their keys alone have to be others.
                Ok(()) => match rekey(&store, &mut base, &new, options).await {
                    Ok(again) => {
                        new.discard(&store).await;
                        new = again;
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            },
            committed => committed,
        };
        break committed;
    };
    let is_unused = match &committed {
        Ok(committed) => committed.was_committed_before,
        Err(Error::CommitUnknown { .. }) => false,
        Err(_) => true,
    };
    if is_unused {
        new.discard(&store).await;
    }
    let committed = committed?;
    let was_committed_before = committed.was_committed_before;
    Ok(Written {
        snapshot: committed.snapshot,
        num_rows: if was_committed_before { 0 } else { num_rows },
        num_bytes: if was_committed_before { 0 } else { num_bytes },
        attempts: committed.attempts,
        was_committed_before,
    })
}

fn check_base(base: &Snapshot, options: &WriteOptions) -> Result<()> {
    if options.mode == WriteMode::Create {
        return Err(exists(base.uri()));
    }
    if options.stable_row_ids && !base.manifest().has_stable_row_ids() {
        return Err(Error::invalid(
            "stable_row_ids",
            format!(
                "cannot be switched on in the table at {}, which was created without; write a new table",
                base.uri()
            ),
        ));
    }
    crate::apply::check_writable(base.manifest()).map_err(|error| error.at(base.uri()))
}

fn exists(uri: &str) -> Error {
    Error::AlreadyExists {
        what: format!("a table at {uri}"),
        hint: "append to it, overwrite it, or choose another address".to_owned(),
    }
}

/// Commits fragments by the mode of `options`: what [`write()`] does after the files are written.
///
/// `base` is the version that the fragments were written for. The data files stay whatever happens: after an
/// error other than [`Error::CommitUnknown`], or a commit that was made before, [`NewFragments::discard`] them.
///
/// # Errors
/// As [`commit`].
pub async fn commit_fragments(
    store: &Store,
    base: Option<Snapshot>,
    new: NewFragments,
    options: &WriteOptions,
) -> Result<crate::commit::Committed> {
    let commit_options = |must_create| CommitOptions {
        retries: options.retries,
        commit_id: options.commit_id.clone(),
        must_create,
        stable_row_ids: options.stable_row_ids,
        dictionaries: new.dictionaries.clone(),
        expect: options.expect.clone(),
    };
    let transaction = |read_version, operation| Transaction {
        properties: options.properties.clone(),
        ..Transaction::new(read_version, operation)
    };
    let append = |base: &Snapshot| {
        let operation = Operation::Append {
            fragments: new.fragments.clone(),
        };
        transaction(base.version(), operation)
    };
    if let Some(base) = base.as_ref().filter(|_| options.mode == WriteMode::Append) {
        check_fits(&new, base)?;
        return commit(store, Some(base), append(base), &commit_options(false)).await;
    }
    let metadata = new
        .schema
        .metadata_protos()
        .into_iter()
        .map(|(k, v)| (k, Bytes::from(v)));
    let operation = Operation::Overwrite {
        fragments: new.fragments.clone(),
        fields: new.schema.to_protos()?,
        schema_metadata: metadata.collect(),
        config_upserts: BTreeMap::new(),
    };
    // An append to nothing is a creation, and must not replace what somebody created meanwhile.
    let must_create = options.mode != WriteMode::Overwrite;
    let read_version = base.as_ref().map_or(0, Snapshot::version);
    let creation = transaction(read_version, operation);
    let result = commit(store, base.as_ref(), creation, &commit_options(must_create)).await;
    match result {
        Err(Error::AlreadyExists { .. }) if options.mode == WriteMode::Append => {
            let base = Snapshot::newest(store).await?;
            check_fits(&new, &base)?;
            commit(store, Some(&base), append(&base), &commit_options(false)).await
        }
        result => result,
    }
}

/// Fragments can be added to a table whose columns have the ids that they were written with.
fn check_fits(new: &NewFragments, base: &Snapshot) -> Result<()> {
    let columns = |schema: &Schema| -> BTreeMap<i32, (String, DataType, bool)> {
        let field =
            |it: &pilum_file::Field| (it.id, (it.name.clone(), it.data_type.clone(), it.nullable));
        schema.walk().map(field).collect()
    };
    if columns(&new.schema) != columns(base.schema()) {
        return Err(Error::invalid(
            "the data do not fit the table",
            format!(
                "they were written for other columns than those of version {} of {}; write them again",
                base.version(),
                base.uri()
            ),
        ));
    }
    let diverged = new.dictionaries.iter().find(|(id, values)| {
        let have = base.dictionaries().get(id);
        have.is_some_and(|have| longer(have, values).is_none())
    });
    let Some((id, _)) = diverged else {
        return Ok(());
    };
    let field = base.schema().field_by_id(*id);
    Err(Error::Conflict {
        uri: base.uri().to_owned(),
        ours: "Append",
        theirs: "Overwrite",
        version: base.version(),
        reason: Reason::Dictionary(field.map_or_else(String::new, |field| field.name.clone())),
        retryable: true,
    })
}

/// Writes data files without a commit: for rows to be appended to `appends_to`, or for a new schema.
///
/// # Errors
/// As [`write()`]; the files written so far are removed.
pub async fn write_fragments(
    store: &Store,
    appends_to: Option<&Snapshot>,
    batches: impl RecordBatchReader,
    options: &WriteOptions,
) -> Result<NewFragments> {
    let schema = batches.schema();
    let batches = futures::stream::iter(batches.map(|batch| batch.map_err(Error::Source)));
    write_stream(store, appends_to, &schema, batches, options).await
}

/// As [`write_fragments`], for batches of `batch_schema` that come as a stream.
pub(crate) async fn write_stream(
    store: &Store,
    appends_to: Option<&Snapshot>,
    batch_schema: &ArrowSchema,
    batches: impl Stream<Item = Result<RecordBatch>>,
    options: &WriteOptions,
) -> Result<NewFragments> {
    if options.max_rows_per_file == 0 || options.max_rows_per_page == Some(0) {
        return Err(Error::invalid(
            "max_rows_per_file, max_rows_per_page",
            "must be at least 1",
        ));
    }
    let (schema, dictionaries) = match appends_to {
        Some(base) => (
            Arc::clone(base.schema()),
            GrowingDictionaries::of_table(base.dictionaries())?,
        ),
        None => {
            let schema = Schema::from_arrow(batch_schema, 0)?;
            (Arc::new(schema), GrowingDictionaries::default())
        }
    };
    let conform = Conform::new(&schema, batch_schema)?;
    let files = Files::new(store, conform, dictionaries, options);
    files.write_to_end(batches).await
}

/// Writes columns of `schema` to one file for each of `lens`, which says how many rows it takes. Dictionaries go on
/// from those given.
pub(crate) async fn write_files_of(
    store: &Store,
    (schema, dictionaries): (&Arc<Schema>, &BTreeMap<i32, ArrayRef>),
    batch_schema: &ArrowSchema,
    batches: impl Stream<Item = Result<RecordBatch>>,
    lens: VecDeque<u64>,
) -> Result<NewFragments> {
    let conform = Conform::new(schema, batch_schema)?;
    let options = WriteOptions::default();
    let dictionaries = GrowingDictionaries::of_table(dictionaries)?;
    let mut files = Files::new(store, conform, dictionaries, &options);
    files.lens = lens;
    files.write_to_end(batches).await
}

/// The data files of one write, one after the other.
struct Files<'a> {
    store: &'a Store,
    conform: Conform,
    dictionaries: GrowingDictionaries,
    options: &'a WriteOptions,
    layout: pilum_file::WriteOptions,
    /// Batches that wait until they fill a page, where pages are cut here.
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    /// The file being written and its name below `data/`.
    open: Option<(FileWriter, String)>,
    fragments: Vec<Fragment>,
    paths: Vec<String>,
    num_rows: u64,
    num_bytes: u64,
    /// Rows of each file to come, where they are laid down; else the options say when a file is full.
    lens: VecDeque<u64>,
}

impl<'a> Files<'a> {
    fn new(
        store: &'a Store,
        conform: Conform,
        dictionaries: GrowingDictionaries,
        options: &'a WriteOptions,
    ) -> Self {
        let mut layout = options.layout.clone();
        layout.compat = options.compat;
        layout.max_rows_per_page = options.max_rows_per_page.or(layout.max_rows_per_page);
        if conform.has_dictionaries() {
            // Keys of batches that wait for their page must stay keys: joining dictionary arrays would
            // renumber them. So pages are cut here, from plain keys.
            layout.max_rows_per_page.get_or_insert(KEYED_PAGE_ROWS);
        }
        if let Some(rows) = &mut layout.max_rows_per_page {
            *rows = (*rows).min(options.max_rows_per_file);
        }
        Self {
            store,
            conform,
            dictionaries,
            options,
            layout,
            waiting: Vec::new(),
            waiting_rows: 0,
            open: None,
            fragments: Vec::new(),
            paths: Vec::new(),
            num_rows: 0,
            num_bytes: 0,
            lens: VecDeque::new(),
        }
    }

    /// The fragments of all batches; after an error their files are gone.
    async fn write_to_end(
        mut self,
        batches: impl Stream<Item = Result<RecordBatch>>,
    ) -> Result<NewFragments> {
        let written = self.write_all(batches).await;
        match written.and_then(|()| self.dictionaries_written()) {
            Ok(dictionaries) => Ok(self.into_fragments(dictionaries)),
            Err(error) => {
                drop(self.open.take());
                remove_files(self.store, &self.paths).await;
                Err(error)
            }
        }
    }

    async fn write_all(&mut self, batches: impl Stream<Item = Result<RecordBatch>>) -> Result<()> {
        let mut batches = pin!(batches);
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if self.conform.schema().fields.is_empty() && batch.num_rows() > 0 {
                return Err(Error::invalid(
                    "the data",
                    "have rows and no column; add a column",
                ));
            }
            let batch = self.conform.keyed(&batch, &mut self.dictionaries)?;
            if self.conform.has_dictionaries() {
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
            // A file that ends before the page does ends the page.
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
        let batch = self.conform.stored(&waiting, &mut self.dictionaries)?;
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

    // `&mut`, because a file being written can be moved to another thread, but not looked at from two.
    async fn create(&mut self) -> Result<(FileWriter, String)> {
        let name = data_file_name();
        let path = format!("data/{name}");
        let sink = self.store.writer(&path).await?;
        let schema = Arc::clone(self.conform.schema());
        let file = FileWriter::new(schema, path, sink, self.layout.clone(), self.num_rows)?;
        Ok((file, name))
    }

    async fn close(&mut self) -> Result<()> {
        let Some((file, name)) = self.open.take() else {
            return Ok(());
        };
        // Known from here on: a failing finish may leave it behind.
        self.paths.push(format!("data/{name}"));
        let dictionaries = self.dictionaries.arrays()?;
        if self.options.compat == Compat::Lance {
            self.check_dictionaries(&dictionaries)?;
        }
        let written = file.finish(&dictionaries).await?;
        self.num_rows += written.num_rows;
        self.num_bytes += written.num_bytes;
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

    /// Version 1 has no way to say that an empty dictionary value is one.
    fn check_dictionaries(&self, dictionaries: &BTreeMap<i32, ArrayRef>) -> Result<()> {
        for (id, values) in dictionaries {
            let Some(field) = self.conform.schema().field_by_id(*id) else {
                continue;
            };
            if dictionary_validity(values).is_some() {
                return Err(Error::invalid(
                    format!("column `{}`", field.name),
                    "Lance v1 cannot hold an empty value in a dictionary; write with compat=\"lossless\" or change \
                     the value",
                ));
            }
        }
        Ok(())
    }

    fn dictionaries_written(&mut self) -> Result<BTreeMap<i32, ArrayRef>> {
        for field in self.conform.schema().walk() {
            if let DataType::Dictionary(_, values) = &field.data_type {
                self.dictionaries.ensure(field.id, values);
            }
        }
        self.dictionaries.arrays()
    }

    fn into_fragments(self, dictionaries: BTreeMap<i32, ArrayRef>) -> NewFragments {
        NewFragments {
            fragments: self.fragments,
            schema: Arc::clone(self.conform.schema()),
            dictionaries,
            num_rows: self.num_rows,
            num_bytes: self.num_bytes,
        }
    }
}

/// A name that nobody else uses: random bits first, so that object stores spread the files.
fn data_file_name() -> String {
    let uuid = Uuid::new_v4();
    let bytes = uuid.as_bytes();
    let mut name = String::with_capacity(56);
    for byte in &bytes[..3] {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:08b}");
    }
    for byte in &bytes[3..] {
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(".lance");
    name
}

impl NewFragments {
    /// Paths of the data files, below the table's root.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let files = self.fragments.iter().flat_map(|fragment| &fragment.files);
        files.map(DataFile::full_path).collect()
    }

    /// Removes the data files: for a write that is given up before its commit.
    pub async fn discard(&self, store: &Store) {
        remove_files(store, &self.paths()).await;
    }

    /// As bytes, for another process to commit.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with dictionary columns of a new table: each process would have its own
    /// dictionary, and a table has one.
    pub fn encode(&self) -> Result<Bytes> {
        if let Some((id, _)) = self
            .dictionaries
            .iter()
            .find(|(_, values)| !values.is_empty())
        {
            let name = self
                .schema
                .field_by_id(*id)
                .map_or("?", |field| &field.name);
            return Err(Error::unsupported(
                format!("column `{name}`: a dictionary in a write by several processes"),
                "store the column plain",
            ));
        }
        let metadata = self
            .schema
            .metadata_protos()
            .into_iter()
            .map(|(k, v)| (k, Bytes::from(v)));
        // The message of an overwrite holds what is needed: fragments and schema.
        let message = proto::transaction::Overwrite {
            fragments: self.fragments.iter().map(Fragment::encode).collect(),
            schema: self.schema.to_protos()?,
            schema_metadata: metadata.collect(),
            ..Default::default()
        };
        Ok(message.encode_to_vec().into())
    }

    /// Joins what several processes wrote with one schema.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if the schemas differ, [`Error::Corrupt`] for other bytes.
    pub fn decode(pieces: &[Bytes]) -> Result<Self> {
        let mut joined: Option<Self> = None;
        for piece in pieces {
            let message = proto::transaction::Overwrite::decode(piece.clone())
                .map_err(|error| Error::corrupt(format!("written fragments: {error}")))?;
            let metadata = message
                .schema_metadata
                .into_iter()
                .map(|(k, v)| (k, v.to_vec()))
                .collect();
            let schema = Schema::from_protos("written fragments", &message.schema, &metadata)?;
            let fragments: Vec<Fragment> = message
                .fragments
                .into_iter()
                .map(Fragment::decode)
                .collect::<Result<_>>()?;
            let joined = joined.get_or_insert_with(|| Self {
                fragments: Vec::new(),
                schema: Arc::new(schema.clone()),
                dictionaries: BTreeMap::new(),
                num_rows: 0,
                num_bytes: 0,
            });
            if *joined.schema != schema {
                return Err(Error::invalid(
                    "written fragments",
                    "have different schemas; write all of them with one schema",
                ));
            }
            joined.num_rows += fragments
                .iter()
                .map(|fragment| fragment.physical_rows)
                .sum::<u64>();
            let files = fragments.iter().flat_map(|fragment| &fragment.files);
            joined.num_bytes += files.map(|file| file.byte_len).sum::<u64>();
            joined.fragments.extend(fragments);
        }
        joined.ok_or_else(|| Error::invalid("written fragments", "there is none"))
    }
}

/// The error of a source of batches, for readers made of fallible iterators.
impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        Self::ExternalError(Box::new(error))
    }
}
