//! Conversions one by one: the examples of the rules, places of refused values, extension types, maps.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    Array, ArrayRef, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, ListArray, RunArray, StringArray, StructArray,
    TimestampMicrosecondArray,
    cast::AsArray,
    types::{Int8Type, Int32Type, Int64Type},
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use pilum_expr::{AdaptOptions, Conversion, ConversionError, Extra, Missing, Mode, convert};

fn field(data_type: DataType) -> Field {
    Field::new("c", data_type, true)
}

fn to(array: impl Array + 'static, target: DataType) -> Result<ArrayRef, Box<ConversionError>> {
    let array: ArrayRef = Arc::new(array);
    let from = field(array.data_type().clone());
    convert(&array, &from, &field(target), Mode::Exact)
}

#[test]
fn the_examples_of_the_rules() {
    let decimal = DataType::Decimal128(10, 2);
    let kept = to(Float64Array::from(vec![9.87, -0.01, 0.0]), decimal.clone()).unwrap();
    assert_eq!(
        kept.as_primitive::<arrow_array::types::Decimal128Type>()
            .values(),
        &[987, -1, 0]
    );
    let error = to(Float64Array::from(vec![9.87, 9.876_543_21]), decimal).unwrap_err();
    assert_eq!(
        (error.row, error.value.as_deref()),
        (Some(1), Some("9.87654321"))
    );
    assert_eq!(
        error.to_string(),
        "column `c`, row 1: 9.87654321 (double) cannot become decimal128(10, 2): it has more than 2 decimals or more \
         than 10 digits; change the value, or round or cast the column before"
    );
    let fine = Decimal128Array::from(vec![123_456_789_012_345_678])
        .with_precision_and_scale(38, 18)
        .unwrap();
    assert!(to(fine, DataType::Float64).is_err());
    assert!(to(Int64Array::from(vec![(1 << 53) + 1]), DataType::Float64).is_err());
    assert!(to(Int64Array::from(vec![1 << 53]), DataType::Float64).is_ok());
    assert!(to(Float64Array::from(vec![1e40]), DataType::Float32).is_err());
    assert!(to(Float64Array::from(vec![1e-60]), DataType::Float32).is_err());
    assert!(
        to(
            Float64Array::from(vec![f64::INFINITY, f64::NAN]),
            DataType::Float32
        )
        .is_ok()
    );
    assert!(to(Int64Array::from(vec![5]), DataType::Boolean).is_err());
    assert!(to(Int64Array::from(vec![0, 1]), DataType::Boolean).is_ok());
    assert!(to(TimestampMicrosecondArray::from(vec![1]), DataType::Date32).is_err());
    assert!(
        to(
            TimestampMicrosecondArray::from(vec![86_400_000_000]),
            DataType::Date32
        )
        .is_ok()
    );
    let zoned = TimestampMicrosecondArray::from(vec![0]).with_timezone("UTC");
    let error = to(zoned, DataType::Timestamp(TimeUnit::Microsecond, None)).unwrap_err();
    assert_eq!(
        (error.row, error.from.as_str()),
        (None, "timestamp[us, tz=UTC]")
    );
    assert!(to(StringArray::from(vec!["1"]), DataType::Int64).is_err());
}

#[test]
fn minus_zero_and_nan_stay() {
    let kept = to(Float32Array::from(vec![-0.0, f32::NAN]), DataType::Float64).unwrap();
    let kept = kept.as_primitive::<arrow_array::types::Float64Type>();
    assert!(kept.value(0).is_sign_negative() && kept.value(1).is_nan());
    let zero = to(Float64Array::from(vec![-0.0]), DataType::Int8).unwrap();
    assert_eq!(zero.as_primitive::<Int8Type>().value(0), 0);
}

#[test]
fn places_in_nested_values_are_told() {
    let items = Int64Array::from(vec![1, 2, 3, 300]);
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let lists = ListArray::new(
        item,
        OffsetBuffer::from_lengths([1, 0, 3]),
        Arc::new(items),
        None,
    );
    let inside = Arc::new(Field::new("l", lists.data_type().clone(), true));
    let array: ArrayRef = Arc::new(StructArray::from(vec![(
        inside,
        Arc::new(lists) as ArrayRef,
    )]));
    let item = Arc::new(Field::new("item", DataType::Int8, true));
    let fields = Fields::from(vec![Field::new("l", DataType::List(item), true)]);
    let from = field(array.data_type().clone());
    let error = convert(&array, &from, &field(DataType::Struct(fields)), Mode::Exact).unwrap_err();
    assert_eq!(error.path, "c.l.item");
    assert_eq!(
        (error.row, error.items.as_slice()),
        (Some(2), [2].as_slice())
    );
    assert!(
        error
            .to_string()
            .starts_with("column `c.l.item`, row 2, item 2: 300 (int64)"),
        "{error}"
    );
}

#[test]
fn long_values_are_cut_in_messages() {
    let long = "x".repeat(1000);
    let error = to(StringArray::from(vec![long]), DataType::FixedSizeBinary(3)).unwrap_err();
    assert_eq!(error.value.unwrap().chars().count(), 81);
}

#[test]
fn values_that_no_row_has_need_not_convert() {
    let values = Arc::new(StringArray::from(vec!["unused and long", "abc"]));
    let keys = arrow_array::Int8Array::from(vec![Some(1), None, Some(1)]);
    let array = DictionaryArray::new(keys, values);
    let kept = to(array, DataType::FixedSizeBinary(3)).unwrap();
    assert_eq!(kept.null_count(), 1);
    let ends = arrow_array::PrimitiveArray::<Int32Type>::from(vec![2, 3]);
    let runs = RunArray::<Int32Type>::try_new(&ends, &Int64Array::from(vec![7, 8])).unwrap();
    let kept = to(runs, DataType::Int32).unwrap();
    assert_eq!(kept.as_primitive::<Int32Type>().values(), &[7, 7, 8]);
    let runs = RunArray::<Int32Type>::try_new(&ends, &Int64Array::from(vec![7, 1 << 40])).unwrap();
    assert_eq!(to(runs, DataType::Int32).unwrap_err().row, Some(2));
}

#[test]
fn keys_must_count_all_values() {
    let many = Int32Array::from_iter_values(0..200);
    let dictionary = |keys| DataType::Dictionary(Box::new(keys), Box::new(DataType::Int64));
    assert!(to(many.clone(), dictionary(DataType::Int16)).is_ok());
    let error = to(many, dictionary(DataType::Int8)).unwrap_err();
    assert!(
        error.to_string().contains("use a wider key type"),
        "{error}"
    );
}

fn extension(data_type: DataType, name: &str, parameters: &str) -> Field {
    field(data_type).with_metadata(HashMap::from([
        ("ARROW:extension:name".to_owned(), name.to_owned()),
        ("ARROW:extension:metadata".to_owned(), parameters.to_owned()),
    ]))
}

#[test]
fn extension_types_keep_their_meaning() {
    let uuids: ArrayRef =
        Arc::new(FixedSizeBinaryArray::try_from_iter([[1_u8; 16]].into_iter()).unwrap());
    let storage = DataType::FixedSizeBinary(16);
    let uuid = extension(storage.clone(), "arrow.uuid", "");
    let plain = field(storage.clone());
    let exact = |from: &Field, to: &Field| convert(&uuids, from, to, Mode::Exact);
    assert!(
        exact(&uuid, &uuid).is_ok() && exact(&uuid, &plain).is_ok() && exact(&plain, &uuid).is_ok()
    );
    assert!(exact(&uuid, &extension(storage.clone(), "other", "")).is_err());
    assert!(
        exact(
            &extension(storage.clone(), "other", "a"),
            &extension(storage, "other", "b")
        )
        .is_err()
    );
    let json = extension(DataType::Utf8, "arrow.json", "");
    let text = field(DataType::Utf8);
    let good: ArrayRef = Arc::new(StringArray::from(vec![Some("{\"a\": [1, null]}"), None]));
    let bad: ArrayRef = Arc::new(StringArray::from(vec!["{}", "{a: 1}"]));
    assert!(convert(&good, &text, &json, Mode::Exact).is_ok());
    let error = convert(&bad, &text, &json, Mode::Exact).unwrap_err();
    assert_eq!(
        (error.row, error.value.as_deref()),
        (Some(1), Some("{a: 1}"))
    );
}

#[test]
fn lists_of_entries_become_maps_without_null_keys() {
    let entries = |keys: Vec<Option<&str>>| -> ArrayRef {
        let lengths = OffsetBuffer::from_lengths([keys.len()]);
        let values: Vec<i64> = (0..keys.len() as i64).collect();
        // Value first: members are found by their names.
        let pair = StructArray::from(vec![
            (
                Arc::new(Field::new("value", DataType::Int64, true)),
                Arc::new(Int64Array::from(values)) as ArrayRef,
            ),
            (
                Arc::new(Field::new("key", DataType::Utf8, true)),
                Arc::new(StringArray::from(keys)) as ArrayRef,
            ),
        ]);
        let item = Arc::new(Field::new("item", pair.data_type().clone(), true));
        Arc::new(ListArray::new(item, lengths, Arc::new(pair), None))
    };
    let pair = Fields::from(vec![
        Field::new("key", DataType::LargeUtf8, false),
        Field::new("value", DataType::Int8, true),
    ]);
    let map = |sorted| {
        let entries = Arc::new(Field::new("entries", DataType::Struct(pair.clone()), false));
        field(DataType::Map(entries, sorted))
    };
    let good = entries(vec![Some("a"), Some("b")]);
    let from = field(good.data_type().clone());
    let kept = convert(&good, &from, &map(true), Mode::Exact).unwrap();
    assert_eq!(kept.as_map().keys().as_string::<i64>().value(1), "b");
    assert_eq!(
        kept.as_map().values().as_primitive::<Int8Type>().values(),
        &[0, 1]
    );
    let back = convert(&kept, &map(true), &from, Mode::Exact).unwrap();
    assert_eq!(&back, &good);
    let falling = entries(vec![Some("b"), Some("a")]);
    assert!(convert(&falling, &from, &map(false), Mode::Exact).is_ok());
    assert_eq!(
        convert(&falling, &from, &map(true), Mode::Exact)
            .unwrap_err()
            .row,
        Some(0)
    );
    let nulls = entries(vec![Some("a"), None]);
    let error = convert(&nulls, &from, &map(false), Mode::Exact).unwrap_err();
    assert_eq!(
        (error.path.as_str(), error.items.as_slice()),
        ("c.entries.key", [1].as_slice())
    );
}

#[test]
fn members_are_matched_by_name() {
    let pair = |a: &str, b: &str| {
        let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let other: ArrayRef = Arc::new(Int32Array::from(vec![2]));
        let member = |name: &str| Arc::new(Field::new(name, DataType::Int32, true));
        let array: ArrayRef = Arc::new(StructArray::from(vec![
            (member(a), number),
            (member(b), other),
        ]));
        array
    };
    let target = |names: &[(&str, bool)]| {
        let member =
            |(name, nullable): &(&str, bool)| Field::new(*name, DataType::Int64, *nullable);
        field(DataType::Struct(names.iter().map(member).collect()))
    };
    let array = pair("x", "y");
    let from = field(array.data_type().clone());
    let plan = |to: &Field, options| Conversion::new(&from, to, options);
    let swapped = target(&[("y", true), ("x", true)]);
    let kept = plan(&swapped, AdaptOptions::default())
        .unwrap()
        .apply(&array)
        .unwrap();
    assert_eq!(
        kept.as_struct()
            .column(0)
            .as_primitive::<Int64Type>()
            .value(0),
        2
    );
    let wider = target(&[("x", true), ("y", true), ("z", true)]);
    let kept = plan(&wider, AdaptOptions::default())
        .unwrap()
        .apply(&array)
        .unwrap();
    assert_eq!(kept.as_struct().column(2).null_count(), 1);
    let strict = AdaptOptions {
        missing: Missing::Error,
        ..AdaptOptions::default()
    };
    assert_eq!(plan(&wider, strict).unwrap_err().path, "c.z");
    let required = target(&[("x", true), ("y", true), ("z", false)]);
    assert_eq!(
        plan(&required, AdaptOptions::default()).unwrap_err().path,
        "c.z"
    );
    let narrower = target(&[("x", true)]);
    assert_eq!(
        plan(&narrower, AdaptOptions::default()).unwrap_err().path,
        "c.y"
    );
    let drop = AdaptOptions {
        extra: Extra::Ignore,
        ..AdaptOptions::default()
    };
    assert!(plan(&narrower, drop).unwrap().apply(&array).is_ok());
    let twice = pair("x", "x");
    let from = field(twice.data_type().clone());
    assert!(convert(&twice, &from, &narrower, Mode::Exact).is_err());
}

#[test]
fn loss_is_possible_when_it_is_asked_for() {
    let lossy = |array: ArrayRef, target: DataType| {
        let from = field(array.data_type().clone());
        convert(&array, &from, &field(target), Mode::Lossy)
    };
    let kept = lossy(
        Arc::new(Float64Array::from(vec![2.5, -1.2])),
        DataType::Int8,
    )
    .unwrap();
    assert_eq!(kept.as_primitive::<Int8Type>().values(), &[2, -1]);
    let error = lossy(
        Arc::new(Float64Array::from(vec![1.0, 1e10])),
        DataType::Int8,
    )
    .unwrap_err();
    assert_eq!(
        (error.row, error.value.as_deref()),
        (Some(1), Some("10000000000.0"))
    );
    let kept = lossy(Arc::new(StringArray::from(vec!["17"])), DataType::Int64).unwrap();
    assert_eq!(kept.as_primitive::<Int64Type>().value(0), 17);
    assert!(lossy(Arc::new(Int64Array::from(vec![1])), DataType::Date32).is_err());
}
