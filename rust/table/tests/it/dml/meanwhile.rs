//! What others commit between the reading of a statement and its own commit, where the two go together.

use std::collections::{BTreeMap, BTreeSet};

use pilum_table::{
    ColumnsOutcome, CommitOptions, ConfigUpdate, Error, MapUpdate, Operation, Precondition,
    StatementOptions, Store, parse_sql,
};

use crate::support::{
    append, before_publishing, block_on, create, delete, expect_no_orphans, files, ids, memory,
    open, rows, runtime,
};

fn try_add(store: &Store, options: &StatementOptions) -> Result<ColumnsOutcome, Error> {
    let columns = [("n".to_owned(), parse_sql("id * 3").unwrap())];
    let (runtime, table) = (runtime(), open(store));
    runtime.block_on(table.add_columns(&columns, options, runtime.handle()))
}

fn drop_column(store: &Store, name: &str) {
    let dropped = [name.to_owned()];
    block_on(open(store).drop_columns(&dropped, &StatementOptions::default())).unwrap();
}

fn edit_first_field(store: &Store) {
    let entries = [("unit".to_owned(), Some("apples".to_owned()))].into();
    let edit = MapUpdate {
        entries,
        replace: false,
    };
    let update = ConfigUpdate {
        field_metadata: [(0, edit)].into(),
        ..ConfigUpdate::default()
    };
    let operation = Operation::UpdateConfig(update);
    let options = CommitOptions::default();
    block_on(open(store).commit(operation, BTreeMap::new(), &options)).unwrap();
}

#[test]
fn dropping_a_column_keeps_an_edit_of_another() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    drop_column(&before_publishing(&store, edit_first_field), "name");
    let table = open(&store);
    let fields = &table.snapshot().manifest().fields;
    assert_eq!(fields.len(), 1);
    let unit = fields[0].metadata.get("unit").map(|it| it.to_vec());
    assert_eq!(unit.as_deref(), Some(&b"apples"[..]));
}

/// The fragments that a delete or update changes are those that it read, with all their files.
#[test]
fn a_column_that_is_dropped_meanwhile_stays_dropped() {
    let update = |store: &Store| {
        let set = [("name".to_owned(), parse_sql("'new'").unwrap())];
        let filter = parse_sql("id < 2").unwrap();
        let (options, runtime, table) = (StatementOptions::default(), runtime(), open(store));
        let updated = table.update(&set, Some(&filter), &options, runtime.handle());
        assert_eq!(runtime.block_on(updated).unwrap().num_updated_rows, 2);
    };
    let delete = |store: &Store| {
        assert_eq!(delete(store, "id < 2").num_deleted_rows, 2);
    };
    for statement in [&delete as &dyn Fn(&Store), &update] {
        let store = memory();
        create(&store, &rows(0, 5), false);
        try_add(&store, &StatementOptions::default()).unwrap();
        statement(&before_publishing(&store, |store| drop_column(store, "n")));
        let table = open(&store);
        let live: BTreeSet<i32> = table.snapshot().schema().ids().into_iter().collect();
        for file in table.fragments().iter().flat_map(|it| &it.files) {
            assert!(
                file.field_ids.iter().any(|id| live.contains(id)),
                "{file:?}"
            );
        }
        expect_no_orphans(&store);
    }
}

/// A second execution that ends before it begins takes the files of the first one with it.
#[test]
fn nothing_is_left_of_a_statement_that_may_not_be_executed_again() {
    let store = memory();
    create(&store, &rows(0, 5), false);
    let appending = before_publishing(&store, |store| append(store, &rows(7, 1)));
    let mut options = StatementOptions::default();
    options.expect = Some(Precondition::NoRows {
        predicate: parse_sql("id = 7").unwrap(),
        handle: runtime().handle().clone(),
    });
    let error = try_add(&appending, &options).unwrap_err();
    assert_eq!(error.kind(), "conflict", "{error}");
    assert!(error.to_string().contains("id = 7"), "{error}");
    assert_eq!(ids(open(&store).snapshot()), [0, 1, 2, 3, 4, 7]);
    let data = files(&store)
        .into_iter()
        .filter(|it| it.starts_with("data/"));
    assert_eq!(data.count(), 2);
    expect_no_orphans(&store);
}
