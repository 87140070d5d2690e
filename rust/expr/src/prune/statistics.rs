//! Statistics of a set of rows, which the caller supplies.

use arrow_array::ArrayRef;

use crate::path::ColumnPath;

/// Statistics of a set of rows: a page, a fragment, a table.
///
/// Minimum and maximum need not be values of the rows (a truncated string or a deleted value is allowed): pruning never
/// assumes that a row has the value. `None` means unknown and is always correct.
pub trait ColumnStatistics {
    /// How many rows there are.
    fn row_count(&self) -> u64;

    /// A value that no non-null value of the column is less than, as an array of one row of the column's type (of the
    /// value type for a dictionary). NaN is ignored; -0.0 equals 0.0.
    fn min(&self, column: &ColumnPath) -> Option<ArrayRef>;

    /// A value that no non-null value of the column is greater than; else as [`ColumnStatistics::min`].
    fn max(&self, column: &ColumnPath) -> Option<ArrayRef>;

    /// How many rows of the column read as null; for a field of a struct this includes the rows whose struct is null.
    fn null_count(&self, column: &ColumnPath) -> Option<u64>;

    /// Whether a float column may hold NaN. Lance statistics ignore NaN, so the default is `true`.
    fn nan_possible(&self, column: &ColumnPath) -> bool {
        let _ = column;
        true
    }
}
