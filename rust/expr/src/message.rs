//! Expressions as bytes, for other processes: a message with a version, flat, so that decoding does not recurse.
//!
//! The nodes of the tree come in postfix order: each one takes its operands from the nodes before it. The values of long lists
//! lie beside the tree, packed.

use prost::Message as _;

mod broken;
mod list;
mod read;
mod write;

use crate::{
    error::{Error, Result},
    expr::Expr,
    proto::expression as proto,
};
use broken::broken;

/// The version of the message that this crate writes, and the only one that it reads.
const VERSION: u32 = 1;
/// Size limit of the tree in bytes; its nodes take up to about fifty times that in memory.
const MAX_TREE_BYTES: usize = 4 << 20;
/// Size limit of the values of lists in bytes, which take about that in memory.
const MAX_VALUE_BYTES: usize = 1 << 30;

impl Expr {
    /// The expression as bytes, which [`Expr::from_message`] reads.
    ///
    /// # Errors
    /// [`Error::Limit`] for a tree that is too deep or too large; [`Error::Unsupported`] for a `CAST` to a type without a name
    /// in SQL.
    pub fn to_message(&self) -> Result<Vec<u8>> {
        let mut writer = write::Writer::default();
        writer.expr(self)?;
        let tree = writer.tree.encode_to_vec();
        let limits = [
            ("bytes of the expression", tree.len(), MAX_TREE_BYTES),
            (
                "bytes of the values of IN",
                writer.values.len(),
                MAX_VALUE_BYTES,
            ),
        ];
        for (what, size, limit) in limits {
            if size > limit {
                let what = what.to_owned();
                return Err(Error::Limit { what, limit });
            }
        }
        let message = proto::Expression {
            version: VERSION,
            tree: tree.into(),
            values: writer.values.into(),
        };
        Ok(message.encode_to_vec())
    }

    /// Reads the bytes of [`Expr::to_message`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] for another version of the message; [`Error::InvalidInput`] for bytes that are no such message;
    /// [`Error::Limit`] for one that is too large or too deep.
    pub fn from_message(bytes: &[u8]) -> Result<Self> {
        let limit = MAX_TREE_BYTES + MAX_VALUE_BYTES + 1024;
        if bytes.len() > limit {
            return Err(Error::Limit {
                what: "bytes of the message".into(),
                limit,
            });
        }
        let message = proto::Expression::decode(bytes).map_err(|error| broken(&error))?;
        if message.version != VERSION {
            return Err(Error::unsupported(format!(
                "version {} of expression messages; this release of pilum reads version {VERSION}",
                message.version
            )));
        }
        if message.tree.len() > MAX_TREE_BYTES {
            return Err(Error::Limit {
                what: "bytes of the expression".into(),
                limit: MAX_TREE_BYTES,
            });
        }
        let tree = proto::Tree::decode(message.tree).map_err(|error| broken(&error))?;
        read::tree(tree, &message.values)
    }
}
