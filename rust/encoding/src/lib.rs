//! Pages of a Lance v1 file to and from Arrow arrays: pure, synchronous, without IO.
//!
//! A column of a batch is a tree of nodes, and most nodes own one *page*. This crate knows one node
//! at a time; who walks the tree knows field ids, the page table and positions.
//!
//! ```text
//!  write   array ── encode_page ──▶ EncodedPage { bytes, validity that v1 cannot hold }
//!            └─ list_child, items_child, struct_children: the arrays of the nodes below
//!
//!  read    page table, Rows ── plan_fixed, plan_validity ──▶ ranges    (round 1)
//!          offsets          ── plan_bytes ─────────────────▶ ranges    (round 2, var-binary)
//!          fetched ranges   ── PageSource
//!                └─ decode_page │ decode_list_offsets │ decode_nulls
//!                       └─ assemble_list, assemble_items, assemble_struct, assemble_dictionary
//! ```
//!
//! What v1 cannot hold (nulls of fixed-width values, an empty string beside nulls) comes out of
//! [`encode_page`] as [`LevelValidity`], and [`EncodedPage::lossy`] says which row is to blame, for
//! a writer that must refuse it. Whole types that v1 has no form for are stored as their plain kin;
//! [`is_beyond_v1`] tells them.
//!
//! ```
//! use arrow_array::{Array, StringArray};
//! use arrow_schema::{DataType, Field};
//! use pilum_encoding::{Page, Rows, Segments, decode_page, encode_page};
//!
//! # fn main() -> Result<(), pilum_encoding::Error> {
//! let names = StringArray::from(vec![Some("Ada"), None, Some("Grace")]);
//! let encoded = encode_page(&names, true, None, 0)?;
//! assert!(!encoded.needs_extension());
//!
//! // A file would write these and read them back; the page table holds the pair.
//! let file: Vec<u8> = encoded.buffers.iter().flat_map(|b| b.to_vec()).collect();
//! let page = Page { position: encoded.pointer, length: encoded.length };
//! let source = Segments::new([(0, file.into())]);
//!
//! let field = Field::new("name", DataType::Utf8, true);
//! let rows = Rows::from_sorted_indices([1, 2])?;
//! let read = decode_page(&field, &page, 3, &[], &rows, &source)?;
//! assert_eq!(read.to_data(), names.slice(1, 2).to_data());
//! # Ok(())
//! # }
//! ```
//!
//! Cost: one range of rows is decoded without copying values (offsets are rewritten to Arrow's
//! width); scattered rows are one copy each into memory reserved once. Bytes are untrusted: every
//! offset, key and length is checked against bytes that exist, and ends in [`Error::Corrupt`].

mod beyond;
mod bound;
mod checksum;
mod decode;
mod dictionary;
mod encode;
mod error;
mod layout;
mod lists;
mod nested;
mod plan;
mod prefetch;
mod rows;
mod source;
mod statistics;
mod text;
mod types;
mod validity;
mod variable;

pub use beyond::is_beyond_v1;
pub use checksum::{block_checksums, crc32c, find_damaged};
pub use decode::{decode_nulls, decode_page};
pub use dictionary::{
    decode_dictionary_values, encode_dictionary_values, plan_dictionary_bytes,
    plan_dictionary_values,
};
pub use encode::{EncodedPage, Lossy, encode_page};
pub use error::Error;
pub use layout::{FixedLayout, Layout, fixed_width};
pub use nested::{
    ListOffsets, Offsets, assemble_dictionary, assemble_items, assemble_list, assemble_struct,
    items_child, list_child, struct_children,
};
pub use plan::{Page, plan_bytes, plan_fixed, plan_validity};
pub use rows::Rows;
pub use source::{PageSource, Pieces, Segments};
pub use statistics::{PageStatistics, StatisticsBuilder};
pub use types::{PageEncoding, has_statistics, logical_type, page_encoding, parse_logical_type};
pub use validity::{LevelValidity, Validity, validity_levels};
pub use variable::decode_list_offsets;
