//! Record batches to Skiff streams: rows written one by one from the buffers of the columns, without an allocation per row.
//!
//! - `column`: one column as a source of values.
//! - `bind`: which source a wire node and an Arrow array make.
//! - `members`: members of structs and alternatives of unions matched by name.
//! - `units`: refuses a column whose numbers would mean something else in the type that the format has for it.
//! - `table`: the columns of a batch matched with a table schema, and its rows.
//! - `sparse`: the sparse part of a row.
//! - `block`: rows of fixed-size values and strings, column by column.
//! - `other`: `$other_columns`, with Arrow values as YSON for columns that have no other place.
//! - `stream`: rows of all tables with their tags.

mod bind;
mod block;
mod column;
mod members;
mod other;
mod sparse;
mod stream;
mod table;
mod units;

pub use stream::{EncodeOptions, Encoder, Tags, write_all};
