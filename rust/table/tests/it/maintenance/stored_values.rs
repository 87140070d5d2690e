//! Verification names stored values that their own type does not allow, whatever program wrote them.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, Date64Array, Decimal128Array, Decimal256Array, DictionaryArray, Int64Array,
    ListArray, RecordBatch, StringArray, StructArray, Time32SecondArray, Time64NanosecondArray,
};
use arrow_buffer::{OffsetBuffer, i256};
use arrow_schema::{Field, Fields};
use pilum_file::FileWriter;
use pilum_format::Dictionaries;
use pilum_format::ManifestFile;
use pilum_table::{Check, FileLayout, Problem, Store};

use crate::support::{batch, block_on, create, delete, local, open};

/// A table whose file was written past every check: `good` is written as usual, then its file is replaced by one with the
/// rows of `bad`, and the manifest names it.
struct Planted {
    _folder: tempfile::TempDir,
    store: Store,
}

impl Planted {
    fn new(good: &RecordBatch, bad: &RecordBatch) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = local(folder.path());
        create(&store, good, false);
        let snapshot = open(&store).snapshot().clone();
        let path = "data/planted.lance";
        let written = block_on(async {
            let sink = store.writer(path).await.unwrap();
            let schema = Arc::clone(snapshot.schema());
            let mut file = FileWriter::new(schema, path, sink, FileLayout::default(), 0).unwrap();
            file.write(bad).await.unwrap();
            let dictionaries: Dictionaries = snapshot.dictionaries().clone();
            file.finish(&dictionaries).await.unwrap()
        });
        let path = format!(
            "_versions/{}",
            snapshot.naming_scheme().name(snapshot.version())
        );
        let path = folder.path().join(path);
        let bytes = std::fs::read(&path).unwrap().into();
        let mut manifest = ManifestFile::decode(&bytes, "the manifest").unwrap();
        let file = &mut manifest.manifest.fragments[0].files[0];
        std::fs::remove_file(folder.path().join(file.full_path())).unwrap();
        "planted.lance".clone_into(&mut file.path);
        file.byte_len = written.num_bytes;
        file.metadata_crc32c = Some(written.metadata_crc32c);
        file.needs_extension = written.needs_extension;
        std::fs::write(&path, manifest.encode().unwrap()).unwrap();
        Self {
            store: local(folder.path()),
            _folder: folder,
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let report = block_on(open(&self.store).snapshot().verify()).unwrap();
        let problems = report.problems.into_iter();
        problems.filter(|it| it.check != Check::Flags).collect()
    }
}

fn with_ids(column: ArrayRef) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..column.len() as i64));
    let id = Field::new("id", ids.data_type().clone(), false);
    let field = Field::new("x", column.data_type().clone(), true);
    batch(vec![(id, ids), (field, column)])
}

/// In rows 0, 1 and 3 of four rows there is a value; that of row 3 is bad.
fn bad_columns() -> Vec<(ArrayRef, ArrayRef, &'static str)> {
    let money = |last: i128| {
        let values = Decimal128Array::from(vec![Some(1), Some(2), None, Some(last)]);
        Arc::new(values.with_precision_and_scale(5, 2).unwrap()) as ArrayRef
    };
    let wide = |last: i128| {
        let values = [Some(1), Some(2), None, Some(last)].map(|it| it.map(i256::from_i128));
        let values = Decimal256Array::from(values.to_vec());
        Arc::new(values.with_precision_and_scale(7, 0).unwrap()) as ArrayRef
    };
    let seconds = |last: i32| {
        let values = vec![Some(0), Some(86_399), None, Some(last)];
        Arc::new(Time32SecondArray::from(values)) as ArrayRef
    };
    let nanos = |last: i64| {
        let values = vec![Some(0), Some(1), None, Some(last)];
        Arc::new(Time64NanosecondArray::from(values)) as ArrayRef
    };
    let days = |last: i64| {
        let values = vec![Some(0), Some(86_400_000), None, Some(last)];
        Arc::new(Date64Array::from(values)) as ArrayRef
    };
    let of_struct = |column: ArrayRef| {
        let fields = Fields::from(vec![Field::new("m", column.data_type().clone(), true)]);
        Arc::new(StructArray::new(fields, vec![column], None)) as ArrayRef
    };
    let of_list = |column: ArrayRef| {
        let item = Arc::new(Field::new("item", column.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([1, 1, 1, 1]);
        Arc::new(ListArray::new(item, offsets, column, None)) as ArrayRef
    };
    vec![
        (
            money(99_999),
            money(9_999_900),
            "`x`, row 3: 99999.00 is no decimal128(5, 2)",
        ),
        (
            wide(9_999_999),
            wide(10_000_000),
            "`x`, row 3: 10000000 is no decimal256(7, 0)",
        ),
        (seconds(5), seconds(86_400), "`x`, row 3: "),
        (seconds(5), seconds(-1), "`x`, row 3: "),
        (nanos(5), nanos(86_400_000_000_000), "`x`, row 3: "),
        (days(0), days(5), "`x`, row 3: "),
        (
            of_struct(money(1)),
            of_struct(money(100_000)),
            "`x.m`, row 3: 1000.00 is no decimal128(5, 2)",
        ),
        (of_list(days(0)), of_list(days(-1)), "`x.item`, row 3: "),
    ]
}

#[test]
fn every_value_that_its_type_does_not_allow_is_named_with_its_row() {
    for (good, bad, words) in bad_columns() {
        let sound = Planted::new(&with_ids(Arc::clone(&good)), &with_ids(Arc::clone(&good)));
        assert_eq!(sound.problems(), [], "{words}");
        let planted = Planted::new(&with_ids(good), &with_ids(bad));
        let problems = planted.problems();
        let [problem] = problems.as_slice() else {
            panic!("{words}: {problems:?}");
        };
        assert!(
            problem.check == Check::Values
                && problem.path == "data/planted.lance"
                && problem.reason.contains(words)
                && problem.reason.contains(';'),
            "{words}: {problem:?}"
        );
    }
}

#[test]
fn values_of_deleted_rows_do_not_matter_and_rows_are_counted_without_them() {
    let (good, bad, _) = bad_columns().swap_remove(0);
    let planted = Planted::new(&with_ids(good), &with_ids(bad));
    delete(&planted.store, "id = 1");
    let problems = planted.problems();
    assert!(problems[0].reason.contains("`x`, row 2: "), "{problems:?}");
    delete(&planted.store, "id = 3");
    assert_eq!(planted.problems(), []);
}

/// Bytes of a data file, changed and named by the manifest as if they had been written so: only files without checksums
/// get so far.
#[test]
fn texts_and_keys_that_cannot_be_read_are_named_by_their_row() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["aaaa", "bbbb", "cccc", "dddd"]));
    let words: DictionaryArray<Int8Type> = ["v", "w", "v", "w"].into_iter().collect();
    for (column, from, to, told) in [
        (
            texts,
            &b"dddd"[..],
            &b"d\xff\xffd"[..],
            "value 3 are not UTF-8",
        ),
        (
            Arc::new(words) as ArrayRef,
            &[0, 1, 0, 1][..],
            &[0, 1, 0, 7][..],
            "key 7 in row 3",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = local(folder.path());
        create(&store, &with_ids(column), false);
        let file = open(&store).fragments()[0].files[0].full_path();
        let path = folder.path().join(&file);
        let mut bytes = std::fs::read(&path).unwrap();
        let places = bytes.windows(from.len()).enumerate();
        let places: Vec<usize> = places
            .filter(|(_, it)| *it == from)
            .map(|it| it.0)
            .collect();
        bytes[places[0]..places[0] + to.len()].copy_from_slice(to);
        std::fs::write(&path, &bytes).unwrap();
        let table = open(&local(folder.path())).with_verification(false);
        let report = block_on(table.snapshot().verify()).unwrap();
        assert!(
            report.problems.iter().any(|it| it.reason.contains(told)),
            "{told}: {:?}",
            report.problems
        );
    }
}
