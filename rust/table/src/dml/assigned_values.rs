//! The values that a statement computes for a field: each one is kept in the type of the field, or the statement is refused
//! with its row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field as ArrowField, Schema};
use arrow_select::nullif::nullif;
use futures::stream::{Stream, StreamExt};
use pilum_expr::{
    AdaptOptions, BoundExpr, Conversion, ConversionError, Expr, InvalidValue, bind, bind_as,
    check_values, evaluate,
};
use pilum_format::{Field, Fragment};

use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

/// Prefix of the metadata keys of a field that declare its extension type.
pub(crate) const EXTENSION_KEYS: &str = "ARROW:extension:";

/// An expression whose values are stored in a field.
#[derive(Debug)]
pub(crate) struct AssignedValues {
    expression: BoundExpr,
    conversion: Conversion,
    path: String,
}

/// Why a batch of new values cannot be stored.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A value, with its row in the batch.
    Value(RefusedValue),
    /// Anything else.
    Error(Error),
}

/// A value that its field cannot hold.
#[derive(Debug)]
pub(crate) struct RefusedValue {
    /// Its row in the batch.
    pub(crate) row: usize,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Conversion(Box<ConversionError>),
    Invalid(Box<InvalidValue>),
    /// It is null, and the field at this path forbids nulls.
    Null(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl RefusedValue {
    /// A null in the field at `path`, which forbids nulls.
    pub(crate) fn null(path: &str, row: usize) -> Self {
        Self {
            row,
            why: Why::Null(path.to_owned()),
        }
    }

    /// The error for the caller; `row` is the number of the row in the table at `uri`.
    pub(crate) fn into_error(self, uri: &str, row: u64) -> Error {
        let row = usize::try_from(row).unwrap_or(usize::MAX);
        Error::invalid(
            uri,
            match self.why {
                Why::Conversion(mut error) => {
                    error.row = Some(row);
                    error.to_string()
                }
                Why::Invalid(mut error) => {
                    error.row = Some(row);
                    error.to_string()
                }
                Why::Null(path) => format!(
                    "column `{path}`, row {row}: it may not be null; give it a value there, or make the column nullable"
                ),
            },
        )
    }
}

/// Checks that a field of this path can hold the values of an array of its type.
///
/// # Errors
/// The first value that its own type does not allow, such as a time beyond a day.
pub(crate) fn check_computed(array: &ArrayRef, path: &str) -> Result<(), Refusal> {
    check_values(array, path).map_err(|error| {
        Refusal::Value(RefusedValue {
            row: error.row.unwrap_or(0),
            why: Why::Invalid(Box::new(error)),
        })
    })
}

/// Converts values, with their rows in the refusal.
///
/// # Errors
/// The first value that is not kept.
pub(crate) fn convert_values(
    conversion: &Conversion,
    array: &ArrayRef,
    uri: &str,
) -> Result<ArrayRef, Refusal> {
    conversion.apply(array).map_err(|error| match error.row {
        Some(row) => Refusal::Value(RefusedValue {
            row,
            why: Why::Conversion(error),
        }),
        None => Refusal::Error(Error::invalid(uri, error.to_string())),
    })
}

impl AssignedValues {
    /// Binds an expression over the columns of `scanned` to the field at `path`.
    ///
    /// # Errors
    /// `InvalidInput` for an expression that does not fit the columns, a type that does not convert to that of the field
    /// whatever the values, and a constant that the field cannot hold.
    pub(crate) fn new(
        base: &Snapshot,
        scanned: &Schema,
        expression: &Expr,
        field: &Field,
        path: &str,
    ) -> Result<Self> {
        let bound = bind_as(expression, scanned, &field.data_type)?;
        let mut from = ArrowField::new(path, bound.data_type().clone(), bound.nullable());
        if let Some(source) = copied_field(base, expression) {
            from.set_metadata(extension_type(source).collect::<HashMap<_, _>>());
        }
        // Nulls are looked for where it is known which of them lie in a null struct.
        let to = field.to_arrow().with_name(path).with_nullable(true);
        let conversion = Conversion::new(&from, &to, AdaptOptions::default())
            .map_err(|error| Error::invalid(base.uri(), error.to_string()))?;
        let assigned = Self {
            expression: bound,
            conversion,
            path: path.to_owned(),
        };
        if assigned.expression.columns().is_empty() {
            assigned.check_constant(base.uri())?;
        }
        Ok(assigned)
    }

    /// A constant is refused before a row is read, and without a row.
    fn check_constant(&self, uri: &str) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let one_row = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &options)
            .map_err(|error| Error::bug(format!("a batch of no columns: {error}")))?;
        let constant = evaluate(&self.expression, &one_row)?;
        let invalid = |told: String| Error::invalid(uri, told);
        let converted = self.conversion.apply(&constant).map_err(|mut error| {
            error.row = None;
            invalid(error.to_string())
        })?;
        check_values(&converted, &self.path).map_err(|mut error| {
            error.row = None;
            invalid(error.to_string())
        })
    }

    /// The values for the rows of a batch; null in the rows for which `is_hidden` is true, whatever the expression says.
    ///
    /// # Errors
    /// The first value that the field cannot hold; an expression that cannot be computed.
    pub(crate) fn of(
        &self,
        batch: &RecordBatch,
        is_hidden: Option<&BooleanArray>,
        uri: &str,
    ) -> Result<ArrayRef, Refusal> {
        let mut values = evaluate(&self.expression, batch).map_err(Error::from)?;
        if let Some(is_hidden) = is_hidden {
            values = masked(&values, is_hidden)?;
        }
        let converted = convert_values(&self.conversion, &values, uri)?;
        check_computed(&converted, &self.path)?;
        Ok(converted)
    }
}

/// The array with nulls where `is_hidden` is true.
pub(crate) fn masked(array: &ArrayRef, is_hidden: &BooleanArray) -> Result<ArrayRef> {
    nullif(array, is_hidden).map_err(|error| {
        Error::bug(format!(
            "values under a null struct were not hidden: {error}"
        ))
    })
}

/// The field of the table whose values the expression gives as they are; row ids and row addresses have none.
pub(crate) fn copied_field<'a>(base: &'a Snapshot, expression: &Expr) -> Option<&'a Field> {
    let bound = bind(expression, &base.schema().to_arrow()).ok()?;
    let [path] = bound.columns() else {
        return None;
    };
    let is_column = Expr::column(path.clone()) == *expression;
    is_column.then(|| field_at(&base.schema().fields, path.names()))?
}

/// The field at a path of names.
fn field_at<'a>(fields: &'a [Field], names: &[String]) -> Option<&'a Field> {
    let (name, below) = names.split_first()?;
    let field = fields.iter().find(|field| field.name == *name)?;
    if below.is_empty() {
        return Some(field);
    }
    field_at(&field.children, below)
}

/// The part of the metadata of a field that declares its extension type.
pub(crate) fn extension_type(field: &Field) -> impl Iterator<Item = (String, String)> {
    let declared = field.metadata.iter();
    declared
        .filter(|(key, _)| key.starts_with(EXTENSION_KEYS))
        .map(|(key, value)| (key.clone(), value.clone()))
}

/// The number of the live row with this address.
///
/// # Errors
/// When a deletion file cannot be read.
pub(crate) async fn row_at(base: &Snapshot, address: u64) -> Result<u64> {
    let (id, offset) = (address >> 32, address & 0xFFFF_FFFF);
    let context = base.read_context();
    let mut before = 0_u64;
    for fragment in base.fragments() {
        if fragment.id != id {
            before = before.saturating_add(live_rows(base, fragment).await?);
            continue;
        }
        let end = u32::try_from(offset).unwrap_or(u32::MAX);
        let deleted = context.deleted(fragment).await?;
        let deleted = deleted.map_or(0, |deleted| deleted.range_cardinality(..end));
        return Ok(before.saturating_add(offset).saturating_sub(deleted));
    }
    Ok(before)
}

/// The number in the table of the row `row` of a scan of the fragments `scanned`.
///
/// # Errors
/// When a deletion file cannot be read.
pub(crate) async fn row_of_scan(base: &Snapshot, scanned: &[u64], row: u64) -> Result<u64> {
    let mut left = row;
    let mut before = 0_u64;
    for fragment in base.fragments() {
        let rows = live_rows(base, fragment).await?;
        if scanned.contains(&fragment.id) {
            if left < rows {
                break;
            }
            left -= rows;
        }
        before = before.saturating_add(rows);
    }
    Ok(before.saturating_add(left))
}

/// The batches of a scan of the fragments `scanned`; a refused value is told by its row in the table.
pub(crate) fn located<'a>(
    batches: impl Stream<Item = Result<RecordBatch, Refusal>> + Send + 'a,
    base: &'a Snapshot,
    scanned: Vec<u64>,
) -> impl Stream<Item = Result<RecordBatch>> + Send + 'a {
    let scanned: Arc<[u64]> = scanned.into();
    let mut first_row = 0_usize;
    let numbered = batches.map(move |batch| match batch {
        Ok(batch) => {
            first_row += batch.num_rows();
            Ok(batch)
        }
        Err(Refusal::Value(value)) => Err(Refusal::Value(RefusedValue {
            row: first_row + value.row,
            ..value
        })),
        Err(Refusal::Error(error)) => Err(Refusal::Error(error)),
    });
    numbered.then(move |batch| {
        let scanned = Arc::clone(&scanned);
        async move {
            match batch {
                Ok(batch) => Ok(batch),
                Err(Refusal::Error(error)) => Err(error),
                Err(Refusal::Value(value)) => {
                    let row = row_of_scan(base, &scanned, value.row as u64).await?;
                    Err(value.into_error(base.uri(), row))
                }
            }
        }
    })
}

async fn live_rows(base: &Snapshot, fragment: &Fragment) -> Result<u64> {
    if let Some(rows) = fragment.num_rows() {
        return Ok(rows);
    }
    let context = base.read_context();
    let deleted = context.deleted(fragment).await?;
    let deleted = deleted.map_or(0, |deleted| deleted.len());
    Ok(context
        .physical_rows(fragment)
        .await?
        .saturating_sub(deleted))
}
