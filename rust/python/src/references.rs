//! Reference sets: opening, looking up, fetching, writing and combining them.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use pilum_references::{
    AllowList, Child, Combiner, Concatenation, DocumentOptions, DocumentVersion, Error, Fetcher,
    Mode, OnConflict, Reference, ReferenceSet as Set, References, Wanted, add_batch, merge,
    read_document, table_batch, write_document, write_parquet,
};
use pilum_table::Store;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::arguments::{Pairs, storage_options};
use crate::batch::Batch;
use crate::errors::{Failure, guarded};
use crate::ffi::import;
use crate::runtime::block_on;

/// How a set is opened.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct OpenOptions {
    mode: String,
    template_overrides: Vec<(String, String)>,
    max_references: Option<u64>,
    cache_size: Option<usize>,
    storage_options: Option<Pairs>,
    target_options: Option<Pairs>,
    target: Option<String>,
    allow: Vec<String>,
}

impl OpenOptions {
    fn document(&self) -> Result<DocumentOptions, Failure> {
        let mut options = DocumentOptions::default();
        options.mode = match self.mode.as_str() {
            "union" => Mode::Union,
            "simple" => Mode::Simple,
            "full" => Mode::Full,
            other => {
                let reason =
                    format!("mode={other:?}: \"union\", \"simple\" or \"full\" is expected");
                return Err(Failure::invalid(reason));
            }
        };
        options.template_overrides = self.template_overrides.clone();
        options.max_references = self.max_references;
        Ok(options)
    }

    fn fetcher(self, location: Option<&str>) -> Result<Fetcher, Failure> {
        let allow = AllowList::parse(self.allow.iter().map(String::as_str))?;
        Ok(Fetcher::new(
            location,
            allow,
            self.target,
            storage_options(self.target_options),
        ))
    }
}

/// A reference set, with the rules for what it may lead to.
#[derive(Debug)]
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct ReferenceSet {
    inner: References,
    fetcher: Arc<Fetcher>,
}

/// One value as Python sees it: stored bytes, a tuple of a URL with a range, or the JSON text of a malformed value.
fn value_of<'py>(py: Python<'py>, value: &Reference<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Reference::Inline(bytes) => PyBytes::new(py, bytes).into_any(),
        Reference::File { url } => PyTuple::new(py, [url.as_deref()])?.into_any(),
        Reference::Range { url, offset, size } => (url.as_deref(), *offset, *size)
            .into_pyobject(py)?
            .into_any(),
        Reference::Malformed { json } => PyString::new(py, json).into_any(),
    })
}

/// The reverse of [`value_of`].
fn reference_of(value: &Bound<'_, PyAny>) -> PyResult<Reference<'static>> {
    if let Ok(bytes) = value.extract::<PyBackedBytes>() {
        return Ok(Reference::Inline(Cow::Owned(bytes.to_vec())));
    }
    if let Ok((url,)) = value.extract::<(Option<String>,)>() {
        return Ok(Reference::File {
            url: url.map(Cow::Owned),
        });
    }
    if let Ok((url, offset, size)) = value.extract::<(Option<String>, i64, i64)>() {
        let url = url.map(Cow::Owned);
        return Ok(Reference::Range { url, offset, size });
    }
    Err(PyTypeError::new_err(
        "a value is bytes, (url,) or (url, offset, size)",
    ))
}

impl ReferenceSet {
    fn like(&self, set: Set) -> Self {
        Self {
            inner: References::Memory(Arc::new(set)),
            fetcher: Arc::clone(&self.fetcher),
        }
    }

    fn loaded(&self, py: Python<'_>, prefix: &str) -> PyResult<Arc<Set>> {
        Ok(block_on(py, self.inner.load(prefix))?.map_err(Failure::from)?)
    }
}

/// Works on a set in memory with the GIL released.
fn work<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    Ok(py.detach(|| guarded(|| work().map_err(Failure::from)))?)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 converts lists of Python to vectors and passes them by value"
)]
#[pymethods]
impl ReferenceSet {
    /// Opens the set at an address.
    #[staticmethod]
    fn open(py: Python<'_>, uri: &str, options: OpenOptions) -> PyResult<Self> {
        let (document, storage) = (
            options.document()?,
            storage_options(options.storage_options.clone()),
        );
        let opened = References::open(uri, &storage, &document, options.cache_size);
        let inner = block_on(py, opened)?.map_err(Failure::from)?;
        let fetcher = Arc::new(options.fetcher(Some(uri))?);
        Ok(Self { inner, fetcher })
    }

    /// Reads a document from bytes; `location` is the address that relative URLs start from.
    #[staticmethod]
    fn from_document(
        py: Python<'_>,
        document: &Bound<'_, PyBytes>,
        location: Option<&str>,
        options: OpenOptions,
    ) -> PyResult<Self> {
        let how = options.document()?;
        let bytes = document.extract::<PyBackedBytes>()?;
        let compressed = matches!(
            bytes.get(..4),
            Some([0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd])
        );
        let inner = work(py, || {
            if compressed {
                return References::from_bytes(&bytes.to_vec().into(), &how);
            }
            let read = read_document("the document", || Ok(Box::new(&bytes[..])), &how)?;
            Ok(References::Memory(Arc::new(read)))
        })?;
        let fetcher = Arc::new(options.fetcher(location)?);
        Ok(Self { inner, fetcher })
    }

    /// Makes a set of the rows of a table.
    #[staticmethod]
    fn from_table(
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        location: Option<&str>,
        options: OpenOptions,
    ) -> PyResult<Self> {
        let mut source = import(rows)?;
        let mut set = Set::new();
        while let Some(batch) = source.pull(py)? {
            work(py, || add_batch(&mut set, &batch))?;
        }
        let fetcher = Arc::new(options.fetcher(location)?);
        let inner = References::Memory(Arc::new(set));
        Ok(Self { inner, fetcher })
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.inner.len()).unwrap_or(usize::MAX)
    }

    #[getter]
    fn is_lazy(&self) -> bool {
        matches!(self.inner, References::Parquet(_))
    }

    /// The bytes of memory that the set takes; 0 for a set that is read lazily.
    #[getter]
    fn nbytes(&self) -> usize {
        match &self.inner {
            References::Memory(set) => set.byte_len(),
            References::Parquet(_) => 0,
        }
    }

    #[getter]
    fn record_size(&self) -> Option<u64> {
        match &self.inner {
            References::Memory(_) => None,
            References::Parquet(set) => Some(set.record_size()),
        }
    }

    /// The values of some keys; none for a missing key.
    fn locate<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<String>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        // A set in memory is looked into without a runtime.
        if let References::Memory(set) = &self.inner {
            let found = keys
                .iter()
                .map(|key| set.get(key).map(|it| value_of(py, &it)).transpose());
            return found.collect();
        }
        let found = block_on(py, self.inner.locate(&keys))?.map_err(Failure::from)?;
        found
            .iter()
            .map(|it| it.as_ref().map(|it| value_of(py, it)).transpose())
            .collect()
    }

    /// The bytes of some keys, each with the bounds of a slice: bytes, an exception that is not raised, or none for a missing key.
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        wanted: Vec<(String, Option<i64>, Option<i64>)>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let keys: Vec<String> = wanted.iter().map(|(key, _, _)| key.clone()).collect();
        let fetched = block_on(py, async {
            let found = self.inner.locate(&keys).await?;
            let mut places = Vec::new();
            let mut present = Vec::new();
            for ((key, start, end), value) in wanted.into_iter().zip(found) {
                places.push(value.is_some());
                if let Some(value) = value {
                    present.push(Wanted {
                        key,
                        value,
                        start,
                        end,
                    });
                }
            }
            Ok::<_, Error>((places, self.fetcher.fetch(&present).await))
        })?;
        let (places, fetched) = fetched.map_err(Failure::from)?;
        let mut fetched = fetched.into_iter();
        let mut results = Vec::with_capacity(places.len());
        for is_present in places {
            let result = if is_present { fetched.next() } else { None };
            results.push(match result {
                None => None,
                Some(Ok(bytes)) => Some(PyBytes::new(py, &bytes).into_any()),
                Some(Err(error)) => {
                    let raised = PyErr::from(Failure::from(error));
                    Some(raised.into_value(py).into_bound(py).into_any())
                }
            });
        }
        Ok(results)
    }

    /// The size of the file that a URL names, in bytes.
    fn file_size(&self, py: Python<'_>, key: &str, url: Option<&str>) -> PyResult<u64> {
        Ok(block_on(py, self.fetcher.file_size(key, url))?.map_err(Failure::from)?)
    }

    /// The keys that begin with a prefix, sorted.
    fn keys<'py>(&self, py: Python<'py>, prefix: &str) -> PyResult<Bound<'py, PyList>> {
        let set = self.loaded(py, prefix)?;
        let numbers: Vec<u32> = work(py, || Ok(set.prefixed(prefix).to_vec()))?;
        let keys = numbers
            .iter()
            .filter_map(|it| set.entry(*it as usize))
            .map(|(key, _)| key);
        PyList::new(py, keys.collect::<Vec<_>>())
    }

    /// All keys, in the order of the document.
    fn ordered_keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let set = self.loaded(py, "")?;
        PyList::new(py, set.iter().map(|(key, _)| key).collect::<Vec<_>>())
    }

    /// What lies directly below a folder: path, whether it is a key, and the size that is stored for it.
    fn children(&self, py: Python<'_>, folder: &str) -> PyResult<Vec<(String, bool, Option<i64>)>> {
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        let set = self.loaded(py, &prefix)?;
        let children = work(py, || Ok(set.children(folder)))?;
        let mut entries = Vec::with_capacity(children.len());
        for child in children {
            entries.push(match child {
                Child::Folder(path) => (path, false, Some(0)),
                Child::Key(number) => match set.entry(number) {
                    Some((key, Reference::Range { size, .. })) => {
                        (key.to_owned(), true, Some(size))
                    }
                    Some((key, Reference::Inline(bytes))) => {
                        (key.to_owned(), true, i64::try_from(bytes.len()).ok())
                    }
                    Some((key, _)) => (key.to_owned(), true, None),
                    None => continue,
                },
            });
        }
        Ok(entries)
    }

    /// The distinct URLs.
    fn urls(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let set = self.loaded(py, "")?;
        Ok(set.urls().map(str::to_owned).collect())
    }

    /// The first URL in the order of the keys.
    fn first_url(&self, py: Python<'_>) -> PyResult<Option<String>> {
        match &self.inner {
            References::Memory(set) => Ok(set.urls().next().map(str::to_owned)),
            References::Parquet(set) => Ok(block_on(py, set.first_url())?.map_err(Failure::from)?),
        }
    }

    /// The rows of the keys that begin with a prefix.
    fn to_table(&self, py: Python<'_>, prefix: &str) -> PyResult<Batch> {
        let set = self.loaded(py, prefix)?;
        let batch: RecordBatch = work(py, || {
            if prefix.is_empty() {
                return table_batch(&set, set.numbers());
            }
            table_batch(&set, set.prefixed(prefix).iter().map(|it| *it as usize))
        })?;
        Ok(Batch(batch))
    }

    /// The JSON document of version 0 or 1; in version 1 `generates` makes `gen` of regular arrays.
    fn to_json<'py>(
        &self,
        py: Python<'py>,
        version: u8,
        generates: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let version = match (version, generates) {
            (0, false) => DocumentVersion::Zero,
            (1, false) => DocumentVersion::One,
            (1, true) => DocumentVersion::Generated,
            (0, true) => {
                return Err(
                    Failure::invalid("gen=True: version 0 has no `gen`; pass version=1").into(),
                );
            }
            (other, _) => {
                return Err(
                    Failure::invalid(format!("version={other}: 0 or 1 is expected")).into(),
                );
            }
        };
        let set = self.loaded(py, "")?;
        let text = work(py, || {
            let mut out = Vec::new();
            write_document(&set, version, &mut out)?;
            Ok(out)
        })?;
        Ok(PyBytes::new(py, &text))
    }

    /// Writes the JSON document to an address.
    fn write_json(
        &self,
        py: Python<'_>,
        uri: &str,
        storage: Option<Pairs>,
        document: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        let bytes = document.as_bytes().to_vec();
        let (folder, name) = uri.rsplit_once('/').unwrap_or((".", uri));
        let folder = if folder.is_empty() { "/" } else { folder };
        let store = Store::open(folder, &storage_options(storage))
            .map_err(Error::from)
            .map_err(Failure::from)?;
        let written = block_on(py, store.put(name, bytes.into()))?;
        written.map_err(Error::from).map_err(Failure::from)?;
        Ok(())
    }

    /// Writes a folder of Parquet files.
    fn write_parquet(
        &self,
        py: Python<'_>,
        uri: &str,
        record_size: u64,
        storage: Option<Pairs>,
    ) -> PyResult<()> {
        let set = self.loaded(py, "")?;
        let opened = Store::open(uri.trim_end_matches('/'), &storage_options(storage));
        let store = opened.map_err(Error::from).map_err(Failure::from)?;
        block_on(py, write_parquet(&set, &store, record_size))?.map_err(Failure::from)?;
        Ok(())
    }

    /// A set with changed keys: pairs of a key and its value, or none to remove it.
    fn changed(&self, py: Python<'_>, changes: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let mut set = Arc::unwrap_or_clone(self.loaded(py, "")?);
        for (key, value) in &changes {
            if value.is_none() {
                set.remove(key);
                continue;
            }
            set.insert(key, &reference_of(value)?)
                .map_err(Failure::from)?;
        }
        Ok(self.like(set))
    }

    /// A copy of the set in which beginnings of URLs are replaced.
    fn rewritten(
        &self,
        py: Python<'_>,
        prefixes: Vec<(String, String)>,
    ) -> PyResult<(Self, usize)> {
        let mut set = Arc::unwrap_or_clone(self.loaded(py, "")?);
        let (set, count) = work(py, || {
            let count = set.rewrite(&prefixes)?;
            Ok((set, count))
        })?;
        Ok((self.like(set), count))
    }

    /// The keys that begin with one of some prefixes.
    fn subset(&self, py: Python<'_>, prefixes: Vec<String>) -> PyResult<Self> {
        let set = self.loaded(py, "")?;
        let kept = work(py, || {
            let mut kept = Set::new();
            for (key, value) in set.iter() {
                if prefixes.iter().any(|it| key.starts_with(it.as_str())) {
                    kept.insert(key, &value)?;
                }
            }
            Ok(kept)
        })?;
        Ok(self.like(kept))
    }

    /// The keys that only the other set has, that only this one has, and whose values differ.
    fn diff(
        &self,
        py: Python<'_>,
        other: &Self,
    ) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
        let (ours, theirs) = (self.loaded(py, "")?, other.loaded(py, "")?);
        work(py, || {
            let own = |key: &str| key.to_owned();
            let added = theirs.iter().filter(|(key, _)| ours.find(key).is_none());
            let removed = ours.iter().filter(|(key, _)| theirs.find(key).is_none());
            let changed = ours
                .iter()
                .filter(|(key, value)| theirs.get(key).is_some_and(|it| !it.means_same(value)));
            Ok((
                added.map(|(key, _)| own(key)).collect(),
                removed.map(|(key, _)| own(key)).collect(),
                changed.map(|(key, _)| own(key)).collect(),
            ))
        })
    }

    /// This set with the keys of another one.
    fn merged(&self, py: Python<'_>, other: &Self, on_conflict: &str) -> PyResult<Self> {
        let on_conflict = match on_conflict {
            "error" => OnConflict::Error,
            "first" => OnConflict::First,
            "last" => OnConflict::Last,
            other => {
                let reason =
                    format!("on_conflict={other:?}: \"error\", \"first\" or \"last\" is expected");
                return Err(Failure::invalid(reason).into());
            }
        };
        let mut to = Arc::unwrap_or_clone(self.loaded(py, "")?);
        let from = other.loaded(py, "")?;
        let to = work(py, || {
            merge(&mut to, &from, on_conflict)?;
            Ok(to)
        })?;
        Ok(self.like(to))
    }
}

/// Concatenates sets one after the other.
#[derive(Debug)]
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct ReferenceCombiner {
    combiner: std::sync::Mutex<Option<Combiner>>,
    fetcher: Arc<Fetcher>,
}

#[pymethods]
impl ReferenceCombiner {
    #[new]
    fn new(
        dimension: String,
        is_new: bool,
        skipped: Vec<String>,
        location: Option<&str>,
        options: OpenOptions,
    ) -> PyResult<Self> {
        let how = Concatenation {
            dimension,
            is_new,
            skipped,
        };
        Ok(Self {
            combiner: std::sync::Mutex::new(Some(Combiner::new(how))),
            fetcher: Arc::new(options.fetcher(location)?),
        })
    }

    /// Adds a set behind those before it.
    fn add(&self, py: Python<'_>, set: &ReferenceSet) -> PyResult<()> {
        let set = set.loaded(py, "")?;
        work(py, || {
            match self
                .combiner
                .lock()
                .ok()
                .as_mut()
                .and_then(|it| it.as_mut())
            {
                Some(combiner) => combiner.add(&set),
                None => Ok(()),
            }
        })
    }

    /// The combined set.
    fn finish(&self, py: Python<'_>) -> PyResult<ReferenceSet> {
        let taken = self.combiner.lock().ok().and_then(|mut it| it.take());
        let combiner = taken.ok_or_else(|| Failure::invalid("the sets were combined already"))?;
        let set = work(py, || combiner.finish())?;
        Ok(ReferenceSet {
            inner: References::Memory(Arc::new(set)),
            fetcher: Arc::clone(&self.fetcher),
        })
    }
}
