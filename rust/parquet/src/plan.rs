//! The plan of a scan: names resolved and expressions bound before any row is read, and the tasks of each file.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::RowGroupMetaData;
use pilum_expr::{
    AdaptOptions, BoundExpr, Expr, Missing, Projection, SchemaAdapter, bind, evaluate,
};

use crate::columns::Selection;
use crate::dataset::{Dataset, Part};
use crate::decode::{GroupRows, Pushed, batch_of};
use crate::error::{Error, Result};
use crate::options::{ScanOptions, Tally};
use crate::project::Fit;

/// A row group whose rows take more than this many times the bytes of a batch is cut into several tasks.
const BATCHES_PER_TASK: u64 = 8;

/// What a scan reads of every file.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The predicate, bound to the schema of the dataset.
    pub(crate) filter: Option<BoundExpr>,
    /// The predicate as it was given.
    given: Option<Expr>,
    /// Columns of the dataset that the output, or its expressions, read.
    pub(crate) inputs: Selection,
    computed: Option<Computed>,
    pub(crate) schema: SchemaRef,
}

#[derive(Debug)]
struct Computed {
    schema: SchemaRef,
    expressions: Vec<BoundExpr>,
}

impl Plan {
    pub(crate) fn new(schema: &SchemaRef, options: &ScanOptions) -> Result<Self> {
        let filter = options
            .filter
            .as_ref()
            .map(|filter| bind(filter, schema))
            .transpose()?;
        if let Some(filter) = &filter
            && !matches!(filter.data_type(), DataType::Boolean | DataType::Null)
        {
            return Err(Error::invalid(
                "filter",
                "is no condition: its value is not true or false",
            ));
        }
        let (inputs, computed) = match &options.columns {
            Projection::All => (Selection::all(schema), None),
            Projection::Names(names) => (Selection::names(schema, names)?, None),
            Projection::Expressions(expressions) => {
                let (inputs, computed) = Computed::new(schema, expressions)?;
                (inputs, Some(computed))
            }
        };
        let output = computed.as_ref().map_or(&inputs.schema, |it| &it.schema);
        Ok(Self {
            schema: Arc::clone(output),
            filter,
            given: options.filter.clone(),
            inputs,
            computed,
        })
    }

    /// The columns of the dataset that are read, whole.
    fn roots(&self) -> Vec<String> {
        let mut roots: Vec<String> = Vec::new();
        let inputs = self.inputs.paths.iter();
        let inputs = inputs.filter_map(|path| path.first().cloned());
        let filter = self.filter.iter().flat_map(BoundExpr::columns);
        for root in inputs.chain(filter.map(|it| it.root().to_owned())) {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        roots
    }

    /// The columns of the output, from a batch of the inputs.
    pub(crate) fn output(&self, path: &str, batch: RecordBatch) -> Result<RecordBatch> {
        let Some(computed) = &self.computed else {
            return Ok(batch);
        };
        let rows = batch.num_rows();
        let columns = computed.expressions.iter().map(|it| evaluate(it, &batch));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        batch_of(path, &computed.schema, columns, rows)
    }
}

impl Computed {
    fn new(schema: &SchemaRef, expressions: &[(String, Expr)]) -> Result<(Selection, Self)> {
        let mut fields = Vec::new();
        let mut bound = Vec::new();
        let mut used = Vec::new();
        for (name, expression) in expressions {
            let expression = bind(expression, schema)?;
            fields.push(Field::new(
                name,
                expression.data_type().clone(),
                expression.nullable(),
            ));
            for column in expression.columns() {
                if !used.contains(column) {
                    used.push(column.clone());
                }
            }
            bound.push(expression);
        }
        let computed = Self {
            schema: Arc::new(Schema::new(fields)),
            expressions: bound,
        };
        Ok((Selection::paths(schema, &used)?, computed))
    }
}

/// How one file is read for a plan.
pub(crate) struct FilePlan {
    pub(crate) columns: Selection,
    pub(crate) fit: Fit,
    /// The predicate, if the decoder applies it.
    pub(crate) pushed: Option<Pushed>,
    /// The predicate, if it is applied to batches that fit the dataset; then these have its columns too.
    pub(crate) filter: Option<BoundExpr>,
    /// The predicate by the types of the file, which its statistics have.
    pruning: Option<BoundExpr>,
}

impl FilePlan {
    pub(crate) fn new(plan: &Plan, dataset: &Dataset, part: &Part) -> Result<Self> {
        let fits = |root: &str| {
            let (own, wanted) = (part.file.schema().fields(), dataset.schema().fields());
            part.constants.contains_key(root)
                || own.find(root).map(|(_, field)| field.data_type())
                    == wanted.find(root).map(|(_, field)| field.data_type())
        };
        match plan.roots().iter().all(|root| fits(root)) {
            true => Self::of_fitting(plan, part),
            false => Self::of_other(plan, dataset, part),
        }
    }

    /// For a file with the types of the dataset: the decoder applies the predicate.
    fn of_fitting(plan: &Plan, part: &Part) -> Result<Self> {
        let own = |paths: &[Vec<String>]| -> Result<Selection> {
            let paths = paths.iter().filter(|path| {
                path.first()
                    .is_some_and(|root| !part.constants.contains_key(root))
            });
            let paths: Vec<_> = paths.cloned().map(pilum_expr::ColumnPath::new).collect();
            Selection::paths(part.file.schema(), &paths)
        };
        let pushed = match &plan.filter {
            None => None,
            Some(predicate) => {
                let paths: Vec<_> = predicate
                    .columns()
                    .iter()
                    .map(|it| it.names().to_vec())
                    .collect();
                Some(Pushed {
                    predicate: predicate.clone(),
                    columns: own(&paths)?,
                    constants: Arc::clone(&part.constants),
                })
            }
        };
        Ok(Self {
            columns: own(&plan.inputs.paths)?,
            fit: Fit {
                adapter: None,
                constants: Arc::clone(&part.constants),
                schema: Arc::clone(&plan.inputs.schema),
            },
            pushed,
            filter: None,
            pruning: plan.filter.clone(),
        })
    }

    /// For a file with other types or columns: whole columns are read, converted, and then filtered.
    fn of_other(plan: &Plan, dataset: &Dataset, part: &Part) -> Result<Self> {
        let roots = plan.roots();
        let field = |root: &String| {
            let found = dataset.schema().fields().find(root);
            found.map(|(_, field)| Arc::clone(field))
        };
        let all: Vec<_> = roots.iter().filter_map(field).collect();
        let is_own = |name: &str| !part.constants.contains_key(name);
        let target = Schema::new(
            all.iter()
                .filter(|it| is_own(it.name()))
                .cloned()
                .collect::<Vec<_>>(),
        );
        let has = |root: &&String| {
            is_own(root.as_str()) && part.file.schema().fields().find(root).is_some()
        };
        let names: Vec<&String> = roots.iter().filter(has).collect();
        let paths: Vec<_> = names
            .into_iter()
            .map(|name| pilum_expr::ColumnPath::new([name.clone()]))
            .collect();
        let columns = Selection::paths(part.file.schema(), &paths)?;
        let options = AdaptOptions {
            missing: Missing::Null,
            are_stored: true,
            ..AdaptOptions::default()
        };
        let adapter = SchemaAdapter::new(&columns.schema, &Arc::new(target), options)
            .map_err(|error| Error::invalid(part.file.path(), error.to_string()))?;
        Ok(Self {
            columns,
            fit: Fit {
                adapter: Some(adapter),
                constants: Arc::clone(&part.constants),
                schema: match &plan.filter {
                    Some(_) => Arc::new(Schema::new(all)),
                    None => Arc::clone(&plan.inputs.schema),
                },
            },
            pushed: None,
            filter: plan.filter.clone(),
            pruning: plan
                .given
                .as_ref()
                .and_then(|given| of_file(given, &roots, dataset, part)),
        })
    }
}

/// A predicate bound to the types that a file has, if it makes sense for them.
fn of_file(given: &Expr, roots: &[String], dataset: &Dataset, part: &Part) -> Option<BoundExpr> {
    let field = |root: &String| {
        if let Some(value) = part.constants.get(root) {
            return Some(Arc::new(Field::new(root, value.data_type().clone(), true)));
        }
        let (_, wanted) = dataset.schema().fields().find(root)?;
        match part.file.schema().fields().find(root) {
            // Another width of floats gives another meaning to literals such as 0.1.
            Some((_, own)) => {
                compares_alike(own.data_type(), wanted.data_type()).then(|| Arc::clone(own))
            }
            None => Some(Arc::clone(wanted)),
        }
    };
    let fields: Option<Vec<_>> = roots.iter().map(field).collect();
    bind(given, &Schema::new(fields?)).ok()
}

/// Whether values of both types compare with literals in the same way.
fn compares_alike(own: &DataType, wanted: &DataType) -> bool {
    match (own, wanted) {
        (DataType::Timestamp(_, a), DataType::Timestamp(_, b)) => a == b,
        (DataType::Dictionary(_, values), wanted) => values.as_ref() == wanted,
        (own, wanted) => own == wanted || own.is_integer() && wanted.is_integer(),
    }
}

/// A part of the rows of a file, read by one decoder.
#[derive(Debug, Clone)]
pub(crate) struct TaskRows {
    pub(crate) rows: GroupRows,
    pub(crate) num_rows: u64,
    pub(crate) batch_rows: usize,
}

/// The rows of a file that must be looked at, cut into tasks in row order. `skip` and `left` are offset and limit of a scan
/// without predicate, and are reduced by what the file takes of them.
pub(crate) async fn tasks(
    part: &Part,
    file: &FilePlan,
    plan: &Plan,
    options: &ScanOptions,
    cut: (&mut u64, &mut Option<u64>),
    tally: &Tally,
) -> Result<(ArrowReaderMetadata, Vec<TaskRows>)> {
    let batch_bytes = options.batch_bytes.unwrap_or(DEFAULT_BATCH_BYTES).max(1);
    let groups: Vec<usize> = match &file.pruning {
        Some(predicate) => part.file.prune_row_groups(predicate, &part.constants)?,
        None => (0..part.file.metadata().num_row_groups()).collect(),
    };
    let num_groups = part.file.metadata().num_row_groups();
    Tally::add(&tally.files, 1);
    Tally::add(&tally.row_groups, num_groups as u64);
    Tally::add(&tally.row_groups_pruned, (num_groups - groups.len()) as u64);
    let (skip, left) = cut;
    let mut footer = part.file.footer().clone();
    let task_bytes = batch_bytes.saturating_mul(BATCHES_PER_TASK);
    let metadata = Arc::clone(part.file.metadata());
    let is_large = |group: &usize| {
        let group = metadata.row_group(*group);
        row_bytes(group, &file.columns) * group.num_rows().cast_unsigned() > task_bytes
    };
    if part.file.source().mapped().is_some() && groups.iter().any(is_large) {
        footer = part.file.with_row_map().await?.clone();
    } else if file.pushed.is_some() && !groups.is_empty() {
        footer = part.file.indexed().await?.clone();
    }
    let mut tasks = Vec::new();
    for group in groups {
        let row_group = footer.metadata().row_group(group);
        let rows = row_group.num_rows().cast_unsigned();
        let all = 0..rows;
        let mut ranges = vec![all];
        if let Some(pushed) = &file.pushed {
            let kept = part.file.prune_pages(
                footer.metadata(),
                group,
                &pushed.predicate,
                &part.constants,
            )?;
            ranges = kept.0;
            Tally::add(&tally.pages, kept.1.total);
            Tally::add(&tally.pages_pruned, kept.1.pruned);
        }
        if plan.filter.is_none() {
            ranges = cut_rows(ranges, skip, left);
        }
        let row_bytes = row_bytes(row_group, &file.columns);
        let batch_rows = batch_rows(row_bytes, batch_bytes, options.batch_rows);
        let can_be_cut = has_row_map(&footer, group, file);
        let step = match can_be_cut {
            true => (task_bytes / row_bytes.max(1)).max(1024),
            false => u64::MAX,
        };
        for piece in pieces(ranges, step) {
            let num_rows = piece.iter().map(|it| it.end - it.start).sum();
            let is_whole = num_rows == rows;
            tasks.push(TaskRows {
                rows: GroupRows {
                    group,
                    rows: (!is_whole).then_some(piece),
                },
                num_rows,
                batch_rows,
            });
        }
    }
    Tally::add(
        &tally.files_pruned,
        u64::from(tasks.is_empty() && num_groups > 0),
    );
    Ok((footer, tasks))
}

/// Bytes of a batch unless the caller says otherwise.
pub(crate) const DEFAULT_BATCH_BYTES: u64 = 8 << 20;

/// About how many bytes of Arrow memory a row of a row group takes.
pub(crate) fn row_bytes(group: &RowGroupMetaData, columns: &Selection) -> u64 {
    let rows = group.num_rows().cast_unsigned().max(1);
    let leaves = group.columns().iter();
    let of_leaf = |leaf: &parquet::file::metadata::ColumnChunkMetaData| {
        let path = leaf.column_path().parts();
        if !columns.paths.iter().any(|wanted| path.starts_with(wanted)) {
            return 0;
        }
        let values = leaf.num_values().cast_unsigned();
        let stored = leaf.uncompressed_size().cast_unsigned();
        let text = leaf
            .unencoded_byte_array_data_bytes()
            .unwrap_or(0)
            .cast_unsigned();
        stored
            .max(values.saturating_mul(8))
            .max(text.saturating_add(values.saturating_mul(4)))
    };
    leaves.map(of_leaf).fold(0, u64::saturating_add) / rows + 1
}

fn batch_rows(row_bytes: u64, batch_bytes: u64, most: Option<usize>) -> usize {
    let rows = (batch_bytes / row_bytes.max(1)).clamp(64, 1 << 17);
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    rows.min(most.unwrap_or(usize::MAX)).max(1)
}

/// Whether the pages of all columns that are read tell their rows, so that a part of the rows costs only its pages.
fn has_row_map(footer: &ArrowReaderMetadata, group: usize, file: &FilePlan) -> bool {
    let metadata = footer.metadata();
    let Some(index) = metadata.page_index() else {
        return false;
    };
    let leaves = metadata.row_group(group).columns().iter().enumerate();
    let filter = file.pushed.as_ref().map(|pushed| &pushed.columns);
    let mut read = leaves.filter(|(_, leaf)| {
        let path = leaf.column_path().parts();
        let mut wanted = file
            .columns
            .paths
            .iter()
            .chain(filter.iter().flat_map(|it| &it.paths));
        wanted.any(|wanted| path.starts_with(wanted))
    });
    read.all(|(leaf, _)| index.offset_index(group, leaf).is_some())
}

/// The ranges without the first `skip` rows and with at most `left`.
fn cut_rows(ranges: Vec<Range<u64>>, skip: &mut u64, left: &mut Option<u64>) -> Vec<Range<u64>> {
    let mut kept = Vec::with_capacity(ranges.len());
    for mut range in ranges {
        let skipped = (*skip).min(range.end - range.start);
        *skip -= skipped;
        range.start += skipped;
        if let Some(left) = left {
            range.end = range.end.min(range.start.saturating_add(*left));
            *left -= range.end - range.start;
        }
        if range.start < range.end {
            kept.push(range);
        }
    }
    kept
}

/// The ranges in groups of about `step` rows each.
fn pieces(ranges: Vec<Range<u64>>, step: u64) -> Vec<Vec<Range<u64>>> {
    let mut pieces: Vec<Vec<Range<u64>>> = Vec::new();
    let mut room = 0;
    for mut range in ranges {
        while range.start < range.end {
            if room == 0 {
                pieces.push(Vec::new());
                room = step;
            }
            let len = room.min(range.end - range.start);
            if let Some(piece) = pieces.last_mut() {
                piece.push(range.start..range.start + len);
            }
            range.start += len;
            room -= len;
        }
    }
    pieces
}
