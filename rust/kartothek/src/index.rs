//! Secondary indices: for each value of a column, the partitions that have a row with it. Nulls and NaN are in no index.

use arrow_array::ArrayRef;

/// The column of an index file with the labels.
pub const PARTITION_COLUMN: &str = "partition";

/// An inverted index of one column.
#[derive(Debug)]
pub struct Index {
    /// The values, in the type of the column as it is read.
    pub(crate) values: ArrayRef,
    /// Value `i` is in the partitions `places[starts[i]..starts[i + 1]]`.
    pub(crate) starts: Vec<usize>,
    /// Places of labels in the dataset.
    pub(crate) places: Vec<u32>,
}

impl Index {
    /// The values, each once in an index without faults.
    #[must_use]
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// The places of the partitions that have a value, in the labels of the dataset.
    #[must_use]
    pub fn partitions(&self, value: usize) -> &[u32] {
        let range = self.starts.get(value).zip(self.starts.get(value + 1));
        let range = range.map_or(0..0, |(start, end)| *start..*end);
        self.places.get(range).unwrap_or_default()
    }

    /// The number of pairs of a value and a partition.
    #[must_use]
    pub fn num_entries(&self) -> usize {
        self.places.len()
    }
}
