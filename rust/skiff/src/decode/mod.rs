//! Skiff streams to record batches: one pass over the bytes, straight into the buffers of the arrays.
//!
//! - `cursor`: bounds-checked reading from the bytes at hand, and why reading stops.
//! - `bind`: which column decodes a wire node to an Arrow field.
//! - `column`: one buffer builder per column, and `finish`, which makes arrays of them.
//! - `nested`: columns with columns in them.
//! - `check`: checks of values, and the options that they follow.
//! - `number`: integers, decimals and identifiers whose wire form differs from Arrow's.
//! - `table`: one row into the columns of its table.
//! - `control`: key switches and the indexes of rows and ranges.
//! - `tail`: sparse columns, and the map of `$other_columns`.
//! - `order`: the order of sparse columns, which is kept on request.
//! - `options`: how a stream is decoded.
//! - `stream`: rows of all tables, cut into batches; a row that is not complete yet is undone and read again.
//! - `row_end`: where such a row ends.
//! - `reader`: the same over a file, pipe or socket.

mod bind;
mod check;
mod column;
mod control;
mod cursor;
mod finish;
mod nested;
mod number;
mod options;
mod order;
mod reader;
mod row_end;
mod stream;
mod table;
mod tail;

pub(crate) use check::exact_float;
pub(crate) use cursor::{Cursor, Stop};
pub(crate) use number::fits;
pub use options::DecodeOptions;
pub use reader::Reader;
pub use stream::Decoder;
pub(crate) use table::check_mapping;
