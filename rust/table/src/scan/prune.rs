//! Leaving out pages by their statistics. It changes what is read, never the answer.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pilum_expr::{BoundExpr, ColumnPath, ColumnStatistics, Truth, prune};
use pilum_file::{Field, FieldId, FileReader, Rows, Schema};

/// Pages looked at and pages left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pruned {
    pub(crate) total: u64,
    pub(crate) pruned: u64,
}

/// The rows of a file that may pass `predicate`, by the statistics of its pages; none when they say nothing.
///
/// Damaged statistics are no information: what they would have left out is read, and verification reports them.
pub(crate) async fn candidates(
    file: &FileReader,
    columns: &Schema,
    predicate: &BoundExpr,
) -> (Option<Rows>, Pruned) {
    let mut seen = Pruned {
        total: file.num_batches() as u64,
        pruned: 0,
    };
    let ids: Vec<FieldId> = columns.walk().map(|field| field.id).collect();
    let Ok(statistics) = file.statistics(&ids).await else {
        return (None, seen);
    };
    if statistics.is_empty() {
        return (None, seen);
    }
    // Only our own files are known to hold the nulls that their statistics count: in those of others a null of fixed width
    // is stored, and read, as a value that the bounds leave out.
    let trusted = file.checksum_block().is_some();
    let mut kept: Vec<Range<u64>> = Vec::new();
    for batch in 0..file.num_batches() {
        let rows = file.batch_rows(batch);
        let page = PageBounds {
            columns,
            statistics: &statistics,
            batch,
            rows: rows.end - rows.start,
            trusted,
        };
        if prune(predicate, &page) == Truth::AlwaysFalse {
            seen.pruned += 1;
        } else {
            kept.push(rows);
        }
    }
    (Rows::from_ranges(kept).ok(), seen)
}

/// What is known of one page of each column.
struct PageBounds<'a> {
    columns: &'a Schema,
    statistics: &'a BTreeMap<FieldId, pilum_file::ColumnStatistics>,
    batch: usize,
    rows: u64,
    trusted: bool,
}

impl PageBounds<'_> {
    fn field(&self, path: &ColumnPath) -> Option<&Field> {
        let (first, rest) = path.names().split_first()?;
        let mut field = self
            .columns
            .fields
            .iter()
            .find(|field| field.name == *first)?;
        for name in rest {
            field = field.children.iter().find(|child| child.name == *name)?;
        }
        Some(field)
    }

    fn is_text(field: &Field) -> bool {
        matches!(
            field.data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
        )
    }

    fn bound(
        &self,
        path: &ColumnPath,
        side: impl Fn(&pilum_file::ColumnStatistics) -> &ArrayRef,
    ) -> Option<ArrayRef> {
        let field = self.field(path)?;
        let statistics = self.statistics.get(&field.id)?;
        let nulls = statistics.null_count.values().get(self.batch)?;
        if !self.trusted && *nulls != 0 && !Self::is_text(field) {
            return None;
        }
        let bounds = side(statistics);
        let known = self.batch < bounds.len()
            && bounds.is_valid(self.batch)
            && *bounds.data_type() == field.data_type;
        known.then(|| bounds.slice(self.batch, 1))
    }
}

impl ColumnStatistics for PageBounds<'_> {
    fn row_count(&self) -> u64 {
        self.rows
    }

    fn min(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.bound(column, |statistics| &statistics.min)
    }

    fn max(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.bound(column, |statistics| &statistics.max)
    }

    fn null_count(&self, column: &ColumnPath) -> Option<u64> {
        let field = self.field(column)?;
        if !self.trusted {
            return None;
        }
        let counts = &self.statistics.get(&field.id)?.null_count;
        u64::try_from(*counts.values().get(self.batch)?).ok()
    }
}
