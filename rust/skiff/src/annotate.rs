//! A stream as an annotated hex dump: every field with its offset, its bytes, its column and its value.
//!
//! The dump follows the wire tree, not the Arrow types, so that it shows a stream that does not decode up to the very field
//! where it goes wrong.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::decode::{Cursor, Stop};
use crate::schema::{Format, Integer, RANGE_INDEX, ROW_INDEX, WireNode, WireType};
use crate::yson::{Limits, Style, parse, write_node};

/// Bytes of a field that are shown.
const SHOWN_BYTES: usize = 16;
/// Items of a list that are shown.
const SHOWN_ITEMS: usize = 16;

impl Format {
    /// The first rows of a stream as an annotated hex dump, one line per field. A fault is the last line.
    #[must_use]
    pub fn annotate(&self, stream: &[u8], max_rows: usize) -> String {
        self.annotate_start(stream, 0, max_rows)
    }

    /// The same for a stream that goes on for `num_more` bytes behind the bytes at hand.
    #[must_use]
    pub fn annotate_start(&self, stream: &[u8], num_more: u64, max_rows: usize) -> String {
        let mut dump = Dump {
            stream,
            out: String::new(),
            is_hidden: false,
            parts: HashMap::new(),
        };
        let mut pos = 0;
        for row in 0..max_rows {
            if pos == stream.len() && num_more == 0 {
                dump.line(pos, pos, 0, "end of the stream", "");
                return dump.out;
            }
            let mut cursor = Cursor::new(stream, pos, usize::MAX);
            if let Err(fault) = self.row(&mut dump, &mut cursor, row) {
                let is_cut = matches!(fault, Stop::More { .. }) && num_more > 0;
                let (at, reason) = fault.place_and_reason(stream.len());
                dump.is_hidden = false;
                if is_cut {
                    let reason = format!("the dump shows the first {} bytes", stream.len());
                    dump.line(at, at, 0, "the row goes on:", &reason);
                } else {
                    dump.line(at, stream.len(), 0, "FAULT", &reason);
                }
                return dump.out;
            }
            if cursor.pos == pos {
                break;
            }
            pos = cursor.pos;
        }
        let rest = (stream.len() - pos) as u64 + num_more;
        if rest > 0 {
            dump.line(pos, pos, 0, &format!("{rest} more bytes"), "");
        }
        dump.out
    }

    fn row(&self, dump: &mut Dump<'_>, cursor: &mut Cursor<'_>, row: usize) -> Result<(), Stop> {
        let start = cursor.pos;
        let tag = cursor.tag(true)?;
        if tag == u16::MAX && self.tables().len() < usize::from(tag) {
            dump.line(start, cursor.pos, 0, "end-of-stream tag", "");
            return Ok(());
        }
        let Some(table) = self.tables().get(usize::from(tag)) else {
            return Err(Stop::fault(
                start,
                format!("table {tag} is not in the format"),
            ));
        };
        dump.line(
            start,
            cursor.pos,
            0,
            &format!("row {row}"),
            &format!("table {tag}"),
        );
        for child in &table.root().children {
            dump.value(child, &child.name, 1, cursor)?;
        }
        Ok(())
    }
}

struct Dump<'a> {
    stream: &'a [u8],
    out: String,
    /// While true, fields are walked over without a line.
    is_hidden: bool,
    /// The members that have bytes, of tuples that were walked over without a line: the others cost time for every item.
    parts: HashMap<*const WireNode, Vec<usize>>,
}

/// True for a value without bytes.
fn is_void(node: &WireNode) -> bool {
    match node.wire_type {
        WireType::Nothing => true,
        WireType::Tuple => node.children.iter().all(|child| is_void(child)),
        _ => false,
    }
}

impl Dump<'_> {
    fn line(&mut self, start: usize, end: usize, level: usize, name: &str, value: &str) {
        if self.is_hidden {
            return;
        }
        let bytes = self.stream.get(start..end).unwrap_or_default();
        let mut hex = String::new();
        // Writing to a string does not fail.
        for byte in bytes.iter().take(SHOWN_BYTES) {
            let _ = write!(hex, "{byte:02x}");
        }
        if bytes.len() > SHOWN_BYTES {
            hex.push_str("..");
        }
        let indent = "  ".repeat(level);
        let _ = writeln!(self.out, "{start:>8}  {hex:<34}  {indent}{name} {value}");
    }

    fn value(
        &mut self,
        node: &WireNode,
        name: &str,
        level: usize,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), Stop> {
        let start = cursor.pos;
        match node.wire_type {
            WireType::Tuple if self.is_hidden => {
                let parts = self.parts.remove(&std::ptr::from_ref(node));
                let parts = parts.unwrap_or_else(|| {
                    let children = node.children.iter().enumerate();
                    let parts = children.filter(|(_, child)| !is_void(child));
                    parts.map(|(number, _)| number).collect()
                });
                for number in &parts {
                    if let Some(child) = node.children.get(*number) {
                        self.value(child, &label(*number, child), level + 1, cursor)?;
                    }
                }
                self.parts.insert(std::ptr::from_ref(node), parts);
            }
            WireType::Tuple => {
                self.line(start, start, level, name, "tuple");
                for (number, child) in node.children.iter().enumerate() {
                    self.value(child, &label(number, child), level + 1, cursor)?;
                }
            }
            WireType::Variant8 | WireType::Variant16 => {
                let tag = cursor.tag(node.wire_type.is_wide())?;
                let Some(child) = node.children.get(usize::from(tag)) else {
                    let count = node.children.len();
                    let reason = format!("`{name}`: tag {tag}, and there are {count} alternatives");
                    return Err(Stop::fault(start, reason));
                };
                if child.wire_type == WireType::Nothing {
                    let what = match (name, tag) {
                        (ROW_INDEX, 0) if level == 1 => "the previous row index + 1",
                        (RANGE_INDEX, 0) if level == 1 => "the previous range index",
                        (ROW_INDEX | RANGE_INDEX, _) if level == 1 => "not available",
                        _ if node.optional_value().is_some() => "null",
                        _ => "nothing",
                    };
                    self.line(
                        start,
                        cursor.pos,
                        level,
                        name,
                        &format!("tag {tag}: {what}"),
                    );
                } else {
                    self.line(start, cursor.pos, level, name, &format!("tag {tag}"));
                    self.value(child, &label(usize::from(tag), child), level + 1, cursor)?;
                }
            }
            WireType::RepeatedVariant8 | WireType::RepeatedVariant16 => {
                self.items(node, name, level, cursor)?;
            }
            _ => {
                let value = simple(node.wire_type, cursor)?;
                let value = format!("{} {value}", node.wire_type);
                self.line(start, cursor.pos, level, name, &value);
            }
        }
        Ok(())
    }

    fn items(
        &mut self,
        node: &WireNode,
        name: &str,
        level: usize,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), Stop> {
        let is_wide = node.wire_type.is_wide();
        let end = if is_wide { u16::MAX } else { 0xff };
        self.line(cursor.pos, cursor.pos, level, name, node.wire_type.name());
        let mut count = 0_usize;
        let was_hidden = self.is_hidden;
        loop {
            let start = cursor.pos;
            let tag = cursor.tag(is_wide)?;
            if tag == end {
                let more = count.saturating_sub(SHOWN_ITEMS);
                let value = if more > 0 {
                    format!("after {more} more items")
                } else {
                    String::new()
                };
                self.is_hidden = was_hidden;
                self.line(start, cursor.pos, level, "end of the list", &value);
                return Ok(());
            }
            let Some(child) = node.children.get(usize::from(tag)) else {
                let reason = format!("`{name}`: tag {tag} is neither a child nor the terminator");
                return Err(Stop::fault(start, reason));
            };
            self.is_hidden = was_hidden || count >= SHOWN_ITEMS;
            self.line(start, cursor.pos, level + 1, "item", &format!("tag {tag}"));
            self.value(child, &label(usize::from(tag), child), level + 2, cursor)?;
            count += 1;
        }
    }
}

fn label(number: usize, child: &WireNode) -> String {
    if child.name.is_empty() {
        format!("[{number}]")
    } else {
        child.name.clone()
    }
}

/// The value of a simple type as text.
fn simple(wire: WireType, cursor: &mut Cursor<'_>) -> Result<String, Stop> {
    if let Some(integer) = Integer::of_wire(wire) {
        return Ok(integer.read(cursor.slice(integer.bytes)?).to_string());
    }
    let at = cursor.pos;
    Ok(match wire {
        WireType::Boolean => match cursor.byte()? {
            0 => "false".to_owned(),
            1 => "true".to_owned(),
            byte => return Err(Stop::fault(at, format!("{byte:#04x} is not a boolean"))),
        },
        WireType::Double => format!("{:?}", f64::from_le_bytes(cursor.array()?)),
        WireType::Int128 => i128::from_le_bytes(cursor.array()?).to_string(),
        WireType::Uint128 => u128::from_le_bytes(cursor.array()?).to_string(),
        WireType::Int256 => arrow_buffer::i256::from_le_bytes(cursor.array()?).to_string(),
        WireType::Uint256 => {
            let bytes = cursor.array::<32>()?;
            match arrow_buffer::i256::from_le_bytes(bytes) {
                value if !value.is_negative() => value.to_string(),
                // Beyond the signed numbers of this width: the digits of base 16.
                _ => {
                    let digits = bytes.iter().rev().map(|byte| format!("{byte:02x}"));
                    format!("0x{}", digits.collect::<String>())
                }
            }
        }
        WireType::String32 => {
            let bytes = cursor.string()?;
            let shown = bytes
                .get(..bytes.len().min(40))
                .unwrap_or_default()
                .escape_ascii();
            let dots = if bytes.len() > 40 { "..." } else { "" };
            format!("\"{shown}{dots}\" ({} bytes)", bytes.len())
        }
        WireType::Yson32 => match parse(cursor.string()?, Limits::default()) {
            Ok(node) => {
                let mut text = Vec::new();
                write_node(&node, Style::Text, false, &mut text);
                // Text YSON is ASCII: other bytes are escaped.
                let text = String::from_utf8_lossy(&text);
                text.chars().take(80).collect()
            }
            Err(error) => return Err(Stop::fault(at, error.to_string())),
        },
        _ => String::new(),
    })
}
