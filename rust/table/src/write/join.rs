//! Joining the dictionaries of staged fragments: one dictionary for each column of the table.
//!
//! A table has one dictionary per column, and each process made its own of the values that it met. Keys are positions,
//! so staged fragments keep their files if their dictionaries are prefixes of the joined ones; others are written again.
//!
//! ```text
//! table       a b
//! staged 1    a b c      the longest that continues the table's: its keys stay
//! staged 2    a b        a prefix of it: its keys stay
//! staged 3    a b d e    written again: 2 becomes 3, 3 becomes 4
//! joined      a b c d e
//! ```
//!
//! Values are never moved, only appended, so keys of committed files keep their meaning.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, SchemaRef};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use pilum_file::{Compat, Rows};
use pilum_format::Dictionaries;
use pilum_format::{Field, Fragment, Schema, continues, longer};
use pilum_store::Store;

use super::event;
use super::files::write_files_of;
use super::options::WriteOptions;
use super::staged::StagedFragments;
use crate::error::{Error, Result};
use crate::failpoints::pass;
use crate::read::context::ReadContext;
use crate::read::fragment::FragmentReader;
use crate::versions::durable_put::remove_files;
use crate::write::dictionary_builder::DictionaryBuilders;

/// Arrow memory of the rows that are read at once.
const READ_BYTES: u64 = 8 << 20;

/// Staged fragments with joined dictionaries.
pub(crate) struct Joined {
    /// The fragments to commit.
    pub(crate) new: StagedFragments,
    /// Data files of staged fragments that were written again: the commit does not name them.
    pub(crate) replaced: Vec<String>,
    /// Data files that replace them.
    pub(crate) written: Vec<String>,
}

/// The schema of all staged fragments.
pub(super) fn one_schema(staged: &[StagedFragments]) -> Result<&Arc<Schema>> {
    let schemas = || staged.iter().map(|one| &one.schema);
    let refused = |reason| Err(Error::invalid("written fragments", reason));
    match schemas().next() {
        None => refused("there are none; pass what the writers returned"),
        Some(schema) if schemas().all(|other| other == schema) => Ok(schema),
        Some(_) => refused("have different schemas; write all of them with one schema"),
    }
}

/// Joins staged fragments of one schema, with dictionaries that continue those of `table`. After an error the files that
/// were written for it are removed.
pub(crate) async fn join(
    store: &Store,
    table: &Dictionaries,
    schema: &Arc<Schema>,
    staged: &[StagedFragments],
    options: &WriteOptions,
) -> Result<Joined> {
    let mut together = JoinedDictionaries::new(table, schema, staged);
    let fits: Vec<bool> = staged.iter().map(|one| together.fits(one)).collect();
    together.extend(schema, staged)?;
    let mut joined = Joined {
        new: StagedFragments {
            fragments: Vec::new(),
            schema: Arc::clone(schema),
            dictionaries: together.dictionaries,
            read_version: 0,
            num_rows: 0,
            num_bytes: 0,
        },
        replaced: Vec::new(),
        written: Vec::new(),
    };
    for (one, fits) in staged.iter().zip(fits) {
        let new = if fits {
            Ok(one.clone())
        } else {
            rewrite(store, one, &joined.new.dictionaries, options).await
        };
        let new = match new {
            Ok(new) => new,
            Err(error) => {
                remove_files(store, &joined.written).await;
                return Err(error);
            }
        };
        if !fits {
            event::rewritten(store, new.num_rows, new.num_bytes);
            joined.replaced.extend(one.paths());
            joined.written.extend(new.paths());
        }
        let all = &mut joined.new;
        all.fragments.extend(new.fragments);
        all.num_rows = all.num_rows.saturating_add(new.num_rows);
        all.num_bytes = all.num_bytes.saturating_add(new.num_bytes);
    }
    Ok(joined)
}

/// One dictionary for each column.
struct JoinedDictionaries {
    dictionaries: BTreeMap<i32, ArrayRef>,
}

impl JoinedDictionaries {
    /// Of each column the longest staged dictionary that continues the table's; the table's if none does.
    fn new(table: &Dictionaries, schema: &Schema, staged: &[StagedFragments]) -> Self {
        let mut dictionaries = BTreeMap::new();
        for field in schema.walk() {
            let table = table.get(&field.id);
            let mut longest = table;
            for new in staged
                .iter()
                .filter_map(|it| it.dictionaries.get(&field.id))
            {
                let continues = table.is_none_or(|table| longer(table, new).is_some());
                if continues && longest.is_none_or(|longest| longest.len() < new.len()) {
                    longest = Some(new);
                }
            }
            dictionaries.extend(longest.map(|values| (field.id, Arc::clone(values))));
        }
        Self { dictionaries }
    }

    /// True if the keys of staged fragments mean the same in the joined dictionaries.
    fn fits(&self, one: &StagedFragments) -> bool {
        continues(&self.dictionaries, &one.dictionaries)
    }

    /// Appends the values of all other dictionaries, in their order.
    fn extend(&mut self, schema: &Schema, staged: &[StagedFragments]) -> Result<()> {
        let mut builders = DictionaryBuilders::of_table(&self.dictionaries)?;
        let mut columns = Vec::new();
        schema
            .fields
            .iter()
            .for_each(|field| dictionary_columns(field, &field.name, &mut columns));
        for (field, path) in columns {
            let mut dictionaries = staged
                .iter()
                .filter_map(|it| it.dictionaries.get(&field.id));
            for values in &mut dictionaries {
                let positions = builders.positions(field.id, values)?;
                if field.dictionary_is_ordered {
                    check_order(&path, values, &positions)?;
                }
            }
            builders.check_width(field, &path, staged.len())?;
        }
        self.dictionaries = builders.arrays()?;
        Ok(())
    }
}

/// The dictionary columns of a field with their paths.
fn dictionary_columns<'a>(field: &'a Field, path: &str, found: &mut Vec<(&'a Field, String)>) {
    if matches!(field.data_type, DataType::Dictionary(..)) {
        found.push((field, path.to_owned()));
    }
    for child in &field.children {
        dictionary_columns(child, &format!("{path}.{}", child.name), found);
    }
}

/// Refuses a joined dictionary that contradicts the order of an ordered one: there a value is less than those behind it.
fn check_order(path: &str, values: &ArrayRef, positions: &[Option<usize>]) -> Result<()> {
    let mut known = (0..)
        .zip(positions)
        .filter_map(|(row, position)| Some((row, (*position)?)));
    let Some(mut last) = known.next() else {
        return Ok(());
    };
    for next in known {
        if next.1 < last.1 {
            let word = |row| array_value_to_string(values, row).unwrap_or_default();
            return Err(Error::invalid(
                format!("column `{path}`"),
                format!(
                    "is an ordered dictionary, and one process wrote {:?} before {:?}, another one after it; \
                     write the column with one dictionary everywhere, or without order",
                    word(last.0),
                    word(next.0)
                ),
            ));
        }
        last = next;
    }
    Ok(())
}

/// Writes staged rows again with keys into other dictionaries, in files of as many rows each. The options set the layout;
/// rows per page are those of the first old file where the options leave them open. The old files stay.
async fn rewrite(
    store: &Store,
    staged: &StagedFragments,
    dictionaries: &BTreeMap<i32, ArrayRef>,
    options: &WriteOptions,
) -> Result<StagedFragments> {
    pass(store, "staged.before_rewrite")?;
    let lens: VecDeque<u64> = staged.fragments.iter().map(|it| it.physical_rows).collect();
    let files = Files::new(store, &staged.schema, staged.dictionaries.clone());
    let given = options.max_rows_per_page;
    let mut options = WriteOptions {
        max_rows_per_page: given.or(options.layout.max_rows_per_page),
        layout: options.layout.clone(),
        // The process that staged the rows decided which values it accepts: all of them are kept.
        compat: Some(Compat::Lossless),
        ..WriteOptions::default()
    };
    if options.max_rows_per_page.is_none()
        && let Some(first) = staged.fragments.first()
    {
        let reader = files.open(first).await?;
        options.max_rows_per_page = reader.only_file().and_then(|file| {
            let page = (file.num_batches() > 0).then(|| file.batch_rows(0))?;
            Some(page.end.saturating_sub(page.start).max(1))
        });
    }
    let schema = staged.schema.to_arrow();
    let rows = files.rows(staged.fragments.clone(), &schema);
    let of = (&staged.schema, dictionaries);
    let new = write_files_of(store, of, &schema, rows, lens, &options).await?;
    let is_as_joined = new.dictionaries == *dictionaries;
    if !is_as_joined || new.num_rows != staged.num_rows {
        new.discard(store).await;
        return Err(Error::corrupt(
            "written fragments have other values than their dictionaries, or other rows than they say",
        ));
    }
    Ok(new)
}

/// Staged files, with the dictionaries that they were written with.
#[derive(Clone)]
pub(super) struct Files {
    store: Store,
    schema: Arc<Schema>,
    dictionaries: Arc<Dictionaries>,
}

impl Files {
    pub(super) fn new(store: &Store, schema: &Arc<Schema>, dictionaries: Dictionaries) -> Self {
        Self {
            store: store.clone(),
            schema: Arc::clone(schema),
            dictionaries: Arc::new(dictionaries),
        }
    }

    async fn open(&self, fragment: &Fragment) -> Result<Arc<FragmentReader>> {
        let (store, dictionaries) = (self.store.clone(), Arc::clone(&self.dictionaries));
        let only = std::slice::from_ref(fragment);
        let context = Arc::new(ReadContext::new(store, dictionaries, true, only));
        let reader = FragmentReader::open(context, fragment, &self.schema).await?;
        Ok(Arc::new(reader))
    }

    /// The rows of one file after the other: one is open at a time.
    pub(super) fn rows(
        self,
        fragments: Vec<Fragment>,
        schema: &SchemaRef,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let schema = Arc::clone(schema);
        stream::iter(fragments)
            .then(move |fragment| {
                let files = self.clone();
                async move { files.open(&fragment).await }
            })
            .map_ok(move |reader| {
                let schema = Arc::clone(&schema);
                let ranges = reader.task_ranges(READ_BYTES);
                stream::iter(ranges).then(move |rows| {
                    let (reader, schema) = (Arc::clone(&reader), Arc::clone(&schema));
                    async move {
                        let num_rows = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
                        let columns = reader.read(&Rows::range(rows)).await?;
                        let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
                        RecordBatch::try_new_with_options(schema, columns, &options)
                            .map_err(|error| Error::invalid("written rows", error.to_string()))
                    }
                })
            })
            .try_flatten()
            .boxed()
    }
}
