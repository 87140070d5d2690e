//! Binds Arrow structs, unions, lists and maps to the tuples, variants and repeated variants of a Skiff schema.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UnionArray};
use arrow_schema::{DataType, Field, FieldRef};

use super::bind::{Binder, Part};
use super::column::{Column, Union};
use super::members;
use crate::error::Result;
use crate::schema::{WireNode, WireType};

impl Binder<'_> {
    /// Members by their names, without those that have no bytes. The key and the value of a map entry, `is_pair`, are told apart
    /// by their order.
    pub(super) fn bind_tuple(
        self,
        node: &WireNode,
        expected: &Field,
        (fields, columns): (&arrow_schema::Fields, &[ArrayRef]),
        is_pair: bool,
    ) -> Result<Vec<Column>> {
        let DataType::Struct(wanted) = expected.data_type() else {
            return Err(self.unsupported(expected, "the format does not decode it to a struct"));
        };
        let names = |fields: &arrow_schema::Fields| -> Vec<String> {
            fields.iter().map(|field| field.name().clone()).collect()
        };
        let places = match is_pair && fields.len() == wanted.len() {
            true => (0..fields.len()).map(Some).collect(),
            false => members::places(&names(wanted), &names(fields))
                .map_err(|reason| self.unsupported(expected, &reason))?,
        };
        let parent = expected;
        let mut bound = Vec::with_capacity(node.children.len());
        for ((node, expected), place) in node.children.iter().zip(wanted).zip(places) {
            let pair = place.and_then(|place| fields.get(place).zip(columns.get(place)));
            let column = match pair {
                Some((field, array)) => self.bind(Part {
                    node,
                    expected,
                    field,
                    array,
                })?,
                None if node.optional_value().is_some() => Column::Missing,
                None => {
                    let name = expected.name();
                    let reason = format!("it has no member `{name}`, which the format requires");
                    return Err(self.unsupported(parent, &reason));
                }
            };
            if !column.is_void() {
                bound.push(column);
            }
        }
        Ok(bound)
    }

    /// Alternatives by their names.
    pub(super) fn bind_union(
        self,
        node: &WireNode,
        expected: &Field,
        array: &UnionArray,
    ) -> Result<Union> {
        let (DataType::Union(wanted, _), DataType::Union(fields, _)) =
            (expected.data_type(), array.data_type())
        else {
            return Err(self.unsupported(expected, "the format does not decode it to a union"));
        };
        let is_paged = node.children.len() > 128;
        let pages: Vec<Arc<WireNode>>;
        let nodes = if is_paged {
            let page = |page: &[Arc<WireNode>]| {
                Arc::new(WireNode::complex(WireType::Variant8, page.to_vec()))
            };
            pages = node.children.chunks(128).map(page).collect();
            &pages
        } else {
            &node.children
        };
        let names = |fields: &arrow_schema::UnionFields| -> Vec<String> {
            fields.iter().map(|(_, it)| it.name().clone()).collect()
        };
        let places = members::places(&names(wanted), &names(fields))
            .map_err(|reason| self.unsupported(expected, &reason))?;
        let given: Vec<(i8, &FieldRef)> = fields.iter().collect();
        let mut numbers = [0; 128];
        let mut children = Vec::with_capacity(nodes.len());
        let alternatives = nodes.iter().zip(wanted.iter()).zip(places);
        for (number, ((node, (_, expected)), place)) in alternatives.enumerate() {
            let Some((id, field)) = place.and_then(|place| given.get(place)) else {
                // No row has this alternative.
                children.push(Column::Nothing);
                continue;
            };
            let slot = usize::try_from(*id).ok().and_then(|id| numbers.get_mut(id));
            if let Some(slot) = slot {
                *slot = u8::try_from(number).unwrap_or_default();
            }
            children.push(self.bind(Part {
                node,
                expected,
                field,
                array: array.child(*id),
            })?);
        }
        Ok(Union {
            ids: array.type_ids().clone(),
            offsets: array.offsets().cloned(),
            numbers,
            children,
            is_wide: node.wire_type.is_wide(),
            is_paged,
        })
    }

    pub(super) fn bind_list(self, part: Part<'_>) -> Result<Column> {
        let node = part.node;
        let (DataType::List(wanted) | DataType::LargeList(wanted) | DataType::Map(wanted, _)) =
            part.expected.data_type()
        else {
            return Err(self.no_mapping(part));
        };
        let Some((offsets, item, items)) = items_of(part.array) else {
            return Err(self.no_mapping(part));
        };
        let is_map = matches!(part.array.data_type(), DataType::Map(_, _));
        let is_choice = node.children.len() > 1;
        let column = match (node.children.as_slice(), items.as_struct_opt()) {
            ([child], Some(pairs)) if is_map && child.wire_type == WireType::Tuple => {
                let columns = (pairs.fields(), pairs.columns());
                Column::Struct(self.bind_tuple(child, wanted, columns, true)?)
            }
            ([child], _) => self.bind(Part {
                node: child,
                expected: wanted,
                field: &item,
                array: &items,
            })?,
            _ => match items.as_union_opt() {
                Some(union) => Column::Union(self.bind_union(node, wanted, union)?),
                None => return Err(self.no_mapping(part)),
            },
        };
        Ok(Column::List {
            offsets,
            item: Box::new(column),
            is_wide: node.wire_type.is_wide(),
            is_choice,
        })
    }
}

/// The offsets, the field and the values of the items of a list or map.
fn items_of(array: &ArrayRef) -> Option<(Vec<usize>, FieldRef, ArrayRef)> {
    let narrow = |offsets: &[i32]| -> Vec<usize> {
        offsets
            .iter()
            .map(|offset| usize::try_from(*offset).unwrap_or_default())
            .collect()
    };
    Some(match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            (
                narrow(list.offsets()),
                Arc::clone(item),
                Arc::clone(list.values()),
            )
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            let offsets = list.offsets().iter();
            let offsets = offsets.map(|offset| usize::try_from(*offset).unwrap_or_default());
            (
                offsets.collect(),
                Arc::clone(item),
                Arc::clone(list.values()),
            )
        }
        DataType::FixedSizeList(item, length) => {
            let list = array.as_fixed_size_list();
            let length = usize::try_from(*length).unwrap_or_default();
            let offsets = (0..=array.len()).map(|row| row * length).collect();
            (offsets, Arc::clone(item), Arc::clone(list.values()))
        }
        DataType::Map(entries, _) => {
            let map = array.as_map();
            let values: ArrayRef = Arc::new(map.entries().clone());
            (narrow(map.offsets()), Arc::clone(entries), values)
        }
        _ => return None,
    })
}
