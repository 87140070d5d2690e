//! Statistics of row groups and pages as Arrow arrays, and as what pruning asks for.
//!
//! A statistic is used only if its meaning is certain. The arrays hold null, which means unknown, for:
//!
//! - bounds of floats, where one of the two is NaN;
//! - the deprecated fields `min` and `max`, except for signed numbers: old writers compared all other values as signed bytes;
//! - bounds of texts and bytes, in a file that does not declare its column orders;
//! - bounds of INT96.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow_schema::{DataType, Field};
use arrow_select::nullif::nullif;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use pilum_expr::{ColumnPath, ColumnStatistics};

use crate::columns::{field_at, leaf_at};
use crate::contain::contained;
use crate::error::Result;
use crate::file::ParquetFile;

/// Statistics of one column: a value for each row group, or for each page of one. Null stands for unknown.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Statistics {
    /// No value is less, NaN aside. Truncated for long texts.
    pub min: ArrayRef,
    /// No value is greater, NaN aside. Truncated for long texts.
    pub max: ArrayRef,
    /// Rows that are null, or in a struct that is null.
    pub null_count: UInt64Array,
    /// Rows that are NaN.
    pub nan_count: UInt64Array,
}

impl ParquetFile {
    /// The statistics of a column for each row group; none for lists, structs and columns that are not in the file.
    ///
    /// # Errors
    /// `CommonError::Corrupt` for statistics that cannot be decoded.
    pub fn row_group_statistics(&self, column: &ColumnPath) -> Result<Option<Statistics>> {
        let metadata = self.metadata();
        let Some(found) = Leaf::of(self, column) else {
            return Ok(None);
        };
        let groups = || metadata.row_groups().iter();
        let statistics = contained(self.path(), || {
            let converter = found.converter(metadata)?;
            Ok(Statistics {
                min: converter.row_group_mins(groups())?,
                max: converter.row_group_maxes(groups())?,
                null_count: converter.row_group_null_counts(groups())?,
                nan_count: converter.row_group_nan_counts(groups())?,
            })
        })?;
        let is_deprecated = groups().map(|group| {
            let statistics = group.column(found.leaf).statistics();
            statistics.is_some_and(|it| it.is_min_max_deprecated())
        });
        let is_doubtful: Vec<bool> = is_deprecated
            .map(|is_deprecated| found.is_doubtful(metadata, is_deprecated))
            .collect();
        Ok(Some(statistics.without(&is_doubtful.into())))
    }

    /// The statistics of a column for each page of a row group, from a footer with its page index.
    pub(crate) fn page_statistics(
        &self,
        metadata: &ParquetMetaData,
        column: &ColumnPath,
        group: usize,
    ) -> Result<Option<Statistics>> {
        let (Some(found), Some(index)) = (Leaf::of(self, column), metadata.page_index()) else {
            return Ok(None);
        };
        if index.column_index(group, found.leaf).is_none() {
            return Ok(None);
        }
        let statistics = contained(self.path(), || {
            let converter = found.converter(metadata)?;
            let index = index.as_ref();
            Ok(Statistics {
                min: converter.data_page_mins(index, &[group])?,
                max: converter.data_page_maxes(index, &[group])?,
                null_count: converter.data_page_null_counts(index, &[group])?,
                nan_count: converter.data_page_nan_counts(index, &[group])?,
            })
        })?;
        let is_doubtful = vec![found.is_doubtful(metadata, false); statistics.min.len()];
        Ok(Some(statistics.without(&is_doubtful.into())))
    }
}

/// A column that is one leaf.
struct Leaf<'a> {
    leaf: usize,
    field: &'a Field,
}

impl<'a> Leaf<'a> {
    fn of(file: &'a ParquetFile, column: &ColumnPath) -> Option<Self> {
        let field = field_at(file.schema(), column)?;
        let leaf = leaf_at(file.metadata().file_metadata().schema_descr(), column)?;
        (!field.data_type().is_nested()).then_some(Self { leaf, field })
    }

    fn converter(
        &'a self,
        metadata: &'a ParquetMetaData,
    ) -> Result<StatisticsConverter<'a>, ParquetError> {
        let schema = metadata.file_metadata().schema_descr();
        let converter = StatisticsConverter::from_column_index(self.leaf, self.field, schema)?;
        Ok(converter.with_missing_null_counts_as_zero(false))
    }

    /// Whether bounds of this column may be by another order than that of its values.
    fn is_doubtful(&self, metadata: &ParquetMetaData, is_deprecated: bool) -> bool {
        let file = metadata.file_metadata();
        let is_bytes = matches!(
            file.schema_descr().column(self.leaf).physical_type(),
            PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY
        );
        let is_unsigned = match self.field.data_type() {
            DataType::Dictionary(_, values) => values.is_unsigned_integer(),
            other => other.is_unsigned_integer(),
        };
        (is_deprecated || file.column_orders().is_none()) && (is_bytes || is_unsigned)
    }
}

impl Statistics {
    /// The same with unknown bounds where the mask is true, or a bound is NaN.
    fn without(self, mask: &BooleanArray) -> Self {
        let (low, high) = (nan_mask(&self.min), nan_mask(&self.max));
        let masked = |bounds: &ArrayRef| {
            let mut bounds = Arc::clone(bounds);
            for mask in [Some(mask), low.as_ref(), high.as_ref()]
                .into_iter()
                .flatten()
            {
                // A mask of another length would be a fault of the decoder; no bounds are always right.
                match nullif(&bounds, mask) {
                    Ok(kept) => bounds = kept,
                    Err(_) => {
                        bounds = arrow_array::new_null_array(bounds.data_type(), bounds.len())
                    }
                }
            }
            bounds
        };
        Self {
            min: masked(&self.min),
            max: masked(&self.max),
            ..self
        }
    }

    fn at(&self, place: usize) -> Bounds {
        let one = |array: &ArrayRef| {
            (place < array.len() && array.is_valid(place)).then(|| array.slice(place, 1))
        };
        let count = |array: &UInt64Array| {
            (place < array.len() && array.is_valid(place)).then(|| array.value(place))
        };
        Bounds {
            min: one(&self.min),
            max: one(&self.max),
            nulls: count(&self.null_count),
            nans: count(&self.nan_count),
        }
    }
}

fn nan_mask(bounds: &ArrayRef) -> Option<BooleanArray> {
    let of = |is_nan: Vec<bool>| Some(BooleanArray::from(is_nan));
    match bounds.data_type() {
        DataType::Float16 => {
            let values = bounds.as_primitive::<Float16Type>().values();
            of(values.iter().map(|it| it.is_nan()).collect())
        }
        DataType::Float32 => {
            let values = bounds.as_primitive::<Float32Type>().values();
            of(values.iter().map(|it| it.is_nan()).collect())
        }
        DataType::Float64 => {
            let values = bounds.as_primitive::<Float64Type>().values();
            of(values.iter().map(|it| it.is_nan()).collect())
        }
        _ => None,
    }
}

/// Statistics of one column in a set of rows; `None` stands for unknown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    pub(crate) min: Option<ArrayRef>,
    pub(crate) max: Option<ArrayRef>,
    pub(crate) nulls: Option<u64>,
    pub(crate) nans: Option<u64>,
}

impl Bounds {
    /// The bounds of the row group or page at `place`.
    pub(crate) fn of(statistics: &Statistics, place: usize) -> Self {
        statistics.at(place)
    }

    /// The bounds of a column with one value in all rows; `value` is an array of one row.
    pub(crate) fn constant(value: &ArrayRef, rows: u64) -> Self {
        let is_null = value.is_null(0);
        let bound = (!is_null).then(|| Arc::clone(value));
        Self {
            min: bound.clone(),
            max: bound,
            nulls: Some(if is_null { rows } else { 0 }),
            nans: None,
        }
    }

    /// The bounds of `part` of the `rows` rows that these bounds describe. Counts are known only if they are 0 or all rows.
    pub(crate) fn of_part(mut self, part: u64, rows: u64) -> Self {
        let scaled = |count: Option<u64>| match count {
            Some(0) => Some(0),
            Some(count) if count == rows => Some(part),
            count => count.filter(|_| part == rows),
        };
        (self.nulls, self.nans) = (scaled(self.nulls), scaled(self.nans));
        self
    }
}

/// Statistics of the columns of a set of rows.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) rows: u64,
    pub(crate) columns: HashMap<ColumnPath, Bounds>,
}

impl ColumnStatistics for Known {
    fn row_count(&self) -> u64 {
        self.rows
    }

    fn min(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.columns.get(column)?.min.clone()
    }

    fn max(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.columns.get(column)?.max.clone()
    }

    fn null_count(&self, column: &ColumnPath) -> Option<u64> {
        self.columns.get(column)?.nulls
    }

    fn nan_possible(&self, column: &ColumnPath) -> bool {
        let nans = self.columns.get(column).and_then(|bounds| bounds.nans);
        nans != Some(0)
    }
}
