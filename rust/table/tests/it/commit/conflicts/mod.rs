//! Every ordered pair of operations, one committed while the other is between reading and committing: whether and how the
//! later one is committed is what the matrix says, and the rows are those of the two executed one after the other.
//!
//! Ours has read the newest version and written its files when theirs is committed. Three times: on the same row (and column,
//! and key), on two rows of one fragment, on two fragments.

mod acts;
mod model;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_schema::DataType;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use pilum_store::testing::{Fate, Script, Verb};
use pilum_table::{
    ConfigUpdate, Error, MapUpdate, Operation, Outcome, Reason, Snapshot, StatementOptions, Store,
    check_conflict,
};

use crate::support::{append, block_on, create, delete, expect_no_orphans, memory, open};
use acts::{ACTS, Act, Side, convert_to, first_rows};
use model::{Column, Model, View};

/// What a restore goes back to.
const OLD_VERSION: u64 = 2;
/// Rows that are deleted before anything happens: many of the first fragment, few of the last.
const DELETED: [i64; 5] = [5, 6, 8, 9, 29];

/// Three fragments of ten rows; two columns that each have a file of their own in each of them.
fn prepare(store: &Store, stable_row_ids: bool, factor: i64) {
    let rows = |first: i64| {
        let ids: Vec<i64> = (first..first + 10).collect();
        first_rows(&ids, first_name, factor)
    };
    create(store, &rows(0), stable_row_ids);
    append(store, &rows(10));
    append(store, &rows(20));
    delete(store, "id IN (5, 6, 8, 9, 29)");
    for column in ["p", "q"] {
        convert_to(store, column, DataType::Int32).unwrap();
    }
    let config = MapUpdate {
        entries: [("base".to_owned(), Some("1".to_owned()))].into(),
        replace: false,
    };
    let update = ConfigUpdate {
        config,
        ..ConfigUpdate::default()
    };
    let (table, options) = (open(store), StatementOptions::default());
    block_on(table.update_config(&update, &options)).unwrap();
}

fn first_name(id: i64) -> Option<String> {
    (id % 4 != 1).then(|| format!("name {id}"))
}

/// What [`prepare`] makes.
fn prepared() -> Model {
    let mut model = Model {
        columns: Model::first_columns(),
        rows: BTreeMap::new(),
        config: BTreeMap::new(),
        schema_metadata: BTreeMap::new(),
        before: None,
    };
    let insert = |model: &mut Model, ids: std::ops::Range<i64>| {
        for id in ids {
            model.insert(&[
                ("id", Some(id.to_string())),
                ("name", first_name(id)),
                ("p", Some((id * 10).to_string())),
                ("q", Some((id * 100).to_string())),
            ]);
        }
    };
    insert(&mut model, 0..20);
    let before = model.clone();
    insert(&mut model, 20..30);
    for id in DELETED {
        model.rows.remove(&id);
    }
    for name in ["p", "q"] {
        let column = Column::new(name, DataType::Int32, true);
        model.columns.insert(name.to_owned(), column);
    }
    model.config.insert("base".to_owned(), "1".to_owned());
    model.before = Some(Box::new(before));
    model
}

/// Commits something else when a transaction is about to be written, once.
struct Meddle {
    /// So many transactions are written before.
    skipped: usize,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The ids of the transactions written.
    written: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Meddle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meddle").finish_non_exhaustive()
    }
}

impl Script for Meddle {
    fn fate(&self, verb: Verb, path: &str) -> BoxFuture<'_, Fate> {
        if verb == Verb::Put
            && let Some(file) = path.strip_prefix("_transactions/")
        {
            let mut written = self.written.lock().unwrap();
            if written.len() == self.skipped {
                let act = self.act.lock().unwrap().take();
                // Not inside of the runtime that drives the other.
                std::thread::scope(|scope| act.map(|act| scope.spawn(act).join().unwrap()));
            }
            let (_, id) = file.split_once('-').unwrap();
            written.push(id.to_owned());
        }
        std::future::ready(Fate::Happens).boxed()
    }
}

type Files = BTreeMap<String, Bytes>;

fn files_of(store: &Store) -> Files {
    let listed = block_on(store.list_recursive("")).unwrap();
    let file = |path: String| {
        let bytes = block_on(store.read(&path, 1 << 20)).unwrap();
        (path, bytes)
    };
    listed.into_iter().map(|it| file(it.path)).collect()
}

fn copy_of(files: &Files) -> Store {
    let store = memory();
    for (path, bytes) in files {
        block_on(store.put(path, bytes.clone())).unwrap();
    }
    store
}

/// How ours ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Committed as it was.
    Committed,
    /// Committed with its deletion files written over theirs.
    Merged,
    /// Committed after it was executed again.
    Again,
    /// Executed again, it found nothing to do.
    Nothing,
    /// Executed again, it did not fit what it found.
    Refused,
    /// A conflict that the caller may resolve by calling again.
    Conflict,
    /// A conflict that stays one.
    Never,
}

impl End {
    fn letter(self) -> char {
        match self {
            Self::Committed => '.',
            Self::Merged => 'm',
            Self::Again => 'a',
            Self::Nothing => 'n',
            Self::Refused => 'i',
            Self::Conflict => 'r',
            Self::Never => 'X',
        }
    }

    /// Whether it left anything.
    fn is_done(self) -> bool {
        matches!(
            self,
            Self::Committed | Self::Merged | Self::Again | Self::Nothing
        )
    }
}

/// Executes ours with theirs in between.
fn run(store: &Store, act: &Act, ours: &Side, theirs: impl FnOnce() + Send + 'static) -> End {
    let meddle = Arc::new(Meddle {
        skipped: act.commits - 1,
        act: Mutex::new(Some(Box::new(theirs))),
        written: Mutex::default(),
    });
    let scripted = store.scripted(Arc::clone(&meddle) as _).without_pauses();
    let result = (act.run)(&scripted, ours);
    let meddled = meddle.act.lock().unwrap().is_none();
    assert!(meddled, "{} wrote no transaction", act.name);
    let written = meddle.written.lock().unwrap();
    let Err(error) = result else {
        let newest = open(store);
        let newest = &newest.snapshot().manifest().transaction_file;
        let last = written.last().unwrap();
        let mut distinct = written.clone();
        distinct.dedup();
        return if !newest.ends_with(last.as_str()) {
            End::Nothing
        } else if distinct.len() > act.commits {
            End::Again
        } else if written.len() > act.commits {
            End::Merged
        } else {
            End::Committed
        };
    };
    match error {
        Error::Conflict {
            retryable: true, ..
        } => End::Conflict,
        Error::Conflict { .. } => End::Never,
        error => {
            let is_refused = error.kind() == "invalid_input" && written.len() == act.commits;
            assert!(is_refused, "{}: {error}", act.name);
            End::Refused
        }
    }
}

/// What an operation commits when nobody is in its way.
fn alone(files: &Files, act: &Act, side: &Side) -> Operation {
    let store = copy_of(files);
    (act.run)(&store, side).unwrap();
    let snapshot = open(&store).snapshot().clone();
    let transaction = block_on(snapshot.transaction()).unwrap().unwrap();
    transaction.operation.clone()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Touch {
    SameRow,
    SameFragment,
    OtherFragment,
}

/// The two sides. A compaction rewrites the first fragment, whatever the side says.
fn sides(touch: Touch, theirs: &Act, stable_row_ids: bool) -> (Side, Side) {
    let (our_row, their_row) = match touch {
        Touch::SameRow => (1, 1),
        Touch::SameFragment => (1, 2),
        Touch::OtherFragment if theirs.name == "compact" => (21, 1),
        Touch::OtherFragment => (1, 21),
    };
    let is_same = touch == Touch::SameRow;
    let ours = Side {
        name: "ours",
        target: our_row,
        column: "p",
        key: "key",
        first: 100,
        stable_row_ids,
    };
    let theirs = Side {
        name: "theirs",
        target: their_row,
        column: if is_same { "p" } else { "q" },
        key: if is_same { "key" } else { "another key" },
        first: 200,
        stable_row_ids,
    };
    (ours, theirs)
}

/// Ends that agree with what the matrix says of two operations.
fn allowed(act: &Act, ours: &Operation, theirs: &Operation) -> &'static [End] {
    let is_removal =
        |it: &Operation| matches!(it, Operation::Delete { .. } | Operation::Update { .. });
    // Their rows or transactions are handed over: nobody can work them out again.
    let is_given = matches!(
        act.name,
        "append" | "give column" | "replace data" | "index" | "reserve" | "restore"
    );
    match check_conflict(ours, theirs) {
        // Merges look at the rows besides.
        Outcome::Ok if act.name == "merge" => &[End::Committed, End::Again],
        // The column of the edit may be gone.
        Outcome::Ok if act.name == "field metadata" => &[End::Committed, End::Refused],
        Outcome::Ok => &[End::Committed],
        Outcome::Incompatible(_) => &[End::Never],
        Outcome::Retry(_) if act.name == "overwrite" => &[End::Committed],
        Outcome::Retry(_) if is_given => &[End::Conflict],
        Outcome::Retry(Reason::Fragments(_)) if is_removal(ours) && is_removal(theirs) => {
            &[End::Merged, End::Again, End::Nothing]
        }
        Outcome::Retry(_) => &[End::Again, End::Nothing, End::Refused],
    }
}

/// One pair.
fn pair(files: &Files, ours: (&'static Act, &Side), theirs: (&'static Act, &Side)) -> End {
    let store = copy_of(files);
    let end = {
        let (act, side) = (theirs.0, theirs.1.clone());
        let here = store.clone();
        run(&store, ours.0, ours.1, move || {
            (act.run)(&here, &side).unwrap();
        })
    };
    let what = format!("{} over {}: {end:?}", ours.0.name, theirs.0.name);
    let start = prepared();
    let done = |acts: &[(&Act, &Side)]| {
        let mut model = start.clone();
        for (act, side) in acts {
            (act.model)(&mut model, side);
        }
        model.view()
    };
    let got = View::of(open(&store).snapshot());
    if end.is_done() {
        let in_order = done(&[theirs, ours]);
        if got != in_order {
            assert_eq!(got, done(&[ours, theirs]), "{what}: neither order");
        }
    } else {
        assert_eq!(got, done(&[theirs]), "{what}");
    }
    expect_whole(&store, &what);
    end
}

fn expect_whole(store: &Store, what: &str) {
    let snapshot: Snapshot = open(store).snapshot().clone();
    let report = block_on(snapshot.verify()).unwrap();
    assert!(report.is_ok(), "{what}: {:?}", report.problems);
    assert_eq!(report.orphans, Vec::<String>::new(), "{what}");
}

/// The ends of all pairs: a line for each of ours, a letter for each of theirs.
fn ends(touch: Touch, stable_row_ids: bool) -> Vec<(&'static str, String)> {
    let store = memory();
    prepare(&store, stable_row_ids, 10);
    assert_eq!(View::of(open(&store).snapshot()), prepared().view());
    expect_no_orphans(&store);
    let files = files_of(&store);
    let mut table = Vec::new();
    for ours in &ACTS {
        let mut line = String::new();
        for theirs in &ACTS {
            let (our_side, their_side) = sides(touch, theirs, stable_row_ids);
            let end = pair(&files, (ours, &our_side), (theirs, &their_side));
            let our_operation = alone(&files, ours, &our_side);
            let allowed = allowed(ours, &our_operation, &alone(&files, theirs, &their_side));
            let (ours, theirs) = (ours.name, theirs.name);
            let what = format!("{ours} over {theirs} ({touch:?})");
            assert!(allowed.contains(&end), "{what}: {end:?}, not {allowed:?}");
            line.push(end.letter());
        }
        table.push((ours.name, line));
    }
    table
}

fn expect(touch: Touch, wanted: &[(&str, &str)]) {
    for stable_row_ids in [false, true] {
        let ends = ends(touch, stable_row_ids);
        let ends: Vec<_> = ends.iter().map(|(name, line)| (*name, &line[..])).collect();
        assert_eq!(ends, wanted, "stable row ids: {stable_row_ids}");
    }
}

// Letters as in `End`; theirs from left to right in the order of the lines.

#[test]
fn any_two_operations_on_one_row() {
    expect(
        Touch::SameRow,
        &[
            ("append", ".X....Xrrr.r......."),
            ("overwrite", "..................."),
            ("delete", ".XnaaaXaaa......a.."),
            ("update", ".XnaaaXaaa.a....a.."),
            ("merge", ".XaaaaXaaa.a....a.."),
            ("compact", ".XaaanXaaa......aa."),
            ("restore", "..............XX..."),
            ("add column", "aXaaaaXaaaXXX.aaa.."),
            ("give column", "rXrrrrXrrrXXX.rrr.."),
            ("convert column", "aXaaaaXaanXXX.aaa.."),
            ("rename column", ".X....Xaaaiai......"),
            ("forbid nulls", "aX.aa.Xaaaini...a.."),
            ("drop column", ".X....Xaaaiai......"),
            ("config", ".............X....."),
            ("schema metadata", ".X....Xaaa....X...."),
            ("field metadata", ".X....Xaai..i..X..."),
            ("replace data", ".X.rrrXrrr.r....rr."),
            ("index", ".X...rX.........r.."),
            ("reserve", ".X....X............"),
        ],
    );
}

#[test]
fn any_two_operations_on_two_rows_of_one_fragment() {
    expect(
        Touch::SameFragment,
        &[
            ("append", ".X....Xrrr.r......."),
            ("overwrite", "..................."),
            ("delete", ".XmmmaXaaa......a.."),
            ("update", ".XmmmaXaaa.a....a.."),
            ("merge", ".XmmmaXaaa.a....a.."),
            ("compact", ".XaaanXaaa......aa."),
            ("restore", "..............XX..."),
            ("add column", "aXaaaaXaaaXXX.aaa.."),
            ("give column", "rXrrrrXrrrXXX.rrr.."),
            ("convert column", "aXaaaaXaaaXXX.aaa.."),
            ("rename column", ".X....Xaaaaaa......"),
            ("forbid nulls", "aX.aa.Xaaaaaa...a.."),
            ("drop column", ".X....Xaaaaaa......"),
            ("config", "..................."),
            ("schema metadata", ".X....Xaaa....X...."),
            ("field metadata", ".X....Xaaa........."),
            ("replace data", ".X.rrrXrrr.r......."),
            ("index", ".X...rX............"),
            ("reserve", ".X....X............"),
        ],
    );
}

#[test]
fn any_two_operations_on_two_fragments() {
    expect(
        Touch::OtherFragment,
        &[
            ("append", ".X....Xrrr.r......."),
            ("overwrite", "..................."),
            ("delete", ".X....Xaaa........."),
            ("update", ".X....Xaaa.a......."),
            ("merge", ".X....Xaaa.a....a.."),
            ("compact", ".X...nXaaa........."),
            ("restore", "..............XX..."),
            ("add column", "aXaaaaXaaaXXX.aaa.."),
            ("give column", "rXrrrrXrrrXXX.rrr.."),
            ("convert column", "aXaaaaXaaaXXX.aaa.."),
            ("rename column", ".X....Xaaaaaa......"),
            ("forbid nulls", "aX.aa.Xaaaaaa...a.."),
            ("drop column", ".X....Xaaaaaa......"),
            ("config", "..................."),
            ("schema metadata", ".X....Xaaa....X...."),
            ("field metadata", ".X....Xaaa........."),
            ("replace data", ".X....Xrrr.r......."),
            ("index", ".X....X............"),
            ("reserve", ".X....X............"),
        ],
    );
}

/// A tag is no version: nobody's commit minds it.
#[test]
fn tags_come_and_go_between_reading_and_committing() {
    let store = memory();
    prepare(&store, true, 10);
    block_on(open(&store).create_tag("old", Some(1))).unwrap();
    let files = files_of(&store);
    for act in &ACTS {
        let store = copy_of(&files);
        let here = store.clone();
        let (side, _) = sides(Touch::SameRow, act, true);
        let end = run(&store, act, &side, move || {
            block_on(open(&here).create_tag("new", None)).unwrap();
            block_on(open(&here).delete_tag("old")).unwrap();
        });
        assert_eq!(end, End::Committed, "{}", act.name);
        let mut wanted = prepared();
        (act.model)(&mut wanted, &side);
        let newest = open(&store);
        assert_eq!(View::of(newest.snapshot()), wanted.view(), "{}", act.name);
        let tags = block_on(newest.tags()).unwrap();
        // A compaction has taken its fragment ids by then.
        let base = newest.version() - 1;
        let tags: Vec<_> = tags
            .iter()
            .map(|(name, tag)| (&name[..], tag.version))
            .collect();
        assert_eq!(tags, [("new", base)], "{}", act.name);
        let tagged = block_on(Snapshot::at_version(&store, base)).unwrap();
        assert_eq!(View::of(&tagged), prepared().view(), "{}", act.name);
        expect_whole(&store, act.name);
    }
}
