//! Bytes of an enemy end in an error with a place, not in a panic or an allocation.

use std::sync::Arc;

use arrow_array::{Array, StringArray};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field};
use pilum_encoding::*;
use proptest::prelude::*;

use crate::arrays::{self, Nulls};
use crate::tree::{self, Fetch, File};
use pilum_testing::Random;

fn offsets_at(position: usize, offsets: &[i64]) -> Segments {
    let mut bytes = vec![b'x'; position];
    offsets
        .iter()
        .for_each(|o| bytes.extend_from_slice(&o.to_le_bytes()));
    Segments::new([(0, Buffer::from_vec(bytes))])
}

fn read_strings(
    source: &Segments,
    position: u64,
    length: u64,
    rows: &Rows,
) -> Result<usize, Error> {
    let field = Field::new("s", DataType::Utf8, true);
    let page = Page { position, length };
    plan_bytes(field.data_type(), &page, rows, source, &mut Vec::new())?;
    let array = decode_page(&field, &page, length, &[], rows, source)?;
    Ok(array.len())
}

#[test]
fn value_offsets_must_ascend_before_the_offset_array() {
    for bad in [
        [0, 5, 3, 8],
        [8, 5, 3, 0],
        [0, 1, 2, 17],
        [-1, 0, 1, 2],
        [0, i64::MAX, 3, 8],
        [i64::MIN, i64::MAX, 0, 4],
        [0, -5, 3, 8],
    ] {
        let source = offsets_at(16, &bad);
        let whole = read_strings(&source, 16, 3, &Rows::all(3));
        assert!(
            matches!(whole, Err(Error::Corrupt { .. })),
            "{bad:?}: {whole:?}"
        );
        let some = Rows::from_sorted_indices([0, 2]).unwrap();
        // Rows 0 and 2 never see the middle pair's order, but no bound may be broken.
        let some = read_strings(&source, 16, 3, &some);
        assert!(
            matches!(some, Ok(2) | Err(Error::Corrupt { .. })),
            "{bad:?}: {some:?}"
        );
    }
    assert_eq!(
        read_strings(&offsets_at(16, &[0, 3, 5, 8]), 16, 3, &Rows::all(3)),
        Ok(3)
    );
}

#[test]
fn pages_beyond_the_file_are_missing_or_corrupt() {
    let source = offsets_at(16, &[0, 3, 5, 8]);
    for (position, length) in [
        (16, 4),
        (1 << 40, 3),
        (u64::MAX - 3, 3),
        (16, 1 << 60),
        (16, u64::MAX),
    ] {
        let rows = Rows::all(length);
        assert!(read_strings(&source, position, length, &rows).is_err());
        for data_type in arrays::leaf_types() {
            if matches!(data_type, DataType::Null) || fixed_width(&data_type) == Some(0) {
                continue;
            }
            let field = Field::new("x", data_type, true);
            let page = Page {
                position: position.max(48),
                length,
            };
            for rows in [
                rows.clone(),
                Rows::from_sorted_indices([0, length - 1]).unwrap(),
            ] {
                let result = decode_page(&field, &page, length, &[], &rows, &source);
                assert!(result.is_err(), "{field:?} {page:?} {rows:?}");
            }
        }
    }
}

#[test]
fn text_must_be_utf8_at_every_boundary() {
    let mut bytes = "aäb".as_bytes().to_vec();
    let page = Page {
        position: 4,
        length: 2,
    };
    [0_i64, 2, 4]
        .iter()
        .for_each(|o| bytes.extend_from_slice(&o.to_le_bytes()));
    let source = Segments::new([(0, Buffer::from_vec(bytes))]);
    let field = Field::new("s", DataType::Utf8, false);
    let read = decode_page(&field, &page, 2, &[], &Rows::all(2), &source);
    assert!(
        matches!(
            read,
            Err(Error::Corrupt {
                position: Some(4),
                ..
            })
        ),
        "{read:?}"
    );
    let as_bytes = Field::new("s", DataType::Binary, false);
    assert_eq!(
        decode_page(&as_bytes, &page, 2, &[], &Rows::all(2), &source)
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn list_offsets_must_ascend_within_the_child() {
    let field = Field::new_list("l", Field::new("item", DataType::Int8, true), true);
    let read = |offsets: &[i32], child: u64, rows: &Rows| {
        let bytes: Vec<u8> = offsets.iter().flat_map(|o| o.to_le_bytes()).collect();
        let source = Segments::new([(100, Buffer::from_vec(bytes))]);
        let page = Page {
            position: 100,
            length: offsets.len() as u64,
        };
        decode_list_offsets(
            &field,
            &page,
            offsets.len() as u64 - 1,
            child,
            &[],
            rows,
            &source,
        )
        .map(|lists| lists.child_rows.len())
    };
    assert_eq!(read(&[0, 2, 2, 5], 5, &Rows::all(3)), Ok(5));
    // Some writers start a batch's offsets where the batch before stopped.
    assert_eq!(read(&[7, 9, 9, 12], 5, &Rows::all(3)), Ok(5));
    for bad in [
        [0, 2, 1, 5],
        [0, 2, 2, 6],
        [3, 2, 2, 5],
        [-1, 0, 1, 2],
        [i32::MIN, -1, 0, i32::MAX],
    ] {
        let result = read(&bad, 5, &Rows::all(3));
        assert!(
            matches!(result, Err(Error::Corrupt { .. })),
            "{bad:?} {result:?}"
        );
    }
    let wild = [i32::MIN, i32::MIN, i32::MAX, i32::MAX];
    assert!(read(&wild, u64::MAX, &Rows::from_sorted_indices([1]).unwrap()).is_err());
    assert!(read(&wild, u64::MAX, &Rows::all(3)).is_err());
}

#[test]
fn keys_must_name_a_value() {
    let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let values: Arc<dyn Array> = Arc::new(StringArray::from(vec!["a", "b"]));
    for (key, fits) in [
        (0_i8, true),
        (1, true),
        (2, false),
        (-1, false),
        (i8::MIN, false),
    ] {
        let keys: Arc<dyn Array> = Arc::new(arrow_array::Int8Array::from(vec![0, key]));
        let array = assemble_dictionary(&keys, Arc::clone(&values), &data_type);
        assert_eq!(array.is_ok(), fits, "{key}");
    }
    let hidden: Arc<dyn Array> = Arc::new(arrow_array::Int8Array::new(
        vec![9, 1].into(),
        Some(vec![false, true].into()),
    ));
    assert!(assemble_dictionary(&hidden, values, &data_type).is_ok());
}

#[test]
fn nulls_where_none_may_be_are_refused() {
    let array = arrow_array::Int32Array::from(vec![Some(1), None, Some(3), None]);
    let error = encode_page(&array, false, None, 0).unwrap_err();
    let Error::InvalidInput { message } = &error else {
        panic!("{error}")
    };
    assert!(
        message.contains("2 null values") && message.contains("row 1"),
        "{message}"
    );
    let page = Page {
        position: 0,
        length: 4,
    };
    let source = Segments::new([(0, Buffer::from_vec(vec![0_u8; 16]))]);
    let field = Field::new("x", DataType::Int32, false);
    let read = decode_page(
        &field,
        &page,
        4,
        &[Validity::AllNull],
        &Rows::all(4),
        &source,
    );
    assert!(matches!(read, Err(Error::Corrupt { .. })));
    let levels = [Validity::AllValid, Validity::AllValid];
    let read = decode_page(&field, &page, 4, &levels, &Rows::all(4), &source);
    assert!(matches!(read, Err(Error::Corrupt { .. })));
}

#[test]
fn types_without_a_page_are_refused_by_name() {
    for text in [
        "fixed_size_list:string:2",
        "dict:fixed_size_list:int8:2:int8:false",
        "dict:dict:string:int8:false:int8:false",
        "dict:null:int8:false",
        "union",
        "blob",
    ] {
        let error = parse_logical_type(text, vec![]).unwrap_err();
        assert!(
            matches!(error, Error::Unsupported { .. }),
            "{text}: {error}"
        );
    }
    for text in [
        "decimal:128:39:0",
        "timestamp:us",
        "fixed_size_list:int8",
        "time32:us",
        "fixed_size_binary:-1",
        "dict:string:float:false",
        "dict:string:int8:maybe",
        "decimal:32:10:0",
        "decimal:64:19:0",
        "interval:week",
        "map",
        "map:unsorted",
        "list_view",
        "fixed_size_list.child:2",
        "fixed_size_list:fixed_size_list:int8:2147483647:x",
    ] {
        assert!(parse_logical_type(text, vec![]).is_err(), "{text}");
    }
    // Children of the wrong kind or number.
    let child = |data_type: DataType| Arc::new(Field::new("c", data_type, false));
    let two = vec![child(DataType::Int8), child(DataType::Int8)];
    assert!(parse_logical_type("list_view", two.clone()).is_err());
    assert!(parse_logical_type("map", vec![child(DataType::Int8)]).is_err());
    assert!(parse_logical_type("map", vec![child(DataType::Struct(two.into()))]).is_ok());
    assert!(parse_logical_type("fixed_size_list.child:2", vec![child(DataType::Int8)]).is_err());
    assert!(parse_logical_type("string_view", vec![child(DataType::Int8)]).is_err());
    // Nesting by repetition.
    for part in ["fixed_size_list:", "dict:"] {
        let bomb = part.repeat(100_000) + "int8" + &":2".repeat(100_000);
        let error = parse_logical_type(&bomb, vec![]).unwrap_err();
        assert!(error.to_string().len() < 1000, "{error}");
    }
    let run_ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
    let values = Arc::new(Field::new("values", DataType::Utf8, true));
    let union = [(0, Arc::clone(&values))].into_iter().collect();
    for data_type in [
        DataType::RunEndEncoded(run_ends, values),
        DataType::Union(union, arrow_schema::UnionMode::Sparse),
    ] {
        let error = logical_type(&Field::new("x", data_type.clone(), true)).unwrap_err();
        assert!(
            matches!(error, Error::Unsupported { .. }),
            "{data_type}: {error}"
        );
        let array = arrow_array::new_empty_array(&data_type);
        assert!(matches!(
            encode_page(&array, true, None, 0),
            Err(Error::Unsupported { .. })
        ));
    }
}

proptest! {
    /// Flipped bytes anywhere: an array that Arrow itself accepts, or an error.
    #[test]
    fn damage_never_panics(
        data_type in prop::sample::select([
            arrays::leaf_types(),
            arrays::nested_types(),
            arrays::leaf_types_beyond_v1(),
            arrays::nested_types_beyond_v1(),
        ].concat()),
        seed in any::<u64>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let random = &mut Random(seed);
        let array = arrays::array(&data_type, true, Nulls::Random, 70, random);
        let field = Field::new("x", data_type, true);
        let mut bytes = vec![0; 8];
        let node = tree::write(&field, &array, None, &mut bytes).unwrap();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        let file = File { bytes: &bytes, fetch: Fetch::Mapped };
        for rows in [Rows::all(70), Rows::from_sorted_indices((0..70).step_by(3)).unwrap()] {
            if let Ok(read) = tree::read(&field, &node, &rows, &file) {
                read.to_data().validate_full().unwrap();
            }
        }
    }
}
