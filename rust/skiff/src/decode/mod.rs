//! Skiff streams to record batches: one pass over the bytes, straight into the buffers of the arrays.
//!
//! - `cursor`: bounds-checked reading from the bytes at hand, and why reading stops.
//! - `bind`: which column decodes a wire node to an Arrow field.
//! - `column`: one buffer builder per column, and `finish`, which makes arrays of them.
//! - `number`: integers, decimals and identifiers whose wire form differs from Arrow's.
//! - `table`: one row into the columns of its table, with the rules of control columns.
//! - `order`: the order of sparse columns, which is kept on request.
//! - `options`: how a stream is decoded.
//! - `stream`: rows of all tables, cut into batches; a row that is not complete yet is undone and read again.
//! - `reader`: the same over a file, pipe or socket.

mod bind;
mod column;
mod cursor;
mod finish;
mod number;
mod options;
mod order;
mod reader;
mod stream;
mod table;

pub(crate) use column::exact_float;
pub(crate) use cursor::{Cursor, Stop};
pub(crate) use number::fits;
pub use options::DecodeOptions;
pub use reader::Reader;
pub use stream::Decoder;
pub(crate) use table::check_mapping;
