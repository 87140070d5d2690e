//! Pruning: fragments and pages that statistics rule out are not read. It changes what is read, never the result.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use pilum_expr::{ColumnPath, ColumnStatistics, Truth, prune};
use pilum_file::{FileReader, Rows};
use pilum_format::{Field, FieldId, Fragment, Schema};

use super::plan::Filter;
use crate::error::{Error, Result};
use crate::read::context::ReadContext;
use crate::read::fragment::FragmentReader;
use crate::read::zone_maps::{FileStatistics, ZoneMap, excludes_nan};

/// Pages whose statistics were compared with a predicate, and those among them that no row can pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pruned {
    pub(crate) total: u64,
    pub(crate) pruned: u64,
}

impl ReadContext {
    /// The pages, if the zone maps of the whole table say that no row of any fragment passes. No request is made.
    pub(super) fn prune_all(&self, fragments: &[Fragment], filter: &Filter) -> Option<Pruned> {
        let num_rows = fragments.iter().map(|it| it.physical_rows).sum();
        prune_whole(filter, num_rows, |id, is_nullable| {
            self.zone_map_of_table(fragments, id, is_nullable)
        })
    }

    /// The pages of a fragment, if its zone maps say that none of its rows passes. No request is made.
    pub(super) fn prune_fragment(&self, fragment: &Fragment, filter: &Filter) -> Option<Pruned> {
        prune_whole(filter, fragment.physical_rows, |id, is_nullable| {
            self.zone_map_of_fragment(fragment, id, is_nullable)
        })
    }

    /// Reads the statistics of a fragment. Returns the rows that may pass, or `None` when all of them may.
    ///
    /// # Errors
    /// When a data file cannot be opened.
    pub(super) async fn prune_pages(
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
        if let Some(pruned) = self.prune_fragment(fragment, filter) {
            return Ok((Some(Rows::empty()), pruned));
        }
        // Columns in several files have pages of different rows: too rare to line them up.
        match (reader.only_file(), only) {
            (Some(file), Some(statistics)) => pages_left(file, filter, &statistics),
            _ => Ok((None, Pruned::default())),
        }
    }
}

/// Decides a predicate by the zone maps of all rows: none if some row may pass.
fn prune_whole(
    filter: &Filter,
    num_rows: u64,
    zone_map_of: impl Fn(FieldId, bool) -> Option<Arc<ZoneMap>>,
) -> Option<Pruned> {
    let mut columns = BTreeMap::new();
    let mut num_pages = 0;
    for field in filter.columns.walk().filter(|it| it.children.is_empty()) {
        if let Some(zone_map) = zone_map_of(field.id, field.nullable) {
            num_pages = num_pages.max(zone_map.num_pages);
            columns.insert(field.id, zone_map);
        }
    }
    let known = WholeZoneMaps {
        schema: &filter.columns,
        columns: &columns,
        num_rows,
    };
    (prune(&filter.predicate, &known) == Truth::AlwaysFalse).then_some(Pruned {
        total: num_pages,
        pruned: num_pages,
    })
}

/// The rows of a file that may pass, by the statistics of its pages; none when all of them may.
fn pages_left(
    file: &FileReader,
    filter: &Filter,
    statistics: &FileStatistics,
) -> Result<(Option<Rows>, Pruned)> {
    let mut seen = Pruned {
        total: file.num_batches() as u64,
        pruned: 0,
    };
    let mut kept: Vec<Range<u64>> = Vec::new();
    for batch in 0..file.num_batches() {
        let rows = file.batch_rows(batch);
        let page = PageZoneMaps {
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
        return Ok((None, seen));
    }
    let kept = Rows::from_ranges(kept);
    let kept = kept.map_err(|error| Error::bug(format!("{}: pages: {error}", file.path())))?;
    Ok((Some(kept), seen))
}

fn field_at<'a>(schema: &'a Schema, path: &ColumnPath) -> Option<&'a Field> {
    let (first, rest) = path.names().split_first()?;
    let mut field = schema.fields.iter().find(|field| field.name == *first)?;
    for name in rest {
        field = field.children.iter().find(|child| child.name == *name)?;
    }
    Some(field)
}

/// The zone maps of a fragment or a table, as pruning asks for them.
struct WholeZoneMaps<'a> {
    schema: &'a Schema,
    columns: &'a BTreeMap<FieldId, Arc<ZoneMap>>,
    num_rows: u64,
}

impl WholeZoneMaps<'_> {
    fn zone_map(&self, path: &ColumnPath) -> Option<&ZoneMap> {
        let id = field_at(self.schema, path)?.id;
        self.columns.get(&id).map(AsRef::as_ref)
    }
}

impl ColumnStatistics for WholeZoneMaps<'_> {
    fn row_count(&self) -> u64 {
        self.num_rows
    }

    fn min(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.zone_map(column)?.min.clone()
    }

    fn max(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.zone_map(column)?.max.clone()
    }

    fn null_count(&self, column: &ColumnPath) -> Option<u64> {
        self.zone_map(column)?.null_count
    }

    fn nan_possible(&self, column: &ColumnPath) -> bool {
        let zone_map = self.zone_map(column).filter(|it| it.covers_nan);
        let max = zone_map.and_then(|it| it.max.as_ref());
        !max.is_some_and(excludes_nan)
    }
}

/// The zone maps of one page of each column, as pruning asks for them.
struct PageZoneMaps<'a> {
    schema: &'a Schema,
    statistics: &'a FileStatistics,
    batch: usize,
    rows: u64,
}

impl PageZoneMaps<'_> {
    fn min_or_max(
        &self,
        path: &ColumnPath,
        side: impl Fn(&pilum_file::ColumnStatistics) -> &ArrayRef,
    ) -> Option<ArrayRef> {
        let known = self.statistics.get(field_at(self.schema, path)?.id)?;
        let nulls = known.pages.null_count.values().get(self.batch)?;
        let values = side(&known.pages);
        let is_known = self.batch < values.len() && values.is_valid(self.batch);
        (known.min_max_holds(*nulls) && is_known).then(|| values.slice(self.batch, 1))
    }
}

impl ColumnStatistics for PageZoneMaps<'_> {
    fn row_count(&self) -> u64 {
        self.rows
    }

    fn min(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.min_or_max(column, |statistics| &statistics.min)
    }

    fn max(&self, column: &ColumnPath) -> Option<ArrayRef> {
        self.min_or_max(column, |statistics| &statistics.max)
    }

    fn null_count(&self, column: &ColumnPath) -> Option<u64> {
        let known = self.statistics.get(field_at(self.schema, column)?.id)?;
        let counts = known.pages.null_count.values();
        u64::try_from(*counts.get(self.batch)?)
            .ok()
            .filter(|_| known.counts_nulls)
    }

    fn nan_possible(&self, column: &ColumnPath) -> bool {
        let field = field_at(self.schema, column);
        let known = field.and_then(|field| self.statistics.get(field.id));
        let covers_nan = known.is_some_and(|known| known.covers_nan);
        !(covers_nan && self.max(column).as_ref().is_some_and(excludes_nan))
    }
}
