//! The order of the sparse columns of every row, which servers choose freely: a stream is the same bytes again only with it.

use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, UInt16Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, FieldRef};

use super::cursor::Stop;
use crate::error::Result;
use crate::schema::SPARSE;

/// Tags of sparse columns in the order of the stream, row by row.
#[derive(Debug)]
pub(crate) struct SparseOrder {
    offsets: Vec<i32>,
    pub(crate) tags: Vec<u16>,
    /// Per tag the number of the last row that had it, to find repeats.
    marks: Vec<u64>,
    row: u64,
}

impl Default for SparseOrder {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            tags: Vec::new(),
            marks: Vec::new(),
            row: 0,
        }
    }
}

impl SparseOrder {
    fn item() -> FieldRef {
        Arc::new(Field::new("item", DataType::UInt16, false))
    }

    /// The column of the tags.
    pub(crate) fn field() -> FieldRef {
        Arc::new(Field::new(SPARSE, DataType::List(Self::item()), false))
    }

    /// Ends a row. Of a tag that the row has twice the last one counts, as its value does.
    pub(crate) fn end_row(&mut self) -> Result<(), Stop> {
        let start = self.offsets.last().copied().unwrap_or_default();
        let start = usize::try_from(start).unwrap_or_default();
        self.row += 1;
        let row = self.row;
        // From behind, so that the last of equal tags stays; the others become the terminator, which is no tag.
        for tag in self.tags.iter_mut().skip(start).rev() {
            let number = usize::from(*tag);
            if self.marks.len() <= number {
                self.marks.resize(number + 1, 0);
            }
            let mark = self.marks.get_mut(number);
            if mark.is_some_and(|mark| std::mem::replace(mark, row) == row) {
                *tag = u16::MAX;
            }
        }
        let mut end = start;
        for place in start..self.tags.len() {
            let tag = self.tags.get(place).copied().unwrap_or(u16::MAX);
            if tag != u16::MAX {
                if let Some(slot) = self.tags.get_mut(end) {
                    *slot = tag;
                }
                end += 1;
            }
        }
        self.tags.truncate(end);
        let end = i32::try_from(self.tags.len()).map_err(|_| Stop::TooLarge)?;
        self.offsets.push(end);
        Ok(())
    }

    /// Cuts back to `num_rows`, and removes what an unfinished row left.
    pub(crate) fn truncate(&mut self, num_rows: usize) {
        self.offsets.truncate(num_rows + 1);
        let end = self.offsets.last().copied().unwrap_or_default();
        self.tags.truncate(usize::try_from(end).unwrap_or_default());
    }

    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        let Self { offsets, tags, .. } = std::mem::take(self);
        let tags = Arc::new(UInt16Array::from(tags));
        let offsets = OffsetBuffer::new(offsets.into());
        Ok(Arc::new(ListArray::try_new(
            Self::item(),
            offsets,
            tags,
            None,
        )?))
    }
}
