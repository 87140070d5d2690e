//! Criterion benchmarks of the engine: the tables that they share.
//!
//! Comparisons with other libraries are in `benches/compare`.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, DataType, Field};

/// A mixed table of seven columns, about 62 bytes of Arrow memory a row: ids, a group, two measures, a time, two texts.
///
/// # Errors
/// Never: the columns fit.
pub fn mixed(num_rows: usize) -> Result<RecordBatch, ArrowError> {
    let word = |row: usize| (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11;
    let rows = i64::try_from(num_rows).unwrap_or(i64::MAX);
    let small = |row: usize| i32::try_from(word(row) % 1000).unwrap_or(0);
    let columns: [(&str, ArrayRef); 7] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        (
            "group",
            Arc::new(Int32Array::from_iter_values((0..num_rows).map(small))),
        ),
        (
            "x",
            Arc::new(Float64Array::from_iter_values(
                (0..num_rows).map(|row| f64::from(small(row)) / 7.0),
            )),
        ),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                (0..rows).map(|row| row * 1_000_003),
            )),
        ),
        (
            "ok",
            Arc::new(BooleanArray::from_iter(
                (0..num_rows).map(|row| Some(word(row) & 1 == 0)),
            )),
        ),
        (
            "key",
            Arc::new(StringArray::from_iter_values(
                (0..num_rows).map(|row| format!("{:016x}", word(row))),
            )),
        ),
        (
            "city",
            Arc::new(StringArray::from_iter_values(
                (0..num_rows).map(|row| format!("city {}", small(row))),
            )),
        ),
    ];
    RecordBatch::try_from_iter(columns)
}

/// `num_rows` vectors of 256 float32.
///
/// # Errors
/// Never: the columns fit.
pub fn vectors(num_rows: usize) -> Result<RecordBatch, ArrowError> {
    let items =
        Float32Array::from_iter_values((0..num_rows * 256).map(|item| (item % 1013) as f32));
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let vectors = FixedSizeListArray::try_new(item, 256, Arc::new(items), None)?;
    RecordBatch::try_from_iter([("vector", Arc::new(vectors) as ArrayRef)])
}
