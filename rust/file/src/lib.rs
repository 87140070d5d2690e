//! One Lance v1 data file, in both directions.
//!
//! ```text
//! pages of batch 0 (each column), batch 1, ... | page table | statistics | dictionary values | embedded manifest
//!   | checksums, column records, column directory, extension block | Metadata | footer
//! ```
//!
//! [`FileWriter`] streams record batches into pages and writes the directory last. [`FileReader`] opens a file by its footer
//! (one request), plans the bytes that some rows of some columns need, fetches them in as many rounds as offsets are nested,
//! verifies the checksum blocks that it reads, and decodes. A value of fixed width costs one range, a string two.
//!
//! Validity and checksums are stored in an extension block that other readers skip (`docs/format.md`, section 6).
//! [`Schema`](pilum_format::Schema) gives Arrow fields the ids that identify them in all versions of a table.

mod checked;
mod columns;
mod dictionary;
mod directory;
mod error;
mod events;
mod extension_need;
mod footer;
mod inspect;
mod options;
mod ranges;
mod read;
mod reader;
mod statistics;
mod verify;
mod write;

pub use error::{Error, Result};
pub use inspect::{
    ColumnDescription, ExtensionDescription, FileDescription, PageDescription, Section,
};
pub use options::{Compat, DEFAULT_CHECKSUM_BLOCK, DEFAULT_MAX_STATISTICS, WriteOptions};
pub use pilum_encoding::{Rows, fixed_width};
pub use reader::{FileReader, OpenOptions};
pub use statistics::ColumnStatistics;
pub use verify::{FileCheck, FileProblem, FileReport, ValueCheck};
pub use write::{FileWriter, WrittenFile};
