//! Batches of any order and shape land by name, or are refused.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, StructArray,
    cast::AsArray,
    types::{Int8Type, Int64Type},
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pilum_expr::{AdaptError, AdaptOptions, Extra, Missing, Mode, SchemaAdapter};
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
    let adapted = adapter.adapt(&rows, 0, 0).unwrap();
    assert_eq!(adapted.schema(), table());
    assert_eq!(adapted.column(0).as_primitive::<Int64Type>().value(0), 7);
    let rows = batch(vec![
        ("name", names(vec!["a", "b"])),
        ("id", numbers(vec![Some(7), None])),
    ]);
    let error = adapter.adapt(&rows, 3, 100).unwrap_err();
    assert!(matches!(error, AdaptError::Value(_)));
    assert!(
        error
            .to_string()
            .starts_with("column `id`, row 101: null (int32)"),
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
    let adapted = adapter.adapt(&rows, 0, 0).unwrap();
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
            "column `zz` is not in the table; drop it, rename it, or write with extra=\"ignore\"",
        ]
    );
    let drop = AdaptOptions {
        extra: Extra::Ignore,
        ..Default::default()
    };
    let data = schema(&[("zz", DataType::Int8, true), ("id", DataType::Int64, true)]);
    let adapter = SchemaAdapter::new(&data, &table(), drop).unwrap();
    let rows = RecordBatch::new_empty(data);
    assert_eq!(adapter.adapt(&rows, 0, 0).unwrap().num_columns(), 2);
}

fn refused(said: &SchemaRef, batch: SchemaRef) -> String {
    let adapter = SchemaAdapter::new(said, &table(), AdaptOptions::default()).unwrap();
    let error = adapter.adapt(&RecordBatch::new_empty(batch), 5, 0);
    error.unwrap_err().to_string()
}

#[test]
fn batches_that_contradict_their_stream_are_refused_with_both_names() {
    let said = schema(&[
        ("id", DataType::Int64, true),
        ("name", DataType::Utf8, true),
    ]);
    let renamed = schema(&[
        ("name", DataType::Utf8, true),
        ("key", DataType::Int64, true),
    ]);
    assert_eq!(
        refused(&said, renamed),
        "batch 5 contradicts the schema of its stream: the schema has column `id` and the batch has `key` instead; make \
         every batch as the schema says"
    );
    let typed = schema(&[
        ("id", DataType::Int32, true),
        ("name", DataType::Utf8, true),
    ]);
    let error = refused(&said, typed);
    assert!(
        error.contains("column `id` is int64 in the schema and int32 in the batch"),
        "{error}"
    );
    let fewer = schema(&[("id", DataType::Int64, true)]);
    let error = refused(&said, fewer);
    assert!(
        error.contains("column `name` of the schema is not in the batch"),
        "{error}"
    );
    let twice = schema(&[
        ("id", DataType::Int64, true),
        ("name", DataType::Utf8, true),
        ("id", DataType::Int64, true),
    ]);
    let error = refused(&said, twice);
    assert!(error.contains("a name occurs more than once"), "{error}");
}

#[test]
fn columns_and_members_of_a_batch_land_by_name_in_any_order() {
    let member = |name: &str| Field::new(name, DataType::Int64, true);
    let point =
        |first: &str, second: &str| DataType::Struct(vec![member(first), member(second)].into());
    let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
    let said = schema(&[
        ("id", DataType::Int64, true),
        ("points", list(point("x", "y")), true),
    ]);
    let adapter = SchemaAdapter::new(&said, &said, AdaptOptions::default()).unwrap();
    let one = |value: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
    let points = StructArray::from(vec![
        (Arc::new(member("y")), one(2)),
        (Arc::new(member("x")), one(1)),
    ]);
    let item = Arc::new(Field::new("item", point("y", "x"), true));
    let offsets = OffsetBuffer::from_lengths([1]);
    let lists = ListArray::new(item, offsets, Arc::new(points), None);
    let rows = batch(vec![("points", Arc::new(lists)), ("id", one(7))]);
    let adapted = adapter.adapt(&rows, 0, 0).unwrap();
    assert_eq!(adapted.schema(), said);
    assert_eq!(adapted.column(0).as_primitive::<Int64Type>().value(0), 7);
    let points = adapted.column(1).as_list::<i32>().values().as_struct();
    let value = |name: &str| {
        points
            .column_by_name(name)
            .unwrap()
            .as_primitive::<Int64Type>()
            .value(0)
    };
    assert_eq!((value("x"), value("y")), (1, 2));
    // Another name at depth is another column.
    let other = schema(&[
        ("points", list(point("x", "z")), true),
        ("id", DataType::Int64, true),
    ]);
    let error = adapter
        .adapt(&RecordBatch::new_empty(other), 3, 0)
        .unwrap_err()
        .to_string();
    let difference =
        "the schema has column `points.item.y` and the batch has `points.item.z` instead";
    assert!(
        error.contains("batch 3 ") && error.contains(difference),
        "{error}"
    );
}

#[test]
fn a_refusal_tells_that_a_write_may_be_lossy() {
    let target = schema(&[("id", DataType::Int64, true)]);
    let texts = batch(vec![("id", names(vec!["7"]))]);
    let lossy = AdaptOptions {
        cast: Mode::Lossy,
        ..AdaptOptions::default()
    };
    let error = SchemaAdapter::new(&texts.schema(), &target, AdaptOptions::default()).unwrap_err();
    assert!(
        error.to_string().ends_with("or write with cast=\"lossy\""),
        "{error}"
    );
    let adapter = SchemaAdapter::new(&texts.schema(), &target, lossy).unwrap();
    assert_eq!(
        adapter
            .adapt(&texts, 0, 0)
            .unwrap()
            .column(0)
            .as_primitive::<Int64Type>()
            .value(0),
        7
    );
    let halves: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.5]));
    let halves = batch(vec![("id", halves)]);
    let adapter = SchemaAdapter::new(&halves.schema(), &target, AdaptOptions::default()).unwrap();
    let error = adapter.adapt(&halves, 0, 10).unwrap_err().to_string();
    assert!(
        error.starts_with("column `id`, row 11: 2.5 (double) cannot become int64"),
        "{error}"
    );
    assert!(error.ends_with("or write with cast=\"lossy\""), "{error}");
}

#[test]
fn values_of_a_dictionary_are_converted_and_its_keys_stay() {
    let value = |values: DataType| DataType::Dictionary(Box::new(DataType::Int8), Box::new(values));
    let target = schema(&[("d", value(DataType::LargeUtf8), true)]);
    let words: DictionaryArray<Int8Type> = vec![Some("b"), None, Some("a"), Some("b")]
        .into_iter()
        .collect();
    let rows = batch(vec![("d", Arc::new(words))]);
    let adapter = SchemaAdapter::new(&rows.schema(), &target, AdaptOptions::default()).unwrap();
    let adapted = adapter.adapt(&rows, 0, 0).unwrap();
    let words = adapted.column(0).as_dictionary::<Int8Type>();
    assert_eq!(
        words.keys().iter().collect::<Vec<_>>(),
        [Some(0), None, Some(1), Some(0)]
    );
    assert_eq!(
        words
            .values()
            .as_string::<i64>()
            .iter()
            .flatten()
            .collect::<Vec<_>>(),
        ["b", "a"]
    );
    // A value that no row has need not fit.
    let target = schema(&[("d", value(DataType::Int8), true)]);
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1000, 5]));
    let numbers = DictionaryArray::<Int8Type>::new(vec![1, 1].into(), values);
    let rows = batch(vec![("d", Arc::new(numbers))]);
    let adapter = SchemaAdapter::new(&rows.schema(), &target, AdaptOptions::default()).unwrap();
    let adapted = adapter.adapt(&rows, 0, 0).unwrap();
    let numbers = adapted.column(0).as_dictionary::<Int8Type>();
    assert_eq!(numbers.values().as_primitive::<Int8Type>().values(), &[5]);
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
                Extra::Ignore
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
                let adapted = adapter.adapt(&data, 0, 0).unwrap();
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
