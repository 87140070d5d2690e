//! Which row groups, and which rows of them, may pass a predicate: decided by statistics of row groups and pages.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use arrow_array::ArrayRef;
use parquet::file::metadata::ParquetMetaData;
use pilum_expr::{BoundExpr, ColumnPath, Truth, prune};

use crate::columns::leaf_at;
use crate::error::Result;
use crate::file::ParquetFile;
use crate::statistics::{Bounds, Known, Statistics};

/// Values of columns that are the same for all rows of a file, as arrays of one row: its hive partition.
pub(crate) type Constants = HashMap<String, ArrayRef>;

/// Counts of the pages that pruning left out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageCounts {
    pub(crate) total: u64,
    pub(crate) pruned: u64,
}

impl ParquetFile {
    /// The row groups in which a row may pass the predicate, by their statistics. The predicate is bound to the schema of the
    /// file, and `constants` are further columns with one value for the file.
    ///
    /// # Errors
    /// `CommonError::Corrupt` for statistics that cannot be decoded.
    pub fn prune_row_groups(
        &self,
        predicate: &BoundExpr,
        constants: &HashMap<String, ArrayRef>,
    ) -> Result<Vec<usize>> {
        let mut statistics: Vec<(&ColumnPath, Statistics)> = Vec::new();
        for column in predicate.columns() {
            if !constants.contains_key(column.root())
                && let Some(found) = self.row_group_statistics(column)?
            {
                statistics.push((column, found));
            }
        }
        let may_pass = |(group, rows): &(usize, u64)| {
            let mut known = constant_bounds(predicate, constants, *rows);
            for (column, statistics) in &statistics {
                known.insert((*column).clone(), Bounds::of(statistics, *group));
            }
            let known = Known {
                rows: *rows,
                columns: known,
            };
            prune(predicate, &known) != Truth::AlwaysFalse
        };
        let groups = self.row_group_rows().enumerate().filter(may_pass);
        Ok(groups.map(|(group, _)| group).collect())
    }

    /// The rows of a row group that may pass the predicate, by the statistics of its pages, as ascending ranges; all rows if
    /// the file has no page index. `metadata` is the footer with the page index.
    pub(crate) fn prune_pages(
        &self,
        metadata: &ParquetMetaData,
        group: usize,
        predicate: &BoundExpr,
        constants: &Constants,
    ) -> Result<(Vec<Range<u64>>, PageCounts)> {
        let rows = metadata.row_group(group).num_rows().cast_unsigned();
        let schema = metadata.file_metadata().schema_descr();
        let mut columns: Vec<(&ColumnPath, Vec<u64>, Statistics)> = Vec::new();
        for column in predicate.columns() {
            let leaf = leaf_at(schema, column).filter(|_| !constants.contains_key(column.root()));
            let index = metadata.page_index();
            let pages = leaf
                .zip(index)
                .and_then(|(leaf, index)| index.page_locations(group, leaf));
            let Some(pages) = pages else { continue };
            if let Some(found) = self.page_statistics(metadata, column, group)? {
                let starts = pages
                    .iter()
                    .map(|page| page.first_row_index.cast_unsigned());
                columns.push((column, starts.collect(), found));
            }
        }
        let mut bounds: BTreeSet<u64> = [0, rows].into();
        for (_, starts, _) in &columns {
            bounds.extend(starts.iter().copied().filter(|start| *start < rows));
        }
        let bounds: Vec<u64> = bounds.into_iter().collect();
        let mut kept: Vec<Range<u64>> = Vec::new();
        for pair in bounds.windows(2) {
            let &[start, end] = pair else { continue };
            let mut known = constant_bounds(predicate, constants, end - start);
            for (column, starts, statistics) in &columns {
                // The last page that begins at or before the segment holds all of it.
                let page = starts
                    .partition_point(|first| *first <= start)
                    .saturating_sub(1);
                let first = starts.get(page).copied().unwrap_or(0);
                let page_end = starts.get(page + 1).copied().unwrap_or(rows);
                let known_of = Bounds::of(statistics, page);
                known.insert(
                    (*column).clone(),
                    known_of.of_part(end - start, page_end - first),
                );
            }
            let known = Known {
                rows: end - start,
                columns: known,
            };
            if prune(predicate, &known) == Truth::AlwaysFalse {
                continue;
            }
            match kept.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => kept.push(start..end),
            }
        }
        let mut counts = PageCounts::default();
        for (_, starts, _) in &columns {
            counts.total += starts.len() as u64;
            counts.pruned += unread(starts, rows, &kept);
        }
        Ok((kept, counts))
    }
}

/// How many of the pages that begin at `starts` have no row in the ranges.
fn unread(starts: &[u64], rows: u64, kept: &[Range<u64>]) -> u64 {
    let mut count = 0;
    for (place, start) in starts.iter().enumerate() {
        let end = starts.get(place + 1).copied().unwrap_or(rows);
        let next = kept.partition_point(|range| range.end <= *start);
        let is_read = kept.get(next).is_some_and(|range| range.start < end);
        count += u64::from(!is_read);
    }
    count
}

fn constant_bounds(
    predicate: &BoundExpr,
    constants: &Constants,
    rows: u64,
) -> HashMap<ColumnPath, Bounds> {
    let columns = predicate.columns().iter();
    let constant = |column: &ColumnPath| {
        let value = constants
            .get(column.root())
            .filter(|_| column.names().len() == 1)?;
        Some((column.clone(), Bounds::constant(value, rows)))
    };
    columns.filter_map(constant).collect()
}
