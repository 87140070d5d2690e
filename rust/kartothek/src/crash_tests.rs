//! Every step of a commit that can fail does so once: the dataset is then as it was before or after, whole, and the next commit
//! succeeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use pilum_store::{StorageOptions, failpoint};

use crate::commit::FAIL_POINTS;
use crate::limits::Limits;
use crate::scope::scope_rows;
use crate::state::{Place, index_file, load};
use crate::write::inverted::InvertedIndex;
use crate::{DatasetWriter, Error, Existing, Frame, Layout, Result, Retention, Update};

fn now<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

fn frame(number: i64) -> Frame {
    let rows = RecordBatch::try_from_iter([
        (
            "p",
            Arc::new(StringArray::from(vec![format!("a/{}", number % 2)])) as ArrayRef,
        ),
        ("x", Arc::new(Int64Array::from(vec![number])) as ArrayRef),
    ]);
    Frame {
        label: None,
        tables: BTreeMap::from([("table".to_owned(), rows.unwrap())]),
    }
}

fn layout() -> Layout {
    Layout {
        partition_on: vec!["p".to_owned()],
        indices: vec!["x".to_owned()],
        ..Layout::default()
    }
}

fn opened(uri: &str) -> DatasetWriter {
    DatasetWriter::open(uri, &StorageOptions::new(), "sales").unwrap()
}

async fn add(writer: &DatasetWriter, number: i64, delete: Option<i64>) -> Result<u64> {
    let scope = match delete {
        None => Vec::new(),
        Some(x) => {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![x]));
            scope_rows(&RecordBatch::try_from_iter([("x", values)]).unwrap())
        }
    };
    let removed = writer.in_scope(&scope).await?;
    let marker = DatasetWriter::new_marker();
    let added = writer.stage(frame(number), &layout(), &marker).await?;
    let update = Update {
        added,
        removed,
        existing: Existing::Update,
        ..Update::default()
    };
    Ok(writer.update(update).await?.version)
}

/// The values of `x` by the index, after a check that every file is there and every label known.
async fn values(uri: &str) -> BTreeSet<i64> {
    let store = pilum_store::Store::open(uri, &StorageOptions::new()).unwrap();
    let place = Place::new(store.with_literal_paths(), "sales", Limits::default());
    let Some(state) = load(&place).await.unwrap() else {
        return BTreeSet::new();
    };
    let partitions = state.document.partitions.as_ref().unwrap();
    for file in partitions.values().flat_map(|it| it.files.values()) {
        assert!(place.store.exists(file).await.unwrap(), "{file}");
    }
    let key = index_file(&place, &state.document, "x").unwrap();
    let limits = Limits::default();
    let index = InvertedIndex::read(&place.store, key, "x", &DataType::Int64, &limits)
        .await
        .unwrap();
    let mut found = BTreeSet::new();
    for x in -1..100 {
        let wanted: ArrayRef = Arc::new(Int64Array::from(vec![x]));
        for label in index.labels_of(&wanted).unwrap() {
            assert!(partitions.contains_key(&label), "{label}");
            assert!(found.insert(x));
        }
    }
    assert_eq!(found.len(), partitions.len());
    found
}

#[test]
fn a_commit_that_fails_at_any_step_happens_or_not_and_the_next_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let counted = folder.path().join("count").to_str().unwrap().to_owned();
    let passes = {
        let counting = failpoint::count(&counted);
        now(async {
            let writer = opened(&counted);
            add(&writer, 0, None).await.unwrap();
            add(&writer, 1, None).await.unwrap();
            add(&writer, 2, Some(0)).await.unwrap();
        });
        counting.passes()
    };
    for place in FAIL_POINTS {
        assert!(passes.contains_key(place), "{place} is never passed");
    }
    let mut failures = 0;
    for (place, count) in passes {
        for nth in 1..=count {
            let name = format!("{}-{nth}", place.replace('.', "-"));
            let uri = folder.path().join(name).to_str().unwrap().to_owned();
            let steps = [(0, None), (1, None), (2, Some(0))];
            let failed = now(async {
                let _armed = failpoint::arm(&format!("{place}=error@{nth}"), &uri);
                let mut expected = BTreeSet::new();
                for (number, delete) in steps {
                    let mut after = expected.clone();
                    after.insert(number);
                    if let Some(gone) = delete {
                        after.remove(&gone);
                    }
                    // A process that ends here starts again with another writer.
                    match add(&opened(&uri), number, delete).await {
                        Ok(_) => expected = after,
                        Err(error) => return Some((number, delete, expected, after, error)),
                    }
                }
                None
            });
            let Some((number, delete, before, after, error)) = failed else {
                continue;
            };
            failures += 1;
            now(async {
                let found = values(&uri).await;
                assert!(
                    found == before || found == after,
                    "{place}@{nth}: {found:?}, not {before:?} or {after:?}: {error}"
                );
                assert!(error.kind() != "bug", "{place}@{nth}: {error}");
                if found == before {
                    add(&opened(&uri), number, delete).await.unwrap();
                }
                add(&opened(&uri), 50, None).await.unwrap();
                let mut expected = after;
                expected.insert(50);
                assert_eq!(values(&uri).await, expected, "{place}@{nth}");
                let writer = opened(&uri);
                writer.collect_garbage(&Retention::default()).await.unwrap();
                assert_eq!(values(&uri).await, expected, "{place}@{nth}");
            });
        }
    }
    assert!(failures > 50, "{failures}");
}

#[test]
fn a_lost_answer_of_the_store_is_resolved() {
    let uri = "memory://kartothek-lost-answers/store";
    now(async {
        add(&opened(uri), 0, None).await.unwrap();
        let _armed = failpoint::arm("object.after_put=error", "lost-answers/store/sales.by");
        // The document was replaced, and the answer was lost: the next attempt finds its own commit.
        assert_eq!(add(&opened(uri), 1, None).await.unwrap(), 2);
    });
    assert_eq!(now(values(uri)), BTreeSet::from([0, 1]));
}

#[test]
fn writers_that_meet_lose_nothing_and_conflicting_deletes_are_conflicts() {
    let uri = "memory://kartothek-writers/store";
    now(async {
        let writer = opened(uri);
        add(&writer, 0, None).await.unwrap();
        let all: Vec<_> = (1..20).map(|n| add(&writer, n, None)).collect();
        for done in futures::future::join_all(all).await {
            done.unwrap();
        }
        assert_eq!(values(uri).await, (0..20).collect());
        let both =
            futures::future::join_all([add(&writer, 30, Some(5)), add(&writer, 31, Some(5))]);
        let results = both.await;
        let conflicts = results
            .iter()
            .filter(|it| matches!(it, Err(Error::Conflict { .. })));
        assert!(conflicts.count() <= 1);
        assert!(results.iter().any(Result::is_ok));
        assert!(!values(uri).await.contains(&5));
    });
}
