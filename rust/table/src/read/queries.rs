//! What can be asked of a version: scan, count, take by position or row id, addresses and versions of rows.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::stream::StreamExt;
use pilum_expr::{Expr, Projection};
use pilum_format::RowVersions;
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::read::fragment::{FragmentReader, fixed_row_bytes};
use crate::read::options::ScanOptions;
use crate::read::scan::{Plan, Scan};
use crate::read::snapshot::Snapshot;
use crate::read::take;

/// Runs of rows of one version, each as the row behind its last one and the version.
fn ends(versions: Option<RowVersions>) -> Vec<(u64, u64)> {
    let mut end = 0_u64;
    let runs = versions.unwrap_or_default();
    let runs = runs.runs().map(|(rows, version)| {
        end = end.saturating_add(rows);
        (end, version)
    });
    runs.collect()
}

impl Snapshot {
    /// Plans a scan; nothing is read yet.
    ///
    /// # Errors
    /// `InvalidInput` for unknown columns or fragments, a predicate that does not fit; `Limit` for too little memory.
    pub fn scan(&self, options: ScanOptions) -> Result<Arc<Scan>> {
        let plan = self.plan(&options)?;
        Ok(Arc::new(Scan::new(
            Arc::clone(self.read_context()),
            plan,
            options,
        )?))
    }

    fn plan(&self, options: &ScanOptions) -> Result<Plan> {
        Plan::new(self.schema(), self.manifest(), options)
    }

    /// Live rows, or those for which a predicate is true. Without one, no data file is read.
    ///
    /// # Errors
    /// As [`scan`](Self::scan) and reading.
    pub async fn count_rows(&self, filter: Option<Expr>, handle: &Handle) -> Result<u64> {
        if filter.is_none() {
            return Ok(self.num_rows());
        }
        let columns = Projection::Names(Vec::new());
        let scan = self.scan(ScanOptions {
            columns,
            filter,
            unordered: true,
            ..ScanOptions::default()
        })?;
        let mut batches = scan.batches(handle);
        let mut rows = 0;
        while let Some(batch) = batches.next().await {
            rows += batch?.num_rows() as u64;
        }
        Ok(rows)
    }

    /// The live rows number `positions`, in that order, repeats kept.
    ///
    /// # Errors
    /// `InvalidInput` for a position beyond the version's rows.
    pub async fn take(&self, positions: &[u64], columns: Projection) -> Result<RecordBatch> {
        let plan = self.plan(&ScanOptions {
            columns,
            ..ScanOptions::default()
        })?;
        let context = self.read_context();
        let places = take::places_of_positions(context, self.fragments(), positions).await?;
        take::take(context, &plan, &places, false).await
    }

    /// The rows with these addresses of a scan of this version, live or not, in that order.
    ///
    /// # Errors
    /// As reading.
    pub(crate) async fn take_addresses(
        &self,
        addresses: &[u64],
        columns: Projection,
        memory_limit: Option<u64>,
    ) -> Result<RecordBatch> {
        let plan = self.plan(&ScanOptions {
            columns,
            ..ScanOptions::default()
        })?;
        let places = take::places_of_addresses(self.fragments(), addresses)?;
        take::take(self.read_context(), &plan, &places, memory_limit.is_some()).await
    }

    /// About how many bytes of Arrow memory these columns take per row, in the fragment where it is most.
    ///
    /// # Errors
    /// `InvalidInput` for unknown columns; when a file cannot be opened.
    pub(crate) async fn row_bytes(&self, names: &[String]) -> Result<u64> {
        let names: Vec<&String> = names.iter().collect();
        let schema = self.schema().project(&names)?;
        let (fixed, varies) = fixed_row_bytes(&schema.fields);
        if !varies {
            return Ok(fixed);
        }
        let mut most = fixed;
        for fragment in self.fragments() {
            let sizes = fragment.files.iter().map(|file| file.byte_len);
            // A size of 0 is an unknown one.
            let row_bytes = if fragment.physical_rows > 0 && sizes.clone().all(|size| size > 0) {
                sizes.fold(0, u64::saturating_add) / fragment.physical_rows
            } else {
                let context = Arc::clone(self.read_context());
                let reader = FragmentReader::open(context, fragment, &schema).await?;
                reader.row_bytes()
            };
            most = most.max(row_bytes);
        }
        Ok(most)
    }

    /// The addresses of the rows with these row ids, in that order. In tables with stable row ids, an index of them is
    /// built when it is first needed, and kept with the version.
    ///
    /// # Errors
    /// `InvalidInput` for an id that no live row has.
    pub async fn row_addresses(&self, row_ids: &[u64]) -> Result<Vec<u64>> {
        let context = self.read_context();
        let stable = self.manifest().has_stable_row_ids();
        let places = take::places_of_row_ids(context, self.fragments(), stable, row_ids).await?;
        let address = |(index, row): &(usize, u64)| self.fragments()[*index].id << 32 | row;
        Ok(places.iter().map(address).collect())
    }

    /// The versions that created, and that changed last, the rows with these stable row ids, in that order.
    ///
    /// # Errors
    /// `InvalidInput` for an id that no live row has, or in a table without stable row ids.
    pub async fn row_versions(&self, row_ids: &[u64]) -> Result<Vec<(u64, u64)>> {
        if !self.manifest().has_stable_row_ids() {
            let reason = "rows of a table without stable row ids have no recorded versions";
            return Err(Error::invalid("row_versions", reason));
        }
        let context = self.read_context();
        let places = take::places_of_row_ids(context, self.fragments(), true, row_ids).await?;
        let mut known = BTreeMap::new();
        for (index, _) in &places {
            if let Entry::Vacant(entry) = known.entry(*index) {
                let fragment = &self.fragments()[*index];
                entry.insert((
                    ends(fragment.created_at()?),
                    ends(fragment.last_updated_at()?),
                ));
            }
        }
        let version = |runs: &[(u64, u64)], row: u64| {
            let run = runs.partition_point(|(end, _)| *end <= row);
            // Rows without a record are of the first version.
            runs.get(run).map_or(1, |(_, version)| *version)
        };
        let versions = places.iter().filter_map(|(index, row)| {
            let (created, updated) = known.get(index)?;
            Some((version(created, *row), version(updated, *row)))
        });
        Ok(versions.collect())
    }

    /// The rows with these row ids (addresses, in tables without stable ids), in that order.
    ///
    /// # Errors
    /// `InvalidInput` for an id that no live row has.
    pub async fn take_rows(&self, row_ids: &[u64], columns: Projection) -> Result<RecordBatch> {
        let plan = self.plan(&ScanOptions {
            columns,
            ..ScanOptions::default()
        })?;
        let context = self.read_context();
        let stable = self.manifest().has_stable_row_ids();
        let places = take::places_of_row_ids(context, self.fragments(), stable, row_ids).await?;
        take::take(context, &plan, &places, false).await
    }
}
