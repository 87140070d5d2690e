//! The compat of a table: what it allows, and that no commit lets through what the newest version forbids.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use pilum_table::{
    CommitOptions, Compat, ConfigUpdate, Dataset, Error, MapUpdate, StatementOptions, Store,
    VersionRef, WriteMode, WriteOptions, Written, write,
};

use crate::dml::settings::try_config;
use crate::support::{batch, before_publishing, block_on, expect_no_orphans, memory, open, reader};

fn numbers(values: &[Option<i64>]) -> RecordBatch {
    batch(vec![(
        Field::new("n", DataType::Int64, true),
        Arc::new(Int64Array::from(values.to_vec())) as ArrayRef,
    )])
}

fn put(
    store: &Store,
    mode: WriteMode,
    values: &[Option<i64>],
    compat: Option<Compat>,
) -> Result<Written, Error> {
    let mut options = WriteOptions::default();
    options.mode = mode;
    options.compat = compat;
    block_on(write(store, reader(&[numbers(values)]), &options))
}

fn compat(store: &Store) -> (Option<Compat>, bool) {
    let table = open(store);
    let manifest = table.snapshot().manifest();
    assert_eq!(
        manifest.needs_extension(),
        manifest.reader_flags >> 56 & 1 == 1
    );
    (manifest.recorded_compat, manifest.needs_extension())
}

const PLAIN: &[Option<i64>] = &[Some(1), Some(2)];
const NULLS: &[Option<i64>] = &[Some(3), None];
const LANCE: Option<Compat> = Some(Compat::Lance);
const LOSSLESS: Option<Compat> = Some(Compat::Lossless);

#[test]
fn the_compat_is_recorded_when_a_table_is_made_and_changed_when_a_call_says_so() {
    for (asked, recorded) in [(None, LOSSLESS), (LOSSLESS, LOSSLESS), (LANCE, LANCE)] {
        for mode in [WriteMode::Create, WriteMode::Append, WriteMode::Overwrite] {
            let store = memory();
            put(&store, mode, PLAIN, asked).unwrap();
            assert_eq!(compat(&store), (recorded, false), "{asked:?} {mode:?}");
        }
    }
    let store = memory();
    put(&store, WriteMode::Create, PLAIN, LANCE).unwrap();
    for mode in [WriteMode::Append, WriteMode::Overwrite] {
        for asked in [None, LANCE] {
            let refused = put(&store, mode, NULLS, asked).map(drop).unwrap_err();
            assert_eq!(refused.kind(), "invalid_input", "{refused}");
            assert!(refused.to_string().contains("first at row 1"), "{refused}");
        }
        put(&store, mode, PLAIN, None).unwrap();
        assert_eq!(compat(&store), (LANCE, false));
    }
    expect_no_orphans(&store);
    // No value needs it yet: what was asked for holds all the same.
    put(&store, WriteMode::Append, PLAIN, LOSSLESS).unwrap();
    assert_eq!(compat(&store), (LOSSLESS, false));
    // The rows of one call can be held to more than the table is.
    put(&store, WriteMode::Append, NULLS, LANCE).unwrap_err();
    put(&store, WriteMode::Append, PLAIN, LANCE).unwrap();
    put(&store, WriteMode::Append, NULLS, None).unwrap();
    assert_eq!(compat(&store), (LOSSLESS, true));
    put(&store, WriteMode::Overwrite, PLAIN, None).unwrap();
    assert_eq!(compat(&store), (LOSSLESS, false));
    put(&store, WriteMode::Overwrite, PLAIN, LANCE).unwrap();
    assert_eq!(compat(&store), (LANCE, false));
}

#[test]
fn config_updates_leave_the_compat_alone() {
    let store = memory();
    put(&store, WriteMode::Create, PLAIN, LANCE).unwrap();
    for value in [Some("lossless"), None] {
        let refused = try_config(&store, &[("pilum.compat", value)]).unwrap_err();
        assert_eq!(refused.kind(), "invalid_input", "{refused}");
    }
    let config = MapUpdate {
        entries: [("a".to_owned(), Some("1".to_owned()))].into(),
        replace: true,
    };
    let update = ConfigUpdate {
        config,
        ..ConfigUpdate::default()
    };
    let table = open(&store);
    block_on(table.update_config(&update, &StatementOptions::default())).unwrap();
    assert_eq!(compat(&store), (LANCE, false));
}

type Work = fn(&Store) -> Result<(), Error>;

/// A table of which version 2 has nulls, and version 3 does not.
fn history() -> Store {
    let store = memory();
    put(&store, WriteMode::Create, PLAIN, None).unwrap();
    put(&store, WriteMode::Append, NULLS, None).unwrap();
    put(&store, WriteMode::Overwrite, PLAIN, None).unwrap();
    store
}

fn restore(store: &Store, compat: Option<Compat>) -> Result<(), Error> {
    let old = block_on(Dataset::open_in(store, &VersionRef::Number(2)))?;
    let mut options = CommitOptions::default();
    options.compat = compat;
    block_on(old.restore(&options)).map(drop)
}

#[test]
fn a_version_that_was_forbidden_meanwhile_is_not_published() {
    let forbid = |store: &Store| {
        put(store, WriteMode::Overwrite, PLAIN, LANCE).unwrap();
    };
    // Neither a restore nor an overwrite conflicts with an overwrite that came first: only its compat stands against them.
    let works: [Work; 3] = [
        |store| restore(store, None),
        |store| put(store, WriteMode::Overwrite, NULLS, None).map(drop),
        |store| put(store, WriteMode::Append, NULLS, None).map(drop),
    ];
    for (number, work) in works.into_iter().enumerate() {
        let store = history();
        let refused = work(&before_publishing(&store, forbid)).unwrap_err();
        let expected = if number == 2 {
            "conflict"
        } else {
            "invalid_input"
        };
        assert_eq!(refused.kind(), expected, "{number}: {refused}");
        if number < 2 {
            let told = refused.to_string();
            assert!(
                told.contains("column `n`") && told.contains("row 1"),
                "{told}"
            );
        }
        assert_eq!(open(&store).version(), 4, "{number}");
        assert_eq!(compat(&store), (LANCE, false), "{number}");
        expect_no_orphans(&store);
        // Told to, it goes through.
        if number == 0 {
            restore(&before_publishing(&store, forbid), LOSSLESS).unwrap();
            assert_eq!(compat(&store), (LOSSLESS, true));
        }
    }
}

#[test]
fn a_restore_keeps_the_compat_of_the_table() {
    let store = history();
    put(&store, WriteMode::Overwrite, PLAIN, LANCE).unwrap();
    let refused = restore(&store, None).unwrap_err().to_string();
    assert!(refused.contains("column `n`"), "{refused}");
    let first = block_on(Dataset::open_in(&store, &VersionRef::Number(1))).unwrap();
    block_on(first.restore(&CommitOptions::default())).unwrap();
    assert_eq!(compat(&store), (LANCE, false));
    restore(&store, LOSSLESS).unwrap();
    assert_eq!(compat(&store), (LOSSLESS, true));
}
