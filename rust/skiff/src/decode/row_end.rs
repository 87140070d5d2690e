//! Where a row ends that is not complete yet, found without reading any of its bytes twice.
//!
//! The decoder undoes a row that stops early, and reads it again from its beginning. A row that arrives in many small pieces
//! would be read again for every piece, and nothing says which piece is the last one: a source may block as soon as the row is
//! complete. So the decoder follows the lengths and tags of such a row here, only through the bytes that are new, and reads the
//! row again once, when all of it is there.

use std::sync::Arc;

use crate::schema::{Integer, WireNode, WireType};

/// How the bytes of a value are counted. The numbers are places in the layout.
#[derive(Debug)]
enum Shape {
    Fixed(usize),
    /// A length of 4 bytes, then bytes.
    Bytes,
    /// Parts that follow each other. Neighbours of fixed size are one part, and parts without bytes are left out.
    Tuple(Vec<usize>),
    Variant {
        is_wide: bool,
        alternatives: Vec<usize>,
    },
    List {
        is_wide: bool,
        items: Vec<usize>,
    },
}

/// The shapes of a wire tree; the last one is that of its root.
#[derive(Debug)]
pub(super) struct Layout(Vec<Shape>);

impl Layout {
    /// The layout of a row; of no bytes without a root.
    pub(super) fn new(root: Option<&WireNode>) -> Self {
        let mut layout = Self(Vec::new());
        let shape = root.map_or(Shape::Fixed(0), |root| layout.shape(root));
        layout.push(shape);
        layout
    }

    fn push(&mut self, shape: Shape) -> usize {
        self.0.push(shape);
        self.0.len() - 1
    }

    fn shape(&mut self, node: &WireNode) -> Shape {
        let is_wide = node.wire_type.is_wide();
        if let Some(integer) = Integer::of_wire(node.wire_type) {
            return Shape::Fixed(integer.bytes);
        }
        match node.wire_type {
            WireType::String32 | WireType::Yson32 => Shape::Bytes,
            WireType::Tuple => self.tuple(node),
            WireType::Variant8 | WireType::Variant16 => Shape::Variant {
                is_wide,
                alternatives: self.children(node),
            },
            WireType::RepeatedVariant8 | WireType::RepeatedVariant16 => Shape::List {
                is_wide,
                items: self.children(node),
            },
            WireType::Boolean => Shape::Fixed(1),
            WireType::Double => Shape::Fixed(8),
            WireType::Int128 | WireType::Uint128 => Shape::Fixed(16),
            WireType::Int256 | WireType::Uint256 => Shape::Fixed(32),
            _ => Shape::Fixed(0),
        }
    }

    fn children(&mut self, node: &WireNode) -> Vec<usize> {
        let mut places = Vec::with_capacity(node.children.len());
        for child in &node.children {
            let shape = self.shape(child);
            places.push(self.push(shape));
        }
        places
    }

    fn tuple(&mut self, node: &WireNode) -> Shape {
        let mut parts = Vec::new();
        let mut fixed = 0;
        for child in &node.children {
            match self.shape(child) {
                Shape::Fixed(size) => fixed += size,
                shape => {
                    if fixed > 0 {
                        parts.push(self.push(Shape::Fixed(fixed)));
                        fixed = 0;
                    }
                    parts.push(self.push(shape));
                }
            }
        }
        if parts.is_empty() {
            return Shape::Fixed(fixed);
        }
        if fixed > 0 {
            parts.push(self.push(Shape::Fixed(fixed)));
        }
        Shape::Tuple(parts)
    }
}

/// A value that is being followed.
#[derive(Debug, Clone, Copy)]
struct Open {
    shape: usize,
    /// The next part of a tuple.
    part: usize,
}

/// What is known about the end of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The row is complete, or it has a tag that the schema does not have: it is worth to be read.
    Readable,
    /// The row has this many bytes at least, which are more than there are.
    Needs(usize),
}

/// A row whose end is looked for.
#[derive(Debug)]
pub(super) struct RowEnd {
    layout: Arc<Layout>,
    /// Values inside each other, the innermost last.
    open: Vec<Open>,
    /// Bytes of the row that were followed.
    pos: usize,
}

impl RowEnd {
    /// A row of a table, at its first byte behind the table tag of `tag_bytes`.
    pub(super) fn new(layout: Arc<Layout>, tag_bytes: usize) -> Self {
        let root = layout.0.len().saturating_sub(1);
        Self {
            layout,
            open: vec![Open {
                shape: root,
                part: 0,
            }],
            pos: tag_bytes,
        }
    }

    /// Goes on through the row, whose bytes begin with those of the call before.
    pub(super) fn advance(&mut self, row: &[u8]) -> Progress {
        while let Some(open) = self.open.pop() {
            let Some(shape) = self.layout.0.get(open.shape) else {
                break;
            };
            let (header, size) = match shape {
                Shape::Fixed(size) => (0, *size),
                Shape::Bytes => (4, 0),
                Shape::Tuple(parts) => {
                    if let Some(part) = parts.get(open.part) {
                        let next = Open {
                            part: open.part + 1,
                            ..open
                        };
                        self.open.push(next);
                        self.open.push(Open {
                            shape: *part,
                            part: 0,
                        });
                    }
                    continue;
                }
                Shape::Variant { is_wide, .. } | Shape::List { is_wide, .. } => {
                    (if *is_wide { 2 } else { 1 }, 0)
                }
            };
            let start = self.pos.saturating_add(header);
            let Some(number) = row.get(self.pos..start).map(number) else {
                self.open.push(open);
                return Progress::Needs(start);
            };
            let size = match shape {
                Shape::Bytes => number,
                _ => size,
            };
            let end = start.saturating_add(size);
            if end > row.len() {
                self.open.push(open);
                return Progress::Needs(end);
            }
            let child = match shape {
                Shape::Variant { alternatives, .. } => alternatives.get(number),
                Shape::List { is_wide, items } => {
                    let terminator = if *is_wide { 0xffff } else { 0xff };
                    if number == terminator {
                        self.pos = end;
                        continue;
                    }
                    self.open.push(open);
                    items.get(number)
                }
                _ => {
                    self.pos = end;
                    continue;
                }
            };
            self.pos = end;
            let Some(child) = child else {
                // The decoder says what is wrong with the tag.
                self.open.clear();
                break;
            };
            self.open.push(Open {
                shape: *child,
                part: 0,
            });
        }
        Progress::Readable
    }
}

/// A little-endian number of up to 4 bytes.
fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Format, Strings};

    fn layout(children: &str) -> Arc<Layout> {
        let format = format!(
            r#"{{"table_skiff_schemas": [{{"wire_type": "tuple", "children": {children}}}]}}"#
        );
        let format = Format::from_json(&format, Strings::Binary).unwrap();
        Arc::new(Layout::new(Some(format.tables()[0].root())))
    }

    /// Follows a row byte by byte, and returns how many bytes it has.
    fn length(layout: &Arc<Layout>, row: &[u8]) -> usize {
        let mut end = RowEnd::new(Arc::clone(layout), 2);
        for length in 0..=row.len() {
            match end.advance(&row[..length]) {
                Progress::Readable => return length,
                Progress::Needs(needed) => assert!(needed > length, "{needed} at {length}"),
            }
        }
        panic!("the row is not complete");
    }

    #[test]
    fn the_end_of_a_row_is_found_at_its_last_byte() {
        let mixed = layout(
            r#"[{"name": "a", "wire_type": "int64"}, {"name": "b", "wire_type": "nothing"},
            {"name": "c", "wire_type": "boolean"}, {"name": "d", "wire_type": "string32"},
            {"name": "e", "wire_type": "variant8", "children": [{"wire_type": "nothing"}, {"wire_type": "int128"}]},
            {"name": "f", "wire_type": "repeated_variant16", "children": [{"wire_type": "tuple", "children": [
                {"wire_type": "yson32"}, {"wire_type": "repeated_variant8", "children": [{"wire_type": "int8"}]}]}]},
            {"name": "$sparse_columns", "wire_type": "repeated_variant16", "children": [
                {"name": "g", "wire_type": "double"}]}, {"name": "$other_columns", "wire_type": "yson32"}]"#,
        );
        let (head, text) = ([0; 11], [3, 0, 0, 0, 7, 7, 7]);
        let item = [&[0, 0][..], &[1, 0, 0, 0, 35], &[0, 9, 0, 9, 0xff]].concat();
        let sparse = [&[0, 0][..], &[0; 8], &[0xff, 0xff]].concat();
        let other = [2, 0, 0, 0, 0x7b, 0x7d];
        for optional in [vec![0], [&[1][..], &[0xff; 16]].concat()] {
            for items in [0, 3] {
                let list = [item.repeat(items), vec![0xff, 0xff]].concat();
                let row = [&head[..], &text, &optional, &list, &sparse, &other].concat();
                assert_eq!(length(&mixed, &row), row.len());
                assert_eq!(length(&mixed, &[&row[..], &[0; 3]].concat()), row.len());
            }
        }
        // A tag that the schema does not have ends the search: the decoder refuses the row at once.
        assert_eq!(length(&mixed, &[&head[..], &text, &[2]].concat()), 19);
    }

    #[test]
    fn parts_without_bytes_cost_nothing() {
        let nothings = r#"{"wire_type": "nothing"},"#.repeat(1_000);
        let list = format!(
            r#"[{{"name": "l", "wire_type": "repeated_variant8", "children": [{{"wire_type": "tuple", "children": [{}]}}]}}]"#,
            nothings.trim_end_matches(',')
        );
        let layout = layout(&list);
        assert!(
            layout
                .0
                .iter()
                .all(|shape| !matches!(shape, Shape::Tuple(parts) if parts.len() > 1))
        );
        assert_eq!(length(&layout, &[&[0; 1_000][..], &[0xff]].concat()), 1_001);
    }
}
