//! The values of the partition keys of all partitions, typed by the schema.

use arrow_array::RecordBatch;

/// Partition keys as columns: one row for each partition, in the order of the labels.
#[derive(Debug)]
pub struct KeyColumns {
    /// One column for each partition key.
    pub rows: RecordBatch,
    /// The label of the first partition in whose path a component without `=` follows a value of text, if there is one.
    pub stray: Option<String>,
}
