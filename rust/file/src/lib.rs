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
//! [`Schema`] gives Arrow fields the ids by which a table, over all its versions, knows them.

mod checked;
mod dictionary;
mod directory;
mod error;
mod inspect;
mod items;
mod options;
pub mod proto;
mod read;
mod schema;
mod shape;
mod statistics;
mod trailer;
mod verify;
mod wire;
mod write;

pub use dictionary::{
    EncodedDictionary, decode_dictionary, dictionary_validity, encode_dictionary, set_dictionary,
};
pub use error::{Error, Result};
pub use inspect::{
    ColumnDescription, ExtensionDescription, FileDescription, PageDescription, Section,
};
pub use items::is_item_declaration;
pub use options::{Compat, DEFAULT_CHECKSUM_BLOCK, DEFAULT_MAX_STATISTICS, WriteOptions};
pub use pilum_encoding::{Rows, crc32c, fixed_width};
pub use read::{FileReader, OpenOptions};
pub use schema::{DictionaryPosition, Field, FieldId, MAX_DEPTH, Schema};
pub use shape::{FIELDS, MAP_ENTRY, Part, Shape, count_fields};
pub use statistics::ColumnStatistics;
pub use trailer::{FOOTER_LEN, MAGIC};
pub use verify::{FileCheck, FileProblem, FileReport};
pub use wire::{Malformed, RawField, RawFields, contents, without_fields};
pub use write::{Dictionaries, FileWriter, WrittenFile};
