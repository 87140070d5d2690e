//! A schema in words: per column its place, its bytes and its Arrow type.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow_schema::Schema;

use super::node::{WireNode, WireType};
use super::table::{Slot, TableSchema};
use crate::arrow_name::arrow_name;

/// One line per column.
pub(crate) fn explain(tables: &[TableSchema]) -> String {
    let mut out = String::new();
    let mut firsts: HashMap<(&WireNode, &Schema), usize> = HashMap::new();
    // Tables that share their schemas are found by address: one comparison per schema, not per table.
    let mut shared: HashMap<(*const WireNode, *const Schema), usize> = HashMap::new();
    for (number, table) in tables.iter().enumerate() {
        let (root, schema) = (table.root(), table.arrow());
        let first = *shared
            .entry((Arc::as_ptr(root), Arc::as_ptr(schema)))
            .or_insert_with(|| *firsts.entry((root, schema)).or_insert(number));
        let same = Some(first).filter(|first| *first < number);
        // Writing to a string does not fail.
        let _ = match same {
            Some(same) => writeln!(out, "table {number}: as table {same}"),
            None => table_lines(number, table, &mut out),
        };
    }
    out
}

fn table_lines(number: usize, table: &TableSchema, out: &mut String) -> std::fmt::Result {
    let fields = table.arrow().fields();
    writeln!(out, "table {number}: {} columns", fields.len())?;
    for (slot, node, first) in table.columns() {
        let what = match slot {
            Slot::Dense => "dense",
            Slot::KeySwitch => "control: true on the first row of every key but the first",
            Slot::RowIndex { .. } => "control: row number, resolved from differences",
            Slot::RangeIndex { .. } => "control: range number, resolved from differences",
            Slot::RemainingRowBytes => "control: bytes of the row behind this field",
            Slot::Other => "the columns that have no other place, as one YSON map",
            Slot::Sparse { .. } => {
                writeln!(
                    out,
                    "  $sparse_columns: {} columns, written where not null",
                    node.children.len()
                )?;
                for (child, field) in node.children.iter().zip(fields.iter().skip(first)) {
                    line(out, child, field, "sparse")?;
                }
                continue;
            }
        };
        if let Some(field) = fields.get(first) {
            line(out, node, field, what)?;
        }
    }
    Ok(())
}

fn line(
    out: &mut String,
    node: &WireNode,
    field: &arrow_schema::Field,
    what: &str,
) -> std::fmt::Result {
    let null = if field.is_nullable() { "" } else { " not null" };
    writeln!(
        out,
        "  {}: {node} ({}) -> {}{null}; {what}",
        field.name(),
        bytes_of(node),
        arrow_name(field.data_type()),
    )
}

/// The size of a value in words.
fn bytes_of(node: &WireNode) -> String {
    match size_of(node) {
        (least, Some(most)) if least == most => format!("{least} bytes"),
        (least, Some(most)) => format!("{least} to {most} bytes"),
        (least, None) => format!("{least} bytes or more"),
    }
}

/// Least and most bytes of a value.
fn size_of(node: &WireNode) -> (usize, Option<usize>) {
    let tag = if node.wire_type.is_wide() { 2 } else { 1 };
    match node.wire_type {
        WireType::Nothing => (0, Some(0)),
        WireType::Boolean | WireType::Int8 | WireType::Uint8 => (1, Some(1)),
        WireType::Int16 | WireType::Uint16 => (2, Some(2)),
        WireType::Int32 | WireType::Uint32 => (4, Some(4)),
        WireType::Int64 | WireType::Uint64 | WireType::Double => (8, Some(8)),
        WireType::Int128 | WireType::Uint128 => (16, Some(16)),
        WireType::Int256 | WireType::Uint256 => (32, Some(32)),
        WireType::String32 | WireType::Yson32 => (4, None),
        WireType::RepeatedVariant8 | WireType::RepeatedVariant16 => (tag, None),
        WireType::Tuple => {
            let sizes = node.children.iter().map(|child| size_of(child));
            sizes.fold((0, Some(0)), |(least, most), size| {
                (least + size.0, most.zip(size.1).map(|(a, b)| a + b))
            })
        }
        WireType::Variant8 | WireType::Variant16 => {
            let sizes: Vec<_> = node.children.iter().map(|child| size_of(child)).collect();
            let least = sizes.iter().map(|size| size.0).min().unwrap_or_default();
            let most = sizes
                .iter()
                .map(|size| size.1)
                .try_fold(0, |most, size| Some(most.max(size?)));
            (tag + least, most.map(|most| tag + most))
        }
    }
}
