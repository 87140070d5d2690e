//! Why two commits conflict: what an error of a commit says, and what a caller may act on.

use std::fmt;

use roaring::RoaringBitmap;

/// Why two operations conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The operations always conflict, whatever they change.
    Operations,
    /// Both changed these fragments.
    Fragments(Vec<u64>),
    /// Both changed these rows, by address; at most [`ROWS_NAMED`] of them.
    Rows(Vec<u64>),
    /// The other one added rows that this one should have read.
    RowsAdded,
    /// The caller expected this version to be the newest.
    NotVersion(u64),
    /// The caller expected no row to have this predicate true, and some do.
    Expected {
        /// The predicate.
        predicate: String,
        /// The first of the rows, by `_rowid`.
        row_ids: Vec<u64>,
    },
    /// The other one removed a fragment that this one changes.
    FragmentRemoved(u64),
    /// A column became non-nullable, and rows written meanwhile may have nulls in it.
    Nullability,
    /// Both changed this config or metadata key.
    Key(String),
    /// Metadata of the schema or of a field was edited.
    SchemaMetadata,
    /// The index of this name is affected.
    Index(String),
    /// The other transaction cannot be read, or is of an unknown kind.
    UnknownTransaction,
    /// The read version of a pinned commit is no longer the newest.
    NotNewest,
    /// Both gave the dictionary of this column new values, other ones.
    Dictionary(String),
    /// Another run of this stream committed after ours: `{run} of stream {id}`.
    StreamRun(String),
    /// Both committed the same staged fragments, and the other one replaced this file of them.
    FileReplaced(String),
}

/// How many rows a conflict names.
pub const ROWS_NAMED: usize = 10;

impl Reason {
    /// Rows of one fragment.
    #[must_use]
    pub fn rows(fragment_id: u64, offsets: &RoaringBitmap) -> Self {
        let rows = offsets.iter().take(ROWS_NAMED);
        Self::Rows(rows.map(|it| fragment_id << 32 | u64::from(it)).collect())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operations => f.write_str("the two never go together"),
            Self::Fragments(ids) => {
                let shown: Vec<_> = ids.iter().take(10).map(u64::to_string).collect();
                let more = if ids.len() > 10 { ", …" } else { "" };
                write!(f, "both change rows of fragment {}{more}", shown.join(", "))
            }
            Self::Rows(addresses) => {
                let shown: Vec<_> = addresses
                    .iter()
                    .map(|it| format!("{} of fragment {}", it & 0xFFFF_FFFF, it >> 32))
                    .collect();
                write!(f, "both change row {}", shown.join(", "))
            }
            Self::RowsAdded => f.write_str("it added rows that this one would have had to see"),
            Self::NotVersion(version) => {
                write!(f, "version {version} was expected to be the newest")
            }
            Self::Expected { predicate, row_ids } => {
                let shown: Vec<_> = row_ids.iter().map(u64::to_string).collect();
                write!(
                    f,
                    "no row was expected for which `{predicate}`, and it is true for _rowid {}",
                    shown.join(", ")
                )
            }
            Self::FragmentRemoved(id) => write!(f, "fragment {id} was removed"),
            Self::Nullability => f.write_str("a column became non-nullable"),
            Self::Key(key) => write!(f, "both change the key {key:?}"),
            Self::SchemaMetadata => f.write_str("metadata of the schema was edited"),
            Self::Index(name) => write!(f, "index {name:?} is affected"),
            Self::UnknownTransaction => {
                f.write_str("that transaction cannot be read, so nothing is known about it")
            }
            Self::NotNewest => f.write_str("the table changed since it was read"),
            Self::StreamRun(run) => write!(
                f,
                "run {run} committed after this run: two streams use one application id, or one checkpoint \
                 was copied; stop one of them, and give the other a checkpoint and an application id of its own"
            ),
            Self::FileReplaced(path) => write!(
                f,
                "it committed the same staged fragments and replaced their file {path}; with a commit_id they are \
                 committed once, however often they are handed over"
            ),
            Self::Dictionary(column) => {
                write!(
                    f,
                    "both bring new values to the dictionary of column `{column}`"
                )
            }
        }
    }
}
