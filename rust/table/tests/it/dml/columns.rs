//! Columns that come, go and change: values, the files that hold them, others at work at the same time.

use std::sync::{Arc, Barrier};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, Int64Array, ListArray, RecordBatch,
    RecordBatchIterator, StringArray, StructArray,
};
use arrow_schema::{DataType, Field, Fields, Schema};
use pilum_format::RowVersions;
use pilum_table::{
    AdaptOptions, ColumnChange, ColumnsOutcome, CommitOptions, Dataset, Error, Operation,
    StatementOptions, Store, Transaction, VersionRef, commit, parse_sql,
};
use pilum_testing::peak_bytes;

use crate::support::{
    append, batch, block_on, compact, content, create, delete, delete_with, expect_no_orphans,
    files, ids, local, memory, open, reader, rows, runtime,
};

fn options() -> StatementOptions {
    let mut options = StatementOptions::default();
    options.retries = 100;
    options.commit_retries = 100;
    options
}

pub(super) fn try_add(store: &Store, columns: &[(&str, &str)]) -> Result<ColumnsOutcome, Error> {
    let runtime = runtime();
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, text)| ((*name).to_owned(), parse_sql(text).unwrap()))
        .collect();
    runtime.block_on(open(store).add_columns(&columns, &options(), runtime.handle()))
}

pub(super) fn try_alter(store: &Store, changes: &[ColumnChange]) -> Result<ColumnsOutcome, Error> {
    let runtime = runtime();
    runtime.block_on(open(store).alter_columns(changes, &options(), runtime.handle()))
}

pub(super) fn try_drop(store: &Store, columns: &[&str]) -> Result<ColumnsOutcome, Error> {
    let columns: Vec<String> = columns.iter().map(|it| (*it).to_owned()).collect();
    block_on(open(store).drop_columns(&columns, &options()))
}

pub(super) fn retyped(path: &str, data_type: DataType) -> ColumnChange {
    ColumnChange {
        path: path.to_owned(),
        field: Some(Field::new("type", data_type, true)),
        ..ColumnChange::default()
    }
}

pub(super) fn data_files(store: &Store) -> Vec<String> {
    let mut files = files(store);
    files.retain(|file| file.starts_with("data/"));
    files
}

/// Three fragments with deleted rows at the beginning, inside and at the end.
pub(super) fn holed(store: &Store, stable_row_ids: bool) {
    create(store, &rows(0, 10), stable_row_ids);
    append(store, &rows(10, 10));
    append(store, &rows(20, 5));
    delete(store, "id < 2 OR id IN (7, 13, 14) OR id = 24");
}

pub(super) fn ints(content: &RecordBatch, name: &str) -> Vec<i64> {
    let column = content.column_by_name(name).unwrap();
    assert_eq!(column.null_count(), 0);
    column.as_primitive::<Int64Type>().values().to_vec()
}

/// `s: {a: int64, t: {p: int64, q: string}}` behind a column `id`, some of the structs null.
pub(super) fn nested(first: i64, len: i64) -> RecordBatch {
    let ids: Vec<i64> = (first..first + len).collect();
    let inner = Fields::from(vec![
        Field::new("p", DataType::Int64, true),
        Field::new("q", DataType::Utf8, true),
    ]);
    let t = StructArray::new(
        inner.clone(),
        vec![
            Arc::new(Int64Array::from_iter(
                ids.iter().map(|id| (id % 4 != 0).then_some(*id)),
            )),
            Arc::new(StringArray::from_iter(
                ids.iter().map(|id| Some(id.to_string())),
            )),
        ],
        Some(ids.iter().map(|id| id % 5 != 1).collect()),
    );
    let outer = Fields::from(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("t", DataType::Struct(inner), true),
    ]);
    let s = StructArray::new(
        outer.clone(),
        vec![Arc::new(Int64Array::from(ids.clone())), Arc::new(t)],
        Some(ids.iter().map(|id| id % 7 != 3).collect()),
    );
    batch(vec![
        (
            Field::new("id", DataType::Int64, false),
            Arc::new(Int64Array::from(ids)) as ArrayRef,
        ),
        (Field::new("s", DataType::Struct(outer), true), Arc::new(s)),
    ])
}

#[test]
fn computed_columns_stand_beside_their_rows_in_one_new_file_for_each_fragment() {
    for stable_row_ids in [false, true] {
        let store = memory();
        holed(&store, stable_row_ids);
        let before = data_files(&store);
        let added = try_add(&store, &[("twice", "id * 2"), ("label", "name")]).unwrap();
        assert_eq!(added.num_rows, 19);
        assert_eq!(data_files(&store).len(), before.len() + 3);
        let snapshot = open(&store).snapshot().clone();
        for fragment in snapshot.fragments() {
            assert_eq!(fragment.files.len(), 2);
            // Names are nullable, and so is what is made of them; ids are not.
            assert_eq!(fragment.files[1].field_ids, [2, 3]);
        }
        let twice = snapshot.schema().fields[2].clone();
        assert!(!twice.nullable && snapshot.schema().fields[3].nullable);
        let content = content(&snapshot);
        let wanted: Vec<i64> = ints(&content, "id").iter().map(|id| id * 2).collect();
        assert_eq!(ints(&content, "twice"), wanted);
        assert_eq!(content.column(3), content.column(1));
        expect_no_orphans(&store);
        // The new values take part in everything else.
        append_more(&store);
        delete(&store, "twice = 4");
        compact(&store, 100);
        assert!(!ids(open(&store).snapshot()).contains(&2));
        expect_no_orphans(&store);
        if stable_row_ids {
            // Values of a row changed in the version that added them; it was created before.
            let first = &snapshot.fragments()[0];
            let version = snapshot.version();
            let updated = RowVersions::uniform(first.physical_rows, version);
            assert_eq!(first.last_updated_at().unwrap(), Some(updated));
            let created = RowVersions::uniform(first.physical_rows, 1);
            assert_eq!(first.created_at().unwrap(), Some(created));
        }
    }
}

/// A column that is another one as it is keeps its extension type; one that is computed has none.
#[test]
fn a_copied_column_keeps_its_extension_type() {
    let store = memory();
    let extension = [
        ("ARROW:extension:name".to_owned(), "acme.code".to_owned()),
        ("ARROW:extension:metadata".to_owned(), "{}".to_owned()),
        ("unit".to_owned(), "m".to_owned()),
    ];
    let extended = |name| {
        let field = Field::new(name, DataType::Int64, false);
        field.with_metadata(std::collections::HashMap::from(extension.clone()))
    };
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let members: Fields = vec![extended("m")].into();
    let member = StructArray::new(members, vec![Arc::clone(&values)], None);
    let structs = Field::new("s", member.data_type().clone(), false);
    create(
        &store,
        &batch(vec![(extended("c"), values), (structs, Arc::new(member))]),
        false,
    );
    try_add(
        &store,
        &[("c2", "c"), ("c3", "c + 0"), ("c4", "s.m"), ("c5", "s")],
    )
    .unwrap();
    let schema = open(&store).snapshot().schema().to_arrow();
    let name = |column: &str| {
        let field = schema.field_with_name(column).unwrap();
        assert!(column == "c" || !field.metadata().contains_key("unit"));
        field.extension_type_name().map(str::to_owned)
    };
    for column in ["c", "c2", "c4"] {
        assert_eq!(name(column).as_deref(), Some("acme.code"), "{column}");
    }
    assert_eq!((name("c3"), name("c5")), (None, None));
    let copied = schema.field_with_name("c5").unwrap().data_type();
    let original = schema.field_with_name("s").unwrap().data_type();
    assert_eq!(copied, original);
    expect_no_orphans(&store);
}

/// Nulls of integers need the extension: readers of Lance v1 refuse the version while such a column is in it.
#[test]
fn the_extension_flag_goes_with_the_last_column_that_needed_it() {
    let with_nulls = |name: &str| -> (Field, ArrayRef) {
        let values = Int64Array::from(vec![Some(1), None, Some(3)]);
        (Field::new(name, DataType::Int64, true), Arc::new(values))
    };
    let plain = |name: &str| -> (Field, ArrayRef) {
        let values = Int64Array::from(vec![1, 2, 3]);
        (Field::new(name, DataType::Int64, false), Arc::new(values))
    };
    let store = memory();
    let columns = vec![plain("id"), with_nulls("a"), with_nulls("b"), plain("c")];
    create(&store, &batch(columns), false);
    let needs_extension = || open(&store).snapshot().manifest().needs_extension();
    let has_flag = || open(&store).snapshot().manifest().reader_flags >> 56 & 1 == 1;
    assert!(needs_extension() && has_flag());
    try_drop(&store, &["a"]).unwrap();
    assert!(needs_extension() && has_flag(), "b still needs it");
    try_drop(&store, &["c"]).unwrap();
    assert!(needs_extension() && has_flag(), "b still needs it");
    try_add(&store, &[("b2", "COALESCE(b, 0)")]).unwrap();
    assert!(needs_extension() && has_flag(), "b still needs it");
    let with_b = open(&store).version();
    try_drop(&store, &["b"]).unwrap();
    assert!(!needs_extension() && !has_flag());
    expect_no_orphans(&store);
    assert_eq!(ints(&content(open(&store).snapshot()), "b2"), [1, 0, 3]);
    // Another statement on the same file does not bring it back, a restore of the old version does.
    delete(&store, "id = 3");
    assert!(!has_flag());
    let restore = Transaction::new(
        open(&store).version(),
        Operation::Restore { version: with_b },
    );
    let base = open(&store).snapshot().clone();
    let options = CommitOptions::default();
    block_on(commit(&store, Some(&base), restore, &options)).unwrap();
    assert!(needs_extension() && has_flag());
    expect_no_orphans(&store);
}

fn append_more(store: &Store) {
    let twice = Field::new("twice", DataType::Int64, false);
    let label = Field::new("label", DataType::Utf8, true);
    let more = rows(100, 3);
    let mut columns: Vec<(Field, ArrayRef)> = (0..2)
        .map(|at| (more.schema().field(at).clone(), Arc::clone(more.column(at))))
        .collect();
    columns.push((twice, Arc::new(Int64Array::from(vec![200, 202, 204]))));
    columns.push((
        label,
        Arc::new(StringArray::from(vec![Some("a"), None, Some("")])),
    ));
    append(store, &batch(columns));
}

#[test]
fn given_rows_belong_to_the_version_that_they_were_made_for() {
    let store = memory();
    holed(&store, false);
    let old = open(&store);
    let given = |len: i64| {
        let values: Int64Array = (0..len).collect();
        batch(vec![(
            Field::new("given", DataType::Int64, false),
            Arc::new(values) as ArrayRef,
        )])
    };
    let add = |table: &Dataset, batches: &[RecordBatch]| {
        block_on(table.add_columns_from(reader(batches), None, AdaptOptions::default(), &options()))
    };
    let before = files(&store);
    for (len, told) in [(18, "18 rows"), (20, "20 rows")] {
        let error = add(&old, &[given(len)]).unwrap_err().to_string();
        assert!(error.contains(told) && error.contains("19"), "{error}");
    }
    assert_eq!(files(&store), before);
    append(&store, &rows(50, 1));
    let before = files(&store);
    let error = add(&old, &[given(19)]).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Conflict {
                ours: "Merge",
                theirs: "Append",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(files(&store), before);
    // In pieces that fit no fragment, some of them empty.
    let all = given(20);
    let pieces = [
        all.slice(0, 3),
        all.slice(3, 0),
        all.slice(3, 16),
        all.slice(19, 1),
    ];
    let added = add(&open(&store), &pieces).unwrap();
    assert_eq!(added.num_rows, 20);
    let content = content(open(&store).snapshot());
    assert_eq!(ints(&content, "given"), (0..20).collect::<Vec<_>>());
    expect_no_orphans(&store);
}

#[test]
fn deleted_rows_are_filled_a_few_at_a_time() {
    const LEN: i64 = 60_000;
    const WIDTH: i32 = 256;
    let folder = tempfile::tempdir().unwrap();
    let store = local(folder.path());
    create(&store, &rows(0, LEN), false);
    delete(&store, "id NOT IN (5, 30000)");
    // What stands for a deleted row has the full width: 60 MB in all.
    let values = Float32Array::from_iter_values((0_u16..512).map(f32::from));
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    let vectors = FixedSizeListArray::new(item, WIDTH, Arc::new(values), None);
    let field = Field::new("vector", vectors.data_type().clone(), false);
    let given = batch(vec![(field, Arc::new(vectors.clone()) as ArrayRef)]);
    let table = open(&store);
    let (added, peak) = peak_bytes(|| {
        let options = options();
        let added =
            table.add_columns_from(reader(&[given]), None, AdaptOptions::default(), &options);
        runtime().block_on(added)
    });
    assert_eq!(added.unwrap().num_rows, 2);
    assert!(peak < 32 << 20, "{peak} bytes");
    let content = content(open(&store).snapshot());
    assert_eq!(content.column(2).as_fixed_size_list(), &vectors);
    expect_no_orphans(&store);
}

#[test]
fn an_item_and_a_struct_far_above_it_change_together() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
        Some(vec![Some(7)]),
    ]);
    let members = Fields::from(vec![Field::new("l", lists.data_type().clone(), true)]);
    let nulls = Some(vec![true, true, false, true].into());
    let outer = StructArray::new(members.clone(), vec![Arc::new(lists)], nulls);
    let id = Field::new("id", DataType::Int64, false);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4));
    let field = Field::new("p", DataType::Struct(members), true);
    let store = memory();
    create(
        &store,
        &batch(vec![(id, ids), (field, Arc::new(outer))]),
        false,
    );
    // The one null of the struct is in a deleted row, where it is still stored: the struct has to be written again.
    delete(&store, "id = 2");
    let not_null = ColumnChange {
        path: "p".to_owned(),
        nullable: Some(false),
        ..ColumnChange::default()
    };
    let changes = [not_null, retyped("p.l.item", DataType::Int64)];
    try_alter(&store, &changes).unwrap();
    let content = content(open(&store).snapshot());
    let lists = content.column(1).as_struct().column(0).as_list::<i32>();
    let wanted = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![Some(7)]),
    ]);
    assert_eq!(lists, &wanted);
    assert!(!content.schema().field(1).is_nullable());
    expect_no_orphans(&store);
}

#[test]
fn a_source_that_fails_or_has_a_null_too_much_leaves_nothing() {
    let store = memory();
    holed(&store, false);
    let before = files(&store);
    let schema = Arc::new(Schema::new(vec![Field::new(
        "given",
        DataType::Int64,
        false,
    )]));
    let first = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![Arc::new(Int64Array::from_iter_values(0..12))],
    );
    let broken = arrow_schema::ArrowError::ComputeError("the source broke".to_owned());
    let batches = RecordBatchIterator::new([first, Err(broken)], schema);
    let error =
        block_on(open(&store).add_columns_from(batches, None, AdaptOptions::default(), &options()))
            .unwrap_err();
    assert!(error.to_string().contains("the source broke"), "{error}");
    assert_eq!(files(&store), before);
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    let store = memory();
    create(&store, &nested(0, 5), false);
    let before = files(&store);
    let rename = |path: &str, name: &str| ColumnChange {
        path: path.to_owned(),
        name: Some(name.to_owned()),
        ..ColumnChange::default()
    };
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int8, true)));
    for (result, told) in [
        (try_drop(&store, &["ids"]), "did you mean id"),
        (try_drop(&store, &["s.t.w"]), "did you mean s.t"),
        (try_drop(&store, &["id", "s"]), "at least one"),
        (try_drop(&store, &["s.a", "s.a"]), "named twice"),
        (try_add(&store, &[("s", "1")]), "exists already"),
        (try_add(&store, &[("", "1")]), "at least one character"),
        (try_add(&store, &[("a.b", "1")]), "may not contain"),
        (try_add(&store, &[("n", "1"), ("n", "2")]), "appears twice"),
        (try_add(&store, &[("n", "nope + 1")]), "unknown column nope"),
        (try_alter(&store, &[rename("s.a", "t")]), "exists already"),
        (
            try_alter(&store, &[rename("s.t.p", "_rowid")]),
            "every table has",
        ),
        (
            try_alter(&store, &[rename("id", "x"), rename("id", "y")]),
            "changed twice",
        ),
        (
            try_alter(
                &store,
                &[
                    retyped("s.t.p", DataType::Int8),
                    retyped(
                        "s.t",
                        DataType::Struct(Fields::from(vec![
                            Field::new("p", DataType::Int8, true),
                            Field::new("q", DataType::Utf8, true),
                        ])),
                    ),
                ],
            ),
            "changed too",
        ),
        (
            try_alter(&store, &[retyped("s", DataType::Int8)]),
            "cannot become",
        ),
        (
            try_alter(&store, &[retyped("s.t.q", list)]),
            "cannot become",
        ),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(told), "{told:?} is not in {error:?}");
    }
    assert_eq!(files(&store), before);
    assert_eq!(open(&store).version(), 1);
    // And what changes nothing makes no version.
    assert_eq!(
        try_alter(&store, &[rename("id", "id")])
            .unwrap()
            .committed
            .attempts,
        0
    );
    assert_eq!(try_drop(&store, &[]).unwrap().committed.attempts, 0);
    assert_eq!(open(&store).version(), 1);
}

#[test]
fn a_table_without_rows_gets_columns_and_no_file() {
    let store = memory();
    create(&store, &rows(0, 4), false);
    delete(&store, "true");
    let before = data_files(&store);
    try_add(&store, &[("n", "id + 1")]).unwrap();
    let none = batch(vec![(
        Field::new("g", DataType::Utf8, true),
        Arc::new(StringArray::from(Vec::<Option<&str>>::new())) as ArrayRef,
    )]);
    block_on(open(&store).add_columns_from(
        reader(&[none]),
        None,
        AdaptOptions::default(),
        &options(),
    ))
    .unwrap();
    try_alter(&store, &[retyped("n", DataType::Int32)]).unwrap();
    let snapshot = open(&store).snapshot().clone();
    let fields = snapshot.schema().fields.iter();
    let names: Vec<_> = fields.map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["id", "name", "n", "g"]);
    assert_eq!((snapshot.num_rows(), data_files(&store)), (0, before));
}

#[test]
fn an_id_is_committed_once() {
    let store = memory();
    holed(&store, false);
    let (runtime, table) = (runtime(), open(&store));
    let mut once = options();
    once.commit_id = Some("the column".to_owned());
    let columns = [("n".to_owned(), parse_sql("id").unwrap())];
    let add = || {
        let added = table.add_columns(&columns, &once, runtime.handle());
        runtime.block_on(added).unwrap()
    };
    let first = add().committed;
    let again = add().committed;
    assert!(again.was_committed_before && !first.was_committed_before);
    assert_eq!(again.snapshot.version(), first.snapshot.version());
    expect_no_orphans(&store);
}

/// Does it again when a projection came first: what writes columns never goes together with one.
fn unless_projected(once: impl Fn() -> Result<ColumnsOutcome, Error>) {
    loop {
        match once() {
            Err(Error::Conflict { theirs, .. }) if *theirs == *"Project" => {}
            done => return drop(done.unwrap()),
        }
    }
}

/// Deletes, updates and appends while columns are added, converted and dropped: no value is lost or at another row.
#[test]
fn others_change_rows_at_the_same_time() {
    let store = memory();
    create(&store, &rows(0, 40), true);
    append(&store, &rows(40, 40));
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for id in (0..80).step_by(8) {
                delete_with(&store, &format!("id = {id}"), &options());
            }
        });
        scope.spawn(|| {
            start.wait();
            let (runtime, options) = (runtime(), options());
            for id in (1..80).step_by(8) {
                let set = [("name".to_owned(), parse_sql("'changed'").unwrap())];
                let filter = parse_sql(&format!("id = {id}")).unwrap();
                let table = open(&store);
                let updated = table.update(&set, Some(&filter), &options, runtime.handle());
                runtime.block_on(updated).unwrap();
            }
        });
        scope.spawn(|| {
            start.wait();
            for place in 0..4 {
                let name = format!("n{place}");
                unless_projected(|| try_add(&store, &[(&name, "id * 3")]));
                unless_projected(|| try_alter(&store, &[retyped(&name, DataType::Int32)]));
            }
        });
        scope.spawn(|| {
            start.wait();
            try_add(&store, &[("gone", "id")]).unwrap();
            try_drop(&store, &["gone"]).unwrap();
        });
    });
    let content = content(open(&store).snapshot());
    let mut pairs: Vec<_> = ints(&content, "id")
        .into_iter()
        .zip(content.column(1).as_string::<i32>())
        .map(|(id, name)| (id, name.map(str::to_owned)))
        .collect();
    pairs.sort();
    let wanted = (0..80).filter(|id| id % 8 != 0).map(|id| match id % 8 {
        1 => (id, Some("changed".to_owned())),
        _ => (id, (id % 3 != 0).then(|| format!("name {id}"))),
    });
    assert_eq!(pairs, wanted.collect::<Vec<_>>());
    for place in 0..4 {
        let column = content.column_by_name(&format!("n{place}")).unwrap();
        let column = column.as_primitive::<Int32Type>();
        assert_eq!(column.null_count(), 0);
        let values: Vec<i64> = column.values().iter().map(|it| i64::from(*it)).collect();
        let ids = ints(&content, "id");
        assert_eq!(values, ids.iter().map(|id| id * 3).collect::<Vec<_>>());
    }
    assert!(content.column_by_name("gone").is_none());
    expect_no_orphans(&store);
    // Every version between is whole.
    for version in block_on(open(&store).versions()).unwrap() {
        let table = block_on(Dataset::open_in(
            &store,
            &VersionRef::Number(version.version),
        ))
        .unwrap();
        let report = block_on(table.snapshot().verify()).unwrap();
        assert!(report.is_ok(), "{}: {:?}", version.version, report.problems);
    }
}
