//! Patterns of `LIKE`, and matching texts with them.

use std::{fmt::Display, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, LargeStringArray, StringArray, StringViewArray, cast::AsArray,
};
use arrow_schema::DataType;
use arrow_string::like;

use super::{
    prefix,
    value::{Value, internal},
};
use crate::error::{Error, Result};

/// How a text is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    StartsWith,
    EndsWith,
    Contains,
    /// A pattern whose escape character is the back slash.
    Like,
    /// As `Like`, without regard to case.
    ILike,
}

/// One element of a `LIKE` pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Piece {
    Char(char),
    /// `_`
    One,
    /// `%`
    Any,
}

pub(crate) fn pieces(
    pattern: &str,
    escape: Option<char>,
    place: &(impl Display + ?Sized),
) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        pieces.push(match c {
            c if Some(c) == escape => Piece::Char(chars.next().ok_or_else(|| {
                Error::invalid(
                    place,
                    "the pattern ends with its escape character; double it",
                )
            })?),
            '%' if pieces.last() == Some(&Piece::Any) => continue,
            '%' => Piece::Any,
            '_' => Piece::One,
            c => Piece::Char(c),
        });
    }
    Ok(pieces)
}

/// The pattern as plain text; `None` if it has a wild card.
pub(crate) fn plain(pieces: &[Piece]) -> Option<String> {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Char(c) => Some(*c),
            _ => None,
        })
        .collect()
}

/// The pattern in the form of the Arrow kernels, whose escape character is always the back slash.
pub(crate) fn escaped(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Char(c) => {
                if matches!(c, '%' | '_' | '\\') {
                    text.push('\\');
                }
                text.push(*c);
            }
            Piece::One => text.push('_'),
            Piece::Any => text.push('%'),
        }
    }
    text
}

/// Rewrites a pattern into the form of the Arrow kernels; `place` names the expression in an error.
pub(crate) fn kernel_pattern(pattern: &str, escape: Option<char>, place: &str) -> Result<String> {
    pieces(pattern, escape, place).map(|pieces| escaped(&pieces))
}

/// Rewrites one pattern per row into the form of the Arrow kernels.
///
/// # Errors
/// [`Error::InvalidInput`] for a pattern that ends with its escape character.
pub(crate) fn patterns(array: &ArrayRef, escape: Option<char>, text: &str) -> Result<ArrayRef> {
    let rewritten = |pattern: Option<&str>| {
        pattern
            .map(|pattern| kernel_pattern(pattern, escape, text))
            .transpose()
    };
    Ok(match array.data_type() {
        DataType::Utf8 => {
            let patterns = array.as_string::<i32>().iter().map(rewritten);
            Arc::new(patterns.collect::<Result<StringArray>>()?)
        }
        DataType::LargeUtf8 => {
            let patterns = array.as_string::<i64>().iter().map(rewritten);
            Arc::new(patterns.collect::<Result<LargeStringArray>>()?)
        }
        DataType::Utf8View => {
            let patterns = array.as_string_view().iter().map(rewritten);
            Arc::new(patterns.collect::<Result<StringViewArray>>()?)
        }
        other => return Err(Error::mismatch(other, &DataType::Utf8, text)),
    })
}

/// Which texts match.
pub(crate) fn matches(kind: Match, text: &Value, needle: &Value) -> Result<BooleanArray> {
    if kind == Match::StartsWith
        && needle.is_scalar
        && let Some(mask) = prefix::starts_with(&text.array, &needle.array)
    {
        return Ok(mask);
    }
    match kind {
        Match::StartsWith => like::starts_with(text, needle),
        Match::EndsWith => like::ends_with(text, needle),
        Match::Contains => like::contains(text, needle),
        Match::Like => like::like(text, needle),
        Match::ILike => like::ilike(text, needle),
    }
    .map_err(internal)
}
