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
//! Back from JSON, integers become int64 where they fit, else uint64; beyond 64 bits they become doubles.

use serde_json::Value as Json;

use super::node::{Node, Pairs, Value, parse};
use super::read::Limits;
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
/// [`Error::Json`] when the text is no JSON value, or a `$type` is unknown.
pub fn json_to_yson(text: &str, style: Style) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    write_node(&json_node(text)?, style, false, &mut out);
    Ok(out)
}

/// The tree of a JSON text.
pub(crate) fn json_node(text: &str) -> Result<Node> {
    let json: Json = serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
    node(json)
}

fn refused(reason: impl Into<String>) -> Error {
    Error::Json {
        reason: reason.into(),
    }
}

fn node(json: Json) -> Result<Node> {
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
            Value::List(items.into_iter().map(node).collect::<Result<_>>()?).into()
        }
        Json::Object(mut object) => {
            if let Some(kind) = object.get("$type").and_then(Json::as_str) {
                return tagged(kind, object.get("$value"));
            }
            if object.len() == 2
                && object.contains_key("$value")
                && let Some(Json::Object(attributes)) = object.remove("$attributes")
            {
                let value = object.remove("$value").unwrap_or(Json::Null);
                let mut node = node(value)?;
                node.attributes = pairs(attributes)?;
                return Ok(node);
            }
            Value::Map(pairs(object)?).into()
        }
    })
}

fn pairs(object: serde_json::Map<String, Json>) -> Result<Pairs> {
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
        Ok((key, node(value)?))
    };
    object.into_iter().map(pair).collect()
}

fn tagged(kind: &str, value: Option<&Json>) -> Result<Node> {
    let text = value.and_then(Json::as_str);
    let value = match kind {
        "uint64" => value.and_then(Json::as_u64).map(Value::Uint64),
        "int64" => value.and_then(Json::as_i64).map(Value::Int64),
        "double" => match text {
            Some("nan") => Some(Value::Double(f64::NAN)),
            Some("inf") => Some(Value::Double(f64::INFINITY)),
            Some("-inf") => Some(Value::Double(f64::NEG_INFINITY)),
            _ => value.and_then(Json::as_f64).map(Value::Double),
        },
        "base64" => text.map(base64_decode).transpose()?.map(Value::String),
        "string" => text.map(|text| Value::String(text.into())),
        "boolean" => value.and_then(Json::as_bool).map(Value::Boolean),
        _ => None,
    };
    match value {
        Some(value) => Ok(value.into()),
        None => Err(refused(format!(
            "`$type` {kind} with this `$value` is no YSON value"
        ))),
    }
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
    let wrong = || refused("a base64 text that is none");
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
