//! What a predicate says about rows known only by their statistics.

use arrow_array::ArrayRef;

use crate::{BoundExpr, ColumnPath};

/// Statistics of a set of rows: a page, a fragment, a table.
///
/// Minimum and maximum need only be bounds (a truncated string, a value since deleted); nothing is concluded from a bound
/// being reached. Whatever is not known is `None`, which is always right.
pub trait ColumnStatistics {
    /// How many rows there are.
    fn row_count(&self) -> u64;

    /// A value that no non-null value of the column is less than, as an array of one row of the column's type (of the
    /// value type for a dictionary). NaN is left out of account.
    fn min(&self, column: &ColumnPath) -> Option<ArrayRef>;

    /// A value that no non-null value of the column is greater than; else as [`ColumnStatistics::min`].
    fn max(&self, column: &ColumnPath) -> Option<ArrayRef>;

    /// How many rows of the column read as null; for a field of a struct this includes the rows whose struct is null.
    fn null_count(&self, column: &ColumnPath) -> Option<u64>;

    /// Whether a floating column may hold NaN. Lance statistics leave NaN out, so unless its absence is known this is
    /// `true`, as by default.
    fn nan_possible(&self, column: &ColumnPath) -> bool {
        let _ = column;
        true
    }
}

/// What is known of a predicate for all rows at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// No row matches; the rows need not be read.
    AlwaysFalse,
    /// Every row matches; the predicate need not be evaluated.
    AlwaysTrue,
    /// Rows must be looked at.
    Unknown,
}
