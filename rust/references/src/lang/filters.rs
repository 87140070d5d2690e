//! Filters, tests and methods of text: those that occur in reference sets, with Jinja's results.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Fault, Peer};
use crate::lang::format::{braces, check_length, percent, truncated};
use crate::lang::limits::MAX_TEXT;
use crate::lang::number::{parse_float, parse_int};
use crate::lang::value::Value;

/// The values of a call's arguments.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) positional: Vec<Value>,
    pub(crate) named: Vec<(String, Value)>,
}

impl Given {
    /// The argument at a position or of a name.
    fn get(&self, at: usize, name: &str) -> Option<&Value> {
        let named = || self.named.iter().find(|(it, _)| it == name);
        self.positional
            .get(at)
            .or_else(|| named().map(|(_, it)| it))
    }

    fn int(&self, at: usize, name: &str) -> Result<Option<i128>, Fault> {
        let Some(value) = self.get(at, name) else {
            return Ok(None);
        };
        let int = value.as_int();
        int.map(Some)
            .ok_or_else(|| Fault::type_of(format!("argument {name} must be an integer")))
    }

    fn text(&self, at: usize, name: &str) -> Result<Option<String>, Fault> {
        self.get(at, name).map(Value::to_text).transpose()
    }

    fn named(&self, name: &str) -> Option<Value> {
        let found = self.named.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.clone())
    }
}

/// The characters that `urllib.parse.quote` leaves, and the slash.
const QUOTED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~')
    .remove(b'/');

fn undefined(value: &Value) -> Result<(), Fault> {
    match value {
        Value::Undefined(name) => Err(Fault::value(format!("{name:?} is undefined"))),
        _ => Ok(()),
    }
}

/// `value|name(...)`.
pub(crate) fn filter(name: &str, value: &Value, given: &Given) -> Result<Value, Fault> {
    match name {
        "default" | "d" => Ok(default(value, given)),
        "int" => int_filter(value, given),
        "float" => float(value, given),
        "string" => Ok(Value::text(value.to_text()?)),
        "upper" | "lower" | "title" | "capitalize" | "trim" => {
            let text = value.to_text()?;
            if name == "trim" {
                return strip(&text, given.text(0, "chars")?.as_deref(), (true, true));
            }
            Ok(Value::text(cased(&text, name)))
        }
        "replace" => {
            let (Some(from), Some(to)) = (given.text(0, "old")?, given.text(1, "new")?) else {
                return Err(Fault::type_of("replace needs two texts"));
            };
            replaced(&value.to_text()?, &from, &to, given.int(2, "count")?)
        }
        "join" => join(value, &given.text(0, "d")?.unwrap_or_default()),
        "length" | "count" => length(value),
        "abs" => match value {
            Value::Float(it) => Ok(Value::Float(it.abs())),
            other => Ok(Value::Int(
                int_of(other)?.checked_abs().ok_or_else(too_large)?,
            )),
        },
        "round" => round(value, given),
        "format" => Ok(Value::text(percent(
            &value.to_text()?,
            &arguments_of_format(given),
        )?)),
        "first" | "last" => {
            let items = value.elements()?;
            let item = if name == "first" {
                items.first()
            } else {
                items.last()
            };
            Ok(item
                .cloned()
                .unwrap_or_else(|| Value::Undefined("an item of an empty list".into())))
        }
        "max" | "min" => extreme(value, name == "max"),
        "sum" => {
            let mut total = given.get(1, "start").cloned().unwrap_or(Value::Int(0));
            for item in value.elements()? {
                total = add(&total, &item)?;
            }
            Ok(total)
        }
        "list" => Ok(Value::List(Arc::new(value.elements()?))),
        "reverse" => match value {
            Value::Str(text) => Ok(Value::text(text.chars().rev().collect::<String>())),
            other => {
                let mut items = other.elements()?;
                items.reverse();
                Ok(Value::List(Arc::new(items)))
            }
        },
        "urlencode" => {
            let text = value.to_text()?;
            let quoted = utf8_percent_encode(&text, &QUOTED).to_string();
            check_length(&quoted)?;
            Ok(Value::text(quoted))
        }
        other => Err(Fault::value(format!("there is no filter {other:?}"))),
    }
}

fn default(value: &Value, given: &Given) -> Value {
    let also_false = given.get(1, "boolean").is_some_and(Value::is_true);
    let is_missing = matches!(value, Value::Undefined(_)) || also_false && !value.is_true();
    if !is_missing {
        return value.clone();
    }
    let default = given.get(0, "default_value").cloned();
    default.unwrap_or_else(|| Value::text(""))
}

fn float(value: &Value, given: &Given) -> Result<Value, Fault> {
    undefined(value)?;
    let number = match value {
        Value::Str(text) => parse_float(text),
        other => other.as_float(),
    };
    let default = given.get(0, "default").and_then(Value::as_float);
    Ok(Value::Float(number.or(default).unwrap_or(0.0)))
}

fn arguments_of_format(given: &Given) -> Value {
    if given.positional.is_empty() && !given.named.is_empty() {
        let items = given
            .named
            .iter()
            .map(|(name, it)| (Value::text(name), it.clone()));
        return Value::Dict(Arc::new(items.collect()));
    }
    Value::Tuple(Arc::new(given.positional.clone()))
}

fn too_large() -> Fault {
    Fault::limit("an integer has more than 38 digits")
}

fn int_of(value: &Value) -> Result<i128, Fault> {
    undefined(value)?;
    value
        .as_int()
        .ok_or_else(|| Fault::type_of(format!("a number is expected, not {}", value.type_name())))
}

fn int_filter(value: &Value, given: &Given) -> Result<Value, Fault> {
    undefined(value)?;
    let default = given.int(0, "default")?.unwrap_or(0);
    let base = given.int(1, "base")?.unwrap_or(10);
    let base = u32::try_from(base).ok().filter(|it| (2..=36).contains(it));
    let base = base.ok_or_else(|| Fault::value("the base of an integer is 2 to 36"))?;
    let found = match value {
        Value::Str(text) => match parse_int(text, base) {
            Some(it) => Some(it),
            // Text with a fraction counts as the number that it is.
            None => parse_float(text)
                .filter(|it| it.is_finite())
                .map(truncated)
                .transpose()?,
        },
        Value::Float(it) if it.is_finite() => Some(truncated(*it)?),
        other => other.as_int(),
    };
    Ok(Value::Int(found.unwrap_or(default)))
}

fn cased(text: &str, how: &str) -> String {
    match how {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "title" => {
            let mut begins = true;
            let mut out = String::with_capacity(text.len());
            for it in text.chars() {
                if begins {
                    out.extend(it.to_uppercase());
                } else {
                    out.extend(it.to_lowercase());
                }
                begins = it.is_whitespace() || "-([{<".contains(it);
            }
            out
        }
        _ => {
            let mut chars = text.chars();
            let first = chars.next().map(|it| it.to_uppercase().to_string());
            format!(
                "{}{}",
                first.unwrap_or_default(),
                chars.as_str().to_lowercase()
            )
        }
    }
}

fn strip(text: &str, chars: Option<&str>, ends: (bool, bool)) -> Result<Value, Fault> {
    let is_stripped = |it: char| chars.map_or(it.is_whitespace(), |chars| chars.contains(it));
    let mut text = text;
    if ends.0 {
        text = text.trim_start_matches(is_stripped);
    }
    if ends.1 {
        text = text.trim_end_matches(is_stripped);
    }
    Ok(Value::text(text))
}

fn replaced(text: &str, from: &str, to: &str, count: Option<i128>) -> Result<Value, Fault> {
    let occurrences = if from.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(from).count()
    };
    let most = text
        .len()
        .saturating_add(occurrences.saturating_mul(to.len()));
    if most > MAX_TEXT {
        return Err(Fault::limit(format!(
            "the text would be longer than {MAX_TEXT} bytes"
        )));
    }
    let count = count.and_then(|it| usize::try_from(it).ok());
    Ok(Value::text(match count {
        Some(count) => text.replacen(from, to, count),
        None => text.replace(from, to),
    }))
}

fn join(value: &Value, separator: &str) -> Result<Value, Fault> {
    let mut out = String::new();
    for (at, item) in value.elements()?.iter().enumerate() {
        if at > 0 {
            out.push_str(separator);
        }
        item.print(&mut out)?;
        check_length(&out)?;
    }
    Ok(Value::text(out))
}

fn length(value: &Value) -> Result<Value, Fault> {
    let length = match value {
        Value::Str(text) => text.chars().count(),
        Value::Dict(items) => items.len(),
        other => other.elements()?.len(),
    };
    Ok(Value::Int(i128::try_from(length).unwrap_or(i128::MAX)))
}

fn round(value: &Value, given: &Given) -> Result<Value, Fault> {
    undefined(value)?;
    let number = value.as_float().ok_or_else(|| {
        Fault::type_of(format!("a number is expected, not {}", value.type_name()))
    })?;
    let precision = given.int(0, "precision")?.unwrap_or(0);
    let precision = i32::try_from(precision).ok().filter(|it| it.abs() <= 300);
    let precision = precision.ok_or_else(|| Fault::limit("a precision of more than 300 digits"))?;
    let method = given
        .text(1, "method")?
        .unwrap_or_else(|| "common".to_owned());
    let scale = 10_f64.powi(precision);
    let rounded = match (method.as_str(), usize::try_from(precision)) {
        // Formatting rounds the exact binary value to the nearest decimal, half to even, as Python does.
        ("common", Ok(decimals)) => format!("{number:.decimals$}").parse().unwrap_or(number),
        ("common", Err(_)) => (number * scale).round_ties_even() / scale,
        ("ceil", _) => (number * scale).ceil() / scale,
        ("floor", _) => (number * scale).floor() / scale,
        _ => return Err(Fault::value("method must be common, ceil or floor")),
    };
    // Python rounds an integer to an integer.
    match (value, method.as_str()) {
        (Value::Int(_) | Value::Bool(_), "common") if precision >= 0 => {
            Ok(Value::Int(int_of(value)?))
        }
        _ => Ok(Value::Float(rounded)),
    }
}

fn extreme(value: &Value, is_max: bool) -> Result<Value, Fault> {
    let mut best: Option<Value> = None;
    for item in value.elements()? {
        let is_better = match &best {
            None => true,
            Some(best) => {
                let order = item.order(best)?;
                order
                    == Some(if is_max {
                        std::cmp::Ordering::Greater
                    } else {
                        std::cmp::Ordering::Less
                    })
            }
        };
        if is_better {
            best = Some(item);
        }
    }
    Ok(best.unwrap_or_else(|| Value::Undefined("an item of an empty list".into())))
}

/// `a + b`.
pub(crate) fn add(a: &Value, b: &Value) -> Result<Value, Fault> {
    undefined(a)?;
    undefined(b)?;
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => {
            let text = format!("{a}{b}");
            check_length(&text)?;
            Ok(Value::text(text))
        }
        (Value::List(a), Value::List(b)) => {
            let items: Vec<_> = a.iter().chain(b.iter()).cloned().collect();
            if items.len() > MAX_TEXT {
                return Err(Fault::limit(format!(
                    "a list has more than {MAX_TEXT} items"
                )));
            }
            Ok(Value::List(Arc::new(items)))
        }
        _ => match (a.as_int(), b.as_int()) {
            (Some(a), Some(b)) => Ok(Value::Int(a.checked_add(b).ok_or_else(too_large)?)),
            _ => match (a.as_float(), b.as_float()) {
                (Some(a), Some(b)) => Ok(Value::Float(a + b)),
                _ => Err(Fault::type_of(format!(
                    "{} and {} cannot be added; `~` joins texts, and |int makes a number of a text",
                    a.type_name(),
                    b.type_name()
                ))),
            },
        },
    }
}

/// `value is name`.
pub(crate) fn test(name: &str, value: &Value, given: &Given) -> Result<bool, Fault> {
    let argument = || {
        let value = given.positional.first();
        value.ok_or_else(|| Fault::type_of(format!("the test {name:?} needs an argument")))
    };
    Ok(match name {
        "defined" => !matches!(value, Value::Undefined(_)),
        "undefined" => matches!(value, Value::Undefined(_)),
        "none" => matches!(value, Value::None),
        "even" => int_of(value)?.rem_euclid(2) == 0,
        "odd" => int_of(value)?.rem_euclid(2) == 1,
        "divisibleby" => {
            let by = int_of(argument()?)?;
            if by == 0 {
                return Err(Fault::value("division by zero"));
            }
            int_of(value)? % by == 0
        }
        "string" => matches!(value, Value::Str(_)),
        "number" => value.as_float().is_some(),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "sequence" => matches!(
            value,
            Value::Str(_) | Value::List(_) | Value::Tuple(_) | Value::Dict(_)
        ),
        "iterable" => value.elements().is_ok(),
        "mapping" => matches!(value, Value::Dict(_)),
        "callable" => matches!(value, Value::Callable(_) | Value::Range),
        "eq" | "equalto" => value.equals(argument()?),
        "ne" => !value.equals(argument()?),
        "lt" | "lessthan" => value.order(argument()?)? == Some(std::cmp::Ordering::Less),
        "gt" | "greaterthan" => value.order(argument()?)? == Some(std::cmp::Ordering::Greater),
        "in" => contains(argument()?, value)?,
        "lower" => value.to_text().is_ok_and(|it| it == it.to_lowercase()),
        "upper" => value.to_text().is_ok_and(|it| it == it.to_uppercase()),
        other => return Err(Fault::value(format!("there is no test {other:?}"))),
    })
}

/// `item in container`.
pub(crate) fn contains(container: &Value, item: &Value) -> Result<bool, Fault> {
    match (container, item) {
        (Value::Str(text), Value::Str(part)) => Ok(text.contains(&**part)),
        (Value::Str(_), other) => Err(Fault::type_of(format!(
            "{} cannot be in a text",
            other.type_name()
        ))),
        (container, item) => Ok(container.elements()?.iter().any(|it| it.equals(item))),
    }
}

/// `value.name(...)`.
pub(crate) fn method(value: &Value, name: &str, given: &Given) -> Result<Value, Fault> {
    let Value::Str(text) = value else {
        return match (value, name) {
            (Value::Dict(items), "get") => {
                let key = given.positional.first().cloned().unwrap_or(Value::None);
                let found = items.iter().find(|(it, _)| it.equals(&key));
                let default = || given.positional.get(1).cloned().unwrap_or(Value::None);
                Ok(found.map_or_else(default, |(_, it)| it.clone()))
            }
            (Value::Undefined(name), _) => Err(Fault::value(format!("{name:?} is undefined"))),
            _ => Err(no_method(value, name)),
        };
    };
    let affix = |ends: fn(&str, &str) -> bool| -> Result<Value, Fault> {
        let Some(given) = given.positional.first() else {
            return Err(Fault::type_of(format!("{name} needs a text")));
        };
        match given {
            Value::Tuple(items) => {
                let mut any = false;
                for item in items.iter() {
                    any |= ends(text, &item.to_text()?);
                }
                Ok(Value::Bool(any))
            }
            Value::Str(affix) => Ok(Value::Bool(ends(text, affix))),
            other => Err(Fault::type_of(format!(
                "{name} needs a text, not {}",
                other.type_name()
            ))),
        }
    };
    match name {
        "upper" | "lower" | "title" | "capitalize" => Ok(Value::text(cased(text, name))),
        "strip" => strip(text, given.text(0, "chars")?.as_deref(), (true, true)),
        "lstrip" => strip(text, given.text(0, "chars")?.as_deref(), (true, false)),
        "rstrip" => strip(text, given.text(0, "chars")?.as_deref(), (false, true)),
        "startswith" => affix(|text, it| text.starts_with(it)),
        "endswith" => affix(|text, it| text.ends_with(it)),
        "split" => split(text, given),
        "replace" => filter("replace", value, given),
        "join" => join(given.positional.first().unwrap_or(&Value::None), text),
        "format" => Ok(Value::text(braces(text, &given.positional, &|name| {
            given.named(name)
        })?)),
        "zfill" => {
            let width = width(given)?;
            let (sign, digits) = match text.strip_prefix(['-', '+']) {
                Some(rest) => (text.get(..1).unwrap_or_default(), rest),
                None => ("", &**text),
            };
            let missing = width.saturating_sub(text.chars().count());
            Ok(Value::text(format!(
                "{sign}{}{digits}",
                "0".repeat(missing)
            )))
        }
        "rjust" | "ljust" | "center" => justified(text, name, given),
        "count" => {
            let part = given.text(0, "sub")?.unwrap_or_default();
            let count = if part.is_empty() {
                text.chars().count() + 1
            } else {
                text.matches(&part).count()
            };
            Ok(Value::Int(i128::try_from(count).unwrap_or(i128::MAX)))
        }
        "find" => {
            let part = given.text(0, "sub")?.unwrap_or_default();
            let at = text
                .find(&part)
                .map(|at| text.get(..at).unwrap_or_default().chars().count());
            Ok(Value::Int(
                at.and_then(|it| i128::try_from(it).ok()).unwrap_or(-1),
            ))
        }
        "isdigit" => Ok(Value::Bool(
            !text.is_empty() && text.chars().all(|it| it.is_ascii_digit()),
        )),
        _ => Err(no_method(value, name)),
    }
}

fn no_method(value: &Value, name: &str) -> Fault {
    Fault::new(
        Peer::Attribute,
        format!(
            "{} has no method {name:?} that templates may call",
            value.type_name()
        ),
    )
}

fn width(given: &Given) -> Result<usize, Fault> {
    let width = given.int(0, "width")?;
    let width = width.ok_or_else(|| Fault::type_of("a width is expected"))?;
    if width > i128::try_from(MAX_TEXT).unwrap_or(i128::MAX) {
        return Err(Fault::limit(format!(
            "a width of more than {MAX_TEXT} is refused"
        )));
    }
    Ok(usize::try_from(width).unwrap_or_default())
}

fn justified(text: &str, how: &str, given: &Given) -> Result<Value, Fault> {
    let width = width(given)?;
    let fill = given.text(1, "fillchar")?.unwrap_or_else(|| " ".to_owned());
    if fill.chars().count() != 1 {
        return Err(Fault::type_of("the fill must be one character"));
    }
    let missing = width.saturating_sub(text.chars().count());
    Ok(Value::text(match how {
        "rjust" => format!("{}{text}", fill.repeat(missing)),
        "ljust" => format!("{text}{}", fill.repeat(missing)),
        _ => {
            // Python puts the odd character to the left when both numbers are odd.
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left))
        }
    }))
}

fn split(text: &str, given: &Given) -> Result<Value, Fault> {
    let most = given
        .int(1, "maxsplit")?
        .and_then(|it| usize::try_from(it).ok());
    let parts: Vec<Value> = match given.get(0, "sep") {
        None | Some(Value::None) => match most {
            None => text.split_whitespace().map(Value::text).collect(),
            Some(_) => return Err(Fault::value("split with a limit needs a separator")),
        },
        Some(separator) => {
            let separator = separator.to_text()?;
            if separator.is_empty() {
                return Err(Fault::value("the separator is empty"));
            }
            match most {
                Some(most) => text
                    .splitn(most.saturating_add(1), &separator)
                    .map(Value::text)
                    .collect(),
                None => text.split(&separator).map(Value::text).collect(),
            }
        }
    };
    Ok(Value::List(Arc::new(parts)))
}
