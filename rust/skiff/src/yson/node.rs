//! A YSON node as an owned tree.

use super::limits::Limits;
use super::read::{Visitor, visit};
use crate::error::Result;

/// Keys and values of a map, in document order; a key may occur twice, and then the last one counts.
pub type Pairs = Vec<(Vec<u8>, Node)>;

/// A value with its attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The attribute map; empty for most nodes.
    pub attributes: Pairs,
    /// The value.
    pub value: Value,
}

/// A value without its attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `#`, the null of YSON.
    Entity,
    /// A boolean.
    Boolean(bool),
    /// A signed integer.
    Int64(i64),
    /// An unsigned integer.
    Uint64(u64),
    /// A double.
    Double(f64),
    /// A string, which is bytes.
    String(Vec<u8>),
    /// A list.
    List(Vec<Node>),
    /// A map.
    Map(Pairs),
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        Self {
            attributes: Vec::new(),
            value,
        }
    }
}

impl Node {
    /// A string.
    #[must_use]
    pub fn string(text: impl Into<Vec<u8>>) -> Self {
        Value::String(text.into()).into()
    }

    /// The value of a key, the last one when there are several; none for what is no map.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(pairs) => find(pairs, key),
            _ => None,
        }
    }

    /// The value of an attribute.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&Self> {
        find(&self.attributes, key)
    }

    /// The text of a string that is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The items of a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The integer, if it fits 64 bits with a sign.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self.value {
            Value::Int64(value) => Some(value),
            Value::Uint64(value) => i64::try_from(value).ok(),
            _ => None,
        }
    }
}

fn find<'a>(pairs: &'a Pairs, key: &str) -> Option<&'a Node> {
    let mut pairs = pairs.iter().rev();
    Some(&pairs.find(|(name, _)| name == key.as_bytes())?.1)
}

/// Reads exactly one node.
///
/// # Errors
///
/// As [`validate`](super::validate).
pub fn parse(bytes: &[u8], limits: Limits) -> Result<Node> {
    let mut builder = Builder::default();
    visit(bytes, limits, &mut builder)?;
    // A visit without an error ended with a value.
    Ok(builder.done.unwrap_or(Value::Entity.into()))
}

/// Builds the tree from the tokens.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    done: Option<Node>,
}

/// What is not closed yet.
enum Open {
    List(Vec<Node>),
    Map(Pairs),
    Key(Vec<u8>),
    /// An attribute map whose value is still to come.
    Attributes(Pairs),
}

impl Builder {
    fn add(&mut self, value: Value) {
        let mut node = Node::from(value);
        if let Some(Open::Attributes(_)) = self.open.last()
            && let Some(Open::Attributes(attributes)) = self.open.pop()
        {
            node.attributes = attributes;
        }
        match self.open.last_mut() {
            Some(Open::List(items)) => items.push(node),
            Some(Open::Key(_)) => {
                if let Some(Open::Key(key)) = self.open.pop()
                    && let Some(Open::Map(pairs)) = self.open.last_mut()
                {
                    pairs.push((key, node));
                }
            }
            _ => self.done = Some(node),
        }
    }
}

impl Visitor for Builder {
    fn entity(&mut self) {
        self.add(Value::Entity);
    }
    fn boolean(&mut self, value: bool) {
        self.add(Value::Boolean(value));
    }
    fn int64(&mut self, value: i64) {
        self.add(Value::Int64(value));
    }
    fn uint64(&mut self, value: u64) {
        self.add(Value::Uint64(value));
    }
    fn double(&mut self, value: f64) {
        self.add(Value::Double(value));
    }
    fn string(&mut self, value: &[u8]) {
        self.add(Value::String(value.to_vec()));
    }
    fn begin_list(&mut self) {
        self.open.push(Open::List(Vec::new()));
    }
    fn end_list(&mut self) {
        if let Some(Open::List(items)) = self.open.pop() {
            self.add(Value::List(items));
        }
    }
    fn begin_map(&mut self) {
        self.open.push(Open::Map(Vec::new()));
    }
    fn key(&mut self, key: &[u8]) {
        self.open.push(Open::Key(key.to_vec()));
    }
    fn end_map(&mut self) {
        if let Some(Open::Map(pairs)) = self.open.pop() {
            self.add(Value::Map(pairs));
        }
    }
    fn begin_attributes(&mut self) {
        self.open.push(Open::Map(Vec::new()));
    }
    fn end_attributes(&mut self) {
        if let Some(Open::Map(pairs)) = self.open.pop() {
            self.open.push(Open::Attributes(pairs));
        }
    }
}
