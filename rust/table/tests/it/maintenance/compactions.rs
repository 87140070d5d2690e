//! Compaction, and a model of all statements over rows.

use std::collections::BTreeMap;

use pilum_format::RowIdSequence;
use pilum_table::{CompactOptions, Snapshot, Store};
use proptest::prelude::*;

use crate::support::{
    append, block_on, compact, content, create, delete, expect_no_orphans, files, ids, memory,
    open, rows, runtime,
};

fn sizes(snapshot: &Snapshot) -> Vec<(u64, u64)> {
    let fragments = snapshot.fragments().iter();
    fragments.map(|it| (it.id, it.physical_rows)).collect()
}

/// Id, created and last-updated version of each live row.
fn identities(snapshot: &Snapshot) -> Vec<(u64, u64, u64)> {
    let gone = |fragment: &pilum_table::Fragment| {
        assert!(fragment.deletion.is_none());
        let ids: RowIdSequence = fragment.row_ids().unwrap().unwrap();
        let created = fragment.created_at().unwrap().unwrap();
        let updated = fragment.last_updated_at().unwrap().unwrap();
        (0..fragment.physical_rows)
            .map(|row| {
                let version = |it: &pilum_format::RowVersions| it.get(row).unwrap();
                (ids.get(row).unwrap(), version(&created), version(&updated))
            })
            .collect::<Vec<_>>()
    };
    snapshot.fragments().iter().flat_map(gone).collect()
}

#[test]
fn a_compaction_with_a_commit_id_happens_once() {
    let store = memory();
    create(&store, &rows(0, 30), false);
    append(&store, &rows(30, 10));
    let mut options = CompactOptions::default();
    options.statement.commit_id = Some("tonight".to_owned());
    let once = || block_on(open(&store).compact(&options, runtime().handle())).unwrap();
    let first = once();
    assert_eq!((first.num_removed_fragments, first.num_rows), (2, 40));
    assert!(!first.committed.was_committed_before);
    let version = first.committed.snapshot.version();
    // There is work for another compaction, and this call is still the one that happened.
    append(&store, &rows(40, 10));
    let before = files(&store);
    let again = once();
    assert!(again.committed.was_committed_before);
    assert_eq!(again.committed.snapshot.version(), version);
    assert_eq!((again.num_removed_fragments, again.num_rows), (0, 0));
    assert_eq!(files(&store), before);
    options.statement.commit_id = Some("tomorrow".to_owned());
    let other = block_on(open(&store).compact(&options, runtime().handle())).unwrap();
    assert_eq!((other.num_removed_fragments, other.num_rows), (2, 50));
}

#[test]
fn small_fragments_are_joined_and_order_stays() {
    let store = memory();
    create(&store, &rows(0, 30), false);
    for first in [30, 40, 50] {
        append(&store, &rows(first, 10));
    }
    delete(&store, "id % 7 = 0");
    let before = content(open(&store).snapshot());
    let compacted = compact(&store, 25);
    assert_eq!(
        (compacted.num_removed_fragments, compacted.num_rows),
        (4, 51)
    );
    let table = open(&store);
    assert_eq!(
        table.version(),
        7,
        "ids are reserved by a version of their own"
    );
    assert_eq!(sizes(table.snapshot()), [(4, 25), (5, 25), (6, 1)]);
    assert_eq!(content(table.snapshot()), before);
    expect_no_orphans(&store);
    // The small one has no small neighbour: nothing is left to do.
    let again = compact(&store, 25);
    assert_eq!(
        (again.num_removed_fragments, again.committed.attempts),
        (0, 0)
    );
    assert_eq!(open(&store).version(), 7);
}

#[test]
fn stable_ids_and_versions_go_along() {
    let store = memory();
    create(&store, &rows(0, 10), true);
    append(&store, &rows(10, 10));
    delete(&store, "id IN (3, 4, 12, 13)");
    append(&store, &rows(20, 5));
    compact(&store, 8);
    let table = open(&store);
    let expected: Vec<(u64, u64, u64)> = (0..25)
        .filter(|id| ![3, 4, 12, 13].contains(id))
        .map(|id| match id {
            0..10 => (id, 1, 1),
            10..20 => (id, 2, 2),
            _ => (id, 4, 4),
        })
        .collect();
    assert_eq!(identities(table.snapshot()), expected);
    expect_no_orphans(&store);
    append(&store, &rows(25, 1));
    assert_eq!(
        identities(open(&store).snapshot()).last(),
        Some(&(25, 7, 7))
    );
}

#[test]
fn bad_targets_are_refused() {
    let store = memory();
    create(&store, &rows(0, 3), false);
    let runtime = runtime();
    for change in [
        (|it| it.target_rows = 0) as fn(&mut CompactOptions),
        |it| it.target_bytes = Some(0),
        |it| it.max_deleted_fraction = f64::NAN,
        |it| it.max_deleted_fraction = 1.5,
    ] {
        let mut options = CompactOptions::default();
        change(&mut options);
        let refused = runtime.block_on(open(&store).compact(&options, runtime.handle()));
        assert_eq!(refused.unwrap_err().kind(), "invalid_input");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append(i64),
    /// Rows whose id leaves a remainder.
    Delete(i64, i64),
    /// Rows without a name.
    DeleteNulls,
    Compact(u64),
}

/// Rewritten fragments stand behind the others, so rows may change places.
fn sorted_ids(snapshot: &Snapshot) -> Vec<i64> {
    let mut ids = ids(snapshot);
    ids.sort_unstable();
    ids
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1i64..40).prop_map(Step::Append),
        3 => (2i64..9, 0i64..9).prop_map(|(by, rest)| Step::Delete(by, rest % by)),
        1 => Just(Step::DeleteNulls),
        2 => (1u64..60).prop_map(Step::Compact),
    ]
}

fn execute(store: &Store, step: &Step, model: &mut Vec<i64>, next: &mut i64) {
    match step {
        Step::Append(len) => {
            append(store, &rows(*next, *len));
            model.extend(*next..*next + len);
            *next += len;
        }
        Step::Delete(by, rest) => {
            let gone = delete(store, &format!("id % {by} = {rest}"));
            let before = model.len();
            model.retain(|id| id % by != *rest);
            assert_eq!(gone.num_deleted_rows, (before - model.len()) as u64);
        }
        Step::DeleteNulls => {
            delete(store, "name IS NULL");
            model.retain(|id| id % 3 != 0);
        }
        Step::Compact(target) => {
            compact(store, *target);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn statements_agree_with_a_list_and_old_versions_stay(
        stable in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..14),
    ) {
        let store = memory();
        create(&store, &rows(0, 20), stable);
        let (mut model, mut next) = ((0..20).collect::<Vec<_>>(), 20);
        let mut history = BTreeMap::new();
        for step in &steps {
            execute(&store, step, &mut model, &mut next);
            let table = open(&store);
            prop_assert_eq!(&sorted_ids(table.snapshot()), &model);
            history.insert(table.version(), model.clone());
        }
        for (version, model) in history {
            let version = pilum_table::VersionRef::Number(version);
            let table = block_on(open(&store).checkout(&version)).unwrap();
            prop_assert_eq!(sorted_ids(table.snapshot()), model);
        }
        expect_no_orphans(&store);
    }
}
