//! Record batches to Skiff streams: rows written one by one from the buffers of the columns, without an allocation per row.
//!
//! - `column`: one column as a source of values.
//! - `union`: variants from the rows of a union.
//! - `value`: values of one row: their checks, why they are refused, and their bytes.
//! - `bind`: which source a wire node and an Arrow array make; `bind_nested` for types with members or items.
//! - `members`: members of structs and alternatives of unions matched by name.
//! - `units`: refuses a column whose numbers would mean something else in the type that the format has for it.
//! - `given`: the columns of a batch by name.
//! - `table`: the columns of a batch matched with a table schema, and its rows.
//! - `sparse`: the sparse part of a row.
//! - `block`: rows of fixed-size values and strings, column by column.
//! - `other`: `$other_columns`, with Arrow values as YSON for columns that have no other place.
//! - `stream`: rows of all tables with their tags.

mod bind;
mod bind_nested;
mod block;
mod column;
mod given;
mod members;
mod other;
mod sparse;
mod stream;
mod table;
mod union;
mod units;
mod value;

pub use stream::{EncodeOptions, Encoder, Tags, write_all};
