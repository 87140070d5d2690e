//! Values of the expression language, printed and compared as Python prints and compares them.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::Fault;
use crate::lang::limits::{MAX_DEPTH, MAX_TEXT};
use crate::lang::number::float_text;

/// A value. Clones are cheap.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// A name that has no value: it prints as empty text, and most operations on it fail.
    Undefined(Arc<str>),
    None,
    Bool(bool),
    /// Python's integers have no bound; these have 127 bits, and more is an error.
    Int(i128),
    Float(f64),
    Str(Arc<str>),
    List(Arc<Vec<Value>>),
    Tuple(Arc<Vec<Value>>),
    Dict(Arc<Vec<(Value, Value)>>),
    /// A template with arguments, by its number.
    Callable(usize),
    /// The function `range`.
    Range,
}

impl Value {
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self::Str(Arc::from(text.as_ref()))
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::Callable(_) | Self::Range => "function",
        }
    }

    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(it) => *it,
            Self::Int(it) => *it != 0,
            Self::Float(it) => *it != 0.0,
            Self::Str(it) => !it.is_empty(),
            Self::List(it) | Self::Tuple(it) => !it.is_empty(),
            Self::Dict(it) => !it.is_empty(),
            Self::Callable(_) | Self::Range => true,
        }
    }

    /// The number as an integer, as Python's `bool` is one.
    pub(crate) fn as_int(&self) -> Option<i128> {
        match self {
            Self::Bool(it) => Some(i128::from(*it)),
            Self::Int(it) => Some(*it),
            _ => None,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "Python's conversion rounds to the nearest double as well"
    )]
    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(it) => Some(*it),
            other => other.as_int().map(|it| it as f64),
        }
    }

    /// Appends the value as `str()` prints it.
    pub(crate) fn print(&self, out: &mut String) -> Result<(), Fault> {
        match self {
            Self::Undefined(_) => {}
            Self::None => out.push_str("None"),
            Self::Bool(true) => out.push_str("True"),
            Self::Bool(false) => out.push_str("False"),
            Self::Int(it) => push_int(out, *it),
            Self::Float(it) => out.push_str(&float_text(*it)),
            Self::Str(it) => out.push_str(it),
            Self::List(_) | Self::Tuple(_) | Self::Dict(_) => self.repr(out, 0)?,
            Self::Callable(_) | Self::Range => {
                return Err(Fault::type_of(
                    "a template with arguments is printed; call it: {{name(argument='text')}}",
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn to_text(&self) -> Result<String, Fault> {
        let mut out = String::new();
        self.print(&mut out)?;
        Ok(out)
    }

    /// Appends the value as `repr()` prints it.
    pub(crate) fn repr(&self, out: &mut String, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH || out.len() > MAX_TEXT {
            return Err(Fault::limit("a value is too large to be printed"));
        }
        match self {
            Self::Str(text) => repr_text(out, text),
            Self::List(items) => repr_items(out, items, ('[', ']'), depth),
            Self::Tuple(items) => {
                repr_items(out, items, ('(', ')'), depth)?;
                if items.len() == 1 {
                    out.truncate(out.len().saturating_sub(1));
                    out.push_str(",)");
                }
                Ok(())
            }
            Self::Dict(items) => {
                out.push('{');
                for (at, (key, value)) in items.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    key.repr(out, depth + 1)?;
                    out.push_str(": ");
                    value.repr(out, depth + 1)?;
                }
                out.push('}');
                Ok(())
            }
            other => other.print(out),
        }
    }

    /// Whether both are equal, as `==` says.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Undefined(_), Self::Undefined(_)) | (Self::None, Self::None) => true,
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::List(a), Self::List(b)) | (Self::Tuple(a), Self::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b))
            }
            (Self::Dict(a), Self::Dict(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .all(|(key, value)| b.iter().any(|(k, v)| k.equals(key) && v.equals(value)))
            }
            (a, b) => match (a.as_int(), b.as_int()) {
                (Some(a), Some(b)) => a == b,
                _ => matches!((a.as_float(), b.as_float()), (Some(a), Some(b)) if a == b),
            },
        }
    }

    /// The order of two numbers, texts or lists.
    pub(crate) fn order(&self, other: &Self) -> Result<Option<Ordering>, Fault> {
        match (self, other) {
            (Self::Str(a), Self::Str(b)) => Ok(Some(a.cmp(b))),
            (Self::List(a), Self::List(b)) | (Self::Tuple(a), Self::Tuple(b)) => {
                for (a, b) in a.iter().zip(b.iter()) {
                    if !a.equals(b) {
                        return a.order(b);
                    }
                }
                Ok(Some(a.len().cmp(&b.len())))
            }
            (a, b) => match (a.as_int(), b.as_int()) {
                (Some(a), Some(b)) => Ok(Some(a.cmp(&b))),
                _ => match (a.as_float(), b.as_float()) {
                    (Some(a), Some(b)) => Ok(a.partial_cmp(&b)),
                    _ => Err(Fault::type_of(format!(
                        "{} and {} have no order",
                        a.type_name(),
                        b.type_name()
                    ))),
                },
            },
        }
    }

    /// The elements that iterating over the value gives.
    pub(crate) fn elements(&self) -> Result<Vec<Value>, Fault> {
        match self {
            Self::Undefined(_) => Ok(Vec::new()),
            Self::List(items) | Self::Tuple(items) => Ok(items.to_vec()),
            Self::Dict(items) => Ok(items.iter().map(|(key, _)| key.clone()).collect()),
            Self::Str(text) => Ok(text
                .chars()
                .map(|it| Self::text(it.encode_utf8(&mut [0; 4])))
                .collect()),
            other => Err(Fault::type_of(format!(
                "{} cannot be iterated over",
                other.type_name()
            ))),
        }
    }
}

/// Appends an integer without the machinery of formatting: most of them are small.
pub(crate) fn push_int(out: &mut String, value: i128) {
    use std::fmt::Write;
    let Ok(small) = u64::try_from(value) else {
        let _ = write!(out, "{value}");
        return;
    };
    let (mut digits, mut at, mut rest) = ([0_u8; 20], 20, small);
    loop {
        at -= 1;
        // A remainder by ten fits.
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

fn repr_items(
    out: &mut String,
    items: &[Value],
    brackets: (char, char),
    depth: usize,
) -> Result<(), Fault> {
    out.push(brackets.0);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        item.repr(out, depth + 1)?;
    }
    out.push(brackets.1);
    Ok(())
}

fn repr_text(out: &mut String, text: &str) -> Result<(), Fault> {
    use std::fmt::Write;
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for it in text.chars() {
        match it {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            it if it == quote => {
                out.push('\\');
                out.push(it);
            }
            it if it.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(it));
            }
            it => out.push(it),
        }
    }
    out.push(quote);
    Ok(())
}
