//! Lists of every kind as ranges of items, and ranges as lists of every kind.

use std::{ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, OffsetSizeTrait,
    UInt64Array, cast::AsArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};
use arrow_select::take::take;

/// The field of the items of a list type, or the field of the entries of a map type.
pub(crate) fn item_of(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => Some(item),
        _ => None,
    }
}

/// Lists of one array: the items of all lists that matter, one list after the other.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Items of lists that are valid, and of no others.
    pub(crate) items: ArrayRef,
    /// Where the items of each row begin; one more than there are rows.
    pub(crate) starts: Vec<usize>,
    /// Rows that have a list.
    pub(crate) valid: Option<NullBuffer>,
}

impl Lists {
    /// Reads lists or maps of any kind; rows that are not valid get no items.
    ///
    /// # Errors
    /// If the array is no list, or has offsets out of range.
    pub(crate) fn read(array: &dyn Array, valid: Option<NullBuffer>) -> Result<Self, ArrowError> {
        let (items, range) = ranges(array)?;
        let rows = array.len();
        let is_valid = |row: usize| valid.as_ref().is_none_or(|valid| valid.is_valid(row));
        let mut starts = Vec::with_capacity(rows + 1);
        let mut total = 0_usize;
        starts.push(0);
        // One run of items without gaps is sliced instead of copied.
        let mut run: Option<Range<usize>> = Some(0..0);
        for row in 0..rows {
            let own = if is_valid(row) { range(row) } else { 0..0 };
            total += own.len();
            starts.push(total);
            if !own.is_empty() {
                run = match run {
                    Some(run) if run.is_empty() => Some(own),
                    Some(run) if run.end == own.start => Some(run.start..own.end),
                    _ => None,
                };
            }
        }
        let items = match run {
            Some(run) => {
                if run.end > items.len() {
                    return Err(ArrowError::InvalidArgumentError(
                        "offsets out of range".into(),
                    ));
                }
                items.slice(run.start, run.len())
            }
            None => {
                let rows = (0..rows).filter(|row| is_valid(*row));
                let positions = rows.flat_map(&range).map(|position| position as u64);
                take(&items, &UInt64Array::from_iter_values(positions), None)?
            }
        };
        Ok(Self {
            items,
            starts,
            valid,
        })
    }

    /// The row and the position in its list of one item.
    pub(crate) fn place_of(&self, item: usize) -> (usize, usize) {
        let row = self
            .starts
            .partition_point(|start| *start <= item)
            .saturating_sub(1);
        (row, item - self.starts.get(row).copied().unwrap_or(0))
    }

    /// The number of items of a row.
    pub(crate) fn size(&self, row: usize) -> usize {
        match (self.starts.get(row), self.starts.get(row + 1)) {
            (Some(start), Some(end)) => end - start,
            _ => 0,
        }
    }

    fn rows(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// The first row whose list has not this size.
    pub(crate) fn first_of_other_size(&self, size: usize) -> Option<usize> {
        (0..self.rows()).find(|row| {
            self.valid.as_ref().is_none_or(|valid| valid.is_valid(*row)) && self.size(*row) != size
        })
    }

    /// Builds lists of a type from converted items.
    ///
    /// # Errors
    /// If 32 bit offsets do not reach all items, or a null item stands where none may be.
    pub(crate) fn build(&self, items: ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
        match to {
            DataType::List(item) => self.list::<i32>(item, items),
            DataType::LargeList(item) => self.list::<i64>(item, items),
            DataType::ListView(item) => self.view::<i32>(item, items),
            DataType::LargeListView(item) => self.view::<i64>(item, items),
            DataType::FixedSizeList(item, size) => self.fixed(item, *size, items),
            _ => Err(ArrowError::InvalidArgumentError("not a list".into())),
        }
    }

    /// Offsets of 32 or 64 bits.
    ///
    /// # Errors
    /// If the offsets are too narrow.
    pub(crate) fn offsets<O: OffsetSizeTrait>(&self) -> Result<OffsetBuffer<O>, ArrowError> {
        let offsets: Option<Vec<O>> = self
            .starts
            .iter()
            .map(|start| O::from_usize(*start))
            .collect();
        let offsets = offsets.ok_or_else(|| {
            ArrowError::OffsetOverflowError(self.starts.last().copied().unwrap_or(0))
        })?;
        Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
    }

    fn list<O: OffsetSizeTrait>(
        &self,
        item: &FieldRef,
        items: ArrayRef,
    ) -> Result<ArrayRef, ArrowError> {
        let (item, valid) = (Arc::clone(item), self.valid.clone());
        let built = GenericListArray::<O>::try_new(item, self.offsets()?, items, valid);
        Ok(Arc::new(built?))
    }

    fn view<O: OffsetSizeTrait>(
        &self,
        item: &FieldRef,
        items: ArrayRef,
    ) -> Result<ArrayRef, ArrowError> {
        let offsets = self.offsets::<O>()?;
        let sizes: ScalarBuffer<O> = offsets
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect::<Vec<O>>()
            .into();
        let starts = offsets.inner().slice(0, self.rows());
        let (item, valid) = (Arc::clone(item), self.valid.clone());
        let built = GenericListViewArray::<O>::try_new(item, starts, sizes, items, valid);
        Ok(Arc::new(built?))
    }

    /// Every valid row has `size` items; the others get null items.
    fn fixed(&self, item: &FieldRef, size: i32, items: ArrayRef) -> Result<ArrayRef, ArrowError> {
        let width = usize::try_from(size)
            .map_err(|_| ArrowError::InvalidArgumentError("a negative list size".into()))?;
        let items = if self
            .valid
            .as_ref()
            .is_none_or(|valid| valid.null_count() == 0)
        {
            items
        } else {
            let positions = (0..self.rows()).flat_map(|row| {
                let start = self.starts.get(row).copied().unwrap_or(0);
                let has_items = self.size(row) == width;
                (0..width).map(move |item| has_items.then_some((start + item) as u64))
            });
            take(&items, &positions.collect::<UInt64Array>(), None)?
        };
        let (item, valid) = (Arc::clone(item), self.valid.clone());
        let built = FixedSizeListArray::try_new_with_length(item, size, items, valid, self.rows());
        Ok(Arc::new(built?))
    }
}

type Ranges<'a> = Box<dyn Fn(usize) -> Range<usize> + 'a>;

/// The items of an array of lists or maps, and where those of a row are.
fn ranges(array: &dyn Array) -> Result<(ArrayRef, Ranges<'_>), ArrowError> {
    fn of_offsets<O: OffsetSizeTrait>(offsets: &[O]) -> Ranges<'_> {
        Box::new(move |row| match (offsets.get(row), offsets.get(row + 1)) {
            (Some(start), Some(end)) => start.as_usize()..end.as_usize(),
            _ => 0..0,
        })
    }
    fn of_view<'a, O: OffsetSizeTrait>(offsets: &'a [O], sizes: &'a [O]) -> Ranges<'a> {
        Box::new(move |row| match (offsets.get(row), sizes.get(row)) {
            (Some(start), Some(size)) => start.as_usize()..start.as_usize() + size.as_usize(),
            _ => 0..0,
        })
    }
    let other = || ArrowError::InvalidArgumentError("not a list".into());
    Ok(match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list_opt::<i32>().ok_or_else(other)?;
            (
                Arc::clone(lists.values()),
                of_offsets(lists.value_offsets()),
            )
        }
        DataType::LargeList(_) => {
            let lists = array.as_list_opt::<i64>().ok_or_else(other)?;
            (
                Arc::clone(lists.values()),
                of_offsets(lists.value_offsets()),
            )
        }
        DataType::ListView(_) => {
            let lists = array.as_list_view_opt::<i32>().ok_or_else(other)?;
            (
                Arc::clone(lists.values()),
                of_view(lists.offsets(), lists.sizes()),
            )
        }
        DataType::LargeListView(_) => {
            let lists = array.as_list_view_opt::<i64>().ok_or_else(other)?;
            (
                Arc::clone(lists.values()),
                of_view(lists.offsets(), lists.sizes()),
            )
        }
        DataType::FixedSizeList(..) => {
            let lists = array.as_fixed_size_list_opt().ok_or_else(other)?;
            let size = usize::try_from(lists.value_length()).unwrap_or(0);
            (
                Arc::clone(lists.values()),
                Box::new(move |row| row * size..(row + 1) * size),
            )
        }
        DataType::Map(..) => {
            let maps = array.as_map_opt().ok_or_else(other)?;
            (
                Arc::new(maps.entries().clone()),
                of_offsets(maps.value_offsets()),
            )
        }
        _ => return Err(other()),
    })
}
