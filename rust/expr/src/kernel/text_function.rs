//! Functions of strings, with the meaning of DuckDB.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, LargeStringArray, builder::LargeStringBuilder,
    cast::AsArray,
};
use arrow_cast::cast;
use arrow_schema::DataType;
use regex::{Regex, RegexBuilder};

use super::{
    call::{Call, Integers},
    value::{Value, internal},
};
use crate::{
    error::{Error, Result, shorten},
    function::Function,
};

/// Memory that a compiled pattern may take, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// Text that one batch of results may have, in bytes: what the offsets of the type `string` reach.
const MAX_RESULT_BYTES: usize = i32::MAX as usize;

/// Strings, one per row or one for all rows.
struct Texts<'a> {
    array: &'a LargeStringArray,
    is_scalar: bool,
}

impl<'a> Texts<'a> {
    fn at(&self, row: usize) -> Option<&'a str> {
        let row = if self.is_scalar { 0 } else { row };
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

/// The strings that a function writes, within [`MAX_RESULT_BYTES`].
struct Writer<'a> {
    builder: LargeStringBuilder,
    /// The string of the current row.
    row: String,
    written: usize,
    text: &'a str,
}

impl Writer<'_> {
    /// Refuses text that would leave the limit.
    fn check(&self, more: usize) -> Result<()> {
        if (self.written + self.row.len()).saturating_add(more) > MAX_RESULT_BYTES {
            return Err(Error::Limit {
                what: format!("bytes of text in the results of {} in one batch", self.text),
                limit: MAX_RESULT_BYTES,
            });
        }
        Ok(())
    }

    fn push(&mut self, part: &str) -> Result<()> {
        self.check(part.len())?;
        self.row.push_str(part);
        Ok(())
    }
}

/// Writes one string per row; a row without `Some` becomes null.
fn written(
    call: &Call<'_>,
    mut write: impl FnMut(usize, &mut Writer<'_>) -> Result<Option<()>>,
) -> Result<ArrayRef> {
    let mut writer = Writer {
        builder: LargeStringBuilder::new(),
        row: String::new(),
        written: 0,
        text: call.text,
    };
    for row in 0..call.rows {
        writer.row.clear();
        match write(row, &mut writer)? {
            Some(()) => {
                writer.written += writer.row.len();
                writer.builder.append_value(&writer.row);
            }
            None => writer.builder.append_null(),
        }
    }
    let strings: ArrayRef = Arc::new(writer.builder.finish());
    match call.data_type {
        DataType::LargeUtf8 => Ok(strings),
        other => cast(&strings, other).map_err(internal),
    }
}

/// Calls a function of strings; binding made every string a `large_string` and every number an `int64`.
///
/// # Errors
/// [`Error::InvalidInput`] for a pattern that is no regular expression; [`Error::Limit`] for too much text.
pub(super) fn evaluate(call: &Call<'_>, arguments: &[Value]) -> Result<ArrayRef> {
    let texts = |position: usize| -> Result<Texts<'_>> {
        let value = arguments.get(position);
        let array = value.and_then(|value| value.array.as_string_opt::<i64>());
        Ok(Texts {
            array: array.ok_or_else(|| Error::invalid(call.text, "it takes strings"))?,
            is_scalar: value.is_some_and(|value| value.is_scalar),
        })
    };
    match call.function {
        Function::Append => append(call, &texts(0)?, &texts(1)?),
        Function::Concat => {
            let parts = (0..arguments.len())
                .map(texts)
                .collect::<Result<Vec<_>>>()?;
            written(call, |row, out| {
                for part in parts.iter().filter_map(|part| part.at(row)) {
                    out.push(part)?;
                }
                Ok(Some(()))
            })
        }
        Function::Substring => {
            let of = texts(0)?;
            let integers = |position: usize| {
                let value = arguments.get(position);
                value
                    .map(|value| Integers::of(value, call.text))
                    .transpose()
            };
            let (start, length) = (integers(1)?, integers(2)?);
            written(call, |row, out| {
                let start = start.as_ref().and_then(|start| start.at(row));
                let length = match &length {
                    Some(length) => length.at(row),
                    None => Some(i64::MAX),
                };
                let (Some(of), Some(start), Some(length)) = (of.at(row), start, length) else {
                    return Ok(None);
                };
                out.push(substring(of, start, length)).map(Some)
            })
        }
        Function::Trim | Function::LTrim | Function::RTrim => {
            let set = (arguments.len() > 1).then(|| texts(1)).transpose()?;
            trim(call, &texts(0)?, set.as_ref())
        }
        Function::Replace => replace(call, &texts(0)?, &texts(1)?, &texts(2)?),
        Function::Position => {
            let (of, part) = (texts(0)?, texts(1)?);
            let positions = (0..call.rows).map(|row| Some(position(of.at(row)?, part.at(row)?)));
            Ok(Arc::new(positions.collect::<Int64Array>()))
        }
        Function::RegexpMatches | Function::SimilarTo => matches(call, &texts(0)?, &texts(1)?),
        _ => Err(Error::invalid(call.text, "it takes no strings")),
    }
}

fn append(call: &Call<'_>, left: &Texts<'_>, right: &Texts<'_>) -> Result<ArrayRef> {
    written(call, |row, out| {
        let (Some(left), Some(right)) = (left.at(row), right.at(row)) else {
            return Ok(None);
        };
        out.push(left)?;
        out.push(right).map(Some)
    })
}

fn trim(call: &Call<'_>, of: &Texts<'_>, set: Option<&Texts<'_>>) -> Result<ArrayRef> {
    written(call, |row, out| {
        let set = match set {
            Some(set) => match set.at(row) {
                Some(set) => Some(set),
                None => return Ok(None),
            },
            None => None,
        };
        let Some(of) = of.at(row) else {
            return Ok(None);
        };
        let cut = |c: char| match set {
            Some(set) => set.contains(c),
            None => is_space(c),
        };
        out.push(match call.function {
            Function::LTrim => of.trim_start_matches(cut),
            Function::RTrim => of.trim_end_matches(cut),
            _ => of.trim_matches(cut),
        })
        .map(Some)
    })
}

fn replace(call: &Call<'_>, of: &Texts<'_>, from: &Texts<'_>, to: &Texts<'_>) -> Result<ArrayRef> {
    written(call, |row, out| {
        let (Some(of), Some(from), Some(to)) = (of.at(row), from.at(row), to.at(row)) else {
            return Ok(None);
        };
        if from.is_empty() {
            return out.push(of).map(Some);
        }
        // Counted first, so that a result that is too large is refused before memory is taken for it.
        let count = of.matches(from).count();
        let size = (of.len() - count * from.len()).saturating_add(count.saturating_mul(to.len()));
        out.check(size)?;
        for (part, kept) in of.split(from).enumerate() {
            if part > 0 {
                out.push(to)?;
            }
            out.push(kept)?;
        }
        Ok(Some(()))
    })
}

/// Position of the first occurrence in characters from 1; 0 if there is none.
fn position(of: &str, part: &str) -> i64 {
    let characters = |before: &str| i64::try_from(before.chars().count()).unwrap_or(i64::MAX - 1);
    of.find(part)
        .and_then(|at| of.get(..at))
        .map_or(0, |before| characters(before) + 1)
}

/// The separators of Unicode's category Zs, which DuckDB trims.
fn is_space(c: char) -> bool {
    matches!(
        c,
        ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// Characters from a position counted from 1, or from the end if negative; a negative length goes backwards.
fn substring(text: &str, start: i64, length: i64) -> &str {
    let size = if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    };
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    // The half-open range before it is cut to the text: position 0 and below are in front of the first character.
    let from = match start {
        0.. => start - 1,
        _ => size.saturating_add(start),
    };
    let (from, to) = if length >= 0 {
        (from, from.saturating_add(length))
    } else {
        (from.saturating_add(length), from)
    };
    let byte_at = |position: i64| -> usize {
        let position = usize::try_from(position.clamp(0, size)).unwrap_or(0);
        if text.is_ascii() {
            return position;
        }
        let found = text.char_indices().nth(position);
        found.map_or(text.len(), |(at, _)| at)
    };
    text.get(byte_at(from)..byte_at(to)).unwrap_or_default()
}

/// Which strings match the pattern of their row.
fn matches(call: &Call<'_>, of: &Texts<'_>, patterns: &Texts<'_>) -> Result<ArrayRef> {
    // Patterns rarely change from row to row.
    let mut last: Option<(&str, Regex)> = None;
    let mut found = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let (Some(value), Some(pattern)) = (of.at(row), patterns.at(row)) else {
            found.push(None);
            continue;
        };
        if last.as_ref().is_none_or(|(of, _)| *of != pattern) {
            last = Some((pattern, compile(call.function, pattern, call.text)?));
        }
        found.push(last.as_ref().map(|(_, regex)| regex.is_match(value)));
    }
    Ok(Arc::new(BooleanArray::from(found)))
}

/// A regular expression that is searched for, or (`SIMILAR TO`) that the whole string must match.
///
/// # Errors
/// [`Error::InvalidInput`] if it is none, or needs more than [`MAX_PATTERN_BYTES`].
pub(crate) fn compile(function: Function, pattern: &str, text: &str) -> Result<Regex> {
    let broken = |error: regex::Error| {
        let reason = match error {
            regex::Error::CompiledTooBig(limit) => format!("needs more than {limit} bytes"),
            other => format!("is not understood: {}", shorten(&other)),
        };
        Error::invalid(text, format!("the regular expression {reason}"))
    };
    let build = |pattern: &str| {
        RegexBuilder::new(pattern)
            .size_limit(MAX_PATTERN_BYTES)
            .dfa_size_limit(MAX_PATTERN_BYTES)
            .build()
            .map_err(broken)
    };
    // The pattern alone first: it must not close the group around it.
    let alone = build(pattern)?;
    if function != Function::SimilarTo {
        return Ok(alone);
    }
    build(&format!(r"\A(?:{pattern})\z"))
}
