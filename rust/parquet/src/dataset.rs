//! Parquet files that are read as one table, without a copy of them: their common schema, and their hive partitions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StringArray, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use futures::stream::{StreamExt, TryStreamExt};
use pilum_store::{Counters, StorageOptions, Store};

use crate::discover::{Found, discover};
use crate::error::{Error, Result};
use crate::file::ParquetFile;
use crate::limits::ReadLimits;
use crate::prune::Constants;

/// Footers that are read at once.
const OPENED_AT_ONCE: usize = 16;

/// How to open a dataset.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Whether `key=value` in the names of folders is a column.
    pub hive: bool,
    /// Types of hive keys; those that are missing are int64, date32 or string, whichever fits all their values.
    pub key_types: HashMap<String, DataType>,
    /// What files may make the reader allocate.
    pub limits: ReadLimits,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            hive: true,
            key_types: HashMap::new(),
            limits: ReadLimits::default(),
        }
    }
}

/// Parquet files that are read as one table. It never changes; the files must not change either.
#[derive(Debug)]
pub struct Dataset {
    pub(crate) parts: Vec<Part>,
    schema: SchemaRef,
    stores: Vec<Store>,
}

/// One file of a dataset.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) file: Arc<ParquetFile>,
    /// Values of the hive keys.
    pub(crate) constants: Arc<Constants>,
    /// The number of its first row in the dataset.
    pub(crate) first_row: u64,
}

impl Dataset {
    /// Opens the files at some addresses: files, and folders with all files in them. Every footer is read.
    ///
    /// The columns are those of all files by name, in the order in which they are first met, and after them the hive keys. A
    /// column has the type that it has in the first file; what other files have is converted exactly, or is an error when it is
    /// read. Rows are in the order of the addresses, and of the paths in each folder.
    ///
    /// # Errors
    /// The errors of [`ParquetFile::open`]; `CommonError::InvalidInput` if the hive keys of two files differ, or if a file has a
    /// column with the name of a hive key.
    pub async fn open(
        uris: &[String],
        storage: &StorageOptions,
        options: &OpenOptions,
    ) -> Result<Self> {
        let mut found = Vec::new();
        for uri in uris {
            found.extend(discover(uri, storage, options.hive).await?);
        }
        let opened = futures::stream::iter(found).map(|found| async move {
            let file =
                ParquetFile::open(&found.store, &found.path, found.size, &options.limits).await?;
            Ok::<_, Error>((found, file))
        });
        let opened: Vec<(Found, Arc<ParquetFile>)> =
            opened.buffered(OPENED_AT_ONCE).try_collect().await?;
        let (found, files): (Vec<Found>, Vec<_>) = opened.into_iter().unzip();
        let (keys, constants) = constants_of(&found, &files, options)?;
        let mut stores: Vec<Store> = Vec::new();
        for found in found {
            if stores
                .last()
                .is_none_or(|last| last.uri() != found.store.uri())
            {
                stores.push(found.store);
            }
        }
        let dataset = Self::new(files.into_iter().zip(constants).collect(), &keys)?;
        Ok(Self { stores, ..dataset })
    }

    /// A dataset of files that are open already, each with values of further columns, as arrays of one row.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for a file that lacks one of the further columns or has one in its rows too, and without files.
    pub fn of_files(
        files: Vec<(Arc<ParquetFile>, HashMap<String, ArrayRef>)>,
        further: &[FieldRef],
    ) -> Result<Self> {
        Self::new(files, further)
    }

    fn new(
        files: Vec<(Arc<ParquetFile>, HashMap<String, ArrayRef>)>,
        keys: &[FieldRef],
    ) -> Result<Self> {
        for (file, constants) in &files {
            for key in keys {
                if file.schema().fields().find(key.name()).is_some() {
                    return Err(Error::invalid(
                        file.path(),
                        format!(
                            "column `{}` is in the file and in its path; open it without hive keys",
                            key.name()
                        ),
                    ));
                }
                if constants
                    .get(key.name())
                    .is_none_or(|it| it.data_type() != key.data_type())
                {
                    return Err(Error::invalid(
                        file.path(),
                        format!(
                            "has no value of type {} for key `{}`",
                            key.data_type(),
                            key.name()
                        ),
                    ));
                }
            }
        }
        let schema = common_schema(&files, keys)?;
        Self::with_schema(files, schema)
    }

    /// A dataset of files that are open already, with the columns that `schema` says. Each file comes with values of further
    /// columns, as arrays of one row; such a value counts where the file has a column of that name too. Columns that a file
    /// lacks are null, and those that `schema` lacks are not read. There may be no file.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for more than 2^64 rows.
    pub fn with_schema(
        files: Vec<(Arc<ParquetFile>, HashMap<String, ArrayRef>)>,
        schema: SchemaRef,
    ) -> Result<Self> {
        let mut first_row = 0_u64;
        let mut parts = Vec::with_capacity(files.len());
        for (file, constants) in files {
            let rows = file.num_rows();
            parts.push(Part {
                file,
                constants: Arc::new(constants),
                first_row,
            });
            first_row = first_row.checked_add(rows).ok_or_else(|| {
                Error::invalid(
                    "the dataset",
                    "declares more than 2^64 rows; open fewer files",
                )
            })?;
        }
        Ok(Self {
            parts,
            schema,
            stores: Vec::new(),
        })
    }

    /// The columns: those of the files, then the hive keys.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows of all files.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.parts.iter().map(|part| part.file.num_rows()).sum()
    }

    /// The files, in the order of their rows.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Arc<ParquetFile>> {
        self.parts.iter().map(|part| &part.file)
    }

    /// Requests and bytes of the stores of the files, since they were opened; zero for a dataset of files that were open.
    #[must_use]
    pub fn counters(&self) -> (u64, u64) {
        let counters: Vec<Counters> = self.stores.iter().map(Store::counters).collect();
        let reads = counters.iter().map(|it| it.reads).sum();
        (reads, counters.iter().map(|it| it.bytes_read).sum())
    }

    pub(crate) fn is_local(&self) -> bool {
        self.parts
            .iter()
            .all(|part| part.file.source().mapped().is_some())
    }
}

/// The fields of the hive keys, and their values for each file.
fn constants_of(
    found: &[Found],
    files: &[Arc<ParquetFile>],
    options: &OpenOptions,
) -> Result<(Vec<FieldRef>, Vec<Constants>)> {
    let names =
        |found: &Found| -> Vec<String> { found.keys.iter().map(|(key, _)| key.clone()).collect() };
    let Some(first) = found.first() else {
        return Err(Error::invalid(
            "uris",
            "there are none; pass at least one file or folder",
        ));
    };
    let keys = names(first);
    if keys.iter().collect::<BTreeSet<_>>().len() < keys.len() {
        return Err(Error::invalid(&first.path, "a key is in its path twice"));
    }
    for (found, file) in found.iter().zip(files) {
        if names(found) != keys {
            return Err(Error::invalid(
                file.path(),
                format!(
                    "has the hive keys {:?}, and the first file {keys:?}",
                    names(found)
                ),
            ));
        }
    }
    let mut fields = Vec::new();
    let mut constants = vec![Constants::new(); found.len()];
    for (place, key) in keys.iter().enumerate() {
        let values = found
            .iter()
            .map(|it| it.keys.get(place).and_then(|(_, value)| value.as_deref()));
        let texts: StringArray = values.collect();
        let data_type = match options.key_types.get(key) {
            Some(data_type) => data_type.clone(),
            None => inferred(&texts),
        };
        let values = typed(&texts, &data_type).map_err(|error| {
            Error::invalid(
                format!("hive key `{key}`"),
                format!("{error}; pass another type for it"),
            )
        })?;
        fields.push(Arc::new(Field::new(key, data_type, true)));
        for (row, constants) in constants.iter_mut().enumerate() {
            constants.insert(key.clone(), values.slice(row, 1));
        }
    }
    Ok((fields, constants))
}

/// int64 or date32 if all values are written as such a value is written, else string: so no value loses its form.
fn inferred(texts: &StringArray) -> DataType {
    let all =
        |is: fn(&str) -> bool| texts.null_count() < texts.len() && texts.iter().flatten().all(is);
    let is_integer = |text: &str| {
        text.parse::<i64>()
            .is_ok_and(|value| value.to_string() == text)
    };
    let is_date = |text: &str| {
        let bytes = text.as_bytes();
        bytes.len() == 10 && bytes.get(4) == Some(&b'-') && bytes.get(7) == Some(&b'-')
    };
    let dates = all(is_date) && typed(texts, &DataType::Date32).is_ok();
    match (all(is_integer), dates) {
        (true, _) => DataType::Int64,
        (_, true) => DataType::Date32,
        _ => DataType::Utf8,
    }
}

fn typed(texts: &StringArray, data_type: &DataType) -> Result<ArrayRef, arrow_schema::ArrowError> {
    if texts.null_count() == texts.len() {
        return Ok(new_null_array(data_type, texts.len()));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(texts, data_type, &options)
}

/// The columns of all files by name, then the keys.
fn common_schema(
    files: &[(Arc<ParquetFile>, HashMap<String, ArrayRef>)],
    keys: &[FieldRef],
) -> Result<SchemaRef> {
    let Some((first, _)) = files.first() else {
        return Err(Error::invalid(
            "uris",
            "there are none; pass at least one file or folder",
        ));
    };
    let mut fields: Vec<Field> = first
        .schema()
        .fields()
        .iter()
        .map(|it| it.as_ref().clone())
        .collect();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, field) in fields.iter().enumerate() {
        places.entry(field.name().clone()).or_insert(place);
    }
    let num_first = fields.len();
    for (file, _) in files.iter().skip(1) {
        let found = file.schema();
        if Arc::ptr_eq(found, first.schema())
            || found.fields() == first.schema().fields() && fields.len() == num_first
        {
            continue;
        }
        for field in found.fields() {
            match places
                .get(field.name())
                .and_then(|place| fields.get_mut(*place))
            {
                Some(known) => {
                    if *known.data_type() == DataType::Null {
                        known.set_data_type(field.data_type().clone());
                    }
                    known.set_nullable(known.is_nullable() || field.is_nullable());
                }
                None => {
                    places.insert(field.name().clone(), fields.len());
                    fields.push(field.as_ref().clone().with_nullable(true));
                }
            }
        }
        for known in &mut fields {
            if found.fields().find(known.name()).is_none() {
                known.set_nullable(true);
            }
        }
    }
    let fields = fields.into_iter().map(Arc::new).chain(keys.iter().cloned());
    let metadata = first.schema().metadata().clone();
    Ok(Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        metadata,
    )))
}
