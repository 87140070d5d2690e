//! The decode budget: how much memory decoding the messages of one file may allocate. Messages are measured before they are
//! decoded.
//!
//! Fragments and row ids are decoded one by one into the types of this crate, so that a list is never in memory twice. The
//! rest of a message is measured by its shape.

use crate::error::{Error, Result};
use crate::message_size::{FIELDS, MAP_ENTRY, Part, Shape};
use crate::proto::table as proto;
use crate::proto::table::transaction as pb;
use crate::raw_fields::Malformed;

/// A typed schema takes twice the memory of its messages, in addition to them.
const TYPED: u64 = 3;

/// A data file of a fragment.
pub(crate) const FILE: Shape = Shape(&[
    (1, Part::Bytes(0)),
    (2, Part::Numbers(4)),
    (3, Part::Numbers(4)),
]);
const TEXT: Part = Part::Bytes(size_of::<String>());
const DICTIONARIES: Shape = Shape(&[(
    5,
    Part::Message(size_of::<proto::DictionaryValidity>(), &Shape(&[])),
)]);
const BASE_PATHS: Part = Part::Message(
    size_of::<proto::BasePath>(),
    &Shape(&[(2, TEXT), (4, TEXT)]),
);

/// A manifest without its fragments and fields.
pub(crate) const MANIFEST: Shape = Shape(&[
    (5, MAP_ENTRY),
    (8, TEXT),
    (12, TEXT),
    (16, MAP_ENTRY),
    (18, BASE_PATHS),
    (19, MAP_ENTRY),
    (1001, Part::Message(0, &DICTIONARIES)),
]);

const INDEX: Shape = Shape(&[
    (2, Part::Numbers(4)),
    (3, TEXT),
    (
        10,
        Part::Message(
            size_of::<proto::index_metadata::IndexFile>(),
            &Shape(&[(1, TEXT)]),
        ),
    ),
    (11, Part::Numbers(4)),
]);
const INDICES: Part = Part::Message(size_of::<proto::IndexMetadata>(), &INDEX);
/// The indices of a version.
pub(crate) const INDEX_SECTION: Shape = Shape(&[(1, INDICES)]);
const REWRITTEN_INDEX: Shape = Shape(&[(
    5,
    Part::Message(
        size_of::<proto::index_metadata::IndexFile>(),
        &Shape(&[(1, TEXT)]),
    ),
)]);
const MAP_EDIT: Shape = Shape(&[(
    1,
    Part::Message(
        size_of::<pb::UpdateMapEntry>(),
        &Shape(&[(1, TEXT), (2, TEXT)]),
    ),
)]);
const MAP_EDITS: Part = Part::Message(0, &MAP_EDIT);
const FIELD_EDITS: Part =
    Part::Message(size_of::<(i32, pb::UpdateMap)>(), &Shape(&[(2, MAP_EDITS)]));
const OLD_FIELD_EDITS: Part = Part::Message(
    size_of::<(u32, pb::update_config::FieldMetadata)>(),
    &Shape(&[(2, Part::Message(0, &Shape(&[(5, MAP_ENTRY)])))]),
);

/// A transaction without the fragments that it lists.
pub(crate) const TRANSACTION: Shape = Shape(&[
    (2, TEXT),
    (3, TEXT),
    (4, MAP_ENTRY),
    (
        101,
        Part::Message(0, &Shape(&[(2, Part::Numbers(8)), (3, TEXT)])),
    ),
    (
        102,
        Part::Message(
            0,
            &Shape(&[
                (2, FIELD_LIST),
                (3, MAP_ENTRY),
                (4, MAP_ENTRY),
                (5, BASE_PATHS),
            ]),
        ),
    ),
    (103, Part::Message(0, &Shape(&[(1, INDICES), (2, INDICES)]))),
    (
        104,
        Part::Message(
            0,
            &Shape(&[(
                4,
                Part::Message(size_of::<pb::rewrite::RewrittenIndex>(), &REWRITTEN_INDEX),
            )]),
        ),
    ),
    (
        105,
        Part::Message(0, &Shape(&[(2, FIELD_LIST), (3, MAP_ENTRY)])),
    ),
    (
        108,
        Part::Message(
            0,
            &Shape(&[
                (1, Part::Numbers(8)),
                (4, Part::Numbers(4)),
                (6, Part::Numbers(4)),
            ]),
        ),
    ),
    (109, Part::Message(0, &Shape(&[(1, FIELD_LIST)]))),
    (
        110,
        Part::Message(
            0,
            &Shape(&[
                (1, MAP_ENTRY),
                (2, TEXT),
                (3, MAP_ENTRY),
                (4, OLD_FIELD_EDITS),
                (6, MAP_EDITS),
                (7, MAP_EDITS),
                (8, MAP_EDITS),
                (9, FIELD_EDITS),
            ]),
        ),
    ),
    (
        111,
        Part::Message(
            0,
            &Shape(&[(
                1,
                Part::Message(
                    size_of::<pb::data_replacement::Replacement>(),
                    &Shape(&[(2, Part::Message(0, &FILE))]),
                ),
            )]),
        ),
    ),
]);
const FIELD_LIST: Part = Part::Message(size_of::<crate::proto::file::Field>(), &FIELD);
const FIELD: Shape = Shape(&[(2, TEXT), (5, TEXT), (9, TEXT), (10, MAP_ENTRY)]);

/// The fields of a manifest, which are converted to a typed schema as well.
pub(crate) const SCHEMA: Shape = Shape(&[(1, FIELDS)]);

pub(crate) fn malformed(what: &str) -> impl Fn(Malformed) -> Error + '_ {
    move |error| Error::corrupt(format!("{what}: {error}"))
}

/// What decoding one file may take in memory beside three times its bytes: with the bytes themselves it stays below four
/// times the file and 64 MiB.
const FREE_BYTES: u64 = 40 << 20;

/// The memory that decoding one file has taken so far, and the limit.
#[derive(Debug)]
pub(crate) struct DecodeBudget {
    pub(crate) what: &'static str,
    pub(crate) used: u64,
    limit: u64,
}

impl DecodeBudget {
    /// The budget for a file of `num_bytes`.
    pub(crate) fn new(what: &'static str, num_bytes: usize) -> Self {
        Self::with_free(what, num_bytes, FREE_BYTES)
    }

    /// As [`new`](Self::new), with `free` bytes instead of the usual ones, for a part of a file that is decoded while
    /// the file is in memory.
    pub(crate) fn with_free(what: &'static str, num_bytes: usize, free: u64) -> Self {
        Self {
            what,
            used: 0,
            limit: (num_bytes as u64).saturating_mul(3).saturating_add(free),
        }
    }

    /// Takes memory that is held until the file is decoded.
    pub(crate) fn take(&mut self, num_bytes: u64) -> Result<()> {
        self.check(num_bytes)?;
        self.used = self.used.saturating_add(num_bytes);
        Ok(())
    }

    /// Checks that there is room for memory that is released again.
    pub(crate) fn check(&self, num_bytes: u64) -> Result<()> {
        let needed = self.used.saturating_add(num_bytes);
        if needed <= self.limit {
            return Ok(());
        }
        Err(Error::Limit {
            what: format!("unpacking {}", self.what),
            needed: format!("at least {needed} bytes of memory"),
            limit: format!("{} bytes for a file of its size", self.limit),
        })
    }

    /// Takes the memory of a decoded message.
    pub(crate) fn take_message(&mut self, shape: &Shape, message: &[u8]) -> Result<()> {
        let room = self.limit.saturating_sub(self.used);
        let num_bytes = shape.num_bytes_up_to(message, room);
        let num_bytes = num_bytes.map_err(malformed(self.what))?;
        self.take(num_bytes)
    }

    /// Takes the memory of the decoded fields of a manifest.
    pub(crate) fn take_schema(&mut self, message: &[u8]) -> Result<()> {
        let room = self.limit.saturating_sub(self.used);
        let num_bytes = SCHEMA.num_bytes_up_to(message, room);
        let num_bytes = num_bytes.map_err(malformed(self.what))?;
        self.take(num_bytes.saturating_mul(TYPED))
    }

    /// Takes the memory of a list of `len` parts of `part_bytes` each.
    pub(crate) fn take_list(&mut self, len: usize, part_bytes: usize) -> Result<()> {
        self.take((len as u64).saturating_mul(part_bytes as u64))
    }
}
