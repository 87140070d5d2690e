//! Random schemas and rows: bytes that a simple encoder of these tests writes are decoded and encoded again.

use std::sync::Arc;

use pilum_skiff::{
    DecodeOptions, EncodeOptions, Encoder, Format, Reader, Strings, TableSchema, Tags, WireNode,
    WireType,
};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

const SIMPLE: [WireType; 17] = [
    WireType::Nothing,
    WireType::Boolean,
    WireType::Int8,
    WireType::Int16,
    WireType::Int32,
    WireType::Int64,
    WireType::Int128,
    WireType::Int256,
    WireType::Uint8,
    WireType::Uint16,
    WireType::Uint32,
    WireType::Uint64,
    WireType::Uint128,
    WireType::Uint256,
    WireType::Double,
    WireType::String32,
    WireType::Yson32,
];

/// Any wire tree.
fn node() -> impl Strategy<Value = WireNode> {
    let simple = prop::sample::select(SIMPLE.to_vec()).prop_map(WireNode::simple);
    simple.prop_recursive(3, 12, 4, |inner| {
        let children = |range| prop::collection::vec(inner.clone().prop_map(Arc::new), range);
        prop_oneof![
            3 => inner.clone().prop_map(WireNode::optional),
            1 => children(0..4).prop_map(|it| WireNode::complex(WireType::Tuple, it)),
            1 => children(1..4).prop_map(|it| WireNode::complex(WireType::Variant8, it)),
            1 => children(1..4).prop_map(|it| WireNode::complex(WireType::Variant16, it)),
            2 => children(1..3).prop_map(|it| WireNode::complex(WireType::RepeatedVariant8, it)),
            1 => children(1..3).prop_map(|it| WireNode::complex(WireType::RepeatedVariant16, it)),
        ]
    })
}

/// A table with dense, sparse and other columns.
fn table() -> impl Strategy<Value = WireNode> {
    let dense = prop::collection::vec(node(), 0..6);
    let sparse = prop::option::of(prop::collection::vec(node(), 1..4));
    (dense, sparse, any::<bool>()).prop_map(|(dense, sparse, has_other)| {
        let named = |prefix: &str, nodes: Vec<WireNode>| -> Vec<_> {
            let nodes = nodes.into_iter().enumerate();
            nodes
                .map(|(number, node)| Arc::new(node.named(format!("{prefix}{number}"))))
                .collect()
        };
        let mut children = named("d", dense);
        if let Some(sparse) = sparse {
            let sparse = WireNode::complex(WireType::RepeatedVariant16, named("s", sparse));
            children.push(Arc::new(sparse.named("$sparse_columns")));
        }
        if has_other {
            children.push(Arc::new(
                WireNode::simple(WireType::Yson32).named("$other_columns"),
            ));
        }
        WireNode::complex(WireType::Tuple, children)
    })
}

/// Appends a random value.
fn write(node: &WireNode, rng: &mut TestRng, out: &mut Vec<u8>) {
    let children = &node.children;
    let tag = |number: usize, out: &mut Vec<u8>| {
        let is_wide = matches!(
            node.wire_type,
            WireType::Variant16 | WireType::RepeatedVariant16
        );
        let bytes = u16::try_from(number).unwrap().to_le_bytes();
        out.extend_from_slice(&bytes[..if is_wide { 2 } else { 1 }]);
    };
    let fixed = match node.wire_type {
        WireType::Nothing => 0,
        WireType::Boolean => {
            out.push(u8::from(rng.random::<bool>()));
            0
        }
        WireType::Int8 | WireType::Uint8 => 1,
        WireType::Int16 | WireType::Uint16 => 2,
        WireType::Int32 | WireType::Uint32 => 4,
        WireType::Int64 | WireType::Uint64 | WireType::Double => 8,
        WireType::Int128 | WireType::Uint128 => 16,
        WireType::Int256 | WireType::Uint256 => 32,
        WireType::String32 => {
            let length = rng.random_range(0..20);
            out.extend_from_slice(&u32::to_le_bytes(length));
            length as usize
        }
        WireType::Yson32 => {
            let nodes: [&[u8]; 5] = [
                b"#",
                b"{a=1;b=[x;y]}",
                b"\x02\x0a",
                b"<a=%true>\"\\xff\"",
                b" 1.5e3 ",
            ];
            let node = nodes[rng.random_range(0..nodes.len())];
            out.extend_from_slice(&u32::try_from(node.len()).unwrap().to_le_bytes());
            out.extend_from_slice(node);
            0
        }
        WireType::Tuple => {
            for child in children {
                write(child, rng, out);
            }
            0
        }
        WireType::Variant8 | WireType::Variant16 => {
            let number = rng.random_range(0..children.len());
            tag(number, out);
            write(&children[number], rng, out);
            0
        }
        WireType::RepeatedVariant8 | WireType::RepeatedVariant16 => {
            for _ in 0..rng.random_range(0..4) {
                let number = rng.random_range(0..children.len());
                tag(number, out);
                write(&children[number], rng, out);
            }
            tag(
                if node.wire_type == WireType::RepeatedVariant8 {
                    0xff
                } else {
                    0xffff
                },
                out,
            );
            0
        }
    };
    for _ in 0..fixed {
        // Bytes at the ends of their range are frequent: sums and signs break there.
        out.push(match rng.random_range(0..4) {
            0 => 0,
            1 => 0xff,
            _ => rng.random(),
        });
    }
}

/// Appends a random row. Servers write sparse columns in any order: with `shuffles` this does too.
fn write_row(table: &WireNode, shuffles: bool, rng: &mut TestRng, out: &mut Vec<u8>) {
    for child in &table.children {
        match child.name.as_str() {
            "$sparse_columns" => {
                let mut numbers: Vec<_> = (0..child.children.len()).collect();
                if shuffles {
                    numbers.sort_by_cached_key(|_| rng.random::<u32>());
                }
                for number in numbers {
                    let column = &child.children[number];
                    if rng.random::<bool>() {
                        let start = out.len();
                        out.extend_from_slice(&u16::try_from(number).unwrap().to_le_bytes());
                        let value = out.len();
                        write(column, rng, out);
                        // A writer leaves nulls of the column out.
                        let is_null = column.optional_value().is_some() && out[value] == 0;
                        if is_null || column.wire_type == WireType::Nothing {
                            out.truncate(start);
                        }
                    }
                }
                out.extend_from_slice(&[0xff, 0xff]);
            }
            "$other_columns" => {
                let map: &[u8] = if rng.random() {
                    b"{}"
                } else {
                    b"{k=[1;2];\x01\x02v=\x05}"
                };
                out.extend_from_slice(&u32::try_from(map.len()).unwrap().to_le_bytes());
                out.extend_from_slice(map);
            }
            _ => write(child, rng, out),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn random_rows_of_random_schemas_are_the_same_bytes_again(
        tables in prop::collection::vec(table(), 1..4),
        num_rows in 0..40_usize,
        seed in any::<[u8; 32]>(),
        (batch_rows, batch_bytes) in (1..50_usize, 1..4_000_usize),
        keeps_sparse_order in any::<bool>(),
    ) {
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut stream = Vec::new();
        for _ in 0..num_rows {
            let number = rng.random_range(0..tables.len());
            stream.extend_from_slice(&u16::try_from(number).unwrap().to_le_bytes());
            write_row(&tables[number], keeps_sparse_order, &mut rng, &mut stream);
        }
        let schema = |root: &WireNode| TableSchema::try_new(Arc::new(root.clone()), Strings::Binary);
        let format = Format::new(tables.iter().map(|root| schema(root).unwrap()).collect());
        prop_assert_eq!(&Format::from_json(&format.to_json(), Strings::Binary).unwrap(), &format);

        let mut options = DecodeOptions::default();
        options.batch_rows = batch_rows;
        options.batch_bytes = batch_bytes;
        options.keeps_sparse_order = keeps_sparse_order;
        let mut tags = EncodeOptions::default();
        tags.tags = Tags::Input;
        let mut encoder = Encoder::new(format.clone(), tags);
        let mut out = Vec::new();
        for batch in Reader::new(stream.as_slice(), format.clone(), options) {
            let (table, batch) = batch.unwrap();
            prop_assert!(batch.num_rows() <= batch_rows);
            for column in batch.columns() {
                column.to_data().validate_full().unwrap();
            }
            // Parts of a batch are written from where they begin.
            let middle = batch.num_rows() / 2;
            encoder.encode(table, &batch.slice(0, middle), &mut out).unwrap();
            encoder.encode(table, &batch.slice(middle, batch.num_rows() - middle), &mut out).unwrap();
        }
        prop_assert_eq!(&out, &stream);

        // Collected by table, the rows are the same, in the order of their table.
        options.keeps_order = false;
        let mut counts = vec![0; tables.len()];
        for batch in Reader::new(stream.as_slice(), format.clone(), options) {
            let (table, batch) = batch.unwrap();
            counts[table] += batch.num_rows();
        }
        prop_assert_eq!(counts.iter().sum::<usize>(), num_rows);
    }
}

/// Members of one name are told apart by their position: a look-up by name wrote the first of them twice.
#[test]
fn members_of_a_tuple_that_share_a_name_keep_their_own_values() {
    let format = r#"{"table_skiff_schemas": [{"wire_type": "tuple", "children": [{"wire_type": "tuple", "name": "p",
        "children": [{"wire_type": "double", "name": "y"}, {"wire_type": "int64", "name": "y"}]}]}]}"#;
    let format = Format::from_json(format, Strings::Binary).unwrap();
    let stream = [
        &0_u16.to_le_bytes()[..],
        &1.5_f64.to_le_bytes(),
        &7_i64.to_le_bytes(),
    ]
    .concat();
    let mut encode = EncodeOptions::default();
    encode.tags = Tags::Input;
    let mut encoder = Encoder::new(format.clone(), encode);
    let mut out = Vec::new();
    for batch in Reader::new(stream.as_slice(), format, DecodeOptions::default()) {
        let (table, batch) = batch.unwrap();
        encoder.encode(table, &batch, &mut out).unwrap();
    }
    assert_eq!(out, stream);
}
