//! Spreads live rows over the physical rows of their fragments: all files of a fragment have the same number of rows, deleted
//! ones included.

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
use pilum_format::Fragment;
use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

/// Limits of the deleted rows that are filled at once, in rows and in bytes.
const FILLED_ROWS: usize = 1 << 13;
const FILLED_BYTES: usize = 8 << 20;

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
    /// `(1, 0)`, the filler, for one of at most `filled` deleted ones. Ends with the fragment, or when the live rows are
    /// used up.
    fn assign(
        &mut self,
        first: usize,
        available: usize,
        filled: usize,
    ) -> (Vec<(usize, usize)>, usize) {
        let mut taken = 0;
        let mut sources = Vec::new();
        while self.next < self.len && sources.len() - taken < filled {
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

/// Spreads the live rows of a stream. One batch is made at a time, on demand: a fragment may have very many deleted rows, and
/// a filler may be as wide as a value of its column.
struct Spread<S> {
    live: S,
    slots: VecDeque<Slots>,
    /// Live rows, and how many of them are placed.
    current: Option<(RecordBatch, usize)>,
    /// The value of deleted rows.
    filler: Option<Filler>,
    /// Live rows that are placed.
    num_rows: u64,
    has_ended: bool,
}

/// One row that fills the slots of deleted rows.
struct Filler {
    row: RecordBatch,
    /// How many of them may be in memory at once.
    most_rows: usize,
}

/// Spreads live rows, in the order of a scan, over the physical rows of `slots`. Deleted rows get the value of a live row,
/// which needs no other encoding than the column has; texts and lists are left empty.
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
        current: None,
        filler: None,
        num_rows: 0,
        has_ended: false,
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
            if let Some((batch, used)) = self.current.take() {
                return self.place(batch, used).await.map(Some);
            }
            if self.has_ended {
                return self.fill();
            }
            match self.live.next().await {
                Some(batch) => {
                    let batch = batch?;
                    if batch.num_rows() > 0 {
                        self.filler = Some(Filler::new(&batch)?);
                        self.current = Some((batch, 0));
                    }
                }
                None => {
                    self.has_ended = true;
                    let missing: u64 = self.slots.iter().map(Slots::live_rows_left).sum();
                    if missing > 0 {
                        return Err(miscounted(self.num_rows, self.num_rows + missing));
                    }
                }
            }
        }
    }

    /// Places the next rows of a batch, of which `used` are placed.
    async fn place(&mut self, batch: RecordBatch, used: usize) -> Result<RecordBatch> {
        let left = batch.num_rows() - used;
        let (Some(slots), Some(filler)) = (self.slots.front_mut(), &self.filler) else {
            return Err(self.surplus(left as u64).await);
        };
        let (sources, taken) = slots.assign(used, left, filler.most_rows);
        if slots.next == slots.len {
            self.slots.pop_front();
        }
        let placed = if sources.len() == taken {
            batch.slice(used, taken)
        } else {
            pick(&[&batch, &filler.row], &sources)?
        };
        self.num_rows += taken as u64;
        if taken < left {
            self.current = Some((batch, used + taken));
        }
        Ok(placed)
    }

    /// Fills the next deleted rows behind the last live one.
    fn fill(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(slots) = self.slots.front_mut() {
            let rows = slots.len - slots.next;
            let Some(filler) = self.filler.as_ref().filter(|_| rows > 0) else {
                self.slots.pop_front();
                continue;
            };
            let rows = rows.min(filler.most_rows as u64);
            slots.next += rows;
            let sources = vec![(0, 0); usize::try_from(rows).unwrap_or_default()];
            return pick(&[&filler.row], &sources).map(Some);
        }
        Ok(None)
    }

    /// More rows than the table has: how many there are in all.
    async fn surplus(&mut self, mut surplus: u64) -> Error {
        let live = self.num_rows;
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

impl Filler {
    /// From the first row of a batch.
    fn new(batch: &RecordBatch) -> Result<Self> {
        let schema = batch.schema();
        let first = batch.slice(0, 1);
        let columns = first.columns().iter().zip(schema.fields());
        let columns: Vec<ArrayRef> = columns
            .map(|(column, field)| small(column, field))
            .collect::<Result<_, _>>()
            .map_err(|error| failed(&error))?;
        let num_bytes = columns.iter().map(|column| {
            let bytes = column.to_data().get_slice_memory_size();
            bytes.unwrap_or_default()
        });
        let most_rows = FILLED_BYTES / num_bytes.sum::<usize>().max(1);
        let row =
            RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|error| failed(&error))?;
        Ok(Self {
            row,
            most_rows: most_rows.clamp(1, FILLED_ROWS),
        })
    }
}

/// A value as small as the type allows, which Lance v1 can hold wherever it can hold `value`.
fn small(value: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    Ok(match field.data_type() {
        // In Lance v1 an empty text is null in a nullable column, and a value in any other.
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
            let physical: Vec<(i64, Option<String>)> = read(&lens).into_iter().flat_map(|batch| {
                let batch = batch.unwrap();
                let texts = batch.column(1).as_string::<i32>().iter().map(|it| it.map(str::to_owned));
                batch.column(0).as_primitive::<Int64Type>().values().iter().copied().zip(texts).collect::<Vec<_>>()
            }).collect();
            prop_assert_eq!(physical.len(), fragments.iter().flatten().count());
            let mut next = 0;
            for ((value, text), gone) in physical.into_iter().zip(fragments.iter().flatten()) {
                if *gone {
                    // Any number of a live row, and no text.
                    prop_assert!((0..i64::try_from(live).unwrap()).contains(&value));
                    prop_assert_eq!(text, None);
                } else {
                    prop_assert_eq!((value, text), (next, Some(next.to_string())));
                    next += 1;
                }
            }
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
