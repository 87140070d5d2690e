//! The YSON writer: text, binary and canonical binary.

use super::node::{Node, Pairs, Value};
use super::read::Visitor;

/// How nodes are written. Every style has one form per value, so that equal nodes are equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Binary tokens, a `;` behind every item: the form that servers write.
    #[default]
    Binary,
    /// Text, for people.
    Text,
}

/// Writes the tokens that it visits.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    style: Style,
    /// For each open bracket, whether an item was written in it.
    open: Vec<bool>,
}

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, style: Style) -> Self {
        Self {
            out,
            style,
            open: Vec::new(),
        }
    }

    fn begin(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.open.push(false);
    }

    fn end(&mut self, bracket: u8) {
        let is_filled = self.open.pop() == Some(true);
        if is_filled && self.style == Style::Binary {
            self.out.push(b';');
        }
        self.out.push(bracket);
    }

    fn separate(&mut self) {
        if let Some(is_filled) = self.open.last_mut()
            && std::mem::replace(is_filled, true)
        {
            self.out.push(b';');
        }
    }

    fn number(&mut self, token: u8, mut value: u64) {
        self.out.push(token);
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                self.out.push(low & 0x7f);
                return;
            }
            self.out.push(low | 0x80);
        }
    }

    fn quoted(&mut self, value: &[u8]) {
        self.out.push(b'"');
        for &byte in value {
            match byte {
                b'"' | b'\\' => self.out.extend_from_slice(&[b'\\', byte]),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b' '..=b'~' => self.out.push(byte),
                // Two digits always: a digit that follows must not become a part of the escape.
                _ => self
                    .out
                    .extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            }
        }
        self.out.push(b'"');
    }
}

impl Visitor for Writer<'_> {
    fn entity(&mut self) {
        self.out.push(b'#');
    }

    fn boolean(&mut self, value: bool) {
        match self.style {
            Style::Binary => self.out.push(if value { 5 } else { 4 }),
            Style::Text => self
                .out
                .extend_from_slice(if value { b"%true" } else { b"%false" }),
        }
    }

    fn int64(&mut self, value: i64) {
        match self.style {
            Style::Binary => self.number(2, ((value << 1) ^ (value >> 63)).cast_unsigned()),
            Style::Text => self.out.extend_from_slice(value.to_string().as_bytes()),
        }
    }

    fn uint64(&mut self, value: u64) {
        match self.style {
            Style::Binary => self.number(6, value),
            Style::Text => self.out.extend_from_slice(format!("{value}u").as_bytes()),
        }
    }

    fn double(&mut self, value: f64) {
        match self.style {
            Style::Binary => {
                self.out.push(3);
                self.out.extend_from_slice(&value.to_le_bytes());
            }
            Style::Text if value.is_nan() => self.out.extend_from_slice(b"%nan"),
            Style::Text if value == f64::INFINITY => self.out.extend_from_slice(b"%inf"),
            Style::Text if value == f64::NEG_INFINITY => self.out.extend_from_slice(b"%-inf"),
            // The shortest digits that read back as the same number, always with a point or an exponent.
            Style::Text => self.out.extend_from_slice(format!("{value:?}").as_bytes()),
        }
    }

    fn string(&mut self, value: &[u8]) {
        match self.style {
            Style::Binary => {
                let length = u64::try_from(value.len()).unwrap_or(u64::MAX);
                self.number(1, length << 1);
                self.out.extend_from_slice(value);
            }
            Style::Text => self.quoted(value),
        }
    }

    fn begin_list(&mut self) {
        self.begin(b'[');
    }

    fn item(&mut self) {
        self.separate();
    }

    fn end_list(&mut self) {
        self.end(b']');
    }

    fn begin_map(&mut self) {
        self.begin(b'{');
    }

    fn key(&mut self, key: &[u8]) {
        self.separate();
        self.string(key);
        self.out.push(b'=');
    }

    fn end_map(&mut self) {
        self.end(b'}');
    }

    fn begin_attributes(&mut self) {
        self.begin(b'<');
    }

    fn end_attributes(&mut self) {
        self.end(b'>');
    }
}

/// Writes a tree. With `is_canonical`, keys are in byte order, of equal keys the last one remains, empty attribute maps are
/// left out, and NaN has one form, so that nodes of the same meaning are the same bytes.
pub fn write_node(node: &Node, style: Style, is_canonical: bool, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out, style);
    write(node, is_canonical, &mut writer);
}

fn write(node: &Node, is_canonical: bool, writer: &mut Writer<'_>) {
    if !node.attributes.is_empty() {
        writer.begin_attributes();
        write_pairs(&node.attributes, is_canonical, writer);
        writer.end_attributes();
    }
    match &node.value {
        Value::Entity => writer.entity(),
        Value::Boolean(value) => writer.boolean(*value),
        Value::Int64(value) => writer.int64(*value),
        Value::Uint64(value) => writer.uint64(*value),
        Value::Double(value) if is_canonical && value.is_nan() => writer.double(f64::NAN),
        Value::Double(value) => writer.double(*value),
        Value::String(value) => writer.string(value),
        Value::List(items) => {
            writer.begin_list();
            for item in items {
                writer.item();
                write(item, is_canonical, writer);
            }
            writer.end_list();
        }
        Value::Map(pairs) => {
            writer.begin_map();
            write_pairs(pairs, is_canonical, writer);
            writer.end_map();
        }
    }
}

fn write_pairs(pairs: &Pairs, is_canonical: bool, writer: &mut Writer<'_>) {
    if !is_canonical {
        for (key, value) in pairs {
            writer.key(key);
            write(value, is_canonical, writer);
        }
        return;
    }
    let last: std::collections::BTreeMap<_, _> =
        pairs.iter().map(|(key, value)| (key, value)).collect();
    for (key, value) in last {
        writer.key(key);
        write(value, is_canonical, writer);
    }
}
