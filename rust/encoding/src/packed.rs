//! Packed pages (`docs/format.md`, section 15): lightweight encodings over blocks of 1,024 values that decode alone.
//!
//! ```text
//!  encode   words ── encode::integers (the choice), or encode::frame, ..  ──▶ EncodedNode ── write_page ──▶ bytes of a page
//!
//!  decode   head ── PackedPage::parse ──▶ all places, widths and nodes checked, nothing of the bodies read
//!           PackedPage::plan(k) ──▶ ranges of block k
//!           PackedPage::decode_block(k, &mut Bodies, ..) ──▶ bytes as in a plain page, or texts
//! ```
//!
//! Modules, from the bottom: `encoding` has the numbers of the encodings. `node` describes the nodes of a page, and `decoder`
//! has the traits that each encoding implements.
//! `head` and `pack` read bytes. Each encoding has a module. `leaf` chooses among encodings without nodes below them, and
//! `integers` among all encodings of integers. `header` writes the header of a page. `cascade` says which encodings may lie
//! below which. `tree` builds the decoders of a page. `page` has the public types.
//!
//! Bytes are untrusted. Nothing is allocated for values that the bytes at hand do not bound: a head is bounded by its bytes, and
//! blocks are decoded one by one into memory that the caller bounds.

mod bits;
mod blocks;
mod cascade;
mod constant;
mod decoder;
mod delta;
mod dictionary;
mod encoding;
mod float;
mod frame;
mod head;
mod header;
mod integers;
mod leaf;
mod node;
mod pack;
mod page;
mod plain;
mod run;
mod small;
mod text;
mod tree;
mod wide;

pub use cascade::Kind;
pub use decoder::{Bodies, TextOut};
pub use encoding::Encoding;
pub use header::{HEADER_BYTES, Mode, head_length, write_page};
pub use node::{BLOCK, EncodedNode, MAX_VALUES};
pub use page::PackedPage;
pub use text::TextValues;

/// The encoders, one per encoding: a choice uses them, and tests force each on every page that it can hold.
pub mod encode {
    pub use super::bits::encode as bits;
    pub use super::constant::{encode as constant, encode_bytes as constant_bytes};
    pub use super::delta::encode as delta;
    pub use super::dictionary::{encode as dictionary, encode_texts as text_dictionary};
    pub use super::frame::encode as frame;
    pub use super::integers::{choose as integers, choose_wide as wide_integers};
    pub use super::leaf::encode_lengths as lengths;
    pub use super::plain::{encode as plain, encode_bytes as plain_bytes};
    pub use super::run::encode as run;
    pub use super::wide::encode as wide;

    pub use super::float::choose::{choose as floats, encode_as as floats_as};
    pub use super::small::coded::encode as coded;
    pub use super::small::planes::encode as planes;
    pub use super::text::choose::{
        choose as texts, choose_sorted as sorted_texts, encode_as as texts_as,
    };
}
