//! Record batches to Skiff streams: rows written one by one from the buffers of the columns, without an allocation per row.
//!
//! - `column`: one column as a source of values.
//! - `bind`: which source a wire node and an Arrow array make.
//! - `table`: the columns of a batch matched with a table schema, and its rows.
//! - `other`: Arrow values as YSON, for columns that only `$other_columns` has a place for.
//! - `stream`: rows of all tables with their tags.

mod bind;
mod column;
mod other;
mod stream;
mod table;

pub use stream::{EncodeOptions, Encoder, Tags, write_all};
