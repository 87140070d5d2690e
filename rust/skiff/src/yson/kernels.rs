//! YSON kernels over Arrow arrays: the JSON view both ways, a value at a path, canonical bytes.

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{Array, BinaryArray, StringArray};

use super::json::{JsonOptions, json_to_yson, yson_to_json};
use super::limits::Limits;
use super::node::{Node, Value, parse};
use super::write::{Style, write_node};
use crate::bytes::BytesArray;
use crate::error::{Error, Result};

fn at(row: usize) -> impl FnOnce(Error) -> Error {
    move |source| Error::Row {
        row,
        source: Box::new(source),
    }
}

/// The JSON view of every node of a binary array; null stays null.
///
/// # Errors
///
/// [`Error::Row`] with the first row that is no node, [`Error::Unsupported`] when the array holds no bytes.
pub fn yson_to_json_array(
    nodes: &dyn Array,
    options: JsonOptions,
    limits: Limits,
) -> Result<StringArray> {
    let nodes = BytesArray::try_new(nodes)?;
    let mut out = StringBuilder::with_capacity(nodes.len(), 0);
    for row in 0..nodes.len() {
        match nodes.value(row) {
            Some(node) => {
                let json = yson_to_json(node, options, limits).map_err(at(row))?;
                check_room(out.values_slice().len(), json.len(), row)?;
                out.append_value(json);
            }
            None => out.append_null(),
        }
    }
    Ok(out.finish())
}

/// Refuses a value that the 32-bit offsets of the result do not reach.
fn check_room(held: usize, more: usize, row: usize) -> Result<()> {
    if i32::try_from(held.saturating_add(more)).is_ok() {
        return Ok(());
    }
    let limit = Error::Limit {
        what: "the values of one array would have 2 GiB or more".to_owned(),
        remedy: "pass the array in slices",
    };
    Err(at(row)(limit))
}

/// The node of every JSON text of a string array; null stays null.
///
/// # Errors
///
/// [`Error::Row`] with the first row that is no JSON or is beyond the limits, [`Error::Unsupported`] when the array holds no
/// strings.
pub fn json_to_yson_array(texts: &dyn Array, style: Style, limits: Limits) -> Result<BinaryArray> {
    map_bytes(texts, |bytes| {
        let text = std::str::from_utf8(bytes).map_err(|error| Error::Json {
            reason: format!("byte {} is not UTF-8", error.valid_up_to()),
        })?;
        json_to_yson(text, style, limits).map(Some)
    })
}

/// The value at a path in every node, as binary YSON; null where the path leads nowhere and where it leads to an entity.
///
/// A path is `/key/key`, where a number picks an item of a list (`/0`, `/-1`), `/@name` an attribute, and `\` takes the next
/// character as it is. The empty path is the node itself.
///
/// # Errors
///
/// [`Error::Yson`] for a malformed path, otherwise as [`yson_to_json_array`].
pub fn yson_get_array(nodes: &dyn Array, path: &str, limits: Limits) -> Result<BinaryArray> {
    let steps = parse_path(path)?;
    map_bytes(nodes, |bytes| {
        let node = parse(bytes, limits)?;
        let found = steps.iter().try_fold(&node, |node, step| step.of(node));
        Ok(match found {
            Some(node) if node.value != Value::Entity => {
                let mut out = Vec::new();
                write_node(node, Style::Binary, false, &mut out);
                Some(out)
            }
            _ => None,
        })
    })
}

/// Every node in its canonical form: keys in byte order, of equal keys the last, one form per value. Nodes of the same
/// meaning are the same bytes.
///
/// # Errors
///
/// As [`yson_to_json_array`].
pub fn canonical_array(nodes: &dyn Array, style: Style, limits: Limits) -> Result<BinaryArray> {
    map_bytes(nodes, |bytes| {
        let mut out = Vec::with_capacity(bytes.len());
        write_node(&parse(bytes, limits)?, style, true, &mut out);
        Ok(Some(out))
    })
}

fn map_bytes(
    values: &dyn Array,
    mut map: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>>,
) -> Result<BinaryArray> {
    let values = BytesArray::try_new(values)?;
    let mut out = BinaryBuilder::with_capacity(values.len(), 0);
    for row in 0..values.len() {
        let value = values
            .value(row)
            .map(&mut map)
            .transpose()
            .map_err(at(row))?;
        if let Some(Some(value)) = &value {
            check_room(out.values_slice().len(), value.len(), row)?;
        }
        out.append_option(value.flatten());
    }
    Ok(out.finish())
}

enum Step {
    Child(String),
    Attribute(String),
}

impl Step {
    fn of<'a>(&self, node: &'a Node) -> Option<&'a Node> {
        match self {
            Self::Attribute(name) => node.attribute(name),
            Self::Child(name) => match &node.value {
                Value::List(items) => {
                    let place: i64 = name.parse().ok()?;
                    let length = i64::try_from(items.len()).ok()?;
                    let place = if place < 0 {
                        length.checked_add(place)?
                    } else {
                        place
                    };
                    items.get(usize::try_from(place).ok()?)
                }
                _ => node.get(name),
            },
        }
    }
}

fn parse_path(path: &str) -> Result<Vec<Step>> {
    let wrong = |offset, reason: &str| Error::Yson {
        offset,
        reason: format!("the path `{path}`: {reason}"),
    };
    let mut steps = Vec::new();
    let mut chars = path.char_indices().peekable();
    while let Some((offset, char)) = chars.next() {
        if char != '/' {
            return Err(wrong(offset, "every step begins with `/`"));
        }
        let is_attribute = chars.next_if(|(_, char)| *char == '@').is_some();
        let mut name = String::new();
        while let Some((_, char)) = chars.next_if(|(_, char)| *char != '/') {
            if char != '\\' {
                name.push(char);
            } else if let Some((_, char)) = chars.next() {
                name.push(char);
            } else {
                return Err(wrong(path.len(), "nothing follows the last `\\`"));
            }
        }
        if name.is_empty() {
            return Err(wrong(offset, "a step without a name"));
        }
        steps.push(if is_attribute {
            Step::Attribute(name)
        } else {
            Step::Child(name)
        });
    }
    Ok(steps)
}
