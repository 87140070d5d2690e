//! YSON: one node of text or binary tokens, read strictly, written in three styles, and kernels over Arrow arrays of nodes.
//!
//! - `read`: a single-pass reader that calls a [`Visitor`]; it allocates nothing but unescaped strings.
//! - `token`: its tokens: strings, numbers, and the words behind `%`.
//! - `limits`: how deep and how large a node may be.
//! - `escape`: the escapes of quoted strings.
//! - `node`: a tree of owned values, for schemas and for the kernels that need one.
//! - `write`: text, binary and canonical output, again as a [`Visitor`].
//! - `outer`: the entries of the outermost map, taken out one by one.
//! - `json`: the JSON view of a node, both ways.
//! - `kernels`: the same over arrays.

mod escape;
mod json;
mod kernels;
mod limits;
mod node;
mod outer;
mod read;
mod token;
mod write;

pub use json::{JsonOptions, json_to_yson, yson_to_json};
pub(crate) use json::{json_node, write_json};
pub use kernels::{canonical_array, json_to_yson_array, yson_get_array, yson_to_json_array};
pub use limits::Limits;
pub use node::{Node, Pairs, Value, parse};
pub(crate) use outer::{OuterMap, declared_key};
pub use read::{Visitor, is_plain_map, validate, visit};
pub use write::{Style, Writer, write_node};
