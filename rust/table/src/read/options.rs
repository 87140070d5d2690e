//! What a reader asks for: options and columns of a scan, and the names of the row columns.

use pilum_expr::{Expr, Projection};

/// The column of stable row ids, or of addresses in tables without.
pub const ROW_ID: &str = "_rowid";
/// The column of row addresses: fragment id in the upper half, offset in the lower.
pub const ROW_ADDRESS: &str = "_rowaddr";

/// What to read and how.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ScanOptions {
    /// The columns.
    pub columns: Projection,
    /// Only rows for which this is true.
    pub filter: Option<Expr>,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// Leave out so many rows first.
    pub offset: u64,
    /// At most so many rows in a batch.
    pub batch_rows: Option<usize>,
    /// About so many bytes in a batch; 8 MiB when not given.
    pub batch_bytes: Option<u64>,
    /// Add the column `_rowid`.
    pub with_row_id: bool,
    /// Add the column `_rowaddr`.
    pub with_row_address: bool,
    /// Only these fragments, by id.
    pub fragments: Option<Vec<u64>>,
    /// Batches may come in any order.
    pub unordered: bool,
    /// Bytes that the scan may hold at once. With a limit, pages of large files do not stay mapped behind the consumer.
    pub memory_limit: Option<u64>,
    /// Tasks decoded at once; the processors of this machine when not given.
    pub threads: Option<usize>,
}
