//! Kartothek datasets: opening, planning and reading. `scan` has their scans, `write` everything that changes one.

mod scan;
mod write;

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit};
use pilum_kartothek::{
    Condition, Dataset, DocumentForm, IndexReference, OpenOptions, Partition, Scan,
    StrayComponents, from_predicates,
};
use pilum_parquet::{Projection, ScanOptions};
use pilum_table::expr::DnfValue;
use pilum_table::{StorageOptions, Store};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySet, PyString, PyTuple};

use crate::arguments::{self, Count, Pairs};
use crate::batch::{Batch, Schema};
use crate::errors::{Ended, Failure, guarded};
use crate::expr::{Given, PyExpr};
use crate::literal::literal;
use crate::parquet::scan_options;
use crate::process::{OneProcess, PerProcess};
use crate::run::Planned;
use crate::runtime::{block_on, handle};
use crate::scanner::{Scanner, Source, count};

use scan::PlannedScan;
pub(crate) use write::KartothekWriter;

/// A dataset at the state of one document. After a fork the child opens the same state when it first needs it.
#[derive(Debug)]
#[pyclass(frozen, module = "pilum._pilum")]
pub(crate) struct KartothekDataset {
    opened: PerProcess<Arc<Dataset>>,
    uri: String,
    storage: StorageOptions,
    uuid: String,
    form: DocumentForm,
    document: Vec<u8>,
    options: OpenOptions,
}

impl KartothekDataset {
    /// The dataset in this process.
    pub(crate) fn dataset(&self, py: Python<'_>) -> PyResult<&Arc<Dataset>> {
        self.opened.get_or_try_make(|| {
            let store = Store::open(&self.uri, &self.storage);
            let store = store.map_err(pilum_kartothek::Error::from);
            let store = store.map_err(Failure::from)?;
            let opened = Dataset::of_document(
                &store,
                &self.uuid,
                self.form,
                self.document.clone().into(),
                self.options.clone(),
            );
            Ok(block_on(py, opened)?.map_err(Failure::from)?)
        })
    }
}

fn open_options(slashes: &str, unit: &str) -> Result<OpenOptions, Failure> {
    let mut options = OpenOptions::default();
    options.stray = match slashes {
        "join" => StrayComponents::Join,
        "ignore" => StrayComponents::Ignore,
        _ => {
            return Err(Failure::invalid(format!(
                "slashes is \"join\" or \"ignore\", not {slashes:?}"
            )));
        }
    };
    options.unit = match unit {
        "ns" => TimeUnit::Nanosecond,
        "us" => TimeUnit::Microsecond,
        _ => {
            return Err(Failure::invalid(format!(
                "timestamp_unit is \"ns\" or \"us\", not {unit:?}"
            )));
        }
    };
    Ok(options)
}

fn form_of(word: &str) -> Result<DocumentForm, Failure> {
    match word {
        "json" => Ok(DocumentForm::Json),
        "msgpack" => Ok(DocumentForm::MessagePack),
        _ => Err(Failure::invalid(format!(
            "the form of a document is \"json\" or \"msgpack\", not {word:?}"
        ))),
    }
}

/// Opens a dataset; with a document, at the state that it describes.
#[pyfunction]
#[pyo3(signature = (uri, uuid, *, slashes="join", timestamp_unit="ns", document=None, form="json", storage_options=None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn kartothek_open(
    py: Python<'_>,
    uri: String,
    uuid: String,
    slashes: &str,
    timestamp_unit: &str,
    document: Option<Vec<u8>>,
    form: &str,
    storage_options: Option<Pairs>,
) -> PyResult<KartothekDataset> {
    guarded(|| {
        let storage = arguments::storage_options(storage_options);
        let options = open_options(slashes, timestamp_unit)?;
        let form = form_of(form)?;
        let opened = block_on(py, async {
            let store = Store::open(&uri, &storage)?;
            match document {
                None => Dataset::open(&store, &uuid, options.clone()).await,
                Some(document) => {
                    Dataset::of_document(&store, &uuid, form, document.into(), options.clone())
                        .await
                }
            }
        })?;
        let opened = opened.map_err(Failure::from)?;
        Ok(KartothekDataset {
            form: opened.form(),
            document: opened.document().to_vec(),
            opened: PerProcess::new(opened),
            uri,
            storage,
            uuid,
            options,
        })
    })
}

#[pymethods]
impl KartothekDataset {
    #[getter]
    fn uuid(&self) -> &str {
        &self.uuid
    }

    #[getter]
    fn form(&self) -> &'static str {
        match self.form {
            DocumentForm::Json => "json",
            DocumentForm::MessagePack => "msgpack",
        }
    }

    #[getter]
    fn document<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.document)
    }

    #[getter]
    fn is_explicit(&self, py: Python<'_>) -> PyResult<bool> {
        guarded(|| Ok(self.dataset(py)?.is_explicit()))
    }

    #[getter]
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        guarded(|| Ok(self.dataset(py)?.tables().to_vec()))
    }

    #[getter]
    fn partition_keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        guarded(|| Ok(self.dataset(py)?.partition_keys().to_vec()))
    }

    #[getter]
    fn labels(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        guarded(|| Ok(labels(self.dataset(py)?, None)))
    }

    /// The user metadata as JSON text.
    fn metadata(&self, py: Python<'_>) -> PyResult<String> {
        guarded(|| {
            let text = serde_json::to_string(&self.dataset(py)?.metadata().user);
            Ok(text.map_err(|error| Failure::invalid(error.to_string()))?)
        })
    }

    /// The files of a partition by table.
    fn files(&self, py: Python<'_>, label: &str) -> PyResult<Option<Vec<(String, String)>>> {
        guarded(|| {
            let partitions = self.dataset(py)?.metadata().partitions.as_ref();
            let files = partitions.and_then(|it| it.get(label)).map(|it| &it.files);
            let pairs = |(table, key): (&str, &String)| (table.to_owned(), key.clone());
            Ok(files.map(|files| files.iter().map(pairs).collect()))
        })
    }

    /// Columns with an index, and the key of its file; no key for one that is in the document.
    fn indices(&self, py: Python<'_>) -> PyResult<Vec<(String, Option<String>)>> {
        guarded(|| {
            let indices = self.dataset(py)?.metadata().indices.iter();
            let key = |reference: &IndexReference| match reference {
                IndexReference::File(key) => Some(key.clone()),
                IndexReference::Embedded(_) => None,
            };
            Ok(indices
                .map(|(column, it)| (column.clone(), key(it)))
                .collect())
        })
    }

    /// The values of an index, and the labels of each.
    fn index(&self, py: Python<'_>, column: &str) -> PyResult<Batch> {
        guarded(|| {
            let (dataset, handle) = (self.dataset(py)?, handle()?);
            let index = block_on(py, dataset.index(column, &handle))?.map_err(Failure::from)?;
            let mut lists = ListBuilder::new(StringBuilder::new());
            for value in 0..index.values().len() {
                for place in index.partitions(value) {
                    let label = dataset.labels().get(*place as usize);
                    lists.values().append_value(label.map_or("", AsRef::as_ref));
                }
                lists.append(true);
            }
            let values = Arc::clone(index.values());
            let lists: ArrayRef = Arc::new(lists.finish());
            let fields = vec![
                Field::new(column, values.data_type().clone(), true),
                Field::new("partition", lists.data_type().clone(), true),
            ];
            let schema = Arc::new(ArrowSchema::new(fields));
            let batch = RecordBatch::try_new(schema, vec![values, lists]);
            Ok(Batch(
                batch.map_err(|error| Failure::invalid(error.to_string()))?,
            ))
        })
    }

    /// The label and the partition keys of each partition, and the first label whose path has a slash in a value.
    fn keys(&self, py: Python<'_>) -> PyResult<(Batch, Option<String>)> {
        guarded(|| {
            let dataset = self.dataset(py)?;
            let keys = dataset.keys().map_err(Failure::from)?;
            let names = StringArray::from_iter_values(dataset.labels());
            let mut fields = vec![Arc::new(Field::new("", DataType::Utf8, false))];
            let mut columns: Vec<ArrayRef> = vec![Arc::new(names)];
            fields.extend(keys.rows.schema_ref().fields().iter().cloned());
            columns.extend(keys.rows.columns().iter().cloned());
            let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns);
            let batch = batch.map_err(|error| Failure::invalid(error.to_string()))?;
            Ok((Batch(batch), keys.stray.clone()))
        })
    }

    fn schema(&self, py: Python<'_>, table: &str) -> PyResult<Schema> {
        guarded(|| {
            let schema = self.dataset(py)?.schema(table).map_err(Failure::from)?;
            Ok(Schema(SchemaRef::clone(schema)))
        })
    }

    /// A predicate of lists of tuples as an expression with Kartothek's meaning.
    fn predicate(
        &self,
        py: Python<'_>,
        table: &str,
        predicates: &Bound<'_, PyAny>,
    ) -> PyResult<PyExpr> {
        guarded(|| {
            let schema = self.dataset(py)?.schema(table).map_err(Failure::from)?;
            let given = conditions(predicates)?;
            Ok(PyExpr(
                from_predicates(given, schema).map_err(Failure::from)?,
            ))
        })
    }

    /// The labels of the partitions that may have a row that passes; with `exact`, that have one wherever only a null could.
    #[pyo3(signature = (table, filter, exact=true))]
    fn dispatch(
        &self,
        py: Python<'_>,
        table: &str,
        filter: Option<Given>,
        exact: bool,
    ) -> PyResult<Vec<String>> {
        guarded(|| {
            let (dataset, handle) = (self.dataset(py)?, handle()?);
            let Some(filter) = arguments::filter(filter)? else {
                return Ok(labels(dataset, None));
            };
            let places = block_on(py, async {
                match exact {
                    true => dataset.dispatch_exactly(table, &filter, &handle).await,
                    false => dataset.dispatch(table, &filter, &handle).await,
                }
            })?;
            Ok(labels(dataset, Some(&places.map_err(Failure::from)?)))
        })
    }

    #[pyo3(signature = (table, filter=None, labels=None))]
    fn count_rows(
        &self,
        py: Python<'_>,
        table: &str,
        filter: Option<Given>,
        labels: Option<Vec<String>>,
    ) -> PyResult<u64> {
        guarded(|| {
            let (dataset, handle) = (self.dataset(py)?, handle()?);
            let filter = arguments::filter(filter)?;
            let counted = block_on(py, async move {
                dataset
                    .count_rows(table, filter, labels.as_deref(), &handle)
                    .await
            })?;
            Ok(counted.map_err(Failure::from)?)
        })
    }

    #[pyo3(signature = (
        table, columns=None, filter=None, labels=None, limit=None, offset=None, batch_rows=None, batch_bytes=None,
        memory_limit=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn scan(
        this: &Bound<'_, Self>,
        table: String,
        columns: Option<&Bound<'_, PyAny>>,
        filter: Option<Given>,
        labels: Option<Vec<String>>,
        limit: Option<Count>,
        offset: Option<Count>,
        batch_rows: Option<Count>,
        batch_bytes: Option<Count>,
        memory_limit: Option<Count>,
    ) -> PyResult<Scanner> {
        guarded(|| {
            let rows = (limit, offset, batch_rows);
            let options = scan_options(columns, filter, rows, batch_bytes, memory_limit)?;
            let dataset = this.get().dataset(this.py())?;
            let planned = dataset.scan(&table, options.clone(), labels.as_deref());
            let planned = planned.map_err(Failure::from)?;
            let schema = SchemaRef::clone(planned.schema());
            let source = TableScan {
                dataset: this.clone().unbind(),
                table,
                options,
                labels,
                planned: OneProcess::new(planned),
            };
            Ok(Scanner::new(Box::new(source), schema))
        })
    }

    /// The document with some of the partitions, and without indices and user metadata: what a task needs.
    fn document_of<'py>(
        &self,
        py: Python<'py>,
        labels: Vec<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        guarded(|| {
            let mut part = self.dataset(py)?.metadata().clone();
            part.user.clear();
            part.indices.clear();
            part.others.clear();
            let mut all = part.partitions.take().unwrap_or_default();
            let found = labels.into_iter().filter_map(|label| {
                let files = all.remove(&label)?.files;
                let others = std::collections::BTreeMap::new();
                Some((label, Partition { files, others }))
            });
            part.partitions = Some(found.collect());
            let bytes = part.to_bytes(DocumentForm::Json).map_err(Failure::from)?;
            Ok(PyBytes::new(py, &bytes))
        })
    }

    fn __repr__(&self) -> String {
        format!("<pilum._pilum.KartothekDataset {:?}>", self.uuid)
    }
}

/// A scan of a table of a dataset.
struct TableScan {
    dataset: Py<KartothekDataset>,
    table: String,
    options: ScanOptions,
    labels: Option<Vec<String>>,
    /// The plan. A forked process plans again, on the dataset as it opened it.
    planned: OneProcess<Arc<Scan>>,
}

impl Source for TableScan {
    fn plan(&self, py: Python<'_>) -> PyResult<Arc<dyn Planned>> {
        let scan = match self.planned.get() {
            Some(planned) => planned.again(),
            None => {
                let dataset = self.dataset.get().dataset(py)?;
                let scan = dataset.scan(&self.table, self.options.clone(), self.labels.as_deref());
                scan.map_err(Failure::from)?
            }
        };
        Ok(PlannedScan::of(scan))
    }

    fn count_rows(&self, py: Python<'_>) -> PyResult<u64> {
        let dataset = self.dataset.get().dataset(py)?;
        let (table, labels) = (&self.table, self.labels.as_deref());
        let mut options = self.options.clone();
        if options.limit.is_none() && options.offset == 0 && options.filter.is_none() {
            // The footers of the files have the number of rows.
            let handle = handle()?;
            let counted = dataset.count_rows(table, None, labels, &handle);
            return Ok(block_on(py, counted)?.map_err(Failure::from)?);
        }
        // The number of rows does not depend on the columns of the result.
        options.columns = Projection::Names(Vec::new());
        let scan = dataset
            .scan(table, options, labels)
            .map_err(Failure::from)?;
        Ok(count(py, PlannedScan::of(scan))?)
    }

    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        let dataset = self.dataset.get().dataset(py)?;
        Ok(format!(
            "table {:?} of Kartothek dataset {:?}",
            self.table,
            dataset.uuid()
        ))
    }
}

/// The labels of all partitions, or of those at some places.
fn labels(dataset: &Dataset, places: Option<&[usize]>) -> Vec<String> {
    let all = dataset.labels();
    match places {
        None => all.iter().map(|it| it.to_string()).collect(),
        Some(places) => {
            let found = places.iter().filter_map(|place| all.get(*place));
            found.map(|it| it.to_string()).collect()
        }
    }
}

/// Lists of lists of `(column, operator, value)` tuples.
fn conditions(predicates: &Bound<'_, PyAny>) -> Result<Vec<Vec<Condition>>, Ended> {
    let refused = |what: &Bound<'_, PyAny>| {
        let shown = what.repr().map(|it| it.to_string()).unwrap_or_default();
        Ended::from(Failure::invalid(format!(
            "predicates is a list of lists of (column, operator, value) tuples, and {shown} does not fit"
        )))
    };
    let mut alternatives = Vec::new();
    for inner in predicates
        .cast::<PyList>()
        .map_err(|_| refused(predicates))?
    {
        let mut terms = Vec::new();
        for term in inner.cast::<PyList>().map_err(|_| refused(&inner))? {
            let tuple = term.cast::<PyTuple>().map_err(|_| refused(&term))?;
            let parts = tuple.extract::<(String, String, Bound<'_, PyAny>)>();
            let (column, operator, value) = parts.map_err(|_| refused(&term))?;
            let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
            let is_many = value.is_instance_of::<PyList>()
                || value.is_instance_of::<PyTuple>()
                || value.is_instance_of::<PySet>()
                || !is_text && value.hasattr("tolist")? && value.len().is_ok();
            let value = match is_many {
                true => {
                    let mut values = Vec::new();
                    for value in value.try_iter()? {
                        values.push(literal(&value?)?);
                    }
                    DnfValue::Many(values)
                }
                false => DnfValue::One(literal(&value)?),
            };
            terms.push((column, operator, value));
        }
        alternatives.push(terms);
    }
    Ok(alternatives)
}
