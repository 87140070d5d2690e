//! Pages of a Lance v1 file to and from Arrow arrays: pure, synchronous, without IO.
//!
//! A column of a batch is a tree of nodes, and most nodes own one *page*. This crate handles one node
//! at a time; the caller (crate `file`) walks the tree and knows field ids, the page table and positions.
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
//! Values that v1 cannot hold (nulls of fixed-width values, an empty string beside nulls) are returned by
//! [`encode_page`] as [`LevelValidity`]; [`EncodedPage::lossy`] names the first such row, for a writer
//! that must refuse it. Types that v1 cannot store are stored in the page of a related type;
//! [`is_beyond_v1`] lists them.
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
//! Cost: one range of rows is decoded without copying values. Offsets are rewritten to Arrow's width, and
//! dictionary keys and validity bitmaps are copied. Scattered rows are copied once, into memory reserved
//! once. Bytes are untrusted: every offset, key and length is checked against bytes that exist, and a wrong
//! one is [`Error::Corrupt`]. Offsets, keys and bitmaps are checked after copying, so that a change of a
//! mapped file after the check cannot turn them into an access outside of memory. UTF-8 is checked in place:
//! see the module `byte_array`.

mod beyond_v1;
mod checksum;
mod decode;
mod dictionary;
mod encode;
mod error;
mod layout;
pub mod packed;
mod plan;
mod rows;
mod source;
mod statistics;
mod types;
mod validity;

pub use beyond_v1::is_beyond_v1;
pub use checksum::{block_checksums, crc32c, find_damaged};
pub use decode::{
    ListOffsets, Offsets, assemble_dictionary, assemble_items, assemble_list, assemble_struct,
    decode_list_offsets, decode_nulls, decode_page,
};
pub use dictionary::{
    decode_dictionary_values, encode_dictionary_values, plan_dictionary_bytes,
    plan_dictionary_values,
};
pub use encode::{EncodedPage, Lossy, encode_page, items_child, list_child, struct_children};
pub use error::Error;
pub use layout::{FixedLayout, Layout, fixed_width};
pub use plan::{Page, plan_bytes, plan_child_span, plan_fixed, plan_validity};
pub use rows::Rows;
pub use source::{PageSource, RangeSlices, Segments};
pub use statistics::StatisticsBuilder;
pub use types::{
    PageEncoding, has_peer_statistics, has_statistics, logical_type, page_encoding,
    parse_logical_type,
};
pub use validity::{LevelValidity, Validity, validity_levels};
