//! Reads rows by position. The offset index says which page has a row; without one, a walk over the page headers does. Only
//! pages with one of the rows are decompressed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt64Array};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use futures::stream::{FuturesOrdered, StreamExt};
use tokio::runtime::Handle;

use pilum_expr::Projection;

use crate::dataset::{Dataset, Part};
use crate::decode::{Decoder, GroupRows, Step};
use crate::error::{Error, Result};
use crate::options::ScanOptions;
use crate::plan::{FilePlan, Plan};
use crate::scan::fitted;

/// A batch of a take is cut at so many rows, so that a wide row does not need one huge allocation.
const BATCH_ROWS: usize = 8192;
/// Fewer rows than this are not worth another thread.
const ROWS_PER_TASK: usize = 16;

impl Dataset {
    /// The rows at some positions, in the order of the positions and with their repeats. Positions count from 0 over all files.
    ///
    /// # Errors
    /// `CommonError::InvalidInput` for a position beyond the last row; else as reading.
    pub async fn take(
        self: &Arc<Self>,
        positions: &[u64],
        columns: Projection,
        runtime: &Handle,
    ) -> Result<RecordBatch> {
        let options = ScanOptions {
            columns,
            ..ScanOptions::default()
        };
        let plan = Arc::new(Plan::new(self.schema(), &options)?);
        let num_rows = self.num_rows();
        if let Some(position) = positions.iter().find(|it| **it >= num_rows) {
            return Err(Error::invalid(
                format!("row position {position}"),
                format!("the dataset has {num_rows} rows, counted from 0"),
            ));
        }
        let mut sorted = positions.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut tasks = FuturesOrdered::new();
        for (part, groups) in self.by_file(&sorted) {
            let part_of = &self.parts[part];
            let file_plan = Arc::new(FilePlan::new(&plan, self, part_of)?);
            let footer = part_of.file.with_row_map().await?.clone();
            let total: usize = groups.values().map(Vec::len).sum();
            let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let most = total.div_ceil(threads).max(ROWS_PER_TASK);
            for rows in divided(groups, most) {
                let (dataset, plan, file_plan) =
                    (Arc::clone(self), Arc::clone(&plan), Arc::clone(&file_plan));
                let (footer, runtime_of) = (footer.clone(), runtime.clone());
                let work = move || {
                    let part = &dataset.parts[part];
                    let mut decoder = Decoder::new(
                        &part.file,
                        &footer,
                        &file_plan.columns,
                        &rows,
                        BATCH_ROWS,
                        None,
                    )?;
                    read_all(part, &file_plan, &plan, &mut decoder, &runtime_of)
                };
                tasks.push_back(runtime.spawn_blocking(work));
            }
        }
        let mut batches = Vec::new();
        while let Some(done) = tasks.next().await {
            let done = done.map_err(|error| Error::bug(format!("take: {error}")))?;
            batches.extend(done?);
        }
        let found = concat_batches(&plan.schema, &batches)
            .map_err(|error| Error::invalid("take", format!("{error}; take fewer rows")))?;
        if found.num_rows() != sorted.len() {
            return Err(Error::bug(format!(
                "take: {} rows were read and not {}",
                found.num_rows(),
                sorted.len()
            )));
        }
        if sorted == positions {
            return Ok(found);
        }
        let places: UInt64Array = positions
            .iter()
            .map(|position| sorted.partition_point(|it| it < position) as u64)
            .collect::<Vec<_>>()
            .into();
        take_record_batch(&found, &places)
            .map_err(|error| Error::invalid("take", format!("{error}; take fewer rows")))
    }

    /// Sorted positions by file and row group, as rows of the group.
    fn by_file(&self, sorted: &[u64]) -> Vec<(usize, BTreeMap<usize, Vec<u64>>)> {
        let mut found: Vec<(usize, BTreeMap<usize, Vec<u64>>)> = Vec::new();
        let mut at = 0;
        for (place, part) in self.parts.iter().enumerate() {
            let mut first = part.first_row;
            let mut groups: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
            for (group, rows) in part.file.row_group_rows().enumerate() {
                let end = first + rows;
                let until = at + sorted[at..].partition_point(|it| *it < end);
                if until > at {
                    let rows = sorted[at..until].iter().map(|it| it - first);
                    groups.insert(group, rows.collect());
                }
                (at, first) = (until, end);
            }
            if !groups.is_empty() {
                found.push((place, groups));
            }
            if at == sorted.len() {
                break;
            }
        }
        found
    }
}

/// The rows of a file in row order, in lists of about `most` rows each.
fn divided(groups: BTreeMap<usize, Vec<u64>>, most: usize) -> Vec<Vec<GroupRows>> {
    let mut tasks: Vec<Vec<GroupRows>> = Vec::new();
    let mut room = 0;
    for (group, rows) in groups {
        let mut rows = rows.as_slice();
        while !rows.is_empty() {
            if room == 0 {
                tasks.push(Vec::new());
                room = most;
            }
            let (now, later) = rows.split_at(room.min(rows.len()));
            if let Some(task) = tasks.last_mut() {
                task.push(GroupRows {
                    group,
                    rows: Some(ranges(now)),
                });
            }
            room -= now.len();
            rows = later;
        }
    }
    tasks
}

/// Ascending rows as ranges.
fn ranges(rows: &[u64]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for row in rows {
        match ranges.last_mut() {
            Some(last) if last.end == *row => last.end += 1,
            _ => ranges.push(*row..*row + 1),
        }
    }
    ranges
}

fn read_all(
    part: &Part,
    file_plan: &FilePlan,
    plan: &Plan,
    decoder: &mut Decoder,
    runtime: &Handle,
) -> Result<Vec<RecordBatch>> {
    let path = part.file.path();
    let mut batches = Vec::new();
    loop {
        match decoder.step()? {
            Step::Read(ranges) => runtime.block_on(decoder.read(ranges))?,
            Step::Batch(batch) => {
                let number = batches.len() as u64;
                let batch = fitted(file_plan, &file_plan.fit, path, &batch, number)?;
                batches.push(plan.output(path, batch)?);
            }
            Step::Finished => return Ok(batches),
        }
    }
}
