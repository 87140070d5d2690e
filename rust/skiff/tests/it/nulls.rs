//! Nulls of Arrow arrays without validity bits (unions, and columns of type null), and columns that have no bytes on the wire.

use std::io::Read;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, Int64Array, NullArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, UnionFields, UnionMode};
use pilum_skiff::{DecodeOptions, Decoder, Error, Format, Reader};

use super::one_table::{column, decode, encode, table};

fn union(alternatives: Vec<Field>) -> DataType {
    let fields = UnionFields::try_new(0_i8..2, alternatives).unwrap();
    DataType::Union(fields, UnionMode::Dense)
}

/// Arrow counts nulls of an alternative as nulls of the union. If the field of such a union were not nullable, pilum could decode
/// the union, and every consumer that checks the schema would refuse the batch.
#[test]
fn a_union_is_nullable_if_an_alternative_is() {
    let format = table(
        r#"{"name": "c", "wire_type": "variant8", "children": [{"wire_type": "int64"}, {"wire_type": "nothing"}]}"#,
    );
    let alternatives = vec![
        Field::new("0", DataType::Int64, false),
        Field::new("1", DataType::Null, true),
    ];
    let wanted = |is_nullable| {
        Schema::new(vec![Field::new(
            "c",
            union(alternatives.clone()),
            is_nullable,
        )])
    };
    let error = format.clone().with_arrow(0, &wanted(false)).unwrap_err();
    assert!(
        error.to_string().contains("make its field nullable"),
        "{error}"
    );
    let stream = [&[0, 0, 0][..], &[7; 8], &[0, 0, 1]].concat();
    for format in [
        format.clone().with_arrow(0, &wanted(true)).unwrap(),
        Format::from_arrow(&[&wanted(true)]).unwrap(),
        Format::from_arrow(&[&wanted(false)]).unwrap(),
    ] {
        let batch = decode(&format, &stream);
        assert!(format.tables()[0].arrow().field(0).is_nullable());
        assert_eq!(encode(&format, &batch).unwrap(), stream);
        // A consumer that checks the schema accepts the batch.
        RecordBatch::try_new(batch.schema(), batch.columns().to_vec()).unwrap();
    }
    // If no alternative can be null, the field of the union need not be nullable.
    let required = union(vec![
        Field::new("0", DataType::Int64, false),
        Field::new("1", DataType::Boolean, false),
    ]);
    let format = Format::from_arrow(&[&Schema::new(vec![Field::new("c", required, false)])]);
    assert!(!format.unwrap().tables()[0].arrow().field(0).is_nullable());
}

#[test]
fn a_column_of_type_null_is_written_as_null_or_refused_with_its_row() {
    let nulls = || -> ArrayRef { Arc::new(NullArray::new(2)) };
    let yson = table(r#"{"name": "c", "wire_type": "yson32"}"#);
    let row = b"\0\0\x01\0\0\0#";
    assert_eq!(column(&yson, nulls()).unwrap(), row.repeat(2));
    let optional = table(
        r#"{"name": "c", "wire_type": "variant8", "children": [{"wire_type": "nothing"}, {"wire_type": "int64"}]}"#,
    );
    assert_eq!(column(&optional, nulls()).unwrap(), [0, 0, 0].repeat(2));
    let required = table(r#"{"name": "c", "wire_type": "int64"}"#);
    let error = column(&required, nulls()).unwrap_err();
    assert_eq!(error.class(), "NullInRequired");
    assert!(matches!(&error, Error::Value { row: 0, column: Some(name), .. } if name == "c"));
    assert!(
        column(&required, Arc::new(NullArray::new(0)))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn types_that_yson_does_not_have_are_refused_and_the_error_names_a_cast() {
    let weak = table(r#"{"name": "$other_columns", "wire_type": "yson32"}"#);
    let refused = |data_type: DataType| {
        let array = arrow_array::new_null_array(&data_type, 1);
        column(&weak, array).unwrap_err().to_string()
    };
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    for (data_type, remedy) in [
        (dictionary, "cast it to string"),
        (DataType::Date32, "cast it to int32 or string"),
        (DataType::Decimal128(5, 2), "cast it to string or double"),
        (DataType::Float16, "cast it to float"),
    ] {
        let words = refused(data_type);
        assert!(words.contains(remedy), "{words}");
        assert!(words.contains("whose values are YSON"), "{words}");
    }
    let fixed = FixedSizeBinaryArray::try_from_iter([b"ab"].into_iter()).unwrap();
    let stream = column(&weak, Arc::new(fixed)).unwrap();
    assert!(stream.ends_with(b"c=\x01\x04ab;}") || stream.ends_with(b"\x01\x02c=\x01\x04ab;}"));
}

/// The codec does no work per row for columns without bytes. If it did, a stream of a few megabytes would take minutes.
#[test]
fn a_thousand_columns_without_bytes_cost_no_time() {
    let nothing = |number: usize| format!(r#"{{"name": "n{number}", "wire_type": "nothing"}}"#);
    let nothings = (0..1_000).map(nothing).collect::<Vec<_>>().join(",");
    let tuple = format!(r#"{{"name": "t", "wire_type": "tuple", "children": [{nothings}]}}"#);
    let list = table(&format!(
        r#"{{"name": "c", "wire_type": "repeated_variant8", "children": [{tuple}]}}"#
    ));
    const COUNT: usize = 4 << 20;
    let stream = [&[0, 0][..], &vec![0; COUNT], &[0xff]].concat();
    let start = std::time::Instant::now();
    let batch = decode(&list, &stream);
    assert_eq!(batch.column(0).len(), 1);
    assert_eq!(encode(&list, &batch).unwrap(), stream);
    let dump = list.annotate(&stream, 1);
    assert!(dump.contains("after 4194288 more items"), "{}", dump.len());

    let flat = table(&format!("{nothings},{tuple}"));
    let stream = vec![0; COUNT];
    let mut num_rows = 0;
    let mut again = Vec::new();
    for batch in Reader::new(stream.as_slice(), flat.clone(), DecodeOptions::default()) {
        let (_, batch) = batch.unwrap();
        assert_eq!(batch.num_columns(), 1_001);
        assert!(
            batch
                .columns()
                .iter()
                .all(|it| it.len() == batch.num_rows())
        );
        num_rows += batch.num_rows();
        again.extend(encode(&flat, &batch).unwrap());
    }
    assert_eq!((num_rows, again.len()), (COUNT / 2, COUNT));
    // Work for each row and column would be more than 10^10 steps.
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}

#[test]
fn members_without_bytes_keep_their_position_in_a_tuple() {
    let member = |name: &str, wire: &str| format!(r#"{{"name": "{name}", "wire_type": "{wire}"}}"#);
    let members = [
        member("a", "nothing"),
        member("b", "int64"),
        r#"{"name": "c", "wire_type": "tuple", "children": [{"wire_type": "nothing"}]}"#.to_owned(),
        member("d", "boolean"),
    ]
    .join(",");
    let tuple = format!(r#"{{"wire_type": "tuple", "children": [{members}]}}"#);
    let optional = format!(
        r#"{{"name": "o", "wire_type": "variant8", "children": [{{"wire_type": "nothing"}}, {tuple}]}}"#
    );
    let format = table(&format!("{members},{optional}"));
    let mut stream = Vec::new();
    for number in 0..5_u8 {
        stream.extend([0, 0]);
        stream.extend([&[number; 8][..], &[number % 2]].concat());
        match number % 2 {
            0 => stream.push(0),
            _ => stream.extend([&[1][..], &[number; 8], &[1]].concat()),
        }
    }
    let batch = decode(&format, &stream);
    assert_eq!(batch.num_rows(), 5);
    let b = batch.column_by_name("b").unwrap().as_any();
    let b = b.downcast_ref::<Int64Array>().unwrap();
    assert_eq!(b.value(1), 0x0101_0101_0101_0101);
    assert_eq!(batch.column_by_name("o").unwrap().null_count(), 3);
    assert_eq!(encode(&format, &batch).unwrap(), stream);
    // If the input ends inside of a row, the decoder discards all members of this row, and decodes it again later.
    for end in 0..stream.len() {
        let mut decoder = Decoder::new(format.clone(), DecodeOptions::default());
        let mut done = decoder.decode(&stream[..end], false);
        while done < stream.len() && decoder.next_batch().unwrap().is_none() {
            done += decoder.decode(&stream[done..], true);
        }
        assert_eq!(decoder.num_rows(), 5, "cut at {end}");
    }
}

/// A source that returns the bytes of one row in several reads. Fails the test at the next read, where a pipe would block.
struct Chunked<'a>(std::slice::Chunks<'a, u8>);

impl Read for Chunked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let piece = self
            .0
            .next()
            .expect("the reader reads on although it has a complete row");
        buffer[..piece.len()].copy_from_slice(piece);
        Ok(piece.len())
    }
}

#[test]
fn the_reader_returns_a_complete_row_before_it_reads_on() {
    let format = table(
        r#"{"name": "$key_switch", "wire_type": "boolean"}, {"name": "l", "wire_type": "repeated_variant8", "children": [{"wire_type": "string32"}]}"#,
    );
    let item = [&[0][..], &[3, 0, 0, 0], b"abc"].concat();
    let row = [&[0, 0, 0][..], &item.repeat(10_000), &[0xff]].concat();
    let mut options = DecodeOptions::default();
    options.batch_rows = 1;
    for piece in [1, 3, 50, 4_096, row.len()] {
        let mut reader = Reader::new(Chunked(row.chunks(piece)), format.clone(), options);
        assert_eq!(reader.next().unwrap().unwrap().1.num_rows(), 1, "{piece}");
    }
}

#[test]
fn a_row_index_beyond_the_largest_int64_is_refused_and_the_error_says_so() {
    let index = r#"{"wire_type": "nothing"}, {"wire_type": "int64"}"#;
    let format = table(&format!(
        r#"{{"name": "$row_index", "wire_type": "variant8", "children": [{index}]}}"#
    ));
    let largest = [&[0, 0, 1][..], &i64::MAX.to_le_bytes()].concat();
    let mut stream = largest.clone();
    stream.extend([0, 0, 0]);
    let mut reader = Reader::new(stream.as_slice(), format.clone(), DecodeOptions::default());
    assert_eq!(reader.next().unwrap().unwrap().1.num_rows(), 1);
    let words = reader.next().unwrap().unwrap_err().to_string();
    assert!(
        words.contains("9223372036854775807, the largest int64"),
        "{words}"
    );
    let mut reader = Reader::new([0, 0, 0].as_slice(), format, DecodeOptions::default());
    let words = reader.next().unwrap().unwrap_err().to_string();
    assert!(words.contains("no row had one"), "{words}");
}
