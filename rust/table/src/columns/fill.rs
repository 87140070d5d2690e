//! Live rows spread over the physical rows of their fragments: files of one fragment have the same rows, deleted ones
//! included.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, LargeListArray, ListArray, RecordBatch, StringArray, StructArray,
    new_empty_array, new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field};
use arrow_select::interleave::interleave_record_batch;
use futures::stream::{BoxStream, Stream, StreamExt};
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::fragment::Fragment;
use crate::snapshot::Snapshot;

/// Rows of a batch that is made to fill deleted rows.
const FILLED_ROWS: usize = 1 << 13;

/// The physical rows of one fragment that are still to come.
pub(super) struct Slots {
    next: u64,
    len: u64,
    deleted: Option<Arc<RoaringBitmap>>,
}

impl Slots {
    /// Those of `fragments`, in order.
    pub(super) async fn of(base: &Snapshot, fragments: &[Fragment]) -> Result<VecDeque<Self>> {
        let mut slots = VecDeque::with_capacity(fragments.len());
        for fragment in fragments {
            slots.push_back(Self {
                next: 0,
                len: fragment.physical_rows,
                deleted: base.read_context().deleted(fragment).await?,
            });
        }
        Ok(slots)
    }

    fn is_deleted(&self, row: u64) -> bool {
        let deleted = self.deleted.as_ref();
        deleted.is_some_and(|it| u32::try_from(row).is_ok_and(|row| it.contains(row)))
    }

    /// For the next physical rows their source: `(0, row)` for one of `available` live rows, counted from `first`, and
    /// `(1, 0)`, the filler, for a deleted one. Ends with the fragment, or when the live rows are used up.
    fn assign(&mut self, first: usize, available: usize) -> (Vec<(usize, usize)>, usize) {
        let mut taken = 0;
        let mut sources = Vec::new();
        while self.next < self.len && sources.len() < available + FILLED_ROWS {
            if self.is_deleted(self.next) {
                sources.push((1, 0));
            } else if taken == available {
                break;
            } else {
                sources.push((0, first + taken));
                taken += 1;
            }
            self.next += 1;
        }
        (sources, taken)
    }

    fn live_rows_left(&self) -> u64 {
        let deleted = self.deleted.as_ref().map_or(0, |deleted| {
            let from = u32::try_from(self.next).unwrap_or(u32::MAX);
            deleted.range_cardinality(from..=u32::MAX)
        });
        (self.len - self.next).saturating_sub(deleted)
    }
}

/// What the live rows of a stream are spread over.
struct Spread<S> {
    live: S,
    slots: VecDeque<Slots>,
    ready: VecDeque<RecordBatch>,
    /// Stands in for deleted rows behind the last live one.
    filler: Option<RecordBatch>,
    num_rows: u64,
    is_done: bool,
}

/// Live rows in the order of a scan, made into the physical rows of `slots`. Deleted rows get a value that costs little and
/// that the column holds anyway: that of a live row, but for texts and lists, which are left empty.
///
/// # Errors
/// `InvalidInput` with both counts when there are not as many rows as live ones.
pub(super) fn spread<'a>(
    live: impl Stream<Item = Result<RecordBatch>> + Send + 'a,
    slots: VecDeque<Slots>,
) -> BoxStream<'a, Result<RecordBatch>> {
    let state = Spread {
        live: live.boxed(),
        slots,
        ready: VecDeque::new(),
        filler: None,
        num_rows: 0,
        is_done: false,
    };
    futures::stream::try_unfold(state, |mut state| async move {
        let batch = state.next().await?;
        Ok(batch.map(|batch| (batch, state)))
    })
    .boxed()
}

impl<S: Stream<Item = Result<RecordBatch>> + Unpin> Spread<S> {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.is_done {
                return Ok(None);
            }
            match self.live.next().await {
                Some(batch) => self.take(&batch?).await?,
                None => self.end()?,
            }
        }
    }

    /// Gives the rows of a batch their places.
    async fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let filler = filler(batch)?;
        let mut used = 0;
        while used < rows {
            let Some(slots) = self.slots.front_mut() else {
                let surplus = (rows - used) as u64;
                return Err(self.surplus(used as u64, surplus).await);
            };
            let (sources, taken) = slots.assign(used, rows - used);
            if slots.next == slots.len {
                self.slots.pop_front();
            }
            self.ready.push_back(if sources.len() == taken {
                batch.slice(used, taken)
            } else {
                pick(&[batch, &filler], &sources)?
            });
            used += taken;
        }
        self.num_rows += rows as u64;
        self.filler = Some(filler);
        Ok(())
    }

    /// Fills the deleted rows behind the last live one.
    fn end(&mut self) -> Result<()> {
        let missing: u64 = self.slots.iter().map(Slots::live_rows_left).sum();
        if missing > 0 {
            return Err(miscounted(self.num_rows, self.num_rows + missing));
        }
        while let Some(slots) = self.slots.front_mut() {
            let rows = (slots.len - slots.next).min(FILLED_ROWS as u64);
            let Some(filler) = self.filler.as_ref().filter(|_| rows > 0) else {
                self.slots.pop_front();
                continue;
            };
            slots.next += rows;
            let sources = vec![(0, 0); usize::try_from(rows).unwrap_or_default()];
            self.ready.push_back(pick(&[filler], &sources)?);
        }
        self.is_done = true;
        Ok(())
    }

    /// More rows than the table has: how many there are in all.
    async fn surplus(&mut self, used: u64, mut surplus: u64) -> Error {
        let live = self.num_rows + used;
        while let Some(batch) = self.live.next().await {
            match batch {
                Ok(batch) => surplus += batch.num_rows() as u64,
                Err(error) => return error,
            }
        }
        miscounted(live + surplus, live)
    }
}

fn failed(error: &ArrowError) -> Error {
    Error::invalid("the new columns", error.to_string())
}

/// Rows of some batches, as (batch, row).
fn pick(batches: &[&RecordBatch], sources: &[(usize, usize)]) -> Result<RecordBatch> {
    interleave_record_batch(batches, sources).map_err(|error| failed(&error))
}

/// One row that stands for deleted ones, from the first row of a batch.
fn filler(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let first = batch.slice(0, 1);
    let columns = first.columns().iter().zip(schema.fields());
    let columns: Vec<ArrayRef> = columns
        .map(|(column, field)| small(column, field))
        .collect::<Result<_, _>>()
        .map_err(|error| failed(&error))?;
    RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|error| failed(&error))
}

/// A value as small as the type allows, and one that version 1 holds wherever it holds `value`.
fn small(value: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    Ok(match field.data_type() {
        // A text of no bytes is null in a nullable column of version 1, and a text in any other.
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => {
            if field.is_nullable() {
                new_null_array(field.data_type(), 1)
            } else {
                cast(&StringArray::from(vec![""]), field.data_type())?
            }
        }
        DataType::List(item) => Arc::new(ListArray::try_new(
            Arc::clone(item),
            OffsetBuffer::new_zeroed(1),
            new_empty_array(item.data_type()),
            None,
        )?),
        DataType::LargeList(item) => Arc::new(LargeListArray::try_new(
            Arc::clone(item),
            OffsetBuffer::new_zeroed(1),
            new_empty_array(item.data_type()),
            None,
        )?),
        DataType::Struct(members) => {
            let array = value.as_struct();
            let columns = array.columns().iter().zip(members);
            let columns = columns
                .map(|(column, member)| small(column, member))
                .collect::<Result<Vec<_>, _>>()?;
            let nulls = array.nulls().cloned();
            Arc::new(StructArray::try_new_with_length(
                members.clone(),
                columns,
                nulls,
                1,
            )?)
        }
        _ => Arc::clone(value),
    })
}

fn miscounted(given: u64, live: u64) -> Error {
    let reason = format!(
        "have {given} rows and the table has {live}; give one row for each row of the table"
    );
    Error::invalid("the new columns", reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use arrow_array::types::Int64Type;
    use arrow_schema::Schema;
    use proptest::prelude::*;

    fn batches(lens: &[usize]) -> Vec<Result<RecordBatch>> {
        let schema = Arc::new(Schema::new(vec![
            Field::new("i", DataType::Int64, false),
            Field::new("s", DataType::Utf8, true),
        ]));
        let mut first = 0;
        let batch = |len: &usize| {
            let values = first..first + i64::try_from(*len).unwrap();
            first = values.end;
            let texts: StringArray = values.clone().map(|it| Some(it.to_string())).collect();
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(values)),
                Arc::new(texts),
            ];
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns).unwrap())
        };
        lens.iter().map(batch).collect()
    }

    fn slots(fragments: &[Vec<bool>]) -> VecDeque<Slots> {
        let of = |deleted: &Vec<bool>| Slots {
            next: 0,
            len: deleted.len() as u64,
            deleted: deleted.contains(&true).then(|| {
                let rows = (0_u32..).zip(deleted).filter(|(_, gone)| **gone);
                Arc::new(rows.map(|(row, _)| row).collect())
            }),
        };
        fragments.iter().map(of).collect()
    }

    proptest! {
        #[test]
        fn every_live_row_stands_where_it_stood(
            fragments in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 1..40), 1..5),
            cuts in proptest::collection::vec(1_usize..20, 1..6),
        ) {
            // A fragment without a live row is not in a table.
            let fragments: Vec<Vec<bool>> = fragments.into_iter().filter(|it| it.contains(&false)).collect();
            let live = fragments.iter().flatten().filter(|gone| !**gone).count();
            let mut lens = Vec::new();
            for cut in cuts.iter().cycle() {
                let left = live - lens.iter().sum::<usize>();
                if left == 0 { break; }
                lens.push(left.min(*cut));
            }
            let read = |lens: &[usize]| -> Vec<Result<RecordBatch>> {
                let stream = spread(futures::stream::iter(batches(lens)), slots(&fragments));
                futures::executor::block_on(stream.collect())
            };
            let physical: Vec<Option<i64>> = read(&lens).into_iter().flat_map(|batch| {
                let batch = batch.unwrap();
                batch.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
            }).collect();
            prop_assert_eq!(physical.len(), fragments.iter().flatten().count());
            let gone = fragments.iter().flatten();
            let kept: Vec<i64> = physical.iter().zip(gone).filter(|(_, gone)| !**gone)
                .map(|(value, _)| value.unwrap()).collect();
            prop_assert_eq!(kept, (0..i64::try_from(live).unwrap()).collect::<Vec<_>>());
            // One row too many and one too few.
            let counts = |lens: &[usize]| -> String {
                read(lens).pop().unwrap().unwrap_err().to_string()
            };
            let mut more = lens.clone();
            more.extend([1, 3]);
            let text = format!("have {} rows and the table has {live};", live + 4);
            prop_assert!(counts(&more).contains(&text));
            if let Some(last) = lens.last_mut() {
                *last -= 1;
                let text = format!("have {} rows and the table has {live};", live - 1);
                prop_assert!(counts(&lens).contains(&text));
            }
        }
    }
}
