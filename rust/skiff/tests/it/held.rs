//! What is encoded is read back as the same value in the same format, or refused: kinds of numbers, ranges, strings.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array,
    Int8Array, Int32Array, Int64Array, LargeStringArray, ListArray, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use pilum_skiff::{Error, Format, Strings};

use super::one_table::{column, decode, encode, format_of, table};

fn decimal(value: i128, precision: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from(vec![value]);
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

#[test]
fn numbers_of_another_kind_are_refused_instead_of_written_as_raw_units() {
    let utc = || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let int: ArrayRef = Arc::new(Int64Array::from(vec![5]));
    let time: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![5]));
    let day: ArrayRef = Arc::new(Date32Array::from(vec![5]));
    let kinds: [(DataType, ArrayRef); 5] = [
        (DataType::Int64, Arc::clone(&int)),
        (DataType::Decimal128(9, 2), decimal(500, 9, 2)),
        (utc(), Arc::clone(&time)),
        (
            DataType::Duration(TimeUnit::Microsecond),
            Arc::new(arrow_array::DurationMicrosecondArray::from(vec![5])),
        ),
        (DataType::Date32, day),
    ];
    for (to, (data_type, _)) in kinds.iter().enumerate() {
        let format = format_of(vec![Field::new("c", data_type.clone(), false)]);
        for (from, (_, array)) in kinds.iter().enumerate() {
            let written = column(&format, Arc::clone(array));
            if from == to {
                written.unwrap();
                continue;
            }
            let error = written.unwrap_err();
            assert!(
                matches!(error, Error::Unsupported { .. }),
                "{from} {to}: {error}"
            );
            assert!(error.to_string().contains("column `c`"), "{error}");
            assert!(error.to_string().contains("cast the column"), "{error}");
        }
    }
    // Inside of lists too, and where a format of wire types has a plain integer.
    let plain = table(r#"{"name": "c", "wire_type": "int64"}"#);
    assert!(column(&plain, time).is_err());
    assert!(column(&plain, decimal(500, 9, 2)).is_err());
    assert!(column(&plain, Arc::new(UInt64Array::from(vec![5]))).is_ok());
    let item = Arc::new(Field::new("item", DataType::Decimal128(9, 2), false));
    let lists = format_of(vec![Field::new("c", DataType::List(item), false)]);
    let item = Arc::new(Field::new("item", DataType::Int64, false));
    let offsets = OffsetBuffer::from_lengths([1]);
    let list = ListArray::new(item, offsets, int, None);
    let error = column(&lists, Arc::new(list)).unwrap_err();
    assert!(error.to_string().contains("`item` in it"), "{error}");
}

#[test]
fn values_that_the_arrow_type_of_the_format_does_not_hold_are_refused_with_their_row() {
    let text = "text".as_bytes();
    let cases: [(DataType, ArrayRef, &str); 9] = [
        (
            DataType::Int8,
            Arc::new(Int64Array::from(vec![127, 128])),
            "OutOfRange",
        ),
        (
            DataType::UInt8,
            Arc::new(UInt64Array::from(vec![255, 256])),
            "OutOfRange",
        ),
        (
            DataType::UInt16,
            Arc::new(Int32Array::from(vec![0, -1])),
            "OutOfRange",
        ),
        (
            DataType::Decimal128(5, 2),
            Arc::new(
                Decimal128Array::from(vec![99_999, 100_000])
                    .with_precision_and_scale(9, 2)
                    .unwrap(),
            ),
            "OutOfRange",
        ),
        (
            DataType::Float32,
            Arc::new(Float64Array::from(vec![0.5, 0.1])),
            "OutOfRange",
        ),
        (
            DataType::Utf8,
            Arc::new(BinaryArray::from_vec(vec![text, b"\xff"])),
            "BadUtf8",
        ),
        (
            DataType::LargeUtf8,
            Arc::new(BinaryArray::from_vec(vec![text, b"\xff"])),
            "BadUtf8",
        ),
        (
            DataType::FixedSizeBinary(4),
            Arc::new(BinaryArray::from_vec(vec![text, b"abc"])),
            "OutOfRange",
        ),
        (
            DataType::FixedSizeBinary(4),
            Arc::new(StringArray::from(vec!["text", "abcde"])),
            "OutOfRange",
        ),
    ];
    for (data_type, array, class) in cases {
        for is_nullable in [false, true] {
            let format = format_of(vec![Field::new("c", data_type.clone(), is_nullable)]);
            let error = column(&format, Arc::clone(&array)).unwrap_err();
            assert_eq!(error.class(), class, "{data_type}: {error}");
            assert!(matches!(error, Error::Value { row: 1, .. }), "{error}");
            let stream = column(&format, array.slice(0, 1)).unwrap();
            assert_eq!(decode(&format, &stream).column(0).data_type(), &data_type);
        }
    }
    // Infinity and NaN are floats.
    let format = format_of(vec![Field::new("c", DataType::Float32, false)]);
    let values = vec![f64::NAN, f64::INFINITY, -0.0, f64::from(f32::MIN_POSITIVE)];
    column(&format, Arc::new(Float64Array::from(values))).unwrap();
    // A node of YSON under the wire type of a string.
    let yson = std::collections::HashMap::from([(
        "ARROW:extension:name".to_owned(),
        "ytsaurus.yson".to_owned(),
    )]);
    let field = Field::new("c", DataType::Binary, false).with_metadata(yson);
    let format = table(r#"{"name": "c", "wire_type": "string32"}"#);
    let format = format.with_arrow(0, &Schema::new(vec![field])).unwrap();
    let nodes = BinaryArray::from_vec(vec![b"{a=1}".as_slice(), b"{a=1"]);
    let error = column(&format, Arc::new(nodes)).unwrap_err();
    assert_eq!(error.class(), "BadYson");
    assert!(matches!(error, Error::Value { row: 1, .. }), "{error}");
}

#[test]
fn extension_types_are_the_same_with_and_without_empty_parameters() {
    let columns = br#"[{"name": "c", "type_v3": "uuid"}]"#;
    let format = Format::from_table_schema(columns).unwrap();
    let field = format.tables()[0].arrow().field(0).clone();
    let mut metadata = field.metadata().clone();
    metadata.insert("ARROW:extension:metadata".to_owned(), String::new());
    let wanted = Schema::new(vec![field.with_metadata(metadata)]);
    assert_eq!(format.clone().with_arrow(0, &wanted).unwrap(), format);
    let uuids = FixedSizeBinaryArray::try_from_iter([[1_u8; 16]].into_iter()).unwrap();
    let schema = Arc::clone(format.tables()[0].arrow());
    let batch = RecordBatch::try_new(schema, vec![Arc::new(uuids)]).unwrap();
    encode(&format, &batch).unwrap();
}

#[test]
fn strings_of_every_layout_are_written_alike() {
    let format = format_of(vec![Field::new("c", DataType::Utf8, false)]);
    let plain = column(&format, Arc::new(StringArray::from(vec!["a", "é"]))).unwrap();
    let layouts: [ArrayRef; 3] = [
        Arc::new(LargeStringArray::from(vec!["a", "é"])),
        Arc::new(arrow_array::StringViewArray::from(vec!["a", "é"])),
        Arc::new(BinaryArray::from_vec(vec![b"a", "é".as_bytes()])),
    ];
    for array in layouts {
        assert_eq!(column(&format, array).unwrap(), plain);
    }
    // A null hides what stands under it.
    let format = format_of(vec![Field::new("c", DataType::Int8, true)]);
    let hidden = Int8Array::new(vec![5].into(), Some(vec![false].into()));
    assert_eq!(column(&format, Arc::new(hidden)).unwrap(), [0, 0, 0]);
}

#[test]
fn yson_in_a_string_column_must_be_valid_utf8() {
    let yson = |bytes: &[u8]| {
        let field = Field::new("a", DataType::Binary, false).with_metadata(
            std::collections::HashMap::from([(
                "ARROW:extension:name".to_owned(),
                "ytsaurus.yson".to_owned(),
            )]),
        );
        let values: ArrayRef = Arc::new(BinaryArray::from_vec(vec![bytes]));
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values]).unwrap()
    };
    let format = Format::from_json(
        r#"{"table_skiff_schemas": [{"wire_type": "tuple", "children": [{"name": "a", "wire_type": "string32"}]}]}"#,
        Strings::Text,
    )
    .unwrap();
    assert!(encode(&format, &yson(b"\"text\"")).is_ok());
    let error = encode(&format, &yson(b"\"\xff\"")).unwrap_err();
    assert_eq!(error.class(), "BadUtf8", "{error}");
}
