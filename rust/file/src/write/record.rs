//! What the writer remembers of the pages that it wrote, for the directory at the end of the file.

use pilum_format::FieldId;

/// One page that was written.
#[derive(Debug, Default)]
pub(super) struct PageRecord {
    /// What the page table points at.
    pub(super) pointer: u64,
    /// The length in the page table.
    pub(super) length: u64,
    /// False for structs with members, whose pair in the page table is (0, 0).
    pub(super) in_table: bool,
    /// Position of the first byte, and the number of bytes.
    pub(super) position: u64,
    pub(super) num_bytes: u64,
    pub(super) checksums: Vec<u32>,
    pub(super) validity: Vec<ValidityRecord>,
}

/// One level of validity of a page that was written.
#[derive(Debug)]
pub(super) enum ValidityRecord {
    V1,
    AllValid,
    AllNull,
    Bitmap {
        position: u64,
        num_bytes: u64,
        checksums: Vec<u32>,
    },
}

/// All pages written so far, from which the end of the file is made.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) position: u64,
    pub(super) batch_offsets: Vec<i32>,
    /// Pages by field id, beginning with `first_id`; structs with members and ids that are not in the schema have none.
    pub(super) columns: Vec<Vec<PageRecord>>,
    pub(super) first_id: FieldId,
    pub(super) needs_extension: bool,
}
