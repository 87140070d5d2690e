//! Columns with columns in them: tuples, repeated variants and variants.

use super::check::ReadRules;
use super::column::{Column, List, Struct, Union};
use super::cursor::{Cursor, Stop, bad};
use crate::error::{Result, StreamFault};

impl Struct {
    pub(super) fn new(children: Vec<Column>) -> Self {
        let numbered = children.iter().enumerate();
        let read = numbered.filter(|(_, child)| !child.is_void());
        Self {
            read: read.map(|(number, _)| number).collect(),
            children,
            len: 0,
        }
    }

    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, rules: ReadRules) -> Result<(), Stop> {
        for number in &self.read {
            if let Some(child) = self.children.get_mut(*number) {
                child.read(cursor, rules)?;
            }
        }
        self.len += 1;
        Ok(())
    }

    pub(super) fn push_default(&mut self) {
        for number in &self.read {
            if let Some(child) = self.children.get_mut(*number) {
                child.push_default();
            }
        }
        self.len += 1;
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.len = len.min(self.len);
        for number in &self.read {
            if let Some(child) = self.children.get_mut(*number) {
                child.truncate(self.len);
            }
        }
    }
}

impl List {
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, rules: ReadRules) -> Result<(), Stop> {
        let end = if self.is_wide { u16::MAX } else { 0xff };
        let mut num_items = 0;
        loop {
            let at = cursor.pos;
            let tag = cursor.tag(self.is_wide)?;
            if tag == end {
                break;
            }
            cursor.charge(self.item_width)?;
            match self.item.as_mut() {
                Column::Union(union) if self.is_choice => {
                    if usize::from(tag) >= union.num_alternatives {
                        let reason = format!(
                            "the tag of an item is {tag}, neither below {} nor the terminator {end}",
                            union.num_alternatives
                        );
                        return bad(StreamFault::BadRepeatedTag, at, reason);
                    }
                    union.read_alternative(tag, cursor, rules)?;
                }
                item if tag == 0 => item.read(cursor, rules)?,
                _ => {
                    let reason =
                        format!("the tag of an item is {tag}, neither 0 nor the terminator {end}");
                    return bad(StreamFault::BadRepeatedTag, at, reason);
                }
            }
            num_items += 1;
        }
        self.offsets
            .push(self.offsets.last().copied().unwrap_or_default() + num_items);
        Ok(())
    }

    pub(super) fn push_default(&mut self) {
        self.offsets
            .push(self.offsets.last().copied().unwrap_or_default());
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        let end = self.offsets.last().copied().unwrap_or_default();
        self.item.truncate(usize::try_from(end).unwrap_or_default());
    }
}

/// Alternatives of one Arrow union.
pub(super) const PAGE: u16 = 128;

impl Union {
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, rules: ReadRules) -> Result<(), Stop> {
        let at = cursor.pos;
        let tag = cursor.tag(self.is_wide)?;
        if usize::from(tag) >= self.num_alternatives {
            let reason = format!(
                "the tag is {tag}, and the variant has {} alternatives",
                self.num_alternatives
            );
            return bad(StreamFault::BadVariantTag, at, reason);
        }
        self.read_alternative(tag, cursor, rules)
    }

    /// Reads the value behind a tag that was found to be below the number of alternatives.
    fn read_alternative(
        &mut self,
        tag: u16,
        cursor: &mut Cursor<'_>,
        rules: ReadRules,
    ) -> Result<(), Stop> {
        let number = if self.is_paged { tag / PAGE } else { tag };
        let Some(child) = self.children.get_mut(usize::from(number)) else {
            return Ok(());
        };
        // The row is entered before its value is read, so that cutting back finds what an unfinished value left.
        let offset = i32::try_from(child.len()).map_err(|_| Stop::TooLarge)?;
        self.ids.push(i8::try_from(number).unwrap_or_default());
        self.offsets.push(offset);
        match child {
            Column::Union(page) if self.is_paged => {
                page.read_alternative(tag % PAGE, cursor, rules)
            }
            child => child.read(cursor, rules),
        }
    }

    pub(super) fn push_default(&mut self) {
        let Some(child) = self.children.first_mut() else {
            return;
        };
        // Beyond 2^31 rows of a batch the offsets of every other column ended before.
        self.offsets
            .push(i32::try_from(child.len()).unwrap_or(i32::MAX));
        self.ids.push(0);
        child.push_default();
    }

    pub(super) fn truncate(&mut self, len: usize) {
        let removed = self.ids.iter().zip(&self.offsets).skip(len);
        let mut ends: Vec<Option<usize>> = vec![None; self.children.len()];
        for (id, offset) in removed {
            let number = usize::try_from(*id).unwrap_or_default();
            let offset = usize::try_from(*offset).unwrap_or_default();
            if let Some(end) = ends.get_mut(number) {
                *end = Some(end.map_or(offset, |end| end.min(offset)));
            }
        }
        for (child, end) in self.children.iter_mut().zip(ends) {
            if let Some(end) = end {
                child.truncate(end);
            }
        }
        self.ids.truncate(len);
        self.offsets.truncate(len);
    }
}
