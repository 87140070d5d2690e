//! Merges of more than fits in memory: what they hold at once, and that the rows are right all the same.
//!
//! Everything is read on the thread of the test, whose allocations are counted. Tables lie in files: what is read of them is
//! mapped, and what is written is not held.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, FixedSizeBinaryArray, Int8Array, Int64Array,
    RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
};
use arrow_schema::{DataType, Field, SchemaRef};
use pilum_table::{
    MergeOptions, MergeOutcome, Store, WhenMatched, WhenNotMatched, WhenNotMatchedBySource,
    parse_sql,
};
use pilum_testing::peak_bytes;

use crate::support::{append, batch, content, create, expect_no_orphans, local, open, runtime};

const MIB: usize = 1 << 20;

fn upsert() -> MergeOptions {
    let mut options = MergeOptions::default();
    options.when_matched = WhenMatched::Update(None);
    options.when_not_matched = WhenNotMatched::Insert;
    options.statement.threads = Some(1);
    options
}

fn limited(num_bytes: usize) -> MergeOptions {
    let mut options = upsert();
    options.statement.memory_limit = Some(num_bytes as u64);
    options
}

fn try_merge(
    store: &Store,
    source: impl RecordBatchReader,
    options: &MergeOptions,
) -> Result<MergeOutcome, pilum_table::Error> {
    let (runtime, table) = (runtime(), open(store));
    let on = ["id".to_owned()];
    runtime.block_on(table.merge_insert(&on, source, options, runtime.handle()))
}

/// Merges batches that are made when they are asked for, and says how much was held at once.
fn merge(
    store: &Store,
    schema: SchemaRef,
    batches: impl Iterator<Item = RecordBatch> + Send,
    options: &MergeOptions,
) -> (MergeOutcome, usize) {
    let source = RecordBatchIterator::new(batches.map(Ok), schema);
    let (merged, peak) = peak_bytes(|| try_merge(store, source, options).unwrap());
    expect_no_orphans(store);
    (merged, peak)
}

fn ids(ids: impl IntoIterator<Item = i64>) -> (Field, ArrayRef) {
    let ids: Int64Array = ids.into_iter().collect();
    (Field::new("id", DataType::Int64, false), Arc::new(ids))
}

/// Rows of an id and `width` bytes that tell it.
fn wide(range: std::ops::Range<i64>, width: usize) -> RecordBatch {
    let images = range.clone().map(|id| image(id, width));
    let images = BinaryArray::from_iter_values(images);
    let field = Field::new("image", DataType::Binary, true);
    let seen = Int64Array::from_iter_values(range.clone().map(|_| 0));
    let seen: (Field, ArrayRef) = (Field::new("seen", DataType::Int64, true), Arc::new(seen));
    batch(vec![ids(range), (field, Arc::new(images)), seen])
}

fn image(id: i64, width: usize) -> Vec<u8> {
    id.to_le_bytes().into_iter().cycle().take(width).collect()
}

/// Rows of an id and how often they were seen.
fn seen(range: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let counts: Int64Array = range.clone().map(|id| Some(id + 1)).collect();
    batch(vec![
        ids(range),
        (Field::new("seen", DataType::Int64, true), Arc::new(counts)),
    ])
}

#[test]
fn wide_rows_of_the_table_are_taken_a_few_at_a_time() {
    const WIDTH: usize = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    create(&store, &wide(0..1000, WIDTH), false);
    append(&store, &wide(1000..2000, WIDTH));
    // Every other row, so that what is taken has to be copied: 20 MiB of images.
    let source = seen((0..2100).step_by(2));
    let options = limited(16 * MIB);
    let (merged, peak) = merge(&store, source.schema(), [source].into_iter(), &options);
    assert_eq!(merged.num_updated_rows, 1000);
    assert_eq!(merged.num_inserted_rows, 50);
    assert!(peak < 16 * MIB, "{peak} bytes");
    let content = content(open(&store).snapshot());
    let rows = content.column(0).as_primitive::<Int64Type>().values();
    let images = content.column(1).as_binary::<i32>();
    let counts = content.column(2).as_primitive::<Int64Type>();
    for (row, id) in rows.iter().enumerate() {
        let known = (*id < 2000).then(|| image(*id, WIDTH));
        assert_eq!(
            images.is_valid(row).then(|| images.value(row)),
            known.as_deref()
        );
        assert_eq!(counts.value(row), if id % 2 == 0 { id + 1 } else { 0 });
    }
    assert_eq!(rows.len(), 2050);
}

#[test]
fn a_wide_row_with_many_partners_is_not_repeated_for_each() {
    const WIDTH: usize = 1 << 18;
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    create(&store, &wide(0..3, WIDTH), true);
    // A thousand partners of one row, of which the condition leaves one.
    let counts = Int64Array::from_iter_values(0..1000);
    let counts: (Field, ArrayRef) = (Field::new("seen", DataType::Int64, true), Arc::new(counts));
    let source = batch(vec![ids(std::iter::repeat_n(1, 1000)), counts]);
    let mut options = limited(16 * MIB);
    let mut merge_if = |condition: &str| {
        let condition = parse_sql(condition).unwrap();
        options.when_matched = WhenMatched::Update(Some(condition));
        let source = RecordBatchIterator::new([Ok(source.clone())], source.schema());
        peak_bytes(|| try_merge(&store, source, &options))
    };
    let (merged, peak) = merge_if("source.seen = 700 AND target.image IS NOT NULL");
    assert_eq!(merged.unwrap().num_updated_rows, 1);
    assert!(peak < 16 * MIB, "{peak} bytes");
    let (merged, _) = merge_if("source.seen > 997 AND target.image IS NOT NULL");
    let error = merged.unwrap_err().to_string();
    assert!(
        error.contains("several rows match") && error.contains("id = 1"),
        "{error}"
    );
    let content = content(open(&store).snapshot());
    assert_eq!(
        content.column(0).as_primitive::<Int64Type>().values(),
        &[0, 2, 1]
    );
    assert_eq!(
        content.column(1).as_binary::<i32>().value(2),
        image(1, WIDTH)
    );
    assert_eq!(content.column(2).as_primitive::<Int64Type>().value(2), 700);
}

/// Rows of an id and a text of 200 letters.
fn texts(range: std::ops::Range<i64>, letter: &str) -> RecordBatch {
    let texts = range
        .clone()
        .map(|id| format!("{id:08}{}", letter.repeat(192)));
    let texts = StringArray::from_iter_values(texts);
    let field = Field::new("text", DataType::Utf8, true);
    batch(vec![ids(range), (field, Arc::new(texts))])
}

#[test]
fn a_source_larger_than_memory_is_never_held_whole() {
    let of_source = |part: i64| texts(part * 5_000..(part + 1) * 5_000, "n");
    let table = || {
        let folder = tempfile::tempdir().unwrap();
        let store = local(folder.path());
        create(&store, &texts(0..60_000, "o"), true);
        (store, folder)
    };
    // 42 MB of rows: half of them are in the table.
    let parts = (6..26).map(of_source);
    let (unlimited, _folder) = table();
    let schema = of_source(0).schema();
    let mut options = upsert();
    let others = parse_sql("id % 10 = 7").unwrap();
    options.when_not_matched_by_source = WhenNotMatchedBySource::Delete(Some(others));
    let (whole, held_whole) = merge(&unlimited, Arc::clone(&schema), parts.clone(), &options);
    assert!(held_whole > 40 * MIB, "{held_whole} bytes");
    let (store, _folder) = table();
    options.statement.memory_limit = Some(16 * MIB as u64);
    let (parted, held) = merge(&store, schema, parts, &options);
    assert!(held < 16 * MIB, "{held} bytes");
    assert_eq!(parted.num_inserted_rows, 70_000);
    assert_eq!(parted.num_updated_rows, 30_000);
    assert_eq!(parted.num_deleted_rows, 3_000);
    assert_eq!(whole.num_updated_rows, parted.num_updated_rows);
    let by_id = |store: &Store| -> BTreeMap<i64, String> {
        let content = content(open(store).snapshot());
        let ids = content
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .iter();
        let texts = content.column(1).as_string::<i32>().iter();
        ids.copied()
            .zip(texts.map(|it| it.unwrap().to_owned()))
            .collect()
    };
    let rows = by_id(&store);
    assert_eq!(rows.len(), 127_000);
    assert!(rows == by_id(&unlimited));
    for (id, text) in rows {
        let letter = if (30_000..130_000).contains(&id) {
            "n"
        } else {
            "o"
        };
        assert_eq!(text, format!("{id:08}{}", letter.repeat(192)));
    }
}

/// Rows of an id and a colour of four bytes, in a dictionary that begins with the colours that `first` says.
fn coloured(range: std::ops::Range<i64>, colours: i64, first: i64) -> RecordBatch {
    let values =
        (0..colours).map(|it| (u32::try_from((it + first) % colours).unwrap()).to_be_bytes());
    let values = FixedSizeBinaryArray::try_from_iter(values).unwrap();
    let keys = range
        .clone()
        .map(|id| i8::try_from((id + colours - first) % colours).ok());
    let keys: Int8Array = keys.collect();
    let colours = DictionaryArray::<Int8Type>::new(keys, Arc::new(values));
    let field = Field::new("colour", colours.data_type().clone(), true);
    batch(vec![ids(range), (field, Arc::new(colours))])
}

#[test]
fn sources_with_a_dictionary_for_each_batch_share_one() {
    const COLOURS: i64 = 100;
    // Two of these dictionaries, one behind the other, have more values than a key can count.
    let parts = (0..40).map(|part| coloured(part * 500..(part + 1) * 500, COLOURS, part % COLOURS));
    for memory_limit in [None, Some(1 << 20)] {
        let folder = tempfile::tempdir().unwrap();
        let store = local(folder.path());
        create(&store, &coloured(0..10_000, COLOURS, 3), false);
        let mut options = upsert();
        options.statement.memory_limit = memory_limit;
        let schema = coloured(0..1, COLOURS, 0).schema();
        let (merged, _) = merge(&store, schema, parts.clone(), &options);
        assert_eq!(merged.num_updated_rows, 10_000);
        assert_eq!(merged.num_inserted_rows, 10_000);
        let content = content(open(&store).snapshot());
        let ids = content
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .iter();
        let colours = content.column(1).as_dictionary::<Int8Type>();
        let values = colours.values().as_fixed_size_binary();
        for (id, key) in ids.zip(colours.keys().values()) {
            let colour = u32::try_from(id % COLOURS).unwrap().to_be_bytes();
            assert_eq!(
                values.value(usize::try_from(*key).unwrap()),
                colour,
                "row {id}"
            );
        }
        assert_eq!(content.num_rows(), 20_000);
        assert_eq!(values.len(), 100, "no value stands twice");
    }
}

#[test]
fn keys_of_a_dictionary_are_put_aside_by_their_values() {
    let names = |range: std::ops::Range<i64>, seen: i64| {
        let names = range.clone().map(|id| format!("{id}{}", "x".repeat(1000)));
        let names: DictionaryArray<arrow_array::types::Int32Type> = {
            let values = StringArray::from_iter_values(names);
            let keys = (0..i32::try_from(values.len()).unwrap())
                .map(Some)
                .collect();
            DictionaryArray::new(keys, Arc::new(values))
        };
        let field = Field::new("id", names.data_type().clone(), true);
        let seen = Int64Array::from_iter_values(range.map(|_| seen));
        batch(vec![
            (field, Arc::new(names) as ArrayRef),
            (Field::new("seen", DataType::Int64, true), Arc::new(seen)),
        ])
    };
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    create(&store, &names(0..4_000, 1), false);
    let source = names(2_000..6_000, 2);
    let options = limited(4 * MIB);
    let (merged, _) = merge(&store, source.schema(), [source].into_iter(), &options);
    assert_eq!(merged.num_updated_rows, 2_000);
    assert_eq!(merged.num_inserted_rows, 2_000);
    let content = content(open(&store).snapshot());
    let content = arrow_cast::cast(content.column(0), &DataType::Utf8).unwrap();
    let mut ids: Vec<i64> = content
        .as_string::<i32>()
        .iter()
        .map(|it| it.unwrap().trim_end_matches('x').parse().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..6_000).collect::<Vec<_>>());
}
