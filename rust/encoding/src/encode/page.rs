//! The result of encoding one page: bytes, validity, and the values that Lance v1 would change.

use arrow_buffer::{Buffer, NullBuffer};

use crate::validity::{LevelValidity, packed_bits};

/// One page as it is written.
#[derive(Debug, Clone)]
pub struct EncodedPage {
    /// The bytes, written one buffer after the other without a gap.
    pub buffers: Vec<Buffer>,
    /// Bytes of all buffers.
    pub byte_len: u64,
    /// Offset within these bytes that the page table points at: 0, for var-binary the offset array.
    pub pointer: u64,
    /// The page table's length: values, for lists one more.
    pub length: u64,
    /// Validity that v1 cannot hold, per level; level 0 is the node.
    pub validity: Vec<LevelValidity>,
    /// The first value that v1 would change, and how many; `None` if v1 holds all values.
    pub lossy: Option<Lossy>,
}

/// Values of one page that v1 would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lossy {
    /// First row of the page with such a value.
    pub first_row: u64,
    /// Number of such values (items, for the items of fixed-size lists).
    pub count: u64,
    /// What they are, for a message: "null", "empty value in a nullable field", ...
    pub what: &'static str,
}

impl EncodedPage {
    /// The page holds something that v1 alone would lose.
    pub fn needs_extension(&self) -> bool {
        self.lossy.is_some()
    }

    pub(super) fn new(buffers: Vec<Buffer>, length: usize, levels: Levels) -> Self {
        Self {
            byte_len: buffers.iter().map(|b| b.len() as u64).sum(),
            buffers,
            pointer: 0,
            length: length as u64,
            validity: levels.validity,
            lossy: levels.lossy,
        }
    }
}

/// Nulls of a node itself, without the slots that are null only because an ancestor is.
pub(super) struct OwnNulls {
    pub(super) first: usize,
    pub(super) count: usize,
    /// No visible slot is valid.
    all: bool,
}

impl OwnNulls {
    /// `valid` is the union of the node's own nulls and of `hidden`.
    pub(super) fn find(valid: Option<&NullBuffer>, hidden: Option<&NullBuffer>) -> Option<Self> {
        let valid = valid?;
        let count = valid.null_count() - hidden.map_or(0, NullBuffer::null_count);
        if count == 0 {
            return None;
        }
        let visible = |row: &usize| hidden.is_none_or(|h| h.is_valid(*row));
        let first = (!valid.inner()).set_indices().find(visible)?;
        Some(Self {
            first,
            count,
            all: valid.null_count() == valid.len(),
        })
    }
}

/// Validity of a page, collected level by level from the outside in.
#[derive(Default)]
pub(super) struct Levels {
    pub(super) validity: Vec<LevelValidity>,
    /// Of the outermost level that has lossy values: its nulls mask those of the inner levels.
    pub(super) lossy: Option<Lossy>,
}

impl Levels {
    pub(super) fn all_null(count: usize) -> Self {
        let lossy = Lossy {
            first_row: 0,
            count: count as u64,
            what: "null",
        };
        Self {
            validity: vec![LevelValidity::AllNull],
            lossy: Some(lossy),
        }
    }

    /// Adds level 0, the node itself, whose nulls v1 cannot hold.
    pub(super) fn push_nulls(&mut self, own: Option<OwnNulls>, valid: Option<&NullBuffer>) {
        self.push(own, valid, 1, "null");
    }

    /// Adds the level of list items, `per_row` slots for each row of the page.
    pub(super) fn push_item_nulls(
        &mut self,
        own: Option<OwnNulls>,
        valid: Option<&NullBuffer>,
        per_row: usize,
    ) {
        self.push(own, valid, per_row, "null item");
    }

    fn push(
        &mut self,
        own: Option<OwnNulls>,
        valid: Option<&NullBuffer>,
        per_row: usize,
        what: &'static str,
    ) {
        let Some((own, valid)) = own.zip(valid) else {
            self.validity.push(LevelValidity::V1);
            return;
        };
        self.validity.push(if own.all {
            LevelValidity::AllNull
        } else {
            LevelValidity::Bitmap(packed_bits(valid.inner()))
        });
        self.lossy.get_or_insert(Lossy {
            first_row: (own.first / per_row.max(1)) as u64,
            count: own.count as u64,
            what,
        });
    }
}
