//! Skiff, the row format of YTsaurus jobs, to and from Arrow at the speed of memory; and YSON, its notation for values of any
//! type.
//!
//! A Skiff stream carries neither names nor types: it is read by its schema only.
//!
//! ```text
//!   stream of a job's input:   00 00 | row of table 0     01 00 | row of table 1     00 00 | row of table 0 ...
//!   one row:                   dense and control columns | sparse columns, FF FF | other columns, a YSON map
//! ```
//!
//! - [`Format`]: the schemas of the tables of a stream, from and to the attributes of an operation, from an Arrow schema, from a
//!   schema of a YTsaurus table; [`Format::annotate`] shows the bytes of a stream field by field.
//! - [`Decoder`], [`Reader`]: bytes to record batches, in one pass, in bounded memory.
//! - [`Encoder`]: record batches to bytes.
//! - [`promote_other_columns`]: keys of `$other_columns` as typed columns.
//! - [`yson`]: nodes read, written, and as kernels over arrays.
//!
//! ```
//! use pilum_skiff::{DecodeOptions, Format, Reader, Strings};
//!
//! let format = r#"{"table_skiff_schemas": [{"wire_type": "tuple", "children": [
//!     {"name": "id", "wire_type": "int64"},
//!     {"name": "name", "wire_type": "variant8", "children": [{"wire_type": "nothing"}, {"wire_type": "string32"}]}
//! ]}]}"#;
//! let format = Format::from_json(format, Strings::Text)?;
//! let bytes: &[u8] = b"\0\0\x2a\0\0\0\0\0\0\0\x01\x03\0\0\0foo\0\0\x07\0\0\0\0\0\0\0\0";
//! for batch in Reader::new(bytes, format, DecodeOptions::default()) {
//!     let (table, batch) = batch?;
//!     assert_eq!((table, batch.num_rows()), (0, 2));
//! }
//! # Ok::<(), pilum_skiff::Error>(())
//! ```
//!
//! Nothing here waits, opens or spawns: input is a slice or [`std::io::Read`], output a `Vec<u8>`.

mod annotate;
mod arrow_name;
mod bytes;
mod decode;
mod encode;
mod error;
mod mapped;
mod promote;
mod schema;
pub mod yson;

pub use decode::{DecodeOptions, Decoder, Reader};
pub use encode::{EncodeOptions, Encoder, Tags, write_all};
pub use error::{Error, Result, StreamFault, ValueFault};
pub use promote::{Conflicts, promote_other_columns};
pub use schema::{Format, Slot, Strings, TableSchema, WireNode, WireType, YSON_EXTENSION};
