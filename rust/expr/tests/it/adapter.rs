//! Batches of any order and shape land by name, or are refused.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, cast::AsArray,
    types::Int64Type,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pilum_expr::{AdaptError, AdaptOptions, Extra, Missing, SchemaAdapter};
use pilum_testing::Random;

fn schema(columns: &[(&str, DataType, bool)]) -> SchemaRef {
    let field = |(name, data_type, nullable): &(&str, DataType, bool)| {
        Field::new(*name, data_type.clone(), *nullable)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn table() -> SchemaRef {
    schema(&[
        ("id", DataType::Int64, false),
        ("name", DataType::Utf8, true),
    ])
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn numbers(values: Vec<Option<i32>>) -> ArrayRef {
    Arc::new(Int32Array::from(values))
}

fn names(values: Vec<&str>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

#[test]
fn columns_are_matched_by_name_and_converted() {
    let rows = batch(vec![
        ("name", names(vec!["a"])),
        ("id", numbers(vec![Some(7)])),
    ]);
    let adapter = SchemaAdapter::new(&rows.schema(), &table(), AdaptOptions::default()).unwrap();
    let adapted = adapter.adapt(&rows, 0).unwrap();
    assert_eq!(adapted.schema(), table());
    assert_eq!(adapted.column(0).as_primitive::<Int64Type>().value(0), 7);
    let rows = batch(vec![
        ("name", names(vec!["a", "b"])),
        ("id", numbers(vec![Some(7), None])),
    ]);
    let error = adapter.adapt(&rows, 3).unwrap_err();
    assert!(matches!(error, AdaptError::Value { batch: 3, .. }));
    assert!(
        error
            .to_string()
            .starts_with("batch 3, column `id`, row 1: null (int32)"),
        "{error}"
    );
}

#[test]
fn columns_that_fit_are_not_copied() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let rows = batch(vec![
        ("id", Arc::clone(&ids)),
        ("name", names(vec!["a", "b"])),
    ]);
    let adapter = SchemaAdapter::new(&rows.schema(), &table(), AdaptOptions::default()).unwrap();
    let adapted = adapter.adapt(&rows, 0).unwrap();
    assert!(adapted.column(0).to_data().ptr_eq(&ids.to_data()));
}

#[test]
fn every_difference_is_listed_with_the_nearest_name() {
    let data = schema(&[("nmae", DataType::Utf8, true), ("zz", DataType::Int8, true)]);
    let Err(AdaptError::Schema { differences }) = SchemaAdapter::new(
        &data,
        &table(),
        AdaptOptions {
            missing: Missing::Error,
            ..Default::default()
        },
    ) else {
        panic!("the schemas differ");
    };
    assert_eq!(
        differences,
        [
            "column `id` is missing and may not be null; add it to the data",
            "column `name` is missing, did you mean `nmae`?",
            "column `nmae` is not in the table, did you mean `name`?",
            "column `zz` is not in the table; drop it, or rename it",
        ]
    );
    let drop = AdaptOptions {
        extra: Extra::Drop,
        ..Default::default()
    };
    let data = schema(&[("zz", DataType::Int8, true), ("id", DataType::Int64, true)]);
    let adapter = SchemaAdapter::new(&data, &table(), drop).unwrap();
    let rows = RecordBatch::new_empty(data);
    assert_eq!(adapter.adapt(&rows, 0).unwrap().num_columns(), 2);
}

#[test]
fn batches_that_contradict_their_stream_are_refused_with_both_names() {
    let said = schema(&[
        ("id", DataType::Int64, true),
        ("name", DataType::Utf8, true),
    ]);
    let adapter = SchemaAdapter::new(&said, &table(), AdaptOptions::default()).unwrap();
    let swapped = schema(&[
        ("name", DataType::Utf8, true),
        ("id", DataType::Int64, true),
    ]);
    let error = adapter
        .adapt(&RecordBatch::new_empty(swapped), 5)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "batch 5 contradicts the schema of its stream: column 0 is `id` in the schema and `name` in the batch; make \
         every batch as the schema says"
    );
    let typed = schema(&[
        ("id", DataType::Int32, true),
        ("name", DataType::Utf8, true),
    ]);
    let error = adapter
        .adapt(&RecordBatch::new_empty(typed), 0)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("column `id` is int64 in the schema and int32 in the batch"),
        "{error}"
    );
    let fewer = schema(&[("id", DataType::Int64, true)]);
    assert!(adapter.adapt(&RecordBatch::new_empty(fewer), 0).is_err());
}

#[test]
fn random_columns_land_by_name_or_are_refused() {
    let all = ["a", "b", "c", "d", "e"];
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut target: Vec<(&str, DataType, bool)> = Vec::new();
        for name in all {
            if !random.one_in(3) {
                target.push((name, DataType::Int64, !random.one_in(4)));
            }
        }
        let mut sources: Vec<&str> = all.iter().copied().filter(|_| !random.one_in(4)).collect();
        for at in (1..sources.len()).rev() {
            sources.swap(at, random.below(at + 1));
        }
        let rows = random.below(3) + 1;
        let columns = sources.iter().map(|name| {
            let base = i32::from(name.as_bytes()[0]) * 10;
            (
                *name,
                numbers((0..rows as i32).map(|row| Some(base + row)).collect()),
            )
        });
        let columns: Vec<_> = columns.collect();
        if columns.is_empty() {
            continue;
        }
        let data = batch(columns);
        let options = AdaptOptions {
            missing: if random.one_in(2) {
                Missing::Null
            } else {
                Missing::Error
            },
            extra: if random.one_in(2) {
                Extra::Drop
            } else {
                Extra::Error
            },
            ..AdaptOptions::default()
        };
        let extra = sources
            .iter()
            .any(|name| target.iter().all(|(of, ..)| of != name));
        let missing = target.iter().any(|(name, _, nullable)| {
            !sources.contains(name) && (!nullable || options.missing == Missing::Error)
        });
        let is_refused = missing || extra && options.extra == Extra::Error;
        match SchemaAdapter::new(&data.schema(), &schema(&target), options) {
            Err(_) => assert!(is_refused, "seed {seed}"),
            Ok(adapter) => {
                assert!(!is_refused, "seed {seed}");
                let adapted = adapter.adapt(&data, 0).unwrap();
                assert_eq!(
                    (adapted.num_rows(), adapted.num_columns()),
                    (rows, target.len())
                );
                for (column, (name, ..)) in adapted.columns().iter().zip(&target) {
                    let values = column.as_primitive::<Int64Type>();
                    for row in 0..rows {
                        let expected = i64::from(name.as_bytes()[0]) * 10 + row as i64;
                        assert_eq!(values.is_valid(row), sources.contains(name), "seed {seed}");
                        assert!(
                            values.is_null(row) || values.value(row) == expected,
                            "seed {seed}"
                        );
                    }
                }
            }
        }
    }
}
