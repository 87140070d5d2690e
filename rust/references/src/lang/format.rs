//! `'%02d' % i` and `'{:02d}'.format(i)`: formatting as Python does it, without attributes and without nesting.

use crate::error::{Fault, Peer};
use crate::lang::limits::MAX_TEXT;
use crate::lang::number::{Layout, digits};
use crate::lang::value::Value;

/// `template % arguments`.
pub(crate) fn percent(template: &str, arguments: &Value) -> Result<String, Fault> {
    let values: Vec<Value> = match arguments {
        Value::Tuple(items) => items.to_vec(),
        other => vec![other.clone()],
    };
    let chars: Vec<char> = template.chars().collect();
    let mut out = String::new();
    let (mut at, mut next, mut is_named) = (0, 0, false);
    while let Some(&it) = chars.get(at) {
        at += 1;
        if it != '%' {
            out.push(it);
            continue;
        }
        if chars.get(at) == Some(&'%') {
            out.push('%');
            at += 1;
            continue;
        }
        let (layout, name) = percent_layout(&chars, &mut at)?;
        let value = if let Some(name) = name {
            is_named = true;
            named(arguments, &name)?
        } else {
            let value = values.get(next).cloned();
            next += 1;
            value.ok_or_else(|| Fault::type_of("the format has more fields than arguments"))?
        };
        out.push_str(&percent_field(&layout, &value)?);
        check_length(&out)?;
    }
    let is_mapping = matches!(arguments, Value::Dict(_));
    if !is_named && !is_mapping && next < values.len() {
        return Err(Fault::type_of("the format has fewer fields than arguments"));
    }
    Ok(out)
}

fn named(arguments: &Value, name: &str) -> Result<Value, Fault> {
    let Value::Dict(items) = arguments else {
        return Err(Fault::type_of("a format with names needs a mapping"));
    };
    let found = items
        .iter()
        .find(|(key, _)| matches!(key, Value::Str(it) if **it == *name));
    found
        .map(|(_, value)| value.clone())
        .ok_or_else(|| Fault::new(Peer::Key, format!("no argument {name:?}")))
}

fn percent_layout(chars: &[char], at: &mut usize) -> Result<(Layout, Option<String>), Fault> {
    let mut layout = Layout::default();
    let mut name = None;
    if chars.get(*at) == Some(&'(') {
        let start = *at + 1;
        let length = chars.iter().skip(start).position(|it| *it == ')');
        let end = start + length.ok_or_else(|| Fault::value("the format has an open bracket"))?;
        name = Some(chars.iter().skip(start).take(end - start).collect());
        *at = end + 1;
    }
    loop {
        match chars.get(*at) {
            Some('-') => layout.align = Some('<'),
            Some('+') => layout.sign = Some('+'),
            Some(' ') => layout.sign = layout.sign.or(Some(' ')),
            Some('#') => layout.alternate = true,
            Some('0') => layout.zero = true,
            _ => break,
        }
        *at += 1;
    }
    layout.width = digits(chars, at)?.unwrap_or(0);
    if chars.get(*at) == Some(&'.') {
        *at += 1;
        layout.precision = Some(digits(chars, at)?.unwrap_or(0));
    }
    layout.kind = chars.get(*at).copied();
    *at += 1;
    if layout.kind.is_none() {
        return Err(Fault::value("the format ends within a field"));
    }
    Ok((layout, name))
}

fn percent_field(layout: &Layout, value: &Value) -> Result<String, Fault> {
    let kind = layout.kind.unwrap_or('s');
    match kind {
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
            let whole = match value {
                Value::Float(it) if matches!(kind, 'd' | 'i' | 'u') => truncated(*it)?,
                other => other.as_int().ok_or_else(|| {
                    Fault::type_of(format!("%{kind} needs a number, not {}", other.type_name()))
                })?,
            };
            let kind = if matches!(kind, 'i' | 'u') { 'd' } else { kind };
            let Some(precision) = layout.precision else {
                return layout.int(whole, kind);
            };
            // The precision of an integer is its fewest digits.
            let inner = Layout {
                width: precision,
                zero: true,
                ..Layout::default()
            };
            let sign = match (whole < 0, layout.sign) {
                (true, _) => "-",
                (false, Some('+')) => "+",
                (false, Some(' ')) => " ",
                _ => "",
            };
            let magnitude = whole
                .checked_abs()
                .ok_or_else(|| Fault::limit("an integer has more than 127 bits"))?;
            let body = inner.int(magnitude, kind)?;
            Ok(layout.pad(sign, &body, '>'))
        }
        'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
            let number = value.as_float().ok_or_else(|| {
                Fault::type_of(format!("%{kind} needs a number, not {}", value.type_name()))
            })?;
            Ok(layout.float(number, Some(kind)))
        }
        's' | 'r' | 'a' => {
            let mut text = String::new();
            match kind {
                's' => value.print(&mut text)?,
                _ => value.repr(&mut text, 0)?,
            }
            let unpadded = Layout {
                zero: false,
                ..layout.clone()
            };
            Ok(unpadded.pad("", &cut(text, layout.precision), '>'))
        }
        'c' => match value {
            Value::Str(text) if text.chars().count() == 1 => Ok(layout.pad("", text, '>')),
            other => {
                let code = other.as_int().and_then(|it| u32::try_from(it).ok());
                let it = code.and_then(char::from_u32);
                let it = it.ok_or_else(|| Fault::type_of("%c needs a character"))?;
                Ok(layout.pad("", it.encode_utf8(&mut [0; 4]), '>'))
            }
        },
        other => Err(Fault::value(format!(
            "the format has an unknown field %{other}"
        ))),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the bounds are checked")]
pub(crate) fn truncated(value: f64) -> Result<i128, Fault> {
    if !value.is_finite() {
        return Err(Fault::value("infinity and nan are no integers"));
    }
    if value.abs() >= 1e38 {
        return Err(Fault::limit("an integer has more than 38 digits"));
    }
    Ok(value.trunc() as i128)
}

fn cut(text: String, precision: Option<usize>) -> String {
    match precision {
        Some(most) => text.chars().take(most).collect(),
        None => text,
    }
}

pub(crate) fn check_length(text: &str) -> Result<(), Fault> {
    if text.len() > MAX_TEXT {
        return Err(Fault::limit(format!(
            "the text is longer than {MAX_TEXT} bytes, the most that an expression may make"
        )));
    }
    Ok(())
}

/// `template.format(*arguments, **names)`. A name may be followed by `[index]`; attributes are refused.
pub(crate) fn braces(
    template: &str,
    arguments: &[Value],
    names: &dyn Fn(&str) -> Option<Value>,
) -> Result<String, Fault> {
    let mut out = String::new();
    let mut rest = template;
    let mut next = 0;
    while let Some(place) = rest.find(['{', '}']) {
        out.push_str(rest.get(..place).unwrap_or_default());
        let brace = rest.as_bytes().get(place).copied().unwrap_or_default();
        rest = rest.get(place + 1..).unwrap_or_default();
        if rest.as_bytes().first() == Some(&brace) {
            out.push(char::from(brace));
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        if brace == b'}' {
            return Err(Fault::value("the format has a single '}'"));
        }
        let end = rest
            .find(['}', '{'])
            .ok_or_else(|| Fault::value("the format has a single '{'"))?;
        if rest.as_bytes().get(end) == Some(&b'{') {
            return Err(Fault::value("the format has a '{' within a field"));
        }
        let field = rest.get(..end).unwrap_or_default();
        rest = rest.get(end + 1..).unwrap_or_default();
        out.push_str(&brace_field(field, arguments, names, &mut next)?);
        check_length(&out)?;
    }
    out.push_str(rest);
    Ok(out)
}

fn brace_field(
    field: &str,
    arguments: &[Value],
    names: &dyn Fn(&str) -> Option<Value>,
    next: &mut usize,
) -> Result<String, Fault> {
    // A bracket protects `!` and `:` within an index.
    let mut depth = 0_usize;
    let split = field.char_indices().find(|(_, it)| {
        match it {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(it, '!' | ':')
    });
    let (name, tail) = field.split_at(split.map_or(field.len(), |(at, _)| at));
    let (conversion, spec) = match tail.strip_prefix('!') {
        Some(rest) => {
            let (conversion, spec) = rest.split_once(':').unwrap_or((rest, ""));
            (Some(conversion), spec)
        }
        None => (None, tail.strip_prefix(':').unwrap_or("")),
    };
    let value = looked_up(name, arguments, names, next)?;
    let value = match conversion {
        None => value,
        Some("s") => Value::text(value.to_text()?),
        Some("r" | "a") => {
            let mut text = String::new();
            value.repr(&mut text, 0)?;
            Value::text(text)
        }
        Some(other) => {
            return Err(Fault::value(format!(
                "the format has an unknown conversion {other:?}"
            )));
        }
    };
    by_spec(&value, spec)
}

fn looked_up(
    name: &str,
    arguments: &[Value],
    names: &dyn Fn(&str) -> Option<Value>,
    next: &mut usize,
) -> Result<Value, Fault> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut path) = name.split_at(end);
    let number: Option<usize> = match first {
        "" => {
            *next += 1;
            Some(*next - 1)
        }
        _ => first
            .parse()
            .ok()
            .filter(|_| first.bytes().all(|it| it.is_ascii_digit())),
    };
    // `{3.7}` names argument 3.
    let mut value = match number {
        Some(number) => arguments.get(number).cloned().ok_or_else(|| {
            Fault::new(
                Peer::Index,
                format!("the format names argument {number}, which is missing"),
            )
        })?,
        None => names(first).ok_or_else(|| {
            Fault::new(
                Peer::Key,
                format!("there is no template or argument {first:?}"),
            )
        })?,
    };
    while !path.is_empty() {
        let Some(rest) = path.strip_prefix('[') else {
            return Err(Fault::new(
                Peer::Attribute,
                format!("{name:?}: attributes cannot be used in a format"),
            ));
        };
        let (index, rest) = rest
            .split_once(']')
            .ok_or_else(|| Fault::value("the format has an open bracket"))?;
        value = indexed(&value, index)?;
        path = rest;
    }
    Ok(value)
}

fn indexed(value: &Value, index: &str) -> Result<Value, Fault> {
    let number: Option<usize> = index.parse().ok();
    let missing = || Fault::new(Peer::Index, format!("index {index} is out of range"));
    match (value, number) {
        (Value::Str(text), Some(number)) => {
            let it = text.chars().nth(number).ok_or_else(missing)?;
            Ok(Value::text(it.encode_utf8(&mut [0; 4])))
        }
        (Value::List(items) | Value::Tuple(items), Some(number)) => {
            items.get(number).cloned().ok_or_else(missing)
        }
        (Value::Dict(_), _) => named(value, index),
        (other, _) => Err(Fault::type_of(format!(
            "{} has no index {index:?}",
            other.type_name()
        ))),
    }
}

fn by_spec(value: &Value, spec: &str) -> Result<String, Fault> {
    if spec.is_empty() {
        return value.to_text();
    }
    let layout = Layout::parse(spec)?;
    let unknown = |kind: char| {
        Fault::value(format!(
            "the format {kind:?} cannot be used for {}",
            value.type_name()
        ))
    };
    match (value, layout.kind) {
        (Value::Str(text), None | Some('s')) => {
            if layout.align == Some('=') || layout.sign.is_some() {
                return Err(Fault::value("a sign cannot be used for text"));
            }
            Ok(layout.pad("", &cut(text.to_string(), layout.precision), '<'))
        }
        (Value::Str(_), Some(kind)) => Err(unknown(kind)),
        (Value::Int(_) | Value::Bool(_), None | Some('d' | 'x' | 'X' | 'o' | 'b' | 'n')) => {
            if layout.precision.is_some() {
                return Err(Fault::value("an integer has no precision in a format"));
            }
            layout.int(
                value.as_int().unwrap_or_default(),
                layout.kind.unwrap_or('d'),
            )
        }
        (
            Value::Int(_) | Value::Bool(_) | Value::Float(_),
            Some('f' | 'F' | 'e' | 'E' | 'g' | 'G' | '%'),
        )
        | (Value::Float(_), None) => {
            Ok(layout.float(value.as_float().unwrap_or_default(), layout.kind))
        }
        (Value::Int(_) | Value::Float(_) | Value::Bool(_), Some(kind)) => Err(unknown(kind)),
        (other, _) => Err(Fault::type_of(format!(
            "{} takes no format",
            other.type_name()
        ))),
    }
}
