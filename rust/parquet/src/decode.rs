//! Rows of one file as batches: the decoder says which bytes it needs, this module reads and checks them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::take::take;
use parquet::DecodeResult;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderMetadata, RowFilter, RowGroupSelection, RowSelection,
};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder};
use pilum_expr::{BoundExpr, filter_mask};

use crate::columns::Selection;
use crate::contain::contained;
use crate::error::{Error, Result};
use crate::file::ParquetFile;
use crate::pages::check_pages;
use crate::prune::Constants;

/// Rows of one row group to read.
#[derive(Debug, Clone)]
pub(crate) struct GroupRows {
    pub(crate) group: usize,
    /// Ascending ranges of rows; none stands for all rows.
    pub(crate) rows: Option<Vec<Range<u64>>>,
}

impl GroupRows {
    fn selection(&self) -> RowGroupSelection {
        let place = |row: u64| usize::try_from(row).unwrap_or(usize::MAX);
        let selection = self.rows.as_ref().map(|rows| {
            let end = rows.last().map_or(0, |last| place(last.end));
            let ranges = rows
                .iter()
                .map(|range| place(range.start)..place(range.end));
            RowSelection::from_consecutive_ranges(ranges, end)
        });
        RowGroupSelection::new(self.group, selection)
    }
}

/// A predicate that the decoder applies before it reads the other columns.
#[derive(Debug, Clone)]
pub(crate) struct Pushed {
    pub(crate) predicate: BoundExpr,
    /// The columns of the predicate that are in the file.
    pub(crate) columns: Selection,
    pub(crate) constants: Arc<Constants>,
}

/// A running read of some rows of a file.
pub(crate) struct Decoder {
    file: Arc<ParquetFile>,
    decoder: ParquetPushDecoder,
    /// The columns in the order in which they were asked for.
    schema: SchemaRef,
    /// An error of the predicate, which the decoder would turn into text.
    fault: Arc<Mutex<Option<Error>>>,
}

/// What to do to get the next batch.
pub(crate) enum Step {
    /// Read these bytes and push them.
    Read(Vec<Range<u64>>),
    Batch(RecordBatch),
    Finished,
}

impl Decoder {
    /// `footer` is that of the file, with the page index that the read may use.
    pub(crate) fn new(
        file: &Arc<ParquetFile>,
        footer: &ArrowReaderMetadata,
        columns: &Selection,
        rows: &[GroupRows],
        batch_rows: usize,
        pushed: Option<&Pushed>,
    ) -> Result<Self> {
        let fault = Arc::new(Mutex::new(None));
        let descriptor = footer.metadata().file_metadata().schema_descr();
        let mask = columns.mask(descriptor);
        let filter = pushed.map(|pushed| {
            let mask = pushed.columns.mask(descriptor);
            let (pushed, fault) = (pushed.clone(), Arc::clone(&fault));
            let apply = move |batch: RecordBatch| passes(&pushed, &batch, &fault);
            RowFilter::new(vec![Box::new(ArrowPredicateFn::new(mask, apply))])
        });
        let selections = rows.iter().map(GroupRows::selection).collect();
        let decoder = contained(file.path(), || {
            let mut builder = ParquetPushDecoderBuilder::new_with_metadata(footer.clone())
                .with_projection(mask)
                .with_batch_size(batch_rows.max(1))
                .with_row_group_selections(selections);
            if let Some(filter) = filter {
                builder = builder.with_row_filter(filter);
            }
            builder.build()
        })?;
        Ok(Self {
            file: Arc::clone(file),
            decoder,
            schema: Arc::clone(&columns.schema),
            fault,
        })
    }

    pub(crate) fn step(&mut self) -> Result<Step> {
        let decoder = &mut self.decoder;
        let stepped = contained(self.file.path(), || decoder.try_decode());
        let fault = self
            .fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(fault) = fault {
            return Err(fault);
        }
        match stepped? {
            DecodeResult::NeedsData(ranges) => Ok(Step::Read(ranges)),
            DecodeResult::Data(batch) => Ok(Step::Batch(self.ordered(&batch)?)),
            DecodeResult::Finished => Ok(Step::Finished),
        }
    }

    /// Reads what the decoder needs.
    pub(crate) async fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<()> {
        let bytes = self.file.source().read_ranges(&ranges).await?;
        let path = self.file.path();
        for (range, bytes) in ranges.iter().zip(&bytes) {
            check_pages(path, bytes, self.is_repeated(range), self.file.limits())?;
        }
        let decoder = &mut self.decoder;
        contained(path, || decoder.push_ranges(ranges, bytes))
    }

    /// Whether bytes are of a column in lists.
    fn is_repeated(&self, range: &Range<u64>) -> bool {
        let groups = self.file.metadata().row_groups().iter();
        let mut columns = groups.flat_map(|group| group.columns());
        let found = columns.find(|column| {
            let (start, len) = column.byte_range();
            (start..start + len).contains(&range.start)
        });
        found.is_none_or(|column| column.column_descr().max_rep_level() > 0)
    }

    /// The columns of a batch in the order in which they were asked for.
    fn ordered(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let read = batch.schema_ref();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
        let is_in_order = self.schema.fields().len() == read.fields().len()
            && self
                .schema
                .fields()
                .iter()
                .zip(read.fields())
                .all(|(a, b)| a.name() == b.name());
        for (place, field) in self.schema.fields().iter().enumerate() {
            let found = match is_in_order {
                true => batch.columns().get(place),
                false => batch.column_by_name(field.name()),
            };
            let column = found.filter(|column| column.data_type() == field.data_type());
            let column = column.ok_or_else(|| {
                let read = found.map(|column| column.data_type().to_string());
                Error::bug(format!(
                    "{}: column `{}` was read as {read:?} and not as {}",
                    self.file.path(),
                    field.name(),
                    field.data_type()
                ))
            })?;
            columns.push(Arc::clone(column));
        }
        batch_of(self.file.path(), &self.schema, columns, batch.num_rows())
    }
}

/// A batch of columns that were read from the file at `path`.
pub(crate) fn batch_of(
    path: &str,
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::corrupt(path, error.to_string()))
}

/// A batch with further columns that have one value.
pub(crate) fn with_constants(
    batch: &RecordBatch,
    constants: &Constants,
) -> Result<RecordBatch, ArrowError> {
    if constants.is_empty() {
        return Ok(batch.clone());
    }
    let rows = batch.num_rows();
    let mut fields: Vec<_> = batch.schema_ref().fields().iter().cloned().collect();
    let mut columns = batch.columns().to_vec();
    for (name, value) in constants {
        fields.push(Arc::new(arrow_schema::Field::new(
            name,
            value.data_type().clone(),
            true,
        )));
        columns.push(repeated(value, rows)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

/// An array of one row, so many times.
pub(crate) fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef, ArrowError> {
    take(value, &arrow_array::UInt32Array::from_value(0, rows), None)
}

fn passes(
    pushed: &Pushed,
    batch: &RecordBatch,
    fault: &Mutex<Option<Error>>,
) -> Result<BooleanArray, ArrowError> {
    let batch = with_constants(batch, &pushed.constants)?;
    filter_mask(&pushed.predicate, &batch).map_err(|error| {
        *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.into());
        ArrowError::ComputeError("the predicate failed".to_owned())
    })
}
