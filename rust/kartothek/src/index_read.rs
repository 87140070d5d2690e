//! Reads the secondary indices of a dataset: from a file, or from the metadata document.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};
use arrow_select::concat::concat;
use futures::StreamExt;
use pilum_common::type_name;
use pilum_parquet::{ParquetFile, Projection, ScanOptions};
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::index::{Index, PARTITION_COLUMN};
use crate::metadata::IndexReference;
use crate::open::Dataset;
use crate::schema::same_type;

impl Dataset {
    /// The secondary index of a column. The first call reads its file.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for a column without index; `CommonError::Corrupt` for a file that is no index, has values of another
    /// type than the column, or names a partition that does not exist; [`Error::NotFound`] if the file is missing.
    pub async fn index(&self, column: &str, runtime: &Handle) -> Result<Arc<Index>> {
        let Some(cell) = self.indices.get(column) else {
            return Err(Error::invalid(
                format!("column `{column}`"),
                format!(
                    "dataset `{}` has no index of it; it has indices of {:?}",
                    self.uuid(),
                    self.indices.keys().collect::<Vec<_>>()
                ),
            ));
        };
        let read = || async { self.read_index(column, runtime).await.map(Arc::new) };
        cell.get_or_try_init(read).await.map(Arc::clone)
    }

    async fn read_index(&self, column: &str, runtime: &Handle) -> Result<Index> {
        let wanted = self.type_of(column)?;
        let mut builder = Builder::new(self, column);
        match self.metadata.indices.get(column) {
            Some(IndexReference::File(key)) => {
                self.read_file(key, column, &wanted, &mut builder, runtime)
                    .await?;
            }
            Some(IndexReference::Embedded(labels)) => {
                let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
                    labels.keys().map(String::as_str),
                ));
                let wanted = wanted.unwrap_or(DataType::Utf8);
                builder
                    .values
                    .push(converted(&texts, &wanted, column, &self.path())?);
                for labels in labels.values() {
                    for label in labels {
                        builder.add(label, &self.path())?;
                    }
                    builder.end();
                }
            }
            None => {}
        }
        builder.finish()
    }

    /// The type of a column as it is read, in the first table that knows it.
    fn type_of(&self, column: &str) -> Result<Option<DataType>> {
        let mut is_known = false;
        for table in self.tables() {
            if let Some((_, field)) = self.schema(table)?.fields().find(column) {
                is_known = true;
                if *field.data_type() != DataType::Null {
                    return Ok(Some(field.data_type().clone()));
                }
            }
        }
        match is_known || self.tables().is_empty() {
            true => Ok(None),
            false => Err(Error::corrupt(
                self.path(),
                format!("it names an index of column `{column}`, and no table has that column"),
            )),
        }
    }

    async fn read_file(
        &self,
        key: &str,
        column: &str,
        wanted: &Option<DataType>,
        builder: &mut Builder<'_>,
        runtime: &Handle,
    ) -> Result<()> {
        let limits = &self.options.limits;
        let file = match ParquetFile::open(&self.store, key, None, &limits.parquet).await {
            Ok(file) => file,
            Err(pilum_parquet::Error::Store(pilum_store::Error::NotFound { path })) => {
                return Err(Error::NotFound {
                    path,
                    reason: format!(
                        "the index of column `{column}` is missing; build the indices of the dataset again"
                    ),
                });
            }
            Err(error) => return Err(error.into()),
        };
        let path = file.path().to_owned();
        let has = |name: &str| file.schema().fields().find(name).map(|(_, field)| field);
        let (Some(values), Some(labels)) = (has(column), has(PARTITION_COLUMN)) else {
            return Err(Error::corrupt(
                path,
                format!(
                    "an index of column `{column}` has the columns `{column}` and `{PARTITION_COLUMN}`"
                ),
            ));
        };
        let is_list = matches!(
            labels.data_type(),
            DataType::List(_) | DataType::LargeList(_)
        );
        if !is_list || column == PARTITION_COLUMN {
            return Err(Error::corrupt(
                path,
                format!("its column `{PARTITION_COLUMN}` is no list of strings"),
            ));
        }
        let found = values.data_type();
        let wanted = wanted.clone().unwrap_or_else(|| found.clone());
        if !same_type(found, &wanted) {
            return Err(Error::corrupt(
                path,
                format!(
                    "its values are {}, and column `{column}` is {} in the schema of its table; build the index again",
                    type_name(found),
                    type_name(&wanted)
                ),
            ));
        }
        let groups = file.metadata().row_groups().iter();
        let declared = groups.fold(0_u64, |sum, group| {
            sum.saturating_add(group.total_byte_size().unsigned_abs())
        });
        check_bytes(&path, declared, limits.index_bytes)?;
        // Labels repeat: a dictionary has each once, and is looked up once.
        let file = file.with_dictionary(PARTITION_COLUMN)?;
        let dataset = Arc::new(pilum_parquet::Dataset::of_files(
            vec![(file, HashMap::new())],
            &[],
        )?);
        let mut options = ScanOptions::default();
        options.columns = Projection::Names(vec![column.to_owned(), PARTITION_COLUMN.to_owned()]);
        let mut batches = dataset.scan(options)?.batches(runtime);
        let mut bytes = 0_u64;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            bytes += batch.get_array_memory_size() as u64;
            check_bytes(&path, bytes, limits.index_bytes)?;
            let (values, labels) = (batch.column(0), batch.column(1));
            builder
                .values
                .push(converted(values, &wanted, column, &path)?);
            builder.add_lists(labels, &path)?;
        }
        if builder.values.is_empty() {
            builder.values.push(arrow_array::new_empty_array(&wanted));
        }
        Ok(())
    }
}

fn check_bytes(path: &str, bytes: u64, limit: u64) -> Result<()> {
    match bytes > limit {
        true => Err(Error::limit(
            format!("{path}: the index"),
            format!("{bytes} bytes"),
            format!("{limit} bytes"),
        )),
        false => Ok(()),
    }
}

fn converted(values: &ArrayRef, wanted: &DataType, column: &str, path: &str) -> Result<ArrayRef> {
    if values.data_type() == wanted {
        return Ok(Arc::clone(values));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(values, wanted, &options).map_err(|error| {
        Error::corrupt(
            path,
            format!("a value of the index of column `{column}`: {error}"),
        )
    })
}

/// Stands for the place of a label that the dataset does not have.
const UNKNOWN: u32 = u32::MAX;

struct Builder<'a> {
    column: &'a str,
    place_of: &'a HashMap<Arc<str>, u32>,
    values: Vec<ArrayRef>,
    starts: Vec<usize>,
    places: Vec<u32>,
    /// The labels of the last dictionary, and their places: the batches of a row group share it.
    known: Option<(ArrayData, Vec<u32>)>,
}

impl<'a> Builder<'a> {
    fn new(dataset: &'a Dataset, column: &'a str) -> Self {
        Self {
            column,
            place_of: dataset.place_of(),
            values: Vec::new(),
            starts: vec![0],
            places: Vec::new(),
            known: None,
        }
    }

    fn add(&mut self, label: &str, path: &str) -> Result<()> {
        let Some(place) = self.place_of.get(label) else {
            return Err(self.unknown(label, path));
        };
        self.places.push(*place);
        Ok(())
    }

    fn unknown(&self, label: &str, path: &str) -> Error {
        Error::corrupt(
            path,
            format!(
                "the index of column `{}` names partition {label:?}, which the dataset does not have; build the index again",
                self.column
            ),
        )
    }

    /// All labels of the current value were added.
    fn end(&mut self) {
        self.starts.push(self.places.len());
    }

    fn add_lists(&mut self, labels: &ArrayRef, path: &str) -> Result<()> {
        let texts = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let wanted = DataType::List(Arc::new(Field::new("item", texts, true)));
        let lists = converted(labels, &wanted, self.column, path)?;
        let lists = lists.as_list::<i32>();
        let Some(items) = lists.values().as_dictionary_opt::<Int32Type>() else {
            return Err(Error::bug(format!(
                "{path}: labels were read without a dictionary"
            )));
        };
        let (labels, numbers) = (items.values(), items.keys());
        let places = self.places_of(labels);
        let offsets = lists.value_offsets();
        for row in 0..lists.len() {
            let range = offsets.get(row).zip(offsets.get(row + 1));
            let range = range.map_or(0..0, |(start, end)| place(*start)..place(*end));
            // A null list may lie over items of the array below it: these items are not entries of the index.
            let range = if lists.is_valid(row) { range } else { 0..0 };
            for at in range {
                let Some(number) = numbers.is_valid(at).then(|| place(numbers.value(at))) else {
                    continue;
                };
                match places.get(number) {
                    Some(&UNKNOWN) if labels.is_null(number) => {}
                    Some(&UNKNOWN) => {
                        let label = labels.as_string::<i32>().value(number);
                        return Err(self.unknown(label, path));
                    }
                    Some(place) => self.places.push(*place),
                    None => {
                        return Err(Error::bug(format!(
                            "{path}: a label has no place in its dictionary"
                        )));
                    }
                }
            }
            self.end();
        }
        self.known = Some((labels.to_data(), places));
        Ok(())
    }

    /// The place of each label of a dictionary.
    fn places_of(&mut self, labels: &ArrayRef) -> Vec<u32> {
        if let Some((known, places)) = self.known.take()
            && known.ptr_eq(&labels.to_data())
        {
            return places;
        }
        let texts = labels.as_string::<i32>().iter();
        let place = |label: Option<&str>| label.and_then(|it| self.place_of.get(it));
        texts
            .map(|label| place(label).copied().unwrap_or(UNKNOWN))
            .collect()
    }

    fn finish(self) -> Result<Index> {
        let arrays: Vec<&dyn Array> = self.values.iter().map(AsRef::as_ref).collect();
        let values = match arrays.as_slice() {
            [] => arrow_array::new_empty_array(&DataType::Utf8),
            arrays => concat(arrays).map_err(|error| {
                Error::bug(format!("index of column `{}`: {error}", self.column))
            })?,
        };
        Ok(Index {
            values,
            starts: self.starts,
            places: self.places,
        })
    }
}

/// An offset or a number of a valid array, which is not negative.
fn place(number: i32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
