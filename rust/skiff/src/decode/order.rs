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
}

impl Default for SparseOrder {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            tags: Vec::new(),
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

    pub(crate) fn end_row(&mut self) -> Result<(), Stop> {
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
        let Self { offsets, tags } = std::mem::take(self);
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
