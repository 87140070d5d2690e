//! Schemas: the wire tree, the rules for one table, the format of an operation, and the mapping to Arrow and from the types of
//! YTsaurus tables.

mod arrow;
mod explain;
mod field;
mod format;
mod integer;
mod logical;
mod names;
mod node;
mod table;

pub use arrow::{Strings, YSON_EXTENSION};
pub(crate) use arrow::{is_json, is_uuid, is_yson, root_of_arrow};
pub(crate) use field::{can_be_null, decodable};
pub use format::Format;
pub(crate) use integer::Integer;
pub(crate) use logical::columns_of_table;
pub(crate) use names::{KEY_SWITCH, OTHER, RANGE_INDEX, REMAINING, ROW_INDEX, SPARSE};
pub use node::{WireNode, WireType};
pub use table::{Slot, TableSchema};
