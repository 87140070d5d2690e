//! Damaged files end in an error or in the right values, never in wrong ones.

use std::panic::AssertUnwindSafe;

use arrow_schema::DataType;
use pilum_file::{Rows, WriteOptions};
use pilum_store::{StorageOptions, Store};

use crate::memory::open_bytes;
use crate::tables::{Nulls, assert_same, batch, map_of, open, read, scratch, write};

/// Types beyond v1, with every kind of null below them.
fn columns_beyond_v1() -> Vec<(DataType, Nulls)> {
    let item = |t: DataType| std::sync::Arc::new(arrow_schema::Field::new("item", t, true));
    vec![
        (
            map_of(DataType::Utf8, DataType::Utf8View, true),
            Nulls::Borders,
        ),
        (
            DataType::ListView(item(DataType::BinaryView)),
            Nulls::Alternating,
        ),
        (
            DataType::FixedSizeList(item(DataType::Utf8), 2),
            Nulls::Runs,
        ),
        (DataType::Decimal32(9, 2), Nulls::Runs),
        (
            DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano),
            Nulls::None,
        ),
        (
            DataType::Struct(Vec::<arrow_schema::Field>::new().into()),
            Nulls::Alternating,
        ),
        (
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Float16)),
            Nulls::Borders,
        ),
    ]
}

/// Every bit of every byte: an error or the right values.
#[test]
fn one_flipped_bit_beyond_v1_is_never_a_wrong_value() {
    let rows = batch(&columns_beyond_v1(), 20, 3);
    let (folder, store) = scratch();
    let mut options = WriteOptions::default();
    options.max_rows_per_page = Some(12);
    let (schema, written) =
        write(&store, "data/a.lance", std::slice::from_ref(&rows), options).unwrap();
    let sound = std::fs::read(folder.path().join("data/a.lance")).unwrap();
    let mut refused = 0;
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let reader = open_bytes(bytes, bit % 2 == 0, &written)?;
            read(&reader, &schema, &Rows::all(reader.num_rows()))
        }));
        match outcome.unwrap_or_else(|_| panic!("panic with bit {bit} damaged")) {
            Ok(got) => assert_same(&got, &rows),
            Err(_) => refused += 1,
        }
    }
    assert!(
        refused * 10 > sound.len() * 8 * 4,
        "{refused} of {} flips were noticed",
        sound.len() * 8
    );
    for length in 0..sound.len() {
        let outcome = open_bytes(sound[..length].to_vec(), length % 2 == 0, &written)
            .and_then(|reader| read(&reader, &schema, &Rows::all(20)));
        assert!(
            outcome.is_err(),
            "{length} of {} bytes were read",
            sound.len()
        );
    }
}

/// A file with nulls, strings, lists and structs, small enough to damage at every byte.
fn sample() -> (
    tempfile::TempDir,
    Store,
    std::sync::Arc<pilum_format::Schema>,
    pilum_file::WrittenFile,
    arrow_array::RecordBatch,
) {
    let item = std::sync::Arc::new(arrow_schema::Field::new("item", DataType::Utf8, true));
    let columns = [
        (DataType::Int64, Nulls::Alternating),
        (DataType::Utf8, Nulls::Runs),
        (DataType::List(item), Nulls::Borders),
        (DataType::Boolean, Nulls::None),
    ];
    let rows = batch(&columns, 60, 3);
    let (folder, store) = scratch();
    let mut options = WriteOptions::default();
    options.max_rows_per_page = Some(25);
    let (schema, written) =
        write(&store, "data/a.lance", std::slice::from_ref(&rows), options).unwrap();
    (folder, store, schema, written, rows)
}

#[test]
fn one_flipped_bit_is_never_a_wrong_value() {
    let (folder, _, schema, written, rows) = sample();
    let path = folder.path().join("data/a.lance");
    let sound = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for position in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[position] ^= 1 << (position % 8);
        std::fs::write(folder.path().join("data/b.lance"), &bytes).unwrap();
        // A store of its own: nothing may be cached between two files of one name.
        let store = Store::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
        let mut damaged = written.clone();
        damaged.path = "data/b.lance".to_owned();
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let reader = open(&store, &damaged)?;
            read(&reader, &schema, &Rows::all(reader.num_rows()))
        }));
        match outcome.unwrap_or_else(|_| panic!("panic with byte {position} damaged")) {
            Ok(got) => assert_same(&got, &rows),
            Err(_) => refused += 1,
        }
    }
    // What is left uncovered is padding, and what this read has no use for.
    assert!(
        refused * 10 > sound.len() * 6,
        "{refused} of {} flips were noticed",
        sound.len()
    );
}

#[test]
fn a_truncated_file_is_refused_at_every_length() {
    let (folder, store, schema, written, _) = sample();
    let sound = std::fs::read(folder.path().join("data/a.lance")).unwrap();
    for length in 0..sound.len() {
        std::fs::write(folder.path().join("data/b.lance"), &sound[..length]).unwrap();
        let mut cut = written.clone();
        cut.path = "data/b.lance".to_owned();
        let outcome = open(&store, &cut).and_then(|reader| read(&reader, &schema, &Rows::all(60)));
        assert!(
            outcome.is_err(),
            "{length} of {} bytes were read",
            sound.len()
        );
    }
}

#[test]
fn verification_finds_what_it_must_and_nothing_else() {
    let (folder, store, schema, written, _) = sample();
    let dictionaries = pilum_format::Dictionaries::new();
    let reader = open(&store, &written).unwrap();
    let report = futures::executor::block_on(reader.verify(&schema, &dictionaries));
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(report.is_covered);
    // A byte inside the first page, another inside the statistics region.
    let sound = std::fs::read(folder.path().join("data/a.lance")).unwrap();
    let mut bytes = sound.clone();
    bytes[3] ^= 1;
    std::fs::write(folder.path().join("data/b.lance"), &bytes).unwrap();
    let mut damaged = written.clone();
    damaged.path = "data/b.lance".to_owned();
    let reader = open(&store, &damaged).unwrap();
    let report = futures::executor::block_on(reader.verify(&schema, &dictionaries));
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    let problem = report.problems[0].error.to_string();
    assert!(
        problem.contains("b.lance") && problem.contains("`c0`") && problem.contains("checksum"),
        "{problem}"
    );
}
