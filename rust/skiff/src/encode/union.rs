//! Variants from the rows of a union.

use super::column::{Column, Union};
use super::value::{Refusal, push_tag, refuse};
use crate::error::ValueFault;

impl Union {
    /// The number of the child and the row of its value.
    fn pick(&self, row: usize) -> (usize, usize) {
        let id = self.ids.get(row).copied().unwrap_or_default();
        let id = usize::try_from(id).unwrap_or_default();
        let number = self.numbers.get(id).copied().unwrap_or_default();
        let place = match &self.offsets {
            None => row,
            Some(offsets) => {
                usize::try_from(offsets.get(row).copied().unwrap_or_default()).unwrap_or_default()
            }
        };
        (number.into(), place)
    }

    /// Appends the tag, which is `most` at most, and the value behind it.
    pub(super) fn write(
        &self,
        row: usize,
        is_wide: bool,
        most: u16,
        out: &mut Vec<u8>,
    ) -> Result<(), Box<Refusal>> {
        let (number, place) = self.pick(row);
        let (tag, child, place) = match self.children.get(number) {
            Some(Column::Union(page)) if self.is_paged => {
                let (inner, place) = page.pick(place);
                (number * 128 + inner, page.children.get(inner), place)
            }
            child => (number, child, place),
        };
        let Some(tag) = u16::try_from(tag).ok().filter(|tag| *tag <= most) else {
            let reason = format!("alternative {tag} of a variant whose tags end at {most}");
            return refuse(ValueFault::OutOfRange, reason);
        };
        push_tag(tag, is_wide, out);
        child.map_or(Ok(()), |child| child.write(place, out))
    }
}
