//! The ways to read a version: scan, take, count.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::stream::StreamExt;
use pilum_expr::Expr;
use tokio::runtime::Handle;

use super::fragment::{FragmentReader, fixed_row_bytes};
use super::plan::Plan;
use super::{Projection, Scan, ScanOptions, take};
use crate::error::Result;
use crate::snapshot::Snapshot;

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
        Plan::new(
            self.schema(),
            self.fragments(),
            self.manifest().has_stable_row_ids(),
            options,
        )
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
        take::take(context, &plan, &places).await
    }

    /// The rows with these addresses, live or not, in that order.
    pub(crate) async fn take_addresses(
        &self,
        addresses: &[u64],
        columns: Projection,
    ) -> Result<RecordBatch> {
        let plan = self.plan(&ScanOptions {
            columns,
            ..ScanOptions::default()
        })?;
        let places = take::places_of_addresses(self.fragments(), addresses)?;
        take::take(self.read_context(), &plan, &places).await
    }

    /// About how much Arrow memory these columns take of a row, in the fragment where it is most: how many rows may be taken
    /// at once.
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
        take::take(context, &plan, &places).await
    }
}
