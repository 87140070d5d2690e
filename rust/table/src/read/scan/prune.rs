//! Leaving out fragments and pages by their statistics. It changes what is read, never the answer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use pilum_expr::{ColumnPath, ColumnStatistics, Truth, prune};
use pilum_file::{FileReader, Rows};
use pilum_format::{Field, FieldId, Fragment, Schema};

use super::fragment::FragmentReader;
use super::plan::Filter;
use crate::error::Result;
use crate::read::context::ReadContext;
use crate::read::statistics::{Bounds, FileStatistics};

/// Pages looked at and pages left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pruned {
    pub(crate) total: u64,
    pub(crate) pruned: u64,
}

impl ReadContext {
    /// Whether what is known of the whole table says that no row of any fragment passes; no request is made.
    pub(super) fn leaves_out_all(&self, fragments: &[Fragment], filter: &Filter) -> Option<Pruned> {
        let num_rows = fragments.iter().map(|it| it.physical_rows).sum();
        leaves_out(filter, num_rows, |id, is_nullable| {
            self.bounds_of_table(fragments, id, is_nullable)
        })
    }

    /// Whether what is known of a fragment says that none of its rows passes; no request is made.
    pub(super) fn leaves_out(&self, fragment: &Fragment, filter: &Filter) -> Option<Pruned> {
        leaves_out(filter, fragment.physical_rows, |id, is_nullable| {
            self.bounds_of_fragment(fragment, id, is_nullable)
        })
    }

    /// Reads the statistics of a fragment. Gives the rows that may pass, where they are not all, and the pages of these.
    pub(super) async fn candidates(
        &self,
        fragment: &Fragment,
        reader: &FragmentReader,
        filter: &Filter,
    ) -> Result<(Option<Rows>, Pruned)> {
        let ids: Vec<FieldId> = filter.columns.walk().map(|field| field.id).collect();
        let mut only = None;
        for file in &fragment.files {
            if file.has_any(|id| ids.contains(&id)) {
                let opened = self.open(file).await?;
                only = Some(self.statistics(file, &opened, &ids).await);
            }
        }
        if let Some(pruned) = self.leaves_out(fragment, filter) {
            return Ok((Some(Rows::empty()), pruned));
        }
        // Columns in several files have pages of different rows: too rare to line them up.
        Ok(match (reader.only_file(), only) {
            (Some(file), Some(statistics)) => pages_left(file, filter, &statistics),
            _ => (None, Pruned::default()),
        })
    }
}

/// Decides a predicate by what is known of all rows; none if it is not enough.
fn leaves_out(
    filter: &Filter,
    num_rows: u64,
    bounds_of: impl Fn(FieldId, bool) -> Option<Arc<Bounds>>,
) -> Option<Pruned> {
    let mut columns = BTreeMap::new();
    let mut num_pages = 0;
    for field in filter.columns.walk().filter(|it| it.children.is_empty()) {
        if let Some(bounds) = bounds_of(field.id, field.nullable) {
            num_pages = num_pages.max(bounds.num_pages);
            columns.insert(field.id, bounds);
        }
    }
    let known = WholeBounds {
        schema: &filter.columns,
        columns: &columns,
        num_rows,
    };
    (prune(&filter.predicate, &known) == Truth::AlwaysFalse).then_some(Pruned {
        total: num_pages,
        pruned: num_pages,
    })
}

/// The rows of a file that may pass, by the statistics of its pages; none when they say nothing.
fn pages_left(
    file: &FileReader,
    filter: &Filter,
    statistics: &FileStatistics,
) -> (Option<Rows>, Pruned) {
    let mut seen = Pruned {
        total: file.num_batches() as u64,
        pruned: 0,
    };
    let mut kept: Vec<Range<u64>> = Vec::new();
    for batch in 0..file.num_batches() {
        let rows = file.batch_rows(batch);
        let page = PageBounds {
            schema: &filter.columns,
            statistics,
            batch,
            rows: rows.end - rows.start,
        };
        if prune(&filter.predicate, &page) == Truth::AlwaysFalse {
            seen.pruned += 1;
        } else {
            kept.push(rows);
        }
    }
    if seen.pruned == 0 {
        return (None, seen);
    }
    (Rows::from_ranges(kept).ok(), seen)
}

fn field_at<'a>(schema: &'a Schema, path: &ColumnPath) -> Option<&'a Field> {
    let (first, rest) = path.names().split_first()?;
    let mut field = schema.fields.iter().find(|field| field.name == *first)?;
    for name in rest {
        field = field.children.iter().find(|child| child.name == *name)?;
    }
    Some(field)
}

/// What is known of a fragment or a table.
struct WholeBounds<'a> {
    schema: &'a Schema,
    columns: &'a BTreeMap<FieldId, Arc<Bounds>>,
    num_rows: u64,
}

impl WholeBounds<'_> {
    fn bounds(&self, path: &ColumnPath) -> Option<&Bounds> {
        let id = field_at(self.schema, path)?.id;
        self.columns.get(&id).map(AsRef::as_ref)
    }
}

impl ColumnStatistics for WholeBounds<'_> {
    fn row_count(&self) -> u64 {
        self.num_rows
    }

    fn min(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.bounds(column)?.min.clone()
    }

    fn max(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.bounds(column)?.max.clone()
    }

    fn null_count(&self, column: &ColumnPath) -> Option<u64> {
        self.bounds(column)?.null_count
    }
}

/// What is known of one page of each column.
struct PageBounds<'a> {
    schema: &'a Schema,
    statistics: &'a FileStatistics,
    batch: usize,
    rows: u64,
}

impl PageBounds<'_> {
    fn bound(
        &self,
        path: &ColumnPath,
        side: impl Fn(&pilum_file::ColumnStatistics) -> &ArrayRef,
    ) -> Option<ArrayRef> {
        let known = self.statistics.get(field_at(self.schema, path)?.id)?;
        let nulls = known.pages.null_count.values().get(self.batch)?;
        let bounds = side(&known.pages);
        let is_known = self.batch < bounds.len() && bounds.is_valid(self.batch);
        (known.bounds_hold(*nulls) && is_known).then(|| bounds.slice(self.batch, 1))
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
        let known = self.statistics.get(field_at(self.schema, column)?.id)?;
        let counts = known.pages.null_count.values();
        u64::try_from(*counts.get(self.batch)?)
            .ok()
            .filter(|_| known.counts_nulls)
    }
}
