//! Inverted indices: for each value of a column the labels of the partitions that have it. Built from rows, merged, and written
//! as Kartothek writes them.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, UInt32Array, new_empty_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::partition::partition;
use arrow_ord::sort::sort_to_indices;
use arrow_schema::{ArrowError, DataType, Field, Schema, SortOptions};
use arrow_select::concat::{concat, concat_batches};
use arrow_select::take::take;
use futures::StreamExt;
use pilum_common::type_name;
use pilum_parquet::{
    Dataset, FileCompression, FileWriter, ParquetFile, Projection, ScanOptions, WriteOptions,
};
use pilum_store::Store;
use tokio::runtime::Handle;

use super::labels::{Labels, Merged};
use super::split::{Keys, normalized_array};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// The column of labels in an index file.
const LABELS: &str = "partition";
/// Values of a row group of an index file, as Kartothek writes them.
const VALUES_PER_ROW_GROUP: usize = 10_000;

/// Labels by value, for one column.
#[derive(Debug, Clone)]
pub(crate) struct InvertedIndex {
    column: String,
    /// Distinct values without nulls, of a normalised type.
    values: ArrayRef,
    /// The labels of the partitions that contain each value, in the order of `values`.
    labels: Labels,
}

/// Refuses columns that cannot have an index.
pub(crate) fn check_index_column(column: &str, partition_keys: &[String]) -> Result<()> {
    if partition_keys.iter().any(|it| it == column) {
        return Err(Error::invalid(
            format!("index on `{column}`"),
            "it is a partition key, whose values are in the paths; leave it out",
        ));
    }
    if column == LABELS {
        return Err(Error::invalid(
            format!("index on `{column}`"),
            "this name is the column of labels in index files; rename the column",
        ));
    }
    Ok(())
}

/// The distinct values of a column without null and NaN, in the normalised type, sorted. None if the type is unknown, because
/// the column has no value.
pub(crate) fn distinct_values(column: &str, array: &ArrayRef) -> Result<Option<ArrayRef>> {
    if *array.data_type() == DataType::Null {
        return Ok(None);
    }
    let mut values = normalized_array(column, array)?;
    // Types that cannot be keys are refused, whatever the values are.
    Keys::of(column, &values)?;
    let failed =
        |error: ArrowError| Error::invalid(format!("index on `{column}`"), error.to_string());
    if *values.data_type() == DataType::Float64 {
        // As in Python, -0.0 is 0.0 and NaN is no value.
        let floats = values.as_primitive::<Float64Type>();
        let cleaned = floats
            .iter()
            .map(|it| it.filter(|it| !it.is_nan()).map(|it| it + 0.0));
        values = Arc::new(cleaned.collect::<Float64Array>());
    }
    let options = Some(SortOptions {
        descending: false,
        nulls_first: false,
    });
    let order = sort_to_indices(&values, options, None).map_err(failed)?;
    let order = order.slice(0, values.len() - values.null_count());
    let sorted = take(&values, &order, None).map_err(failed)?;
    let ranges = partition(&[Arc::clone(&sorted)]).map_err(failed)?.ranges();
    let firsts = ranges
        .into_iter()
        .map(|range| u32::try_from(range.start).unwrap_or(u32::MAX));
    let firsts = UInt32Array::from_iter_values(firsts);
    Ok(Some(take(&sorted, &firsts, None).map_err(failed)?))
}

impl InvertedIndex {
    /// An index without values.
    pub(crate) fn empty(column: &str, data_type: &DataType) -> Result<Self> {
        let values = new_empty_array(data_type);
        Keys::of(column, &values)?;
        Ok(Self {
            column: column.to_owned(),
            values,
            labels: Labels::empty(),
        })
    }

    /// Reads the index file `key`.
    pub(crate) async fn read(
        store: &Store,
        key: &str,
        column: &str,
        data_type: &DataType,
        limits: &Limits,
    ) -> Result<Self> {
        let batch = read_rows(store, key, limits).await?;
        let damaged = |reason: String| Error::corrupt(format!("{}/{key}", store.uri()), reason);
        let found = |name: &str| {
            let found = batch.column_by_name(name);
            found.ok_or_else(|| damaged(format!("the index has no column `{name}`")))
        };
        let values = converted(found(column)?, data_type).map_err(|_| {
            damaged(format!(
                "the index on `{column}` has the type {}, and the column {}; build it again",
                type_name(found(column).map_or(&DataType::Null, |it| it.data_type())),
                type_name(data_type)
            ))
        })?;
        let labels = converted(found(LABELS)?, &Labels::read_type())
            .map_err(|error| damaged(format!("the labels of the index: {error}")))?;
        let labels = Labels::of_lists(&labels).filter(|_| values.null_count() == 0);
        let labels =
            labels.ok_or_else(|| damaged("the index has a null; build it again".to_owned()))?;
        Ok(Self {
            column: column.to_owned(),
            values,
            labels,
        })
    }

    /// Writes a new index file.
    pub(crate) async fn write(&self, store: &Store, key: &str) -> Result<()> {
        let fields = vec![
            Field::new(&self.column, self.values.data_type().clone(), true),
            Field::new(LABELS, Labels::written_type(), true),
        ];
        let schema = Arc::new(Schema::new(fields));
        let mut options = WriteOptions::default();
        options.compression = FileCompression::Snappy;
        options.row_group_rows = VALUES_PER_ROW_GROUP;
        options.page_bytes = 1 << 20;
        let mut writer = FileWriter::create(store, key, &schema, &options).await?;
        let mut start = 0;
        loop {
            let end = self.values.len().min(start + VALUES_PER_ROW_GROUP);
            let labels = self.labels.lists(start..end).map_err(bug)?;
            let columns: Vec<ArrayRef> =
                vec![self.values.slice(start, end - start), Arc::new(labels)];
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(bug)?;
            writer.write(&batch).await?;
            start = end;
            if start == self.values.len() {
                break;
            }
        }
        writer.finish().await?;
        Ok(())
    }

    /// The index after some partitions were removed and the values of others added. None if nothing changed.
    pub(crate) fn merged(
        &self,
        removed: &HashSet<&str>,
        added: &[(&str, &ArrayRef)],
    ) -> Result<Option<Self>> {
        let is_added = added.iter().any(|(_, values)| !values.is_empty());
        if !is_added && (removed.is_empty() || self.values.is_empty()) {
            return Ok(None);
        }
        let values: Vec<&dyn Array> = added.iter().map(|(_, it)| it.as_ref() as _).collect();
        let values = match values.is_empty() {
            true => new_empty_array(self.values.data_type()),
            false => concat(&values).map_err(bug)?,
        };
        if values.data_type() != self.values.data_type() {
            return Err(Error::invalid(
                format!("index on `{}`", self.column),
                format!(
                    "its type is {}, that of the new rows {}",
                    type_name(self.values.data_type()),
                    type_name(values.data_type())
                ),
            ));
        }
        let mut labels = Vec::with_capacity(values.len());
        for (label, of_label) in added {
            labels.extend(std::iter::repeat_n(*label, of_label.len()));
        }
        let known = Keys::of(&self.column, &self.values)?;
        let new = Keys::of(&self.column, &values)?;
        match (&known, &new) {
            (Keys::Bits(known), Keys::Bits(new)) => {
                self.merged_by(known, new, &values, &labels, removed)
            }
            (Keys::Bytes(known), Keys::Bytes(new)) => {
                self.merged_by(known, new, &values, &labels, removed)
            }
            _ => Err(Error::bug(format!(
                "index on `{}`: two forms of keys",
                self.column
            ))),
        }
        .map(Some)
    }

    fn merged_by<K: Hash + Eq + Copy>(
        &self,
        known: &[K],
        new: &[K],
        new_values: &ArrayRef,
        new_labels: &[&str],
        removed: &HashSet<&str>,
    ) -> Result<Self> {
        let mut places: HashMap<K, Vec<usize>> = HashMap::with_capacity(new.len());
        let mut order: Vec<K> = Vec::new();
        for (place, key) in new.iter().enumerate() {
            let entry = places.entry(*key).or_default();
            if entry.is_empty() {
                order.push(*key);
            }
            entry.push(place);
        }
        let mut labels = Merged::of(&self.labels, |label| removed.contains(label));
        let numbers = new_labels.iter().map(|label| labels.number_of(label));
        let numbers: Vec<i32> = numbers.collect::<Result<_, _>>().map_err(bug)?;
        let mut kept = Vec::with_capacity(known.len());
        for (row, key) in known.iter().enumerate() {
            labels.keep(row);
            for place in places.remove(key).into_iter().flatten() {
                labels.add(numbers[place]);
            }
            if labels.end() {
                kept.push(u32::try_from(row).map_err(|_| too_many(&self.column))?);
            }
        }
        let mut firsts = Vec::new();
        for key in order {
            let Some(of_key) = places.remove(&key) else {
                continue;
            };
            if let Some(first) = of_key.first() {
                firsts.push(u32::try_from(*first).map_err(|_| too_many(&self.column))?);
            }
            for place in of_key {
                labels.add(numbers[place]);
            }
            labels.end();
        }
        let kept = take(&self.values, &UInt32Array::from(kept), None).map_err(bug)?;
        let added = take(new_values, &UInt32Array::from(firsts), None).map_err(bug)?;
        Ok(Self {
            column: self.column.clone(),
            values: concat(&[kept.as_ref(), added.as_ref()]).map_err(bug)?,
            labels: labels.finish().map_err(bug)?,
        })
    }

    /// The labels of the partitions with one of some values, which are of the type of the index.
    pub(crate) fn labels_of(&self, wanted: &ArrayRef) -> Result<Vec<String>> {
        let known = Keys::of(&self.column, &self.values)?;
        let wanted = Keys::of(&self.column, wanted)?;
        let rows: Vec<usize> = match (&known, &wanted) {
            (Keys::Bits(known), Keys::Bits(wanted)) => rows_with(known, wanted),
            (Keys::Bytes(known), Keys::Bytes(wanted)) => rows_with(known, wanted),
            _ => Vec::new(),
        };
        let labels = rows.into_iter().flat_map(|row| self.labels.of(row));
        Ok(labels
            .map(|number| self.labels.name(*number).to_owned())
            .collect())
    }
}

fn rows_with<K: Hash + Eq>(known: &[K], wanted: &[K]) -> Vec<usize> {
    let wanted: HashSet<&K> = wanted.iter().collect();
    let rows = known.iter().enumerate();
    rows.filter(|(_, key)| wanted.contains(key))
        .map(|(row, _)| row)
        .collect()
}

fn converted(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, data_type, &options)
}

fn too_many(column: &str) -> Error {
    Error::limit(
        format!("index on `{column}`"),
        "more than 2^32 values",
        "2^32 values",
    )
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
pub(crate) fn bug(error: ArrowError) -> Error {
    Error::bug(error.to_string())
}

/// All rows of a Parquet file.
async fn read_rows(store: &Store, key: &str, limits: &Limits) -> Result<RecordBatch> {
    let file = ParquetFile::open(store, key, None, &limits.parquet).await?;
    read_file(
        file.with_dictionary(LABELS)?,
        ScanOptions::default(),
        limits,
    )
    .await
}

/// Some columns of a Parquet file; those that it lacks are left out.
pub(crate) async fn read_columns(
    store: &Store,
    key: &str,
    columns: &[String],
    limits: &Limits,
) -> Result<RecordBatch> {
    let file = ParquetFile::open(store, key, None, &limits.parquet).await?;
    let has = |column: &&String| file.schema().column_with_name(column).is_some();
    let mut options = ScanOptions::default();
    options.columns = Projection::Names(columns.iter().filter(has).cloned().collect());
    read_file(file, options, limits).await
}

async fn read_file(
    file: Arc<ParquetFile>,
    options: ScanOptions,
    limits: &Limits,
) -> Result<RecordBatch> {
    let path = file.path().to_owned();
    let dataset = Arc::new(Dataset::of_files(vec![(file, HashMap::new())], &[])?);
    let scan = dataset.scan(options)?;
    let schema = Arc::clone(scan.schema());
    let mut batches = scan.batches(&Handle::current());
    let mut all = Vec::new();
    let mut num_bytes = 0_u64;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        num_bytes += batch.get_array_memory_size() as u64;
        if num_bytes > limits.index_bytes {
            return Err(Error::limit(
                path,
                format!("more than {} bytes", limits.index_bytes),
                format!("{} bytes", limits.index_bytes),
            ));
        }
        all.push(batch);
    }
    let schema = all.first().map_or(schema, |it| it.schema());
    concat_batches(&schema, &all).map_err(bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::{BTreeMap, BTreeSet};

    use arrow_array::{Int8Array, Int64Array, ListArray, StringArray};

    fn told(index: &InvertedIndex) -> BTreeMap<i64, BTreeSet<String>> {
        let values = index.values.as_primitive::<arrow_array::types::Int64Type>();
        let labels = |row| {
            let numbers = index.labels.of(row).iter();
            numbers
                .map(|it| index.labels.name(*it).to_owned())
                .collect()
        };
        (0..values.len())
            .map(|row| (values.value(row), labels(row)))
            .collect()
    }

    #[test]
    fn an_index_is_what_building_it_anew_yields() {
        // Partitions come and go in a fixed pseudo-random order; the model is a map of sets.
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let mut index = InvertedIndex::empty("x", &DataType::Int64).unwrap();
        let mut model: BTreeMap<String, ArrayRef> = BTreeMap::new();
        for step in 0..60 {
            let mut added: Vec<(String, ArrayRef)> = Vec::new();
            for part in 0..draw(4) {
                let values = (0..draw(9)).map(|_| Some(i64::try_from(draw(12)).unwrap()));
                let values: ArrayRef = Arc::new(Int64Array::from_iter(values.chain([None])));
                let values = distinct_values("x", &values).unwrap().unwrap();
                added.push((format!("l{step}-{part}"), values));
            }
            let removed: Vec<String> = model.keys().filter(|_| draw(3) == 0).cloned().collect();
            let gone: HashSet<&str> = removed.iter().map(String::as_str).collect();
            let new: Vec<(&str, &ArrayRef)> = added.iter().map(|(l, v)| (l.as_str(), v)).collect();
            if let Some(next) = index.merged(&gone, &new).unwrap() {
                index = next;
            }
            model.retain(|label, _| !gone.contains(label.as_str()));
            model.extend(added);
            let mut expected: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
            for (label, values) in &model {
                let values = values.as_primitive::<arrow_array::types::Int64Type>();
                for value in values.values() {
                    expected.entry(*value).or_default().insert(label.clone());
                }
            }
            assert_eq!(told(&index), expected, "step {step}");
            let wanted: ArrayRef = Arc::new(Int64Array::from(vec![3, 5]));
            let found: BTreeSet<String> = index.labels_of(&wanted).unwrap().into_iter().collect();
            let three = expected.get(&3).into_iter().flatten();
            let both = three.chain(expected.get(&5).into_iter().flatten());
            assert_eq!(found, both.cloned().collect());
        }
    }

    #[test]
    fn null_nan_and_widths_do_not_count() {
        let narrow: ArrayRef = Arc::new(Int8Array::from(vec![Some(3), None, Some(1), Some(3)]));
        let found = distinct_values("x", &narrow).unwrap().unwrap();
        let expected: ArrayRef = Arc::new(Int64Array::from(vec![1, 3]));
        assert_eq!(&found, &expected);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 0.0, 1.5]));
        let found = distinct_values("x", &floats).unwrap().unwrap();
        let expected: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 1.5]));
        assert_eq!(&found, &expected);
        let none = arrow_array::new_null_array(&DataType::Null, 2);
        assert!(distinct_values("x", &none).unwrap().is_none());
        let lists = ListArray::new_null(Arc::new(Field::new("item", DataType::Int64, true)), 1);
        assert!(distinct_values("x", &(Arc::new(lists) as ArrayRef)).is_err());
    }

    #[test]
    fn texts_and_partition_keys() {
        let index = InvertedIndex::empty("x", &DataType::Utf8).unwrap();
        let values: ArrayRef = Arc::new(StringArray::from(vec!["", "b/ä"]));
        let index = index
            .merged(&HashSet::new(), &[("p=1/l", &values)])
            .unwrap()
            .unwrap();
        let wanted: ArrayRef = Arc::new(StringArray::from(vec!["b/ä"]));
        assert_eq!(index.labels_of(&wanted).unwrap(), ["p=1/l"]);
        assert!(index.merged(&HashSet::new(), &[]).unwrap().is_none());
        assert!(check_index_column("a", &["a".to_owned()]).is_err());
        assert!(check_index_column("partition", &[]).is_err());
    }
}
