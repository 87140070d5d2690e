//! Takes: rows by position, by row id or by address, in the order asked for and as often.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use futures::stream::{StreamExt, TryStreamExt};
use pilum_file::Rows;
use pilum_format::Fragment;
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::read::batches::{row_addresses, to_batch};
use crate::read::context::ReadContext;
use crate::read::event;
use crate::read::fragment::FragmentReader;
use crate::read::scan::{Output, Plan, REMOTE_FRAGMENTS, RowIds};
use crate::read::snapshot::live_rows;

/// A row: the index of its fragment in the version, and its offset among the physical rows.
type Place = (usize, u64);

/// The physical offset of live row number `index`.
fn physical(index: u64, deleted: Option<&RoaringBitmap>) -> u64 {
    let Some(deleted) = deleted else { return index };
    // Each round counts the deleted rows up to the guess and moves the guess by as many, until the count does not change.
    let mut row = index;
    loop {
        let before = deleted.rank(u32::try_from(row).unwrap_or(u32::MAX));
        let next = index + before;
        if next == row {
            return row;
        }
        row = next;
    }
}

/// Where the live rows number `positions` are.
///
/// # Errors
/// `InvalidInput` for a position beyond the version's rows; when a deletion file cannot be read.
pub(crate) async fn places_of_positions(
    context: &ReadContext,
    fragments: &[Fragment],
    positions: &[u64],
) -> Result<Vec<Place>> {
    let mut ends = Vec::with_capacity(fragments.len());
    let mut total = 0_u64;
    for fragment in fragments {
        total += live_rows(fragment);
        ends.push(total);
    }
    let mut deleted: Vec<Option<Option<Arc<RoaringBitmap>>>> = vec![None; fragments.len()];
    let mut places = Vec::with_capacity(positions.len());
    for &position in positions {
        if position >= total {
            let reason =
                format!("position {position} is out of range, the version has {total} rows");
            return Err(Error::invalid("take", reason));
        }
        let index = ends.partition_point(|&end| end <= position);
        let start = if index == 0 { 0 } else { ends[index - 1] };
        if deleted[index].is_none() {
            deleted[index] = Some(context.deleted(&fragments[index]).await?);
        }
        let gone = deleted[index].as_ref().and_then(Option::as_deref);
        places.push((index, physical(position - start, gone)));
    }
    Ok(places)
}

/// Where the rows with these addresses are, live or not. The addresses come from a scan of the same version.
///
/// # Errors
/// `Bug` for a fragment that the version does not have.
pub(crate) fn places_of_addresses(fragments: &[Fragment], addresses: &[u64]) -> Result<Vec<Place>> {
    let place = |address: &u64| {
        let (id, row) = (address >> 32, address & 0xFFFF_FFFF);
        let index = fragments.binary_search_by_key(&id, |fragment| fragment.id);
        let index =
            index.map_err(|_| Error::bug(format!("an address of a scan names fragment {id}")))?;
        Ok((index, row))
    };
    addresses.iter().map(place).collect()
}

/// Where the rows with these ids are: addresses, or stable ids of live rows.
///
/// # Errors
/// `InvalidInput` for an id that no live row has; when a deletion file or row ids cannot be read.
pub(crate) async fn places_of_row_ids(
    context: &ReadContext,
    fragments: &[Fragment],
    stable: bool,
    row_ids: &[u64],
) -> Result<Vec<Place>> {
    let missing = |id: u64| {
        Error::invalid(
            "take_rows",
            format!("no row has the row id {id} in this version"),
        )
    };
    if stable {
        let index = context.row_index(fragments).await?;
        let place = |id: &u64| index.get(*id).ok_or_else(|| missing(*id));
        return row_ids.iter().map(place).collect();
    }
    let mut places = Vec::with_capacity(row_ids.len());
    for &id in row_ids {
        let (fragment_id, row) = (id >> 32, id & 0xFFFF_FFFF);
        let index = fragments
            .binary_search_by_key(&fragment_id, |fragment| fragment.id)
            .map_err(|_| missing(id))?;
        let fragment = &fragments[index];
        let gone = context.deleted(fragment).await?;
        let row32 = u32::try_from(row).unwrap_or(u32::MAX);
        let is_gone = gone.is_some_and(|gone| gone.contains(row32));
        if is_gone || row >= context.physical_rows(fragment).await? {
            return Err(missing(id));
        }
        places.push((index, row));
    }
    Ok(places)
}

/// The rows at `places`, in that order. Under a memory limit, what reading left mapped of large files is unmapped, file by
/// file.
///
/// # Errors
/// `InvalidInput` for a row that a fragment does not have, and for rows that are too many for one batch; when a file cannot be
/// read or is damaged.
pub(crate) async fn take(
    context: &Arc<ReadContext>,
    plan: &Plan,
    places: &[Place],
    is_limited: bool,
) -> Result<RecordBatch> {
    let mut sorted: Vec<Place> = places.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let groups = by_fragment(&sorted)?;
    tracing::debug!(
        target: event::READ,
        uri = context.store.uri(),
        rows = places.len(),
        fragments = groups.len(),
        "take rows"
    );
    let at_once = if context.store.is_local() {
        1
    } else {
        REMOTE_FRAGMENTS
    };
    let groups = groups.into_iter().map(|(index, rows)| async move {
        read_part(context, plan, &plan.fragments[index], &rows, is_limited).await
    });
    let parts: Vec<RecordBatch> = futures::stream::iter(groups)
        .buffered(at_once)
        .try_collect()
        .await?;
    let schema = &plan.output_schema;
    let rows = match parts.as_slice() {
        [one] => one.clone(),
        many => arrow_select::concat::concat_batches(schema, many)
            .map_err(|error| Error::invalid("take", format!("{error}; take fewer rows at once")))?,
    };
    if sorted.len() == places.len() && places.is_sorted() {
        return Ok(rows);
    }
    let order: UInt64Array = places
        .iter()
        .map(|place| sorted.binary_search(place).unwrap_or_default() as u64)
        .collect::<Vec<_>>()
        .into();
    arrow_select::take::take_record_batch(&rows, &order)
        .map_err(|error| Error::invalid("take", format!("{error}; take fewer rows at once")))
}

/// The rows of each fragment, from places in ascending order.
fn by_fragment(sorted: &[Place]) -> Result<Vec<(usize, Rows)>> {
    let mut groups = Vec::new();
    for group in sorted.chunk_by(|a, b| a.0 == b.0) {
        let rows = Rows::from_sorted_indices(group.iter().map(|place| place.1))
            .map_err(|error| Error::bug(format!("rows to take: {error}")))?;
        groups.extend(group.first().map(|place| (place.0, rows)));
    }
    Ok(groups)
}

async fn read_part(
    context: &Arc<ReadContext>,
    plan: &Plan,
    fragment: &Fragment,
    rows: &Rows,
    is_limited: bool,
) -> Result<RecordBatch> {
    let reader = FragmentReader::open(Arc::clone(context), fragment, &plan.rest).await?;
    if rows.end() > reader.physical_rows {
        let reason = format!(
            "row {} of fragment {} does not exist",
            rows.end().saturating_sub(1),
            fragment.id
        );
        return Err(Error::invalid("take", reason));
    }
    let read = reader.gather(rows).await?;
    if is_limited {
        reader.release();
    }
    let uri = context.store.uri();
    let row_ids = if plan.needs_row_ids {
        RowIds::of(fragment, plan.stable_row_ids).map_err(|error| error.at(uri))?
    } else {
        None
    };
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(plan.inputs.len());
    for input in &plan.inputs {
        columns.push(match (input, &row_ids) {
            // A take has no predicate: all columns are read in one step.
            (Output::Rest(index) | Output::Filtered(index), _) => Arc::clone(&read[*index]),
            (Output::RowId, Some(ids)) => Arc::new(UInt64Array::from(ids.select(rows)?)),
            (Output::RowId, None) | (Output::RowAddress, _) => row_addresses(fragment.id, rows),
        });
    }
    to_batch(&plan.output_schema, columns, rows.len(), uri)
}
