//! What is written is what is read: every type, null pattern, page border and selection.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use pilum_file::{Compat, Error, Rows, WriteOptions};
use proptest::prelude::*;

use crate::tables::{
    Nulls, assert_same, batch, leaves_beyond_v1, nulls, open, read, scratch, types, write,
};

fn options() -> impl Strategy<Value = WriteOptions> {
    let rows = prop_oneof![Just(None), (1_u64..70).prop_map(Some), Just(Some(1024))];
    let block = prop_oneof![
        Just(None),
        Just(NonZeroUsize::new(512)),
        Just(NonZeroUsize::new(4096))
    ];
    (rows, prop_oneof![Just(1_u64), Just(64)], block).prop_map(|(rows, alignment, block)| {
        let mut options = WriteOptions::default();
        options.max_rows_per_page = rows;
        options.alignment = alignment;
        options.checksum_block = block;
        options
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn every_table_survives(
        columns in prop::collection::vec((types(), nulls()), 1..5),
        sizes in prop::collection::vec(prop_oneof![Just(0_usize), Just(1), Just(63), Just(64), Just(65), 0..300_usize], 1..4),
        options in options(),
        cut in 0..20_usize,
        picks in prop::collection::btree_set(0..400_u64, 0..40),
    ) {
        let batches: Vec<RecordBatch> = sizes
            .iter()
            .enumerate()
            .map(|(seed, &len)| {
                // Slices with offsets, as a caller may hand them over.
                let whole = batch(&columns, len + cut, seed as u64);
                whole.slice(cut, len)
            })
            .collect();
        let all = concat_batches(&batches[0].schema(), &batches).unwrap();
        prop_assume!(all.num_rows() > 0);
        let (_folder, store) = scratch();
        let (schema, written) = write(&store, "data/a.lance", &batches, options).unwrap();
        prop_assert_eq!(written.num_rows, all.num_rows() as u64);
        let reader = open(&store, &written).unwrap();
        prop_assert_eq!(reader.needs_extension(), written.needs_extension);
        prop_assert!(written.needs_extension || !schema.is_beyond_v1());
        // The file's own schema and dictionaries say the same as the table's.
        let embedded = futures::executor::block_on(reader.schema()).unwrap();
        prop_assert_eq!(embedded.to_arrow(), schema.to_arrow());
        let own = futures::executor::block_on(reader.dictionaries(&embedded)).unwrap();
        for (id, values) in crate::tables::dictionaries(&schema) {
            prop_assert!(own[&id].to_data() == values.to_data());
        }
        assert_same(&read(&reader, &schema, &Rows::all(written.num_rows)).unwrap(), &all);
        let picks: Vec<u64> = picks.into_iter().filter(|row| *row < written.num_rows).collect();
        let rows = Rows::from_sorted_indices(picks.iter().copied()).unwrap();
        let want = arrow_select::take::take_record_batch(
            &all,
            &arrow_array::UInt64Array::from(picks),
        ).unwrap();
        assert_same(&read(&reader, &schema, &rows).unwrap(), &want);
    }
}

#[test]
fn the_extension_is_there_only_when_needed() {
    let (_folder, store) = scratch();
    for (index, (data_type, nulls, needed)) in [
        (DataType::Int64, Nulls::None, false),
        (DataType::Int64, Nulls::Alternating, true),
        // Values of the generator include "", which v1 reads as null.
        (DataType::Utf8, Nulls::None, true),
        (DataType::Null, Nulls::None, false),
        (DataType::Utf8, Nulls::All, false),
    ]
    .into_iter()
    .enumerate()
    {
        let rows = batch(&[(data_type, nulls)], 100, 7);
        let (_, written) = write(
            &store,
            &format!("data/{index}.lance"),
            &[rows],
            WriteOptions::default(),
        )
        .unwrap();
        assert_eq!(written.needs_extension, needed, "case {index}");
    }
}

#[test]
fn pure_v1_refuses_what_it_would_lose() {
    let (_folder, store) = scratch();
    let first = batch(&[(DataType::Int32, Nulls::None)], 10, 1);
    let second = batch(&[(DataType::Int32, Nulls::Borders)], 10, 1);
    let mut options = WriteOptions::default();
    options.compat = Compat::Lance;
    options.max_rows_per_page = Some(10);
    let error = write(&store, "data/a.lance", &[first, second], options).unwrap_err();
    let Error::Lossy {
        column,
        first_row,
        count,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((column.as_str(), *first_row, *count), ("c0", 10, 2));
    assert!(
        !futures::executor::block_on(store.exists("data/a.lance")).unwrap(),
        "a refused file is left behind"
    );
}

#[test]
fn pure_v1_refuses_types_that_it_has_no_form_for() {
    let (_folder, store) = scratch();
    let mut options = WriteOptions::default();
    options.compat = Compat::Lance;
    for data_type in leaves_beyond_v1() {
        let member = arrow_schema::Field::new("m", data_type.clone(), true);
        let list = DataType::List(Arc::new(member));
        let rows = batch(&[(DataType::Int8, Nulls::None), (list, Nulls::None)], 5, 1);
        let schema = pilum_format::Schema::from_arrow(&rows.schema(), 0).unwrap();
        if !schema.is_beyond_v1() {
            // Views are stored as texts and binaries.
            continue;
        }
        let error = write(
            &store,
            "data/a.lance",
            std::slice::from_ref(&rows),
            options.clone(),
        )
        .unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        let message = error.to_string();
        assert!(
            message.contains("`c1.m`") && message.contains("Lance v1"),
            "{message}"
        );
        let (_, written) = write(&store, "data/b.lance", &[rows], WriteOptions::default()).unwrap();
        assert!(written.needs_extension, "{data_type}");
        futures::executor::block_on(store.delete("data/b.lance")).unwrap();
    }
    assert!(!futures::executor::block_on(store.exists("data/a.lance")).unwrap());
}

#[test]
fn the_order_of_a_dictionary_is_kept() {
    let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let field = arrow_schema::Field::new("d", data_type, true).with_dict_is_ordered(true);
    let arrow = arrow_schema::Schema::new(vec![field]);
    let schema = pilum_format::Schema::from_arrow(&arrow, 0).unwrap();
    let protos = schema.to_protos().unwrap();
    let read = pilum_format::Schema::from_protos("f", &protos, &Default::default()).unwrap();
    assert_eq!(read.to_arrow().field(0).dict_is_ordered(), Some(true));
}

#[test]
fn aligned_pages_are_read_without_a_copy() {
    let (_folder, store) = scratch();
    let rows = batch(
        &[
            (DataType::Int64, Nulls::None),
            (DataType::Int8, Nulls::None),
        ],
        300_000,
        1,
    );
    let (schema, written) =
        write(&store, "data/a.lance", &[rows], WriteOptions::default()).unwrap();
    let reader = open(&store, &written).unwrap();
    let arrays = futures::executor::block_on(reader.read_batch(
        &schema.fields,
        0,
        &Rows::all(reader.batch_rows(0).end),
        &pilum_format::Dictionaries::new(),
    ))
    .unwrap();
    let file = futures::executor::block_on(store.open_file(&written.path, None)).unwrap();
    let Some(map) = file.mapped() else { return };
    // Another mapping of the same file: the address differs, the offset inside a page of memory does not.
    let address = arrays[0].to_data().buffers()[0].as_ptr() as usize;
    assert_eq!(address % 64, 0);
    assert_eq!(
        &map[address % 4096..][..8],
        &arrays[0].to_data().buffers()[0].as_slice()[..8]
    );
}

#[test]
fn statistics_come_back_by_page() {
    let (_folder, store) = scratch();
    let rows = batch(
        &[
            (DataType::Int32, Nulls::Alternating),
            (DataType::Utf8, Nulls::None),
        ],
        100,
        5,
    );
    let values: Vec<Option<i32>> = rows.column(0).as_primitive::<Int32Type>().iter().collect();
    for options in [WriteOptions::default(), WriteOptions::pylance()] {
        let mut options = options;
        options.max_rows_per_page = Some(40);
        let (_, written) =
            write(&store, "data/s.lance", std::slice::from_ref(&rows), options).unwrap();
        let reader = open(&store, &written).unwrap();
        let statistics = futures::executor::block_on(reader.statistics(&[0, 1, 7])).unwrap();
        assert_eq!(statistics.keys().copied().collect::<Vec<_>>(), [0, 1]);
        let column = &statistics[&0];
        assert_eq!(column.null_count.values(), &[20, 20, 10]);
        let min: Vec<i32> = values
            .chunks(40)
            .map(|page| page.iter().flatten().copied().min().unwrap())
            .collect();
        let max: Vec<i32> = values
            .chunks(40)
            .map(|page| page.iter().flatten().copied().max().unwrap())
            .collect();
        assert_eq!(column.min.as_primitive::<Int32Type>().values(), &min);
        assert_eq!(column.max.as_primitive::<Int32Type>().values(), &max);
        assert_eq!(statistics[&1].min.len(), 3);
        drop(reader);
        futures::executor::block_on(store.delete("data/s.lance")).unwrap();
    }
}
