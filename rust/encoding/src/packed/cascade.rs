//! Which encodings may lie below which (`docs/format.md`, section 15.4): checked on the node table, before any head is read.

use super::encoding::Encoding;
use super::header::{Entry, NodeTable};
use super::node::NodeId;
use crate::error::Error;

/// The kind of values in a page; the reader derives it from the type of the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Values of 1, 2, 4 or 8 bytes, or decimals of 16.
    Numbers {
        /// Bytes of a value.
        width: u8,
    },
    /// Other values of one size, up to 255 bytes.
    Fixed {
        /// Bytes of a value.
        width: u8,
    },
    /// Texts or binary values.
    Texts,
    /// Booleans or validity.
    Bits,
}

/// The role of a node for its parent node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Root(Kind),
    /// Values of a run or of a dictionary of numbers, of so many bytes.
    Values(u8),
    Codes,
    /// Lengths of runs and texts, shared lengths of `front`.
    Lengths,
    /// Values and codes of a dictionary of lengths.
    LengthValues,
    /// Integers of `binary scale` and `alp`.
    Integers,
    /// Left codes and right bits of `alp-rd`; halves of `wide`.
    Parts,
    /// Values of a dictionary of texts.
    Texts,
    /// Suffixes of `front`.
    Suffixes,
}

use Encoding as E;

/// Bytes of codes and lengths, as the parameter of their nodes.
const INDEX_WIDTH: u8 = 4;

impl Role {
    /// Bytes of a value, which the parameter of a node of numbers states; `None` for texts and bits.
    pub(crate) fn number_width(self) -> Option<u8> {
        match self {
            Self::Root(Kind::Numbers { width } | Kind::Fixed { width }) | Self::Values(width) => {
                Some(width)
            }
            Self::Codes | Self::Lengths | Self::LengthValues => Some(INDEX_WIDTH),
            Self::Integers | Self::Parts => Some(8),
            Self::Root(Kind::Texts | Kind::Bits) | Self::Texts | Self::Suffixes => None,
        }
    }

    fn allows(self, encoding: Encoding) -> bool {
        // What stands in place of a leaf of numbers, or of texts, in pages of mode `small`.
        let small_numbers = matches!(encoding, E::Planes | E::Coded);
        let small_texts = encoding == E::Coded;
        match self {
            Self::Root(Kind::Numbers { width }) => match encoding {
                E::Plain | E::Constant | E::For | E::Delta | E::Run | E::Dictionary => true,
                E::Wide => width == 16,
                E::BinaryScale | E::Alp | E::AlpRd => matches!(width, 4 | 8),
                _ => small_numbers,
            },
            Self::Root(Kind::Fixed { .. }) => matches!(encoding, E::Plain | E::Constant),
            Self::Root(Kind::Texts) => {
                matches!(
                    encoding,
                    E::Constant | E::Dictionary | E::Raw | E::Fsst | E::Pair | E::Chars | E::Front
                ) || small_texts
            }
            Self::Root(Kind::Bits) => encoding == E::Bits,
            Self::Values(_) => {
                matches!(encoding, E::Plain | E::Constant | E::For | E::Delta) || small_numbers
            }
            Self::Codes => {
                matches!(encoding, E::Constant | E::For | E::Delta | E::Run) || small_numbers
            }
            Self::Lengths => {
                matches!(encoding, E::Constant | E::For | E::Dictionary) || small_numbers
            }
            Self::LengthValues | Self::Parts => {
                matches!(encoding, E::Constant | E::For) || small_numbers
            }
            Self::Integers => matches!(encoding, E::Constant | E::For | E::Delta) || small_numbers,
            Self::Texts => {
                matches!(encoding, E::Raw | E::Fsst | E::Pair | E::Chars | E::Front) || small_texts
            }
            Self::Suffixes => matches!(encoding, E::Raw | E::Fsst | E::Chars) || small_texts,
        }
    }

    /// Whether nodes of this role count as a level of the cascade: lengths lie beside their texts and runs.
    fn is_level(self) -> bool {
        !matches!(self, Self::Lengths | Self::LengthValues)
    }
}

/// The roles of the nodes below a node, in order.
fn child_roles(encoding: Encoding, role: Role) -> Vec<Role> {
    match encoding {
        E::Plain | E::Constant | E::For | E::Delta | E::Bits | E::Planes => Vec::new(),
        E::Run => vec![
            Role::Values(role.number_width().unwrap_or(INDEX_WIDTH)),
            Role::Lengths,
        ],
        E::Dictionary => match (role, role.number_width()) {
            (Role::Lengths, _) => vec![Role::LengthValues, Role::LengthValues],
            (_, Some(width)) => vec![Role::Values(width), Role::Codes],
            (_, None) => vec![Role::Texts, Role::Codes],
        },
        E::Wide | E::AlpRd => vec![Role::Parts, Role::Parts],
        E::BinaryScale | E::Alp => vec![Role::Integers],
        E::Raw | E::Fsst | E::Pair | E::Chars => vec![Role::Lengths],
        E::Front => vec![Role::Lengths, Role::Suffixes],
        E::Coded => vec![role],
    }
}

/// Most levels of encodings in a page, counted from the root.
const MAX_LEVELS: usize = 3;

/// Checks that each node of the table may be where it is.
///
/// # Errors
/// `Corrupt` names the first node that may not be where it is.
pub(crate) fn check(table: &NodeTable, kind: Kind) -> Result<(), Error> {
    // A stack of the nodes still to check: role, level, and whether the parent is `coded`.
    let mut due = vec![(Role::Root(kind), 1, false)];
    for (index, entry) in (0..).zip(&table.entries) {
        let id = NodeId {
            index,
            encoding: entry.encoding,
        };
        let (role, level, in_coded) = due
            .pop()
            .ok_or_else(|| id.corrupt("a node without parent"))?;
        check_node(id, entry, role, in_coded)?;
        let below = child_roles(entry.encoding, role);
        if usize::from(entry.children) != below.len() {
            let (has, wants) = (entry.children, below.len());
            return Err(id.corrupt(format!("{has} nodes below it where {wants} belong")));
        }
        let is_coded = entry.encoding == E::Coded;
        for &child in below.iter().rev() {
            let below = level + usize::from(child.is_level() && !is_coded);
            if below > MAX_LEVELS && child.is_level() {
                return Err(
                    id.corrupt(format!("more than {MAX_LEVELS} encodings above each other"))
                );
            }
            due.push((child, below, is_coded));
        }
    }
    if due.is_empty() {
        return Ok(());
    }
    let missing = due.len();
    Err(Error::corrupt(format!(
        "packed page: {missing} nodes are missing in the node table"
    )))
}

fn check_node(id: NodeId, entry: &Entry, role: Role, in_coded: bool) -> Result<(), Error> {
    let is_allowed = role.allows(entry.encoding)
        && (!in_coded
            || matches!(
                entry.encoding,
                E::For | E::Delta | E::Raw | E::Fsst | E::Pair
            ));
    if !is_allowed {
        return Err(id.corrupt(format!("not allowed as {role:?}")));
    }
    let parameter = entry.parameter;
    match role.number_width() {
        Some(width) if parameter != width => {
            Err(id.corrupt(format!("values of {parameter} bytes where {width} belong")))
        }
        _ => Ok(()),
    }
}
