//! The JSON view of YSON nodes, both ways.
//!
//! | YSON | JSON |
//! |---|---|
//! | map, list, entity, boolean | object, array, `null`, boolean |
//! | int64 | integer |
//! | uint64 | integer; with [`JsonOptions::exact`] `{"$type": "uint64", "$value": 5}` |
//! | double | number with a point or an exponent; NaN and infinities `{"$type": "double", "$value": "nan"}` |
//! | string | string; not UTF-8: `{"$type": "base64", "$value": "/w=="}` |
//! | attributes | `{"$attributes": {..}, "$value": ..}` |
//! | key | key; a key that begins with `$` gets another `$`, one that is not UTF-8 becomes `$base64:/w==` |
//!
//! Back from JSON, integers become int64 where they fit, else uint64; beyond 64 bits they become doubles. An object with the
//! key `$value`, `$type` or `$attributes` must be a tagged value: any other key beside them is refused, not dropped.

use serde_json::Value as Json;

use super::limits::Limits;
use super::node::{Node, Pairs, Value, parse};
use super::write::{Style, write_node};
use crate::error::{Error, Result};

/// How the JSON view is written.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct JsonOptions {
    /// Marks every uint64, so that the view reads back as exactly the same node. Without it a uint64 below 2^63 reads back
    /// as an int64.
    pub exact: bool,
}

impl JsonOptions {
    /// The view that reads back as exactly the same node.
    #[must_use]
    pub fn exact() -> Self {
        Self { exact: true }
    }
}

/// The JSON view of one YSON node.
///
/// # Errors
///
/// As [`validate`](super::validate).
pub fn yson_to_json(bytes: &[u8], options: JsonOptions, limits: Limits) -> Result<String> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 4);
    write_json(&parse(bytes, limits)?, options, &mut out);
    // Everything written is UTF-8.
    Ok(String::from_utf8(out).unwrap_or_default())
}

/// The YSON node of a JSON text.
///
/// # Errors
///
/// [`Error::Json`] when the text is no JSON value, a tagged value has keys beside its own, or a `$type` is unknown;
/// [`Error::Limit`] when the text or the depth of the node is beyond the limits.
pub fn json_to_yson(text: &str, style: Style, limits: Limits) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    write_node(&json_node(text, limits)?, style, false, &mut out);
    Ok(out)
}

/// The tree of a JSON text.
pub(crate) fn json_node(text: &str, limits: Limits) -> Result<Node> {
    limits.check_size(text.len())?;
    // A level of YSON is at most two of JSON, `{"$attributes": .., "$value": ..}`; a tagged value is one more.
    if json_depth(text) > limits.max_depth.saturating_mul(2).saturating_add(1) {
        return Err(too_deep(limits));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let mut values = reader.into_iter::<Json>();
    let json = values
        .next()
        .ok_or_else(|| refused("the text has no value"))?;
    let json = json.map_err(|error| refused(error.to_string()))?;
    if values.next().is_some() {
        return Err(refused(
            "text follows the value: one text is exactly one value",
        ));
    }
    node(json, 0, limits)
}

/// Most objects and arrays that are open at once. Reading recurses, so the depth is known before it begins.
fn json_depth(text: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                most = most.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => {
                            bytes.next();
                        }
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    most
}

fn refused(reason: impl Into<String>) -> Error {
    Error::Json {
        reason: reason.into(),
    }
}

#[cold]
fn too_deep(limits: Limits) -> Error {
    limits.too_deep("JSON: the text")
}

/// The node of a JSON value that stands inside `depth` lists, maps and attribute maps.
fn node(json: Json, depth: usize, limits: Limits) -> Result<Node> {
    let enter = || match depth < limits.max_depth {
        true => Ok(depth + 1),
        false => Err(too_deep(limits)),
    };
    Ok(match json {
        Json::Null => Value::Entity.into(),
        Json::Bool(value) => Value::Boolean(value).into(),
        Json::Number(number) => if let Some(value) = number.as_i64() {
            Value::Int64(value)
        } else if let Some(value) = number.as_u64() {
            Value::Uint64(value)
        } else {
            Value::Double(number.as_f64().unwrap_or(f64::NAN))
        }
        .into(),
        Json::String(text) => Node::string(text),
        Json::Array(items) => {
            let depth = enter()?;
            let items = items.into_iter().map(|item| node(item, depth, limits));
            Value::List(items.collect::<Result<_>>()?).into()
        }
        Json::Object(object) if TAGS.iter().any(|key| object.contains_key(*key)) => {
            return tagged_node(object, depth, limits);
        }
        Json::Object(object) => Value::Map(pairs(object, enter()?, limits)?).into(),
    })
}

/// Keys of objects that stand for a value with a type or with attributes.
const TAGS: [&str; 3] = ["$attributes", "$type", "$value"];

/// The node of an object that has one of the tags: it has `$value` and nothing beside the tags.
fn tagged_node(
    mut object: serde_json::Map<String, Json>,
    depth: usize,
    limits: Limits,
) -> Result<Node> {
    let value = object.remove("$value");
    let kind = object.remove("$type");
    let attributes = object.remove("$attributes");
    if let Some(key) = object.keys().next() {
        return Err(refused(format!(
            "the key `{key}` stands beside `$value`, `$type` or `$attributes`, where it has no place in YSON; a key of a map \
             that begins with `$` is written with another `$`"
        )));
    }
    let Some(value) = value else {
        return Err(refused(
            "an object with `$type` or `$attributes` needs a `$value`; a key of a map that begins with `$` is written with \
             another `$`",
        ));
    };
    let attributes = match attributes {
        None => Vec::new(),
        Some(Json::Object(attributes)) => {
            if depth >= limits.max_depth {
                return Err(too_deep(limits));
            }
            pairs(attributes, depth + 1, limits)?
        }
        Some(_) => return Err(refused("`$attributes` must be an object")),
    };
    let mut node = match kind {
        None => node(value, depth, limits)?,
        Some(Json::String(kind)) => tagged(&kind, &value)?,
        Some(_) => return Err(refused("`$type` must be a string")),
    };
    if !attributes.is_empty() {
        if !node.attributes.is_empty() {
            return Err(refused("a value has `$attributes` twice"));
        }
        node.attributes = attributes;
    }
    Ok(node)
}

/// The entries of an object that stands inside `depth` levels, its own included.
fn pairs(object: serde_json::Map<String, Json>, depth: usize, limits: Limits) -> Result<Pairs> {
    let pair = |(key, value): (String, Json)| {
        let key = match key.strip_prefix('$') {
            None => key.into_bytes(),
            Some(rest) if rest.starts_with('$') => rest.as_bytes().to_vec(),
            Some(rest) => match rest.strip_prefix("base64:") {
                Some(text) => base64_decode(text)?,
                // A single `$` before anything else is taken as it is, so that plain documents pass.
                None => key.into_bytes(),
            },
        };
        Ok((key, node(value, depth, limits)?))
    };
    object.into_iter().map(pair).collect()
}

fn tagged(kind: &str, value: &Json) -> Result<Node> {
    let text = value.as_str();
    let found = match kind {
        "uint64" => value.as_u64().map(Value::Uint64),
        "int64" => value.as_i64().map(Value::Int64),
        "double" => match text {
            Some("nan") => Some(Value::Double(f64::NAN)),
            Some("inf") => Some(Value::Double(f64::INFINITY)),
            Some("-inf") => Some(Value::Double(f64::NEG_INFINITY)),
            _ => value.as_f64().map(Value::Double),
        },
        "base64" => text.map(base64_decode).transpose()?.map(Value::String),
        "string" => text.map(|text| Value::String(text.into())),
        "boolean" => value.as_bool().map(Value::Boolean),
        _ => {
            return Err(refused(format!(
                "`$type` is `{kind}`; uint64, int64, double, base64, string and boolean are known"
            )));
        }
    };
    found.map(Node::from).ok_or_else(|| {
        let shown: String = value.to_string().chars().take(60).collect();
        refused(format!("`$value` is {shown}, which is no {kind}"))
    })
}

/// Appends the JSON view of a tree.
pub(crate) fn write_json(node: &Node, options: JsonOptions, out: &mut Vec<u8>) {
    if !node.attributes.is_empty() {
        out.extend_from_slice(b"{\"$attributes\":");
        write_pairs(&node.attributes, options, out);
        out.extend_from_slice(b",\"$value\":");
    }
    match &node.value {
        Value::Entity => out.extend_from_slice(b"null"),
        Value::Boolean(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Int64(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Uint64(value) if options.exact => {
            out.extend_from_slice(
                format!("{{\"$type\":\"uint64\",\"$value\":{value}}}").as_bytes(),
            );
        }
        Value::Uint64(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Double(value) => write_double(*value, out),
        Value::String(value) => match std::str::from_utf8(value) {
            Ok(text) => write_text(text, out),
            Err(_) => {
                out.extend_from_slice(b"{\"$type\":\"base64\",\"$value\":\"");
                out.extend_from_slice(base64_encode(value).as_bytes());
                out.extend_from_slice(b"\"}");
            }
        },
        Value::List(items) => {
            out.push(b'[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                write_json(item, options, out);
            }
            out.push(b']');
        }
        Value::Map(pairs) => write_pairs(pairs, options, out),
    }
    if !node.attributes.is_empty() {
        out.push(b'}');
    }
}

fn write_double(value: f64, out: &mut Vec<u8>) {
    let text = if value.is_nan() {
        "{\"$type\":\"double\",\"$value\":\"nan\"}".to_owned()
    } else if value.is_infinite() {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{{\"$type\":\"double\",\"$value\":\"{sign}inf\"}}")
    } else {
        // The shortest digits that read back as the same number, always with a point or an exponent.
        format!("{value:?}")
    };
    out.extend_from_slice(text.as_bytes());
}

/// Writes an object. Of equal keys only the last one is written, because it is the one that counts.
fn write_pairs(pairs: &Pairs, options: JsonOptions, out: &mut Vec<u8>) {
    let mut last = std::collections::HashMap::with_capacity(pairs.len());
    for (number, (key, _)) in pairs.iter().enumerate() {
        last.insert(key, number);
    }
    out.push(b'{');
    let mut is_first = true;
    for (number, (key, value)) in pairs.iter().enumerate() {
        if last.get(key) != Some(&number) {
            continue;
        }
        if !std::mem::replace(&mut is_first, false) {
            out.push(b',');
        }
        match std::str::from_utf8(key) {
            Ok(text) if text.starts_with('$') => write_text(&format!("${text}"), out),
            Ok(text) => write_text(text, out),
            Err(_) => write_text(&format!("$base64:{}", base64_encode(key)), out),
        }
        out.push(b':');
        write_json(value, options, out);
    }
    out.push(b'}');
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(Json::from(text).to_string().as_bytes());
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64_encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().skip(1).zip(chunk) {
            *to = *from;
        }
        let word = u32::from_be_bytes(word);
        for place in 0..4 {
            let digit = DIGITS[((word >> (18 - 6 * place)) & 63) as usize];
            out.push(if place <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}

fn base64_decode(text: &str) -> Result<Vec<u8>> {
    let wrong = || {
        let shown: String = text.chars().take(40).collect();
        refused(format!("`{shown}` is not base64"))
    };
    let digits = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return Err(wrong());
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for chunk in digits.chunks(4) {
        let mut word = 0_u32;
        for byte in chunk {
            let digit = DIGITS
                .iter()
                .position(|digit| digit == byte)
                .ok_or_else(wrong)?;
            word = word << 6 | u32::try_from(digit).unwrap_or_default();
        }
        word <<= 6 * (4 - chunk.len());
        let [_, bytes @ ..] = word.to_be_bytes();
        out.extend_from_slice(bytes.get(..chunk.len() - 1).ok_or_else(wrong)?);
    }
    Ok(out)
}
