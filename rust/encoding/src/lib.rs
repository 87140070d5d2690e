//! Pages of a Lance v1 file to and from Arrow arrays; pure
mod bound;
mod checksum;
mod decode;
mod dictionary;
mod encode;
mod error;
mod layout;
mod nested;
mod plan;
mod rows;
mod source;
mod statistics;
mod types;
mod validity;
mod variable;

pub use checksum::{block_checksums, crc32c, verify_blocks};
pub use decode::{decode_nulls, decode_page};
pub use dictionary::{
    decode_dictionary_values, encode_dictionary_values, plan_dictionary_bytes,
    plan_dictionary_values,
};
pub use encode::{EncodedPage, Lossy, encode_page};
pub use error::Error;
pub use layout::{FixedLayout, Layout, fixed_width};
pub use nested::{
    ListOffsets, Offsets, assemble_dictionary, assemble_list, assemble_struct, list_child,
    struct_children,
};
pub use plan::{Page, plan_bytes, plan_fixed, plan_validity};
pub use rows::Rows;
pub use source::{PageSource, Segments};
pub use statistics::{PageStatistics, StatisticsBuilder};
pub use types::{PageEncoding, has_statistics, logical_type, page_encoding, parse_logical_type};
pub use validity::{LevelValidity, Validity, validity_levels};
pub use variable::decode_list_offsets;
