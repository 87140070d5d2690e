//! One Lance v1 data file, in both directions.
//!
//! ```text
//! pages of batch 0 (each column), batch 1, ... | page table | statistics | dictionary values | embedded manifest
//!   | checksums, column records, column directory, extension block | Metadata | footer
//! ```
//!
//! [`FileWriter`] streams record batches into pages and writes the directory last. [`FileReader`] opens a file by its footer
//! (one request), plans the bytes that some rows of some columns need, fetches them in as many rounds as offsets are nested,
//! verifies the checksum blocks that it touches, and decodes. A value of fixed width costs one range, a string two.
//!
//! Validity, checksums and the room for encodings live in an extension block that other readers skip (`docs/format.md`).
//! [`Schema`](pilum_format::Schema) gives Arrow fields the ids by which a table, over all its versions, knows them.

mod checked;
mod dictionary;
mod directory;
mod error;
mod inspect;
mod options;
mod read;
mod statistics;
mod trailer;
mod verify;
mod write;

pub use error::{Error, Result};
pub use inspect::{
    ColumnDescription, ExtensionDescription, FileDescription, PageDescription, Section,
};
pub use options::{Compat, DEFAULT_CHECKSUM_BLOCK, DEFAULT_MAX_STATISTICS, WriteOptions};
pub use pilum_encoding::{Rows, fixed_width};
pub use read::{FileReader, OpenOptions};
pub use statistics::ColumnStatistics;
pub use trailer::{FOOTER_LEN, MAGIC};
pub use verify::{FileCheck, FileProblem, FileReport};
pub use write::{FileWriter, WrittenFile};
