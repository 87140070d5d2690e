//! The schema of one table: which child of the row tuple is which kind of column, and the rules that make the tuple legal.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::arrow::{self, Strings};
use super::field::without_empty_metadata;
use super::names::{KEY_SWITCH, OTHER, RANGE_INDEX, REMAINING, ROW_INDEX, SPARSE};
use super::node::{WireNode, WireType};
use crate::error::{Error, Result};

/// What a child of the row tuple is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// An ordinary column, present in every row.
    Dense,
    /// `$key_switch`.
    KeySwitch,
    /// `$row_index`.
    RowIndex {
        /// Whether tag 2, index unavailable, is declared.
        is_three_way: bool,
    },
    /// `$range_index`.
    RangeIndex {
        /// Whether tag 2, index unavailable, is declared.
        is_three_way: bool,
    },
    /// `$remaining_row_bytes`.
    RemainingRowBytes,
    /// `$sparse_columns`, which is as many columns as it has children.
    Sparse {
        /// How many.
        num_columns: usize,
    },
    /// `$other_columns`.
    Other,
}

/// A legal row tuple with the Arrow schema that its rows are decoded to.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSchema {
    root: Arc<WireNode>,
    /// Shared: thousands of tables may have one schema.
    slots: Arc<[Slot]>,
    arrow: SchemaRef,
}

impl TableSchema {
    /// Checks a row tuple. Its Arrow schema follows the wire types.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`] for the rule that the tuple breaks, [`Error::Unsupported`] for a type that Arrow cannot hold.
    pub fn try_new(root: Arc<WireNode>, strings: Strings) -> Result<Self> {
        Self::at("the table schema", root, strings)
    }

    pub(crate) fn at(place: &str, root: Arc<WireNode>, strings: Strings) -> Result<Self> {
        let slots = check(place, &root)?;
        let mut fields = Vec::with_capacity(root.children.len());
        for (child, slot) in root.children.iter().zip(&slots) {
            match slot {
                Slot::Dense => fields.push(arrow::field_of_wire(&child.name, child, strings)?),
                Slot::Sparse { .. } => {
                    for child in &child.children {
                        let value = child.optional_value().unwrap_or(child);
                        let field = arrow::field_of_wire(&child.name, value, strings)?;
                        fields.push(arrow::nullable(field));
                    }
                }
                Slot::KeySwitch => {
                    fields.push(Field::new(KEY_SWITCH, DataType::Boolean, false));
                }
                Slot::RowIndex { is_three_way } | Slot::RangeIndex { is_three_way } => {
                    fields.push(Field::new(&child.name, DataType::Int64, *is_three_way));
                }
                Slot::RemainingRowBytes => {
                    fields.push(Field::new(REMAINING, DataType::Int32, false));
                }
                Slot::Other => fields.push(arrow::yson_field(OTHER, false)),
            }
        }
        Ok(Self {
            root,
            slots: slots.into(),
            arrow: Arc::new(Schema::new(fields)),
        })
    }

    /// The same table with other Arrow fields, matched by name. Whether rows can be decoded to them is for the caller to check.
    pub(crate) fn replace_fields(&self, wanted: &Schema) -> Result<Self> {
        let mut fields: Vec<_> = self.arrow.fields().iter().cloned().collect();
        for field in wanted.fields() {
            let same = |own: &&mut Arc<Field>| own.name() == field.name();
            let Some(own) = fields.iter_mut().find(same) else {
                return Err(Error::unsupported(
                    format!("column `{}`", field.name()),
                    "the format has no such column",
                ));
            };
            *own = Arc::new(without_empty_metadata(field));
        }
        Ok(Self {
            root: Arc::clone(&self.root),
            slots: Arc::clone(&self.slots),
            arrow: Arc::new(Schema::new(fields)),
        })
    }

    /// The wire tree of a row.
    #[must_use]
    pub fn root(&self) -> &Arc<WireNode> {
        &self.root
    }

    /// What the children of the row tuple are, in their order.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The Arrow schema of decoded rows: one field per child in the order of the row tuple, sparse columns one by one.
    #[must_use]
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// The names of all columns but `$other_columns`.
    pub(crate) fn names(&self) -> HashSet<Vec<u8>> {
        let names = self.arrow.fields().iter().map(|field| field.name());
        let names = names.filter(|name| name.as_str() != OTHER);
        names.map(|name| name.clone().into_bytes()).collect()
    }

    /// Each slot with its wire node and the number of its first Arrow field.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (Slot, &WireNode, usize)> {
        let mut next = 0;
        let children = self.root.children.iter().map(Arc::as_ref);
        self.slots.iter().zip(children).map(move |(slot, node)| {
            let first = next;
            next += match slot {
                Slot::Sparse { num_columns } => *num_columns,
                _ => 1,
            };
            (*slot, node, first)
        })
    }
}

/// The rules for a row tuple.
fn check(place: &str, root: &WireNode) -> Result<Vec<Slot>> {
    if root.wire_type != WireType::Tuple {
        let found = root.wire_type;
        return Err(Error::schema(
            place,
            format!("a row must be a tuple, not a {found}"),
        ));
    }
    let mut names = HashSet::new();
    let mut slots = Vec::with_capacity(root.children.len());
    for (number, child) in root.children.iter().enumerate() {
        let place = format!("{place}, column {number} `{}`", child.name);
        if child.name.is_empty() {
            return Err(Error::schema(place, "a column needs a name"));
        }
        let follow = root.children.get(number + 1..).unwrap_or_default();
        let slot = slot(&place, child, follow)?;
        let mut add = |name| match names.insert(name) {
            true => Ok(()),
            false => Err(Error::schema(&place, format!("a second column `{name}`"))),
        };
        add(child.name.as_str())?;
        if let Slot::Sparse { .. } = slot {
            for child in &child.children {
                check_sparse(&place, child)?;
                add(child.name.as_str())?;
            }
        }
        slots.push(slot);
    }
    Ok(slots)
}

fn slot(place: &str, child: &WireNode, follow: &[Arc<WireNode>]) -> Result<Slot> {
    let wrong = |reason: &str| Err(Error::schema(place, reason));
    match child.name.as_str() {
        KEY_SWITCH => match child.wire_type {
            WireType::Boolean => Ok(Slot::KeySwitch),
            _ => wrong("it must be boolean"),
        },
        REMAINING => match child.wire_type {
            WireType::Int32 => Ok(Slot::RemainingRowBytes),
            _ => wrong("it must be int32"),
        },
        ROW_INDEX | RANGE_INDEX => {
            let kinds: Vec<_> = child.children.iter().map(|it| it.wire_type).collect();
            let is_three_way = match kinds.as_slice() {
                [WireType::Nothing, WireType::Int64] => false,
                [WireType::Nothing, WireType::Int64, WireType::Nothing] => true,
                _ => {
                    return wrong(
                        "it must be variant8<nothing; int64> or variant8<nothing; int64; nothing>",
                    );
                }
            };
            if child.wire_type != WireType::Variant8 {
                return wrong("it must be a variant8");
            }
            Ok(if child.name == ROW_INDEX {
                Slot::RowIndex { is_three_way }
            } else {
                Slot::RangeIndex { is_three_way }
            })
        }
        SPARSE => {
            if child.wire_type != WireType::RepeatedVariant16 {
                return wrong("it must be a repeated_variant16");
            }
            if child.children.len() > usize::from(u16::MAX) {
                return wrong("it has more than 65,535 columns, which is more than it has tags");
            }
            match follow {
                [] => {}
                [last] if last.name == OTHER => {}
                _ => {
                    return wrong(
                        "it must be the last column, or the last but one before `$other_columns`",
                    );
                }
            }
            Ok(Slot::Sparse {
                num_columns: child.children.len(),
            })
        }
        OTHER => {
            if child.wire_type != WireType::Yson32 {
                return wrong("it must be yson32");
            }
            if !follow.is_empty() {
                return wrong("it must be the last column");
            }
            Ok(Slot::Other)
        }
        _ => Ok(Slot::Dense),
    }
}

fn check_sparse(place: &str, child: &WireNode) -> Result<()> {
    let special = [KEY_SWITCH, ROW_INDEX, RANGE_INDEX, REMAINING, SPARSE, OTHER];
    if child.name.is_empty() {
        return Err(Error::schema(place, "a sparse column needs a name"));
    }
    if special.contains(&child.name.as_str()) {
        return Err(Error::schema(
            place,
            format!("`{}` cannot be sparse", child.name),
        ));
    }
    Ok(())
}
