//! Staged fragments that several processes wrote, committed as one version.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Fields};
use pilum_file::{FileReader, OpenOptions};
use pilum_store::testing::Verb;
use pilum_table::{
    Compat, Error, Snapshot, StagedFragments, Store, WriteMode, WriteOptions, Written,
    commit_fragments, commit_staged, write, write_fragments,
};

use crate::support::{
    batch, before, before_publishing, block_on, content, expect_no_orphans, files, ids, local,
    memory, open, reader, rows,
};

pub(super) fn mode(mode: WriteMode) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.mode = mode;
    options
}

/// Dictionary values of a type, by number; number 0 is empty where there are empty values.
fn values(numbers: &[Option<usize>], value_type: &DataType) -> ArrayRef {
    let is_text = !value_type.is_primitive() && *value_type != DataType::Boolean;
    let words = numbers.iter().map(|number| {
        number.map(|number| match (number, value_type) {
            (0, _) if is_text => String::new(),
            (number, DataType::Boolean) => (number % 2 == 0).to_string(),
            (number, _) if is_text => format!("{number} é"),
            (number, _) => number.to_string(),
        })
    });
    let words: ArrayRef = Arc::new(words.collect::<StringArray>());
    match value_type {
        DataType::Timestamp(..) => cast(&cast(&words, &DataType::Int64).unwrap(), value_type),
        _ => cast(&words, value_type),
    }
    .unwrap()
}

/// A dictionary array from the numbers of its values, with keys of a type.
pub(super) fn keyed(
    dictionary: &[Option<usize>],
    keys: &[Option<usize>],
    key_type: &DataType,
    value_type: &DataType,
) -> ArrayRef {
    let keys = keys.iter().map(|key| {
        let key = (*key).filter(|_| !dictionary.is_empty())?;
        Some(i32::try_from(key % dictionary.len()).unwrap())
    });
    let keys: Int32Array = keys.collect();
    let array =
        DictionaryArray::<Int32Type>::try_new(keys, values(dictionary, value_type)).unwrap();
    let wanted = DataType::Dictionary(Box::new(key_type.clone()), Box::new(value_type.clone()));
    let array: ArrayRef = Arc::new(array);
    cast(&array, &wanted).unwrap()
}

/// The dictionary column at the top, in a struct and in lists of up to two.
pub(super) fn nested(array: &ArrayRef) -> RecordBatch {
    let field = |name| Field::new(name, array.data_type().clone(), true);
    let inner = Fields::from(vec![field("inner")]);
    let in_struct = StructArray::new(inner.clone(), vec![Arc::clone(array)], None);
    let lengths = (0..array.len()).map(|row| if row + 1 < array.len() { row % 3 } else { 0 });
    let mut left = array.len();
    let lengths: Vec<usize> = lengths
        .map(|len| {
            let len = len.min(left);
            left -= len;
            len
        })
        .collect();
    let item = Arc::new(field("item"));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let items = array.slice(0, array.len() - left);
    let lists = ListArray::new(Arc::clone(&item), offsets, items, None);
    batch(vec![
        (field("top"), Arc::clone(array)),
        (
            Field::new("s", DataType::Struct(inner), true),
            Arc::new(in_struct),
        ),
        (
            Field::new("l", DataType::List(item), true),
            Arc::new(lists) as ArrayRef,
        ),
    ])
}

/// One column of texts with a dictionary.
pub(super) fn tagged(key_type: &DataType, is_ordered: bool, tags: &[Option<&str>]) -> RecordBatch {
    let array: DictionaryArray<Int32Type> = tags.iter().copied().collect();
    let wanted = DataType::Dictionary(Box::new(key_type.clone()), Box::new(DataType::Utf8));
    let array: ArrayRef = Arc::new(array);
    let array = cast(&array, &wanted).unwrap();
    let field = Field::new("tag", wanted, true).with_dict_is_ordered(is_ordered);
    batch(vec![(field, array)])
}

pub(super) fn words(tags: &[&'static str]) -> RecordBatch {
    let tags: Vec<_> = tags.iter().copied().map(Some).collect();
    tagged(&DataType::Int8, false, &tags)
}

/// Every row as text, in which null, "null" and "" differ.
pub(super) fn told(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
        .collect();
    let row = |row| {
        let cells = columns.iter().map(|column| column.value(row).to_string());
        cells.collect::<Vec<_>>().join(" | ")
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Writes a staged fragment, encodes it and decodes it again, as if another process had written it.
pub(super) fn stage(
    store: &Store,
    appends_to: Option<&Snapshot>,
    batches: &[RecordBatch],
    options: &WriteOptions,
) -> StagedFragments {
    let new = block_on(write_fragments(store, appends_to, reader(batches), options)).unwrap();
    let bytes = new.encode().unwrap();
    let decoded = StagedFragments::decode(bytes).unwrap();
    assert_eq!(
        (&decoded.fragments, &decoded.schema, &decoded.dictionaries),
        (&new.fragments, &new.schema, &new.dictionaries)
    );
    assert_eq!(
        (decoded.num_rows, decoded.num_bytes, decoded.read_version),
        (new.num_rows, new.num_bytes, new.read_version)
    );
    decoded
}

pub(super) fn put(store: &Store, batch: &RecordBatch, options: &WriteOptions) -> Snapshot {
    block_on(write(store, reader(std::slice::from_ref(batch)), options))
        .unwrap()
        .snapshot
}

pub(super) fn try_commit(
    store: &Store,
    base: Option<&Snapshot>,
    staged: &[StagedFragments],
    options: &WriteOptions,
) -> Result<Written, Error> {
    block_on(commit_staged(store, base.cloned(), staged, options))
}

pub(super) fn tags(snapshot: &Snapshot) -> Vec<Option<String>> {
    texts(content(snapshot).column(0))
}

pub(super) fn texts(array: &ArrayRef) -> Vec<Option<String>> {
    let texts = cast(array, &DataType::Utf8).unwrap();
    let texts = texts.as_string::<i32>().iter();
    texts.map(|it| it.map(str::to_owned)).collect()
}

pub(super) fn some(words: &[&str]) -> Vec<Option<String>> {
    words.iter().map(|it| Some((*it).to_owned())).collect()
}

pub(super) fn data_files(store: &Store) -> BTreeSet<String> {
    let mut files = files(store);
    files.retain(|file| file.starts_with("data/"));
    files.into_iter().collect()
}

/// A commit whose answer was lost is called again: it finds its own version, although the first call removed staged files.
#[test]
fn staged_fragments_with_a_commit_id_are_committed_once() {
    let store = memory();
    let mut create = WriteOptions::default();
    create.commit_id = Some("load".to_owned());
    let write = |tags| stage(&store, None, &[words(tags)], &create);
    let staged = [write(&["a"]), write(&["b"])];
    let written = try_commit(&store, None, &staged, &create).unwrap();
    assert_eq!((written.num_rows, written.was_committed_before), (2, false));
    let after = data_files(&store);
    assert!(!after.contains(&staged[1].paths()[0]));
    let again = try_commit(&store, None, &staged, &create).unwrap();
    assert!(again.was_committed_before);
    assert_eq!((again.snapshot.version(), again.num_rows), (1, 0));
    assert_eq!(data_files(&store), after);
    // Two callers at once: the second one loses its race against the first one's removal.
    let store = memory();
    let write = |tags| stage(&store, None, &[words(tags)], &create);
    let staged = [write(&["a"]), write(&["b"])];
    let (theirs, id) = (staged.clone(), create.clone());
    let contested = before(&store, Verb::Open, "data/", move |store| {
        try_commit(store, None, &theirs, &id).unwrap();
    });
    let second = try_commit(&contested, None, &staged, &create).unwrap();
    assert!(second.was_committed_before);
    assert_eq!(tags(&second.snapshot), some(&["a", "b"]));
    expect_no_orphans(&store);
}

/// A staged fragment is committed once; committing it a second time damages no version.
#[test]
fn files_that_a_version_names_are_not_removed() {
    let store = memory();
    let one = put(&store, &words(&["z"]), &WriteOptions::default());
    let append = mode(WriteMode::Append);
    let own = stage(&store, Some(&one), &[words(&["x"])], &append);
    try_commit(&store, Some(&one), std::slice::from_ref(&own), &append).unwrap();
    put(&store, &words(&["w"]), &mode(WriteMode::Overwrite));
    let replace = mode(WriteMode::Overwrite);
    let long = stage(&store, None, &[words(&["p", "q", "r"])], &replace);
    let mut same = own.clone();
    same.schema = Arc::clone(&long.schema);
    let written = try_commit(&store, None, &[long, same], &replace).unwrap();
    assert_eq!(tags(&written.snapshot), some(&["p", "q", "r", "x"]));
    let two = block_on(Snapshot::at_version(&store, 2)).unwrap();
    assert_eq!(tags(&two), some(&["z", "x"]));
}

/// The first commit rewrites the file of a staged fragment and removes it. A second commit of this staged fragment is refused.
#[test]
fn a_file_that_another_commit_replaced_is_never_named_again() {
    let store = memory();
    let one = put(&store, &words(&["z"]), &WriteOptions::default());
    let append = mode(WriteMode::Append);
    let own = stage(&store, Some(&one), &[words(&["x"])], &append);
    // Another append adds a value to the dictionary, so a commit must rewrite the keys of the staged fragment in a new file.
    put(&store, &words(&["w"]), &append);
    let first = try_commit(&store, Some(&one), std::slice::from_ref(&own), &append).unwrap();
    assert_eq!(tags(&first.snapshot), some(&["z", "w", "x"]));
    assert!(!data_files(&store).contains(&own.paths()[0]));
    let replace = mode(WriteMode::Overwrite);
    let again = commit_fragments(&store, Some(one.clone()), own.clone(), &replace);
    let error = block_on(again).unwrap_err();
    assert_eq!(error.kind(), "conflict", "{error}");
    assert!(error.to_string().contains(&own.paths()[0]), "{error}");
    let newest = block_on(Snapshot::newest(&store)).unwrap();
    assert_eq!(newest.version(), first.snapshot.version());
    assert_eq!(tags(&newest), some(&["z", "w", "x"]));
}

#[test]
fn strict_staged_fragments_make_a_table_that_needs_no_flag() {
    let store = memory();
    let mut strict = WriteOptions::default();
    strict.compat = Some(Compat::Lance);
    let write = |tags| stage(&store, None, &[words(tags)], &strict);
    let staged = [write(&["a", "b"]), write(&["b", "c"])];
    let written = try_commit(&store, None, &staged, &strict).unwrap();
    assert_eq!(tags(&written.snapshot), some(&["a", "b", "b", "c"]));
    assert_eq!(written.snapshot.manifest().reader_flags, 0);
    // If one of the staged fragments has a null or an empty text, the table needs the reader flag.
    let loose = WriteOptions::default();
    let store = memory();
    let with_null = [tagged(&DataType::Int8, false, &[Some("c"), None, Some("")])];
    let staged = [
        stage(&store, None, &[words(&["a"])], &loose),
        stage(&store, None, &with_null, &loose),
    ];
    let written = try_commit(&store, None, &staged, &loose).unwrap();
    let expected = [Some("a"), Some("c"), None, Some("")];
    let expected: Vec<_> = expected.map(|it| it.map(str::to_owned)).into();
    assert_eq!(tags(&written.snapshot), expected);
    assert_eq!(written.snapshot.manifest().reader_flags, 1 << 56);
}

#[test]
fn several_processes_write_and_one_commits() {
    let store = memory();
    let create = WriteOptions::default();
    let write = |base: Option<&Snapshot>, first| stage(&store, base, &[rows(first, 3)], &create);
    let one = try_commit(&store, None, &[write(None, 0), write(None, 3)], &create).unwrap();
    assert_eq!((one.num_rows, one.snapshot.fragments().len()), (6, 2));
    assert_eq!(ids(&one.snapshot), [0, 1, 2, 3, 4, 5]);
    let append = mode(WriteMode::Append);
    let staged = [write(Some(&one.snapshot), 6)];
    let two = try_commit(&store, Some(&one.snapshot), &staged, &append).unwrap();
    assert_eq!(two.snapshot.num_rows(), 9);
    // A staged fragment with other columns than the table is refused, and the caller may discard it.
    let other = batch(vec![(
        Field::new("x", DataType::Int64, true),
        Arc::new(Int64Array::from(vec![1])) as ArrayRef,
    )]);
    let other = stage(&store, None, &[other], &append);
    let of_two = [write(None, 9), other.clone()];
    for staged in [&[][..], std::slice::from_ref(&other), &of_two] {
        let refused = try_commit(&store, Some(&two.snapshot), staged, &append);
        assert_eq!(refused.unwrap_err().kind(), "invalid_input");
    }
    let base = Some(two.snapshot);
    let refused = block_on(commit_fragments(&store, base, other.clone(), &append));
    assert_eq!(refused.unwrap_err().kind(), "invalid_input");
    block_on(other.discard(&store));
    block_on(of_two[0].discard(&store));
    assert_eq!(data_files(&store).len(), 3);
}

/// Staged fragments pass through other programs: damaged ones are refused.
#[test]
fn bytes_that_are_no_staged_fragment_are_refused() {
    let store = memory();
    let create = WriteOptions::default();
    let new = block_on(write_fragments(
        &store,
        None,
        reader(&[words(&["a", "b"])]),
        &create,
    ));
    let new = new.unwrap();
    let sound = new.encode().unwrap();
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match StagedFragments::decode(bytes) {
            // Bytes that nothing points to.
            Ok(it) => assert_eq!(
                (it.fragments, it.dictionaries),
                (new.fragments.clone(), new.dictionaries.clone()),
                "bit {bit}"
            ),
            Err(error) => assert!(
                ["corrupt", "unsupported"].contains(&error.kind()),
                "{error}"
            ),
        }
    }
    for len in 0..sound.len() {
        let error = StagedFragments::decode(sound.slice(..len)).unwrap_err();
        assert_eq!(error.kind(), "corrupt", "{len} bytes: {error}");
        assert!(error.to_string().contains("written fragments"), "{error}");
    }
    // A valid manifest that cannot be that of a staged fragment: it says that its fragment has no rows.
    let mut old = new.clone();
    old.fragments[0].physical_rows = 0;
    let error = StagedFragments::decode(old.encode().unwrap()).unwrap_err();
    assert_eq!(error.kind(), "corrupt", "{error}");
    // A staged fragment that states a wrong number of rows is refused when the commit reads it, and the commit leaves no files.
    let mut lies = new.clone();
    lies.fragments[0].physical_rows += 1;
    let other = stage(&store, None, &[words(&["b", "c", "d"])], &create);
    let before = files(&store);
    let error = try_commit(&store, None, &[other, lies], &create).unwrap_err();
    assert_eq!(error.kind(), "corrupt", "{error}");
    assert_eq!(files(&store), before);
}

/// Staged fragments come from other processes: the files that they name are checked before a version with them is published.
#[test]
fn missing_and_damaged_files_are_reported_before_the_commit() {
    let store = memory();
    let one = put(&store, &words(&["a"]), &WriteOptions::default());
    let append = mode(WriteMode::Append);
    let write = |tag| stage(&store, Some(&one), &[words(&[tag])], &append);
    let staged = [write("a"), write("b"), write("c")];
    let path = staged[1].paths().remove(0);
    let sound = block_on(store.read(&path, 1 << 20)).unwrap();
    let mut cut = sound.to_vec();
    cut.pop();
    block_on(store.delete(&path)).unwrap();
    let gone = try_commit(&store, Some(&one), &staged, &append).unwrap_err();
    assert_eq!(gone.kind(), "invalid_input");
    assert!(gone.to_string().contains(&path), "{gone}");
    block_on(store.put(&path, cut.into())).unwrap();
    let cut = try_commit(&store, Some(&one), &staged, &append).unwrap_err();
    assert_eq!(cut.kind(), "corrupt");
    assert!(cut.to_string().contains(&path), "{cut}");
    assert_eq!(open(&store).version(), 1, "nothing was committed");
    block_on(store.put(&path, sound)).unwrap();
    let before = store.counters();
    let written = try_commit(&store, Some(&one), &staged, &append).unwrap();
    assert_eq!(
        store.counters().since(&before).stats,
        3,
        "one for each file"
    );
    assert_eq!(tags(&written.snapshot), some(&["a", "a", "b", "c"]));
    expect_no_orphans(&store);
}

/// If a commit rewrites a staged fragment, the options of the commit decide the layout; without them the pages stay as they are.
#[test]
fn rewritten_staged_fragments_have_the_page_size_of_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    for (asked, written) in [(None, 4), (Some(5), 5)] {
        let store = local(&folder.path().join(format!("{written}")));
        let mut pages = WriteOptions::default();
        pages.max_rows_per_page = Some(4);
        let write = |tags| stage(&store, None, &[words(tags)], &pages);
        let staged = [write(&["a"; 12]), write(&["b"; 12])];
        pages.max_rows_per_page = asked;
        let both = try_commit(&store, None, &staged, &pages).unwrap().snapshot;
        let rows = |fragment: usize| {
            let path = both.fragments()[fragment].files[0].full_path();
            let file = block_on(store.open_file(&path, None)).unwrap();
            let file = FileReader::open(file, OpenOptions::default());
            let page = block_on(file).unwrap().batch_rows(0);
            page.end - page.start
        };
        assert_eq!((rows(0), rows(1)), (4, written));
        assert_eq!(tags(&both).len(), 24);
    }
}

/// Another call committed the same staged fragments with the same id, and then an overwrite changed the columns: the second call
/// returns the first commit, and does not report that the columns differ.
#[test]
fn a_repeated_commit_succeeds_although_the_columns_have_changed() {
    let store = memory();
    let mut append = mode(WriteMode::Append);
    append.commit_id = Some("load".to_owned());
    let staged = [stage(&store, None, &[words(&["a"])], &append)];
    let (theirs, id) = (staged.clone(), append.clone());
    let contested = before(&store, Verb::List, "_versions", move |store| {
        try_commit(store, None, &theirs, &id).unwrap();
        put(store, &words_renamed("b"), &mode(WriteMode::Overwrite));
    });
    let second = try_commit(&contested, None, &staged, &append).unwrap();
    assert!(second.was_committed_before);
    assert_eq!((second.snapshot.version(), second.num_rows), (1, 0));
    assert_eq!(open(&store).version(), 2);
    expect_no_orphans(&store);
}

fn words_renamed(tag: &'static str) -> RecordBatch {
    let tags = words(&[tag]);
    let field = tags.schema().field(0).clone().with_name("other");
    batch(vec![(field, Arc::clone(tags.column(0)))])
}

/// An id that somebody else committed behind what forbids ours is committed all the same.
#[test]
fn a_conflict_is_no_answer_for_an_id_that_was_committed_meanwhile() {
    let store = memory();
    put(&store, &words(&["a"]), &WriteOptions::default());
    let mut append = mode(WriteMode::Append);
    append.commit_id = Some("load".to_owned());
    let theirs = append.clone();
    let contested = before_publishing(&store, move |store| {
        put(store, &words(&["other"]), &mode(WriteMode::Overwrite));
        put(store, &words(&["b"]), &theirs);
    });
    let ours = block_on(write(&contested, reader(&[words(&["b"])]), &append)).unwrap();
    assert!(ours.was_committed_before);
    assert_eq!((ours.snapshot.version(), ours.num_rows), (3, 0));
    assert_eq!(tags(open(&store).snapshot()), some(&["other", "b"]));
    expect_no_orphans(&store);
}
