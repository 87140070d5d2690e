//! What is written is read, whole and in part, from a mapped file and from planned ranges alone.

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::{DataType, Field};
use arrow_select::take::take;
use pilum_encoding::*;
use proptest::prelude::*;

use crate::arrays::{self, Nulls, PATTERNS};
use crate::tree::{self, Fetch, File};
use pilum_testing::Random;

fn selections(len: u64, random: &mut Random) -> Vec<Rows> {
    let mut all = vec![Rows::all(len), Rows::empty()];
    if len > 0 {
        all.push(Rows::from_sorted_indices([len - 1]).unwrap());
        let start = random.below(len as usize) as u64;
        all.push(Rows::range(start..len));
        all.push(Rows::from_sorted_indices((0..len).step_by(2)).unwrap());
        let some = (0..len).filter(|_| random.below(5) < 3).collect::<Vec<_>>();
        all.push(Rows::from_sorted_indices(some).unwrap());
    }
    all
}

fn check(field: &Field, array: &ArrayRef, random: &mut Random) {
    // Not at 0, so that absolute and relative positions differ.
    let mut bytes = vec![0xAA; 64];
    let node = tree::write(field, array, None, &mut bytes).unwrap();
    for rows in selections(array.len() as u64, random) {
        let expected = take(array, &UInt64Array::from_iter_values(rows.iter()), None).unwrap();
        for fetch in [Fetch::Mapped, Fetch::Planned, Fetch::Misaligned] {
            let file = File {
                bytes: &bytes,
                fetch,
            };
            let read = tree::read(field, &node, &rows, &file).unwrap();
            assert_eq!(read.data_type(), field.data_type());
            assert_eq!(&read, &expected, "{field:?} {rows:?} {fetch:?}");
            // The library's own judge of what an array may be.
            read.to_data().validate_full().unwrap();
        }
    }
}

fn check_type(data_type: &DataType, sizes: &[usize], seed: u64) {
    let random = &mut Random(seed);
    for nullable in [true, false] {
        let field = Field::new("column", data_type.clone(), nullable);
        for pattern in PATTERNS {
            if !nullable && !matches!(pattern, Nulls::None) {
                continue;
            }
            for &len in sizes {
                let array = arrays::array(data_type, nullable, pattern, len + 11, random);
                for offset in [0, 3, 8] {
                    check(&field, &array.slice(offset, len), random);
                }
            }
        }
    }
}

#[test]
fn every_leaf_type_survives_every_null_pattern() {
    for (seed, data_type) in arrays::leaf_types().iter().enumerate() {
        check_type(data_type, &[0, 1, 2, 63, 64, 65, 200], seed as u64);
    }
}

#[test]
fn nested_types_survive_every_null_pattern() {
    for (seed, data_type) in arrays::nested_types().iter().enumerate() {
        check_type(data_type, &[0, 1, 2, 65, 150], seed as u64);
    }
}

#[test]
fn types_beyond_v1_survive_every_null_pattern() {
    let (leaves, nested) = (
        arrays::leaf_types_beyond_v1(),
        arrays::nested_types_beyond_v1(),
    );
    for (seed, data_type) in leaves.iter().chain(&nested).enumerate() {
        assert!(is_beyond_v1(data_type), "{data_type}");
        check_type(data_type, &[0, 1, 2, 65, 150], seed as u64);
    }
    for data_type in arrays::leaf_types().iter().chain(&arrays::nested_types()) {
        assert!(!is_beyond_v1(data_type), "{data_type}");
    }
}

#[test]
fn large_pages_survive() {
    for data_type in [
        DataType::Int64,
        DataType::Boolean,
        DataType::Utf8,
        DataType::Binary,
    ] {
        check_type(&data_type, &[1000, 1024], 7);
    }
}

fn any_type() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        prop::sample::select(arrays::leaf_types()),
        prop::sample::select(arrays::leaf_types_beyond_v1()),
    ];
    // All of a null column is null.
    let solid = |t: &DataType, nullable: bool| nullable || *t == DataType::Null;
    leaf.prop_recursive(5, 12, 3, move |inner| {
        prop_oneof![
            (inner.clone(), any::<bool>()).prop_map(move |(t, nullable)| {
                let nullable = solid(&t, nullable);
                DataType::List(tree::shared(Field::new("item", t, nullable)))
            }),
            (inner.clone(), any::<bool>()).prop_map(move |(t, nullable)| {
                let nullable = solid(&t, nullable);
                DataType::LargeList(tree::shared(Field::new("element", t, nullable)))
            }),
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(move |(key, value, sorted)| {
                // Keys without nulls: a null column cannot be one.
                let key = if key == DataType::Null {
                    DataType::Int8
                } else {
                    key
                };
                arrays::map_of(key, value, sorted)
            }),
            (inner.clone(), any::<bool>()).prop_map(move |(t, large)| {
                let item = tree::shared(Field::new("view", t, true));
                if large {
                    DataType::LargeListView(item)
                } else {
                    DataType::ListView(item)
                }
            }),
            // The item of a flattened list has no name of its own in the format.
            (inner.clone(), 0..4_i32).prop_map(move |(t, n)| {
                DataType::FixedSizeList(tree::shared(Field::new("item", t, true)), n)
            }),
            prop::collection::vec((inner, any::<bool>()), 0..4).prop_map(move |members| {
                let field = |(i, (t, nullable))| {
                    let nullable = solid(&t, nullable);
                    Field::new(format!("m{i}"), t, nullable)
                };
                DataType::Struct(members.into_iter().enumerate().map(field).collect())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_tree_survives(
        data_type in any_type(),
        pattern in prop::sample::select(PATTERNS.to_vec()),
        len in prop::sample::select(vec![0_usize, 1, 2, 63, 64, 65, 130]),
        offset in 0_usize..10,
        seed in any::<u64>(),
    ) {
        let random = &mut Random(seed);
        let array = arrays::array(&data_type, true, pattern, len + 10, random);
        let field = Field::new("column", data_type, true);
        check(&field, &array.slice(offset, len), random);
    }

    #[test]
    fn logical_types_are_their_own_inverse(
        data_type in prop::sample::select([arrays::leaf_types(), arrays::leaf_types_beyond_v1()].concat()),
    ) {
        // Names and nullability of fixed-size items are not part of the format.
        let solid = |t: &DataType| matches!(t, DataType::FixedSizeList(item, _) if !item.is_nullable());
        prop_assume!(!solid(&data_type));
        let text = logical_type(&Field::new("x", data_type.clone(), true)).unwrap();
        prop_assert_eq!(parse_logical_type(&text, vec![]).unwrap(), data_type);
    }
}
