//! Where the items of each list lie: one interface to lists, maps and list views.

use std::any::Any;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, make_array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_data::transform::MutableArrayData;
use pilum_common::type_name;

use crate::error::Error;

/// The lists of an array, and the array that holds their items.
pub(super) struct Lists<'a, O: OffsetSizeTrait> {
    places: Places<'a, O>,
    items: ArrayRef,
}

enum Places<'a, O: OffsetSizeTrait> {
    /// One list after the other.
    Ascending(&'a OffsetBuffer<O>),
    /// In any order, with gaps, possibly overlapping.
    Views { starts: &'a [O], sizes: &'a [O] },
}

impl<'a, O: OffsetSizeTrait> Lists<'a, O> {
    /// The lists of `array`, whose offsets must be of this width.
    pub(super) fn of(array: &'a dyn Array) -> Result<Self, Error> {
        if let Some(list) = array.as_list_opt::<O>() {
            let (places, items) = (Places::Ascending(list.offsets()), list.values());
            let items = Arc::clone(items);
            return Ok(Self { places, items });
        }
        if let Some(views) = array.as_list_view_opt::<O>() {
            let places = Places::Views {
                starts: views.offsets(),
                sizes: views.sizes(),
            };
            let items = Arc::clone(views.values());
            return Ok(Self { places, items });
        }
        if let Some(map) = array.as_map_opt()
            && let Some(offsets) = (map.offsets() as &dyn Any).downcast_ref()
        {
            let (places, items) = (Places::Ascending(offsets), map.entries());
            let items = Arc::new(items.clone());
            return Ok(Self { places, items });
        }
        Err(Error::invalid(format!(
            "{} has no {}-byte list offsets",
            type_name(array.data_type()),
            size_of::<O>()
        )))
    }

    /// The offsets, if the lists lie one after the other.
    pub(super) fn offsets(&self) -> Option<&'a OffsetBuffer<O>> {
        match self.places {
            Places::Ascending(offsets) => Some(offsets),
            Places::Views { .. } => None,
        }
    }

    fn len(&self) -> usize {
        match self.places {
            Places::Ascending(offsets) => offsets.len() - 1,
            Places::Views { sizes, .. } => sizes.len(),
        }
    }

    /// First item and number of items of a list.
    fn place(&self, row: usize) -> (usize, usize) {
        match self.places {
            Places::Ascending(offsets) => {
                let start = offsets[row].as_usize();
                (start, offsets[row + 1].as_usize() - start)
            }
            Places::Views { starts, sizes } => (starts[row].as_usize(), sizes[row].as_usize()),
        }
    }

    /// Lengths of the lists, 0 where null.
    pub(super) fn lengths(&self, valid: Option<&NullBuffer>) -> impl Iterator<Item = usize> {
        (0..self.len()).map(move |row| match valid.is_none_or(|v| v.is_valid(row)) {
            true => self.place(row).1,
            false => 0,
        })
    }

    /// The items of the lists that are not null, list after list.
    pub(super) fn items(&self, valid: Option<&NullBuffer>) -> Result<ArrayRef, Error> {
        if let Some(offsets) = self.offsets()
            && !offsets.has_non_empty_nulls(valid)
        {
            let (first, last) = (offsets.first().as_usize(), offsets.last().as_usize());
            return Ok(self.items.slice(first, last - first));
        }
        let runs = self.runs(valid);
        match runs.as_slice() {
            [] => return Ok(self.items.slice(0, 0)),
            [(start, end)] => return Ok(self.items.slice(*start, end - start)),
            _ => {}
        }
        let items = self.items.to_data();
        let kept = runs.iter().map(|(start, end)| end - start).sum();
        let mut picked = MutableArrayData::new(vec![&items], false, kept);
        for (start, end) in runs {
            picked
                .try_extend(0, start, end)
                .map_err(|error| Error::invalid(format!("values of the lists kept: {error}")))?;
        }
        Ok(make_array(picked.freeze()))
    }

    /// Ranges of items, in the order of the lists; neighbours are joined.
    fn runs(&self, valid: Option<&NullBuffer>) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for row in 0..self.len() {
            let (start, length) = self.place(row);
            if length == 0 || valid.is_some_and(|v| v.is_null(row)) {
                continue;
            }
            match runs.last_mut() {
                Some((_, end)) if *end == start => *end += length,
                _ => runs.push((start, start + length)),
            }
        }
        runs
    }
}
