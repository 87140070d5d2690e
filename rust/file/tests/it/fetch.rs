//! Getting bytes into memory: files that are cut short while they are open, stores that answer too little, and the memory of
//! bytes that were prefetched.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use bytes::Bytes;
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::BoxFuture;
use futures::task::noop_waker;
use pilum_file::{Error, FileReader, OpenOptions, Rows, WriteOptions, WrittenFile};
use pilum_format::{Field, Schema};
use pilum_store::{ReadAt, Store};

use crate::tables::{Nulls, assert_same, batch, dictionaries, read, scratch, write};

/// A list of strings, a string, an integer and a dictionary: every way in which bytes are found by others.
fn table(num_rows: usize) -> RecordBatch {
    let item = |t: DataType| Arc::new(arrow_schema::Field::new("item", t, true));
    let key = Box::new(DataType::Int8);
    let columns = [
        (DataType::Int64, Nulls::Runs),
        (DataType::Utf8, Nulls::Alternating),
        (DataType::List(item(DataType::Utf8)), Nulls::Runs),
        (
            DataType::Dictionary(key, Box::new(DataType::Utf8)),
            Nulls::None,
        ),
        (
            DataType::FixedSizeList(item(DataType::Utf8), 2),
            Nulls::Runs,
        ),
    ];
    batch(&columns, num_rows, 7)
}

fn open(store: &Store, written: &WrittenFile, stays_mapped: bool) -> FileReader {
    block_on(async {
        let file = store.open_file(&written.path, None).await.unwrap();
        assert!(file.mapped().is_some(), "the test needs a mapped file");
        let options = OpenOptions {
            field_ids: Some(&written.field_ids),
            metadata_crc32c: Some(written.metadata_crc32c),
            stays_mapped,
            ..OpenOptions::default()
        };
        FileReader::open(file, options).await.unwrap()
    })
}

/// Rows of each field alone, so that each is read from the file.
fn read_each(reader: &FileReader, schema: &Schema, rows: &Rows) -> Vec<pilum_file::Result<()>> {
    let dictionaries = dictionaries(schema);
    let read = |field| {
        let arrays = block_on(reader.read_rows(std::slice::from_ref(field), rows, &dictionaries))?;
        // Every value is touched.
        arrays
            .iter()
            .for_each(|array| assert!(array.to_data().validate_full().is_ok()));
        Ok(())
    };
    schema.fields.iter().map(read).collect()
}

fn cut(path: &Path, len: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

fn assert_cut(results: &[pilum_file::Result<()>], case: &str) {
    for result in results {
        let error = result.as_ref().unwrap_err();
        assert!(matches!(error, Error::Store(_)), "{case}: {error:?}");
        let error = error.to_string();
        assert!(error.contains("a.lance"), "{case}: {error}");
        assert!(error.contains("was cut from"), "{case}: {error}");
    }
}

/// Small reads and large ones, with checksums and without, of files that stay mapped and of those that do not, from two
/// threads: before this was checked, the process died with SIGBUS.
#[test]
fn a_file_that_is_cut_short_while_it_is_open_is_an_error_of_every_read() {
    for (num_rows, has_checksums) in [(300, true), (300, false), (200_000, true), (200_000, false)]
    {
        for stays_mapped in [true, false] {
            let case = format!("{num_rows} rows, {has_checksums}, {stays_mapped}");
            let (folder, store) = scratch();
            let mut options = WriteOptions::default();
            options.max_rows_per_page = Some(num_rows as u64);
            if !has_checksums {
                options.checksum_block = None;
            }
            let rows = table(num_rows);
            let (schema, written) =
                write(&store, "data/a.lance", std::slice::from_ref(&rows), options).unwrap();
            let reader = open(&store, &written, stays_mapped);
            let selections = [
                Rows::all(reader.num_rows()),
                Rows::from_sorted_indices([3, 50, 299]).unwrap(),
                Rows::range(10..11),
            ];
            // One read succeeds first: what it fetched must not count as fetched after the file was cut.
            let got = read(&reader, &schema, &selections[1]).unwrap();
            assert_eq!(got.num_rows(), 3);
            for len in [written.num_bytes / 2, 1, 0] {
                cut(&folder.path().join("data/a.lance"), len);
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            for rows in &selections {
                                assert_cut(&read_each(&reader, &schema, rows), &case);
                            }
                            let ids: Vec<_> = schema.ids();
                            let statistics = block_on(reader.statistics(&ids)).map(|_| ());
                            let embedded = block_on(reader.schema()).map(|_| ());
                            assert_cut(&[statistics, embedded], &case);
                        });
                    }
                });
            }
        }
    }
}

/// Rows of every shape of selection are those that were written, with the file mapped in both ways.
#[test]
fn selections_of_mapped_files_are_the_rows_that_were_written() {
    for has_checksums in [true, false] {
        let (_folder, store) = scratch();
        let mut options = WriteOptions::default();
        options.max_rows_per_page = Some(10_000);
        if !has_checksums {
            options.checksum_block = None;
        }
        let rows = table(45_000);
        let (schema, written) =
            write(&store, "data/a.lance", std::slice::from_ref(&rows), options).unwrap();
        for stays_mapped in [true, false] {
            let reader = open(&store, &written, stays_mapped);
            for (start, step, len) in [
                (0, 1, 45_000),
                (5, 1, 9_000),
                (3, 2, 22_000),
                (7, 900, 50),
                (1, 30_000, 2),
            ] {
                let indices = (0..len)
                    .map(|index| start + index * step)
                    .filter(|row| *row < 45_000);
                let indices: Vec<u64> = indices.collect();
                let selected = Rows::from_sorted_indices(indices.iter().copied()).unwrap();
                let got = read(&reader, &schema, &selected).unwrap();
                let indices = arrow_array::UInt64Array::from(indices);
                let want = arrow_select::take::take_record_batch(&rows, &indices).unwrap();
                assert_same(&got, &want);
                reader.release();
            }
        }
    }
}

/// A remote file that answers later than it is asked, fails on request, and counts the bytes that it handed out.
#[derive(Debug)]
struct Remote {
    bytes: Bytes,
    requests: AtomicUsize,
    alive: Arc<AtomicUsize>,
    /// The number of the request that fails.
    fails_at: AtomicUsize,
    /// Whether answers are one byte too short, and whether the file claims to be mapped.
    is_short: bool,
    is_mapped: bool,
}

/// Bytes handed out: counted until they are dropped.
struct Counted(Bytes, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0.len(), Ordering::SeqCst);
    }
}

impl Remote {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: bytes.into(),
            requests: AtomicUsize::new(0),
            alive: Arc::default(),
            fails_at: AtomicUsize::new(usize::MAX),
            is_short: false,
            is_mapped: false,
        }
    }

    fn answer(&self, range: &Range<u64>) -> Bytes {
        let end = range.end - u64::from(self.is_short && range.start < self.size() / 2);
        let bytes = self
            .bytes
            .slice(range.start as usize..end.max(range.start) as usize);
        self.alive.fetch_add(bytes.len(), Ordering::SeqCst);
        Bytes::from_owner(Counted(bytes, Arc::clone(&self.alive)))
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }
}

impl ReadAt for Remote {
    fn path(&self) -> &str {
        "remote"
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn mapped(&self) -> Option<&Bytes> {
        self.is_mapped.then_some(&self.bytes)
    }

    fn read_ranges<'a>(
        &'a self,
        ranges: &'a [Range<u64>],
    ) -> BoxFuture<'a, pilum_store::Result<Vec<Bytes>>> {
        async move {
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            let mut is_asked = false;
            std::future::poll_fn(|_| match std::mem::replace(&mut is_asked, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            if number == self.fails_at.load(Ordering::SeqCst) {
                return Err(pilum_store::Error::OutOfRange {
                    path: "remote".to_owned(),
                    range: 0..0,
                    size: 0,
                });
            }
            Ok(ranges.iter().map(|range| self.answer(range)).collect())
        }
        .boxed()
    }

    fn read_tail(&self, num_bytes: u64) -> BoxFuture<'_, pilum_store::Result<Bytes>> {
        let start = self.size().saturating_sub(num_bytes);
        async move { Ok(self.answer(&(start..self.size()))) }.boxed()
    }

    fn prefetch(&self, _: &[Range<u64>]) -> pilum_store::Result<()> {
        Ok(())
    }

    fn release(&self, _: Range<u64>) {}

    fn read_mapped(&self, _: Range<u64>) -> Option<pilum_store::Result<Bytes>> {
        None
    }
}

/// Polls until the future is ready: one that pends asks to be polled again at once.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    loop {
        if let Poll::Ready(answer) = future
            .as_mut()
            .poll(&mut Context::from_waker(&noop_waker()))
        {
            return answer;
        }
    }
}

/// A file of many columns and many pages, so that its page table is not within the bytes that come with the footer.
fn wide_file() -> (Vec<u8>, Arc<Schema>, WrittenFile) {
    let (folder, store) = scratch();
    let mut options = WriteOptions::default();
    options.max_rows_per_page = Some(16);
    let columns = vec![(DataType::Int64, Nulls::Runs); 60];
    let rows = batch(&columns, 16 * 100, 3);
    let (schema, written) = write(&store, "data/a.lance", &[rows], options).unwrap();
    let bytes = std::fs::read(folder.path().join("data/a.lance")).unwrap();
    (bytes, schema, written)
}

fn open_remote(file: &Arc<Remote>, written: &WrittenFile) -> FileReader {
    let options = OpenOptions {
        field_ids: Some(&written.field_ids),
        metadata_crc32c: Some(written.metadata_crc32c),
        ..OpenOptions::default()
    };
    let file = Arc::clone(file);
    run(FileReader::open(file, options)).unwrap()
}

#[test]
fn prefetched_bytes_are_dropped_when_a_read_fails_or_is_cancelled() {
    let (bytes, schema, written) = wide_file();
    let file = Arc::new(Remote::new(bytes));
    let fields = &schema.fields[..3];
    let mut failures = 0;
    for failing in 0..10 {
        file.fails_at.store(usize::MAX, Ordering::SeqCst);
        let fresh = open_remote(&file, &written);
        file.fails_at
            .store(file.requests() + failing, Ordering::SeqCst);
        let held = file.alive();
        failures += usize::from(run(fresh.prepare(fields)).is_err());
        assert_eq!(file.alive(), held, "request {failing} failed");
    }
    assert!(failures > 0, "{failures} requests failed");
    file.fails_at.store(usize::MAX, Ordering::SeqCst);
    for polls in 0..6 {
        let reader = open_remote(&file, &written);
        let before = file.alive();
        let mut prepare = Box::pin(reader.prepare(fields));
        for _ in 0..polls {
            let polled = prepare
                .as_mut()
                .poll(&mut Context::from_waker(&noop_waker()));
            if polled.is_ready() {
                break;
            }
        }
        drop(prepare);
        assert_eq!(file.alive(), before, "cancelled after {polls} polls");
    }
}

#[test]
fn concurrent_reads_keep_the_bytes_that_each_of_them_prefetched() {
    let (bytes, schema, written) = wide_file();
    let (first, second) = (&schema.fields[..3], &schema.fields[40..43]);
    let requests_of = |fields: &[&[Field]]| {
        let file = Arc::new(Remote::new(bytes.clone()));
        let reader = open_remote(&file, &written);
        let opened = file.requests();
        fields
            .iter()
            .for_each(|fields| run(reader.prepare(fields)).unwrap());
        file.requests() - opened
    };
    let alone = requests_of(&[first, second]);
    for polls in 0..6 {
        let file = Arc::new(Remote::new(bytes.clone()));
        let reader = open_remote(&file, &written);
        let opened = file.requests();
        let mut prepare = Box::pin(reader.prepare(first));
        let mut is_ready = false;
        for _ in 0..polls {
            if !is_ready {
                let polled = prepare
                    .as_mut()
                    .poll(&mut Context::from_waker(&noop_waker()));
                is_ready = polled.is_ready();
            }
        }
        run(reader.prepare(second)).unwrap();
        if !is_ready {
            run(prepare).unwrap();
        }
        assert_eq!(file.requests() - opened, alone, "after {polls} polls");
    }
}

/// A file whose pages are large enough to be read as slices of a mapping that are released again.
fn large_file() -> (Vec<u8>, Arc<Schema>, WrittenFile) {
    let (folder, store) = scratch();
    let rows = batch(&vec![(DataType::Int64, Nulls::None); 3], 65_536, 3);
    let (schema, written) =
        write(&store, "data/a.lance", &[rows], WriteOptions::default()).unwrap();
    let bytes = std::fs::read(folder.path().join("data/a.lance")).unwrap();
    (bytes, schema, written)
}

/// Before this was checked, planning asked for the missing bytes again, without end.
#[test]
fn a_store_that_answers_with_too_few_bytes_is_an_error() {
    for ((bytes, schema, written), is_mapped) in [(wide_file(), false), (large_file(), true)] {
        let mut file = Remote::new(bytes);
        file.is_short = true;
        file.is_mapped = is_mapped;
        let reader = open_remote(&Arc::new(file), &written);
        let rows = Rows::all(reader.num_rows());
        let read = run(reader.read_rows(&schema.fields[..3], &rows, &dictionaries(&schema)));
        let error = read.unwrap_err().to_string();
        assert!(
            error.contains("remote") && error.contains("fewer bytes"),
            "{error}"
        );
    }
}
