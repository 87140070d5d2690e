//! The sparse part of a row: pairs of a tag and a value, in the order of the schema or in an order that the batch has.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{Array, ArrayRef, UInt16Array};
use arrow_buffer::{NullBuffer, OffsetBuffer};

use super::column::Column;
use super::value::{RowRefusal, refuse};
use crate::error::{Error, Result, ValueFault};
use crate::schema::SPARSE;

/// A sparse column: whether its value has a tag of its own, its values, and its name.
#[derive(Debug)]
pub(crate) struct SparseColumn {
    pub(crate) is_optional: bool,
    pub(crate) column: Column,
    pub(crate) name: String,
}

/// The sparse columns of a batch by their tags; none for a column that the batch does not have.
#[derive(Debug)]
pub(crate) struct Sparse {
    pub(crate) columns: Vec<Option<SparseColumn>>,
    pub(crate) order: Option<Order>,
}

/// For every row the tags in the order in which they are written. Columns that are null are left out, and those that it does
/// not name follow in the order of the schema.
#[derive(Debug)]
pub(crate) struct Order {
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
    tags: UInt16Array,
}

/// Which tags were written in a row: a mark per tag, which holds the number of the last row that wrote it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    marks: Vec<u64>,
    row: u64,
}

impl Seen {
    fn next_row(&mut self, num_tags: usize) {
        self.row += 1;
        if self.marks.len() < num_tags {
            self.marks.resize(num_tags, 0);
        }
    }

    /// True when this row did not have the tag yet.
    fn insert(&mut self, tag: usize) -> bool {
        let row = self.row;
        self.marks
            .get_mut(tag)
            .is_some_and(|mark| std::mem::replace(mark, row) != row)
    }
}

impl Order {
    /// The column of tags that [`crate::DecodeOptions::keeps_sparse_order`] adds.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a column of another type.
    pub(crate) fn try_new(array: &ArrayRef) -> Result<Self> {
        let list = array.as_list_opt::<i32>();
        let tags = list.and_then(|list| list.values().as_primitive_opt::<UInt16Type>());
        let (Some(list), Some(tags)) = (list, tags.cloned()) else {
            let found = crate::arrow_name::arrow_name(array.data_type());
            return Err(Error::unsupported(
                format!("column `{SPARSE}`"),
                format!("it is {found}; the order of sparse columns is list<uint16>"),
            ));
        };
        Ok(Self {
            offsets: list.offsets().clone(),
            nulls: list.nulls().cloned(),
            tags,
        })
    }

    /// The items of a row, each a tag or null.
    fn of(&self, row: usize) -> impl Iterator<Item = Option<u16>> {
        let is_valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let ends = self.offsets.get(row).zip(self.offsets.get(row + 1));
        let range = ends.filter(|_| is_valid).and_then(|(start, end)| {
            Some(usize::try_from(*start).ok()?..usize::try_from(*end).ok()?)
        });
        let tag = |place| self.tags.is_valid(place).then(|| self.tags.value(place));
        range.unwrap_or_default().map(tag)
    }
}

impl Sparse {
    /// Appends the values that are not null, and the terminator.
    ///
    /// # Errors
    ///
    /// A value that the schema does not hold; `BadSparseTag` for an order that has an item twice or one that is no column.
    pub(crate) fn write(
        &self,
        row: usize,
        seen: &mut Seen,
        out: &mut Vec<u8>,
    ) -> Result<(), RowRefusal> {
        let all = 0..self.columns.len();
        match &self.order {
            None => {
                for tag in all {
                    self.write_column(tag, row, out)?;
                }
            }
            Some(order) => {
                seen.next_row(self.columns.len());
                for item in order.of(row) {
                    let tag = item.map(usize::from);
                    let Some(tag) =
                        tag.filter(|tag| *tag < self.columns.len() && seen.insert(*tag))
                    else {
                        return bad_item(item, self.columns.len());
                    };
                    self.write_column(tag, row, out)?;
                }
                for tag in all {
                    if seen.insert(tag) {
                        self.write_column(tag, row, out)?;
                    }
                }
            }
        }
        out.extend_from_slice(&u16::MAX.to_le_bytes());
        Ok(())
    }

    fn write_column(&self, tag: usize, row: usize, out: &mut Vec<u8>) -> Result<(), RowRefusal> {
        let Some(Some(sparse)) = self.columns.get(tag) else {
            return Ok(());
        };
        if !sparse.column.is_present(row) {
            return Ok(());
        }
        // A schema has at most 65,535 sparse columns.
        let tag = u16::try_from(tag).unwrap_or_default();
        out.extend_from_slice(&tag.to_le_bytes());
        // The tag of the column says already that there is a value.
        let written = if sparse.is_optional {
            sparse.column.write(row, out)
        } else {
            sparse.column.write_present(row, out)
        };
        written.map_err(|refusal| (sparse.name.clone(), refusal))
    }
}

/// Refuses an item of the order.
#[cold]
fn bad_item(item: Option<u16>, num_columns: usize) -> Result<(), RowRefusal> {
    let reason = match item {
        None => "an item is null; an item is the number of a sparse column".to_owned(),
        Some(tag) if usize::from(tag) < num_columns => {
            format!("{tag} is there twice; a column is written once in a row")
        }
        Some(tag) => {
            format!(
                "{tag} is not the number of a sparse column; they are numbered below {num_columns}"
            )
        }
    };
    let refusal = refuse(ValueFault::BadSparseTag, reason);
    refusal.map_err(|refusal| (SPARSE.to_owned(), refusal))
}
