//! Dividing rows: sorted, by the values of partition keys, and into buckets.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float64Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::sort::{SortColumn, lexsort_to_indices};
use arrow_schema::{DataType, SortOptions};
use arrow_select::take::take_record_batch;
use pilum_common::type_name;

use crate::error::{Error, Result};
use crate::hash::Fnv;
use crate::key_value::key_text;
use crate::names::partition_path;
use crate::schema::normalized_type;

/// The rows of one value of the partition keys, and of one bucket.
#[derive(Debug)]
pub(crate) struct Part {
    /// The folders of the partition keys; empty without keys.
    pub(crate) path: String,
    /// The number of the bucket, which is written nowhere.
    pub(crate) bucket: u64,
    /// The rows without the partition keys.
    pub(crate) rows: RecordBatch,
}

/// Into how many files the rows of one value of the partition keys go.
#[derive(Debug, Clone)]
pub struct Buckets {
    /// The number of buckets.
    pub count: u64,
    /// Rows with equal values of these columns go into one bucket; all columns if there are none.
    pub by: Vec<String>,
}

/// Sorts rows by some columns, nulls last; rows with equal values keep their order.
pub(crate) fn sorted(rows: &RecordBatch, by: &[String]) -> Result<RecordBatch> {
    if by.is_empty() || rows.num_rows() < 2 {
        return Ok(rows.clone());
    }
    let options = Some(SortOptions {
        descending: false,
        nulls_first: false,
    });
    let mut columns = Vec::with_capacity(by.len() + 1);
    for name in by {
        columns.push(SortColumn {
            values: Arc::clone(column(rows, name, "sort_by")?),
            options,
        });
    }
    columns.push(SortColumn {
        values: Arc::new(UInt32Array::from_iter_values(0..row_count(rows)?)),
        options,
    });
    let refused = |error: arrow_schema::ArrowError| Error::invalid("sort_by", error.to_string());
    let order = lexsort_to_indices(&columns, None).map_err(refused)?;
    take_record_batch(rows, &order).map_err(refused)
}

/// Divides rows by the values of partition keys and by bucket, in the order in which each is first met. The rows of a part
/// keep their order. Without keys and buckets all rows are one part, also if there are none.
pub(crate) fn split(
    rows: &RecordBatch,
    partition_on: &[String],
    buckets: Option<&Buckets>,
) -> Result<Vec<Part>> {
    if partition_on.is_empty() && buckets.is_none() {
        return Ok(vec![Part {
            path: String::new(),
            bucket: 0,
            rows: rows.clone(),
        }]);
    }
    let count = row_count(rows)?;
    let mut codes: Vec<Vec<u32>> = Vec::with_capacity(partition_on.len());
    let mut keys: Vec<&ArrayRef> = Vec::with_capacity(partition_on.len());
    for name in partition_on {
        let key = column(rows, name, "partition_on")?;
        codes.push(codes_of(name, key)?);
        keys.push(key);
    }
    let bucket_of = match buckets {
        Some(buckets) => hashes(rows, buckets)?,
        None => vec![0; rows.num_rows()],
    };
    let mut groups: HashMap<Vec<u64>, usize> = HashMap::new();
    let mut members: Vec<Vec<u32>> = Vec::new();
    let mut code = Vec::with_capacity(codes.len() + 1);
    for row in 0..count {
        let at = row as usize;
        code.clear();
        code.extend(codes.iter().map(|it| u64::from(it[at])));
        code.push(bucket_of[at]);
        let group = match groups.get(&code) {
            Some(group) => *group,
            None => {
                groups.insert(code.clone(), members.len());
                members.push(Vec::new());
                members.len() - 1
            }
        };
        members[group].push(row);
    }
    let kept: Vec<usize> = (0..rows.num_columns())
        .filter(|at| !partition_on.contains(rows.schema_ref().field(*at).name()))
        .collect();
    let payload = rows
        .project(&kept)
        .map_err(|error| Error::invalid("partition_on", error.to_string()))?;
    let mut parts = Vec::with_capacity(members.len());
    for rows_of_part in members {
        let Some(first) = rows_of_part.first().map(|it| *it as usize) else {
            continue;
        };
        let texts: Result<Vec<Vec<u8>>> = partition_on
            .iter()
            .zip(&keys)
            .map(|(name, key)| key_text(name, key, first))
            .collect();
        let texts = texts?;
        let named = partition_on
            .iter()
            .zip(&texts)
            .map(|(name, text)| (name.as_str(), text.as_slice()));
        let taken = take_record_batch(&payload, &UInt32Array::from(rows_of_part));
        parts.push(Part {
            path: partition_path(named),
            bucket: bucket_of[first],
            rows: taken.map_err(|error| Error::invalid("the rows", error.to_string()))?,
        });
    }
    Ok(parts)
}

fn row_count(rows: &RecordBatch) -> Result<u32> {
    u32::try_from(rows.num_rows()).map_err(|_| {
        Error::limit(
            "one frame",
            format!("{} rows", rows.num_rows()),
            format!("{} rows", u32::MAX),
        )
    })
}

fn column<'a>(rows: &'a RecordBatch, name: &str, argument: &str) -> Result<&'a ArrayRef> {
    rows.column_by_name(name).ok_or_else(|| {
        let names: Vec<&str> = rows
            .schema_ref()
            .fields()
            .iter()
            .map(|it| it.name().as_str())
            .collect();
        Error::invalid(
            argument,
            format!(
                "there is no column `{name}`; the columns are `{}`",
                names.join("`, `")
            ),
        )
    })
}

/// A column in the type of the schema file, so that equal values of different widths are equal.
pub(crate) fn normalized_array(name: &str, array: &ArrayRef) -> Result<ArrayRef> {
    let wanted = normalized_type(array.data_type());
    if *array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, &wanted, &options)
        .map_err(|error| Error::invalid(format!("column `{name}`"), error.to_string()))
}

/// A number for each distinct value, by row.
fn codes_of(name: &str, array: &ArrayRef) -> Result<Vec<u32>> {
    let values = normalized_array(name, array)?;
    let is_missing = |row: usize| {
        values.is_null(row)
            || matches!(values.data_type(), DataType::Float64)
                && values.as_primitive::<Float64Type>().value(row).is_nan()
    };
    if let Some(row) = (0..values.len()).find(|row| is_missing(*row)) {
        return Err(Error::invalid(
            format!("partition key `{name}`"),
            format!(
                "row {row} is null, which Kartothek refuses; fill the value or leave out the row"
            ),
        ));
    }
    let keys = Keys::of(name, &values)?;
    Ok(match &keys {
        Keys::Bits(bits) => coded(bits.iter().copied()),
        Keys::Bytes(bytes) => coded(bytes.iter().copied()),
    })
}

fn coded<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> Vec<u32> {
    let mut known: HashMap<K, u32> = HashMap::new();
    keys.map(|key| {
        // There are not more values than rows, of which there are fewer than 2^32.
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        *known.entry(key).or_insert(next)
    })
    .collect()
}

/// The values of an array in a form that can be hashed and compared.
pub(crate) enum Keys<'a> {
    /// Fixed-size values.
    Bits(Vec<u64>),
    /// Texts and bytes.
    Bytes(Vec<&'a [u8]>),
}

impl<'a> Keys<'a> {
    /// The values of an array of a normalised type; nulls have any value.
    pub(crate) fn of(column: &str, array: &'a ArrayRef) -> Result<Self> {
        let rows = 0..array.len();
        let signed = |value: i64| u64::from_ne_bytes(value.to_ne_bytes());
        Ok(match array.data_type() {
            DataType::Boolean => {
                let values = array.as_boolean();
                Self::Bits(rows.map(|row| u64::from(values.value(row))).collect())
            }
            DataType::Int64 => {
                let values = array.as_primitive::<Int64Type>().values();
                Self::Bits(values.iter().map(|it| signed(*it)).collect())
            }
            DataType::UInt64 => Self::Bits(array.as_primitive::<UInt64Type>().values().to_vec()),
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>().values();
                Self::Bits(values.iter().map(|it| it.to_bits()).collect())
            }
            DataType::Date32 => {
                let values = array.as_primitive::<Date32Type>().values();
                Self::Bits(values.iter().map(|it| signed(i64::from(*it))).collect())
            }
            DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, _) => {
                let values = array.as_primitive::<TimestampMicrosecondType>().values();
                Self::Bits(values.iter().map(|it| signed(*it)).collect())
            }
            DataType::Time64(arrow_schema::TimeUnit::Microsecond) => {
                let values = array.as_primitive::<Time64MicrosecondType>().values();
                Self::Bits(values.iter().map(|it| signed(*it)).collect())
            }
            DataType::Utf8 => {
                let values = array.as_string::<i32>();
                Self::Bytes(rows.map(|row| values.value(row).as_bytes()).collect())
            }
            DataType::Binary => {
                let values = array.as_binary::<i32>();
                Self::Bytes(rows.map(|row| values.value(row)).collect())
            }
            other => {
                return Err(Error::unsupported(
                    format!("column `{column}`"),
                    format!("the type {} as a key or in an index", type_name(other)),
                    "use a column of numbers, booleans, texts, bytes, dates or timestamps",
                ));
            }
        })
    }
}

/// The bucket of each row. The hash is no part of the format: readers do not know that there are buckets.
fn hashes(rows: &RecordBatch, buckets: &Buckets) -> Result<Vec<u64>> {
    if buckets.count == 0 {
        return Err(Error::invalid("num_buckets", "must be at least 1"));
    }
    let schema = rows.schema_ref();
    let names: Vec<String> = match buckets.by.is_empty() {
        true => schema.fields().iter().map(|it| it.name().clone()).collect(),
        false => buckets.by.clone(),
    };
    let mut hashers = vec![Fnv::default(); rows.num_rows()];
    for name in &names {
        let array = column(rows, name, "bucket_by")?;
        if *array.data_type() == DataType::Null {
            continue;
        }
        let values = normalized_array(name, array)?;
        let keys = match (Keys::of(name, &values), buckets.by.is_empty()) {
            (Ok(keys), _) => keys,
            // Rows that differ in lists alone share a bucket.
            (Err(_), true) => continue,
            (Err(error), false) => return Err(error),
        };
        for (row, hasher) in hashers.iter_mut().enumerate() {
            hasher.write_u8(u8::from(values.is_null(row)));
            if values.is_null(row) {
                continue;
            }
            match &keys {
                Keys::Bits(bits) => hasher.write(&bits[row].to_le_bytes()),
                Keys::Bytes(bytes) => hasher.write(bytes[row]),
            }
        }
    }
    Ok(hashers
        .into_iter()
        .map(|hasher| hasher.finish() % buckets.count)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow_array::{Int8Array, Int64Array, StringArray};
    use arrow_schema::{Field, Schema};

    fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
            .collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    }

    #[test]
    fn parts_come_in_the_order_of_their_first_rows() {
        let batch = rows(vec![
            (
                "k",
                Arc::new(StringArray::from(vec!["b", "a/ä", "b", "a/ä"])),
            ),
            ("n", Arc::new(Int8Array::from(vec![1, 2, 1, 3]))),
            ("v", Arc::new(Int64Array::from(vec![10, 20, 30, 40]))),
        ]);
        let parts = split(&batch, &["k".into(), "n".into()], None).unwrap();
        let told: Vec<(String, Vec<i64>)> = parts
            .iter()
            .map(|part| {
                let values = part.rows.column(0).as_primitive::<Int64Type>();
                (part.path.clone(), values.values().to_vec())
            })
            .collect();
        assert_eq!(
            told,
            [
                ("k=b/n=1".to_owned(), vec![10, 30]),
                ("k=a%2F%C3%A4/n=2".to_owned(), vec![20]),
                ("k=a%2F%C3%A4/n=3".to_owned(), vec![40]),
            ]
        );
        let empty = batch.slice(0, 0);
        assert!(split(&empty, &["k".into()], None).unwrap().is_empty());
        assert_eq!(split(&empty, &[], None).unwrap().len(), 1);
    }

    #[test]
    fn null_keys_and_unknown_columns_are_refused() {
        let batch = rows(vec![
            ("k", Arc::new(StringArray::from(vec![Some("b"), None]))),
            ("v", Arc::new(Int64Array::from(vec![10, 20]))),
        ]);
        let error = split(&batch, &["k".into()], None).unwrap_err().to_string();
        assert!(error.contains("row 1 is null"), "{error}");
        let error = split(&batch, &["x".into()], None).unwrap_err().to_string();
        assert!(error.contains("`k`, `v`"), "{error}");
    }

    #[test]
    fn equal_values_share_a_bucket_whatever_their_width() {
        let wide = rows(vec![("v", Arc::new(Int64Array::from_iter_values(0..100)))]);
        let narrow = rows(vec![("v", Arc::new(Int8Array::from_iter_values(0..100)))]);
        let buckets = Buckets {
            count: 7,
            by: vec!["v".into()],
        };
        let of_wide = hashes(&wide, &buckets).unwrap();
        assert_eq!(of_wide, hashes(&narrow, &buckets).unwrap());
        let used: std::collections::BTreeSet<u64> = of_wide.into_iter().collect();
        assert_eq!(used.len(), 7);
        assert_eq!(split(&wide, &[], Some(&buckets)).unwrap().len(), 7);
    }

    #[test]
    fn sorting_keeps_the_order_of_equal_rows() {
        let batch = rows(vec![
            (
                "k",
                Arc::new(Int64Array::from(vec![Some(2), None, Some(1), Some(2)])),
            ),
            ("v", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        ]);
        let done = sorted(&batch, &["k".into()]).unwrap();
        let values = done.column(1).as_primitive::<Int64Type>();
        assert_eq!(values.values().to_vec(), [3, 1, 4, 2]);
    }
}
