//! Values, one by one: what each form gives on rows chosen for it.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, Date32Array, Decimal128Array, Decimal256Array,
    DurationSecondArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int64Array,
    LargeStringArray, RecordBatch, StringArray, StringViewArray, Time32SecondArray,
    TimestampMillisecondArray, TimestampSecondArray, UInt64Array, cast::AsArray, types::Int64Type,
};
use arrow_buffer::i256;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use pilum_expr::{Error, bind, bind_as, evaluate, filter_mask, lit, parse_sql};

mod answers;
mod numbers;
mod shapes;
mod sql;
mod text;
mod time;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn numbers() -> RecordBatch {
    batch(vec![
        (
            "i",
            Arc::new(Int64Array::from(vec![Some(7), Some(-7), Some(0), None])),
        ),
        ("j", Arc::new(Int64Array::from(vec![2, 0, -3, 4]))),
        ("tiny", Arc::new(Int8Array::from(vec![127, -128, 0, 1]))),
        (
            "u",
            Arc::new(UInt64Array::from(vec![0, 1, u64::MAX, 1 << 63])),
        ),
        (
            "f",
            Arc::new(Float64Array::from(vec![0.1, -0.0, f64::NAN, f64::INFINITY])),
        ),
        (
            "g",
            Arc::new(Float32Array::from(vec![
                0.1_f32,
                16_777_216.0,
                3.0,
                f32::NEG_INFINITY,
            ])),
        ),
        (
            "m",
            Arc::new(
                Decimal128Array::from(vec![10, 250, -5, 0])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        (
            "wide",
            Arc::new(
                Decimal256Array::from(vec![
                    i256::MAX,
                    i256::from_i128(1500),
                    i256::ZERO,
                    i256::MIN,
                ])
                .with_precision_and_scale(76, 3)
                .unwrap(),
            ),
        ),
    ])
}

/// The values as text, `-` for null.
fn run(text: &str, batch: &RecordBatch) -> Vec<String> {
    let bound =
        bind(&parse_sql(text).unwrap(), &batch.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
    let array = evaluate(&bound, batch).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(array.data_type(), bound.data_type(), "{text}");
    assert!(
        bound.nullable() || array.logical_null_count() == 0,
        "{text}"
    );
    let options = FormatOptions::default().with_null("-");
    let formatter = ArrayFormatter::try_new(&array, &options).unwrap();
    (0..array.len())
        .map(|row| formatter.value(row).to_string())
        .collect()
}

fn rows(text: &str, batch: &RecordBatch) -> Vec<usize> {
    let bound =
        bind(&parse_sql(text).unwrap(), &batch.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
    let mask = filter_mask(&bound, batch).unwrap_or_else(|e| panic!("{text}: {e}"));
    mask.values().set_indices().collect()
}

fn fails(text: &str, batch: &RecordBatch) -> Error {
    match bind(&parse_sql(text).unwrap(), &batch.schema()).and_then(|bound| evaluate(&bound, batch))
    {
        Err(error) => error,
        Ok(array) => panic!("{text}: expected an error, got {array:?}"),
    }
}
