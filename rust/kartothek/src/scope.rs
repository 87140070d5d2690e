//! Which partitions a `delete_scope` means: by partition keys and secondary indices, never by columns without an index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use pilum_common::type_name;

use crate::error::{Error, Result};
use crate::key_value::parse_keys;
use crate::names::{KeyParts, StrayComponents};
use crate::partitions::Partition;
use crate::state::{Place, index_file, load};
use crate::update::{implicit_partitions, partition_keys, type_of};
use crate::write::inverted::InvertedIndex;
use crate::write::split::Keys;

/// Which partitions an update removes: those that fulfil one of the rows. A row has a value for some columns; a partition
/// fulfils it if it has all of these values. Columns are partition keys or have an index.
pub type DeleteScope = Vec<RecordBatch>;

fn check_values(scope: &DeleteScope) -> Result<()> {
    for row in scope {
        if row.num_columns() == 0 {
            return Err(Error::invalid(
                "delete_scope",
                "a scope without a column would delete every partition; name a column, or delete the dataset",
            ));
        }
        for (field, values) in row.schema_ref().fields().iter().zip(row.columns()) {
            if values.len() != 1 || values.is_null(0) || *values.data_type() == DataType::Null {
                return Err(Error::invalid(
                    format!("delete_scope on `{}`", field.name()),
                    "give one value that is not null: neither keys nor indices have nulls",
                ));
            }
        }
    }
    Ok(())
}

/// The labels of the partitions in a scope in the newest state, each once.
pub(crate) async fn in_scope(place: &Place, scope: &DeleteScope) -> Result<BTreeSet<String>> {
    check_values(scope)?;
    if scope.is_empty() {
        return Ok(BTreeSet::new());
    }
    // As Kartothek: nothing matches in a dataset that does not exist.
    let newest = load(place).await?;
    let Some(state) = &newest else {
        return Ok(BTreeSet::new());
    };
    let implicit;
    let partitions = match &state.document.partitions {
        Some(partitions) => partitions,
        None => {
            implicit = implicit_partitions(place).await?;
            &implicit
        }
    };
    let schemas: &BTreeMap<String, SchemaRef> = &state
        .schemas
        .iter()
        .map(|(table, it)| (table.clone(), Arc::clone(it.schema.schema())))
        .collect();
    let keys = partition_keys(&state.document)?;
    let mut loaded: HashMap<String, InvertedIndex> = HashMap::new();
    let mut values: HashMap<String, ArrayRef> = HashMap::new();
    let mut found = BTreeSet::new();
    for row in scope {
        let mut of_row: Option<BTreeSet<String>> = None;
        for (field, value) in row.schema_ref().fields().iter().zip(row.columns()) {
            let column = field.name();
            let with_value: BTreeSet<String> = if let Some(at) =
                keys.iter().position(|it| it == column)
            {
                let data_type = type_of(column, schemas)?;
                if !values.contains_key(column) {
                    values.insert(
                        column.clone(),
                        key_values(at, column, &data_type, partitions)?,
                    );
                }
                let wanted = scope_value(column, value, &data_type)?;
                let of_partitions = values.get(column).map(Arc::clone);
                of_partitions.map_or_else(
                    || Ok(BTreeSet::new()),
                    |it| equal_labels(column, &it, &wanted, partitions),
                )?
            } else if state.document.indices.contains_key(column) {
                let data_type = type_of(column, schemas)?;
                if !loaded.contains_key(column) {
                    let key = index_file(place, &state.document, column)?;
                    let index =
                        InvertedIndex::read(&place.store, key, column, &data_type, &place.limits)
                            .await?;
                    loaded.insert(column.clone(), index);
                }
                let wanted = scope_value(column, value, &data_type)?;
                let index = loaded.get(column);
                let labels = index.map_or_else(|| Ok(Vec::new()), |it| it.labels_of(&wanted))?;
                labels.into_iter().collect()
            } else {
                return Err(Error::invalid(
                    format!("delete_scope on `{column}`"),
                    format!(
                        "it is no partition key ({keys:?}) and has no index, so whole partitions cannot be chosen by it; \
                         build an index or use a partition key"
                    ),
                ));
            };
            of_row = Some(match of_row {
                None => with_value,
                Some(known) => known.intersection(&with_value).cloned().collect(),
            });
        }
        found.extend(of_row.into_iter().flatten());
    }
    found.retain(|label| partitions.contains_key(label));
    Ok(found)
}

/// The values of a partition key, in the order of the partitions.
fn key_values(
    at: usize,
    column: &str,
    data_type: &DataType,
    partitions: &BTreeMap<String, Partition>,
) -> Result<ArrayRef> {
    let mut texts = Vec::with_capacity(partitions.len());
    for (label, partition) in partitions {
        let Some(key) = partition.files.values().next() else {
            return Err(Error::corrupt(label, "the partition has no file"));
        };
        let parts = KeyParts::of(key)?;
        let value = parts.value(at, StrayComponents::Join);
        let value = value.ok_or_else(|| {
            Error::corrupt(
                key,
                format!("the path has no value of partition key `{column}`"),
            )
        })?;
        texts.push((value, key.as_str()));
    }
    parse_keys(column, data_type, &texts)
}

fn equal_labels(
    column: &str,
    values: &ArrayRef,
    wanted: &ArrayRef,
    partitions: &BTreeMap<String, Partition>,
) -> Result<BTreeSet<String>> {
    let is_equal: Vec<bool> = match (Keys::of(column, values)?, Keys::of(column, wanted)?) {
        (Keys::Bits(known), Keys::Bits(wanted)) => {
            known.iter().map(|it| wanted.contains(it)).collect()
        }
        (Keys::Bytes(known), Keys::Bytes(wanted)) => {
            known.iter().map(|it| wanted.contains(it)).collect()
        }
        _ => Vec::new(),
    };
    let labels = partitions.keys().zip(is_equal);
    Ok(labels
        .filter(|(_, is_equal)| *is_equal)
        .map(|(label, _)| label.clone())
        .collect())
}

/// A value of a scope in the type of its column, exactly.
fn scope_value(column: &str, value: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let refused = || {
        Error::invalid(
            format!("delete_scope on `{column}`"),
            format!(
                "a value of the type {} is no {}, which the column is; pass a value of that type",
                type_name(value.data_type()),
                type_name(data_type)
            ),
        )
    };
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let cast = |array: &ArrayRef, to: &DataType| cast_with_options(array, to, &options);
    let converted = cast(value, data_type).map_err(|_| refused())?;
    // What the conversion back does not give again was lost: 1.7 is not 1.
    let back = match (value.data_type(), data_type) {
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, _) => return Ok(converted),
        (DataType::Timestamp(TimeUnit::Second, _), _) => return Ok(converted),
        (from, _) => cast(&converted, from).map_err(|_| refused())?,
    };
    match back.to_data() == value.to_data() {
        true => Ok(converted),
        false => Err(refused()),
    }
}

/// The rows of one batch of a scope as one-row batches.
#[must_use]
pub fn scope_rows(batch: &RecordBatch) -> DeleteScope {
    (0..batch.num_rows())
        .map(|row| batch.slice(row, 1))
        .collect()
}
