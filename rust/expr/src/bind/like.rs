//! `LIKE`: replaces a pattern by an equivalent cheaper match (equality, prefix, suffix, contains) where there is one.

use arrow_schema::DataType;

use super::{
    compare::compare,
    convert::{convert, null_boolean, typed_literal},
};
use crate::{
    bound::{Bound, Typed},
    error::{Error, Result, shorten},
    expr::{CompareOp, Expr},
    kernel::pattern::{Match, Piece, escaped, pieces, plain},
    place::array_of,
    scalar::Scalar,
    types::unpacked_type,
};

pub(super) fn like(
    operand: &Typed,
    pattern: &Typed,
    escape: Option<char>,
    ignore_case: bool,
    expr: &Expr,
) -> Result<Typed> {
    if operand.data_type == DataType::Null || pattern.literal() == Some(&Scalar::Null) {
        return Ok(null_boolean());
    }
    let Some(Scalar::String(pattern_text)) = pattern.literal() else {
        if pattern.literal().is_some() {
            return Err(Error::mismatch(&pattern.data_type, &DataType::Utf8, expr));
        }
        return pattern_of_rows(operand.clone(), pattern, escape, ignore_case, expr);
    };
    let pieces = pieces(pattern_text, escape, expr)?;
    let with = |kind: Match, text: String| matches(kind, operand.clone(), literal(text), expr);
    if ignore_case {
        return with(Match::ILike, escaped(&pieces));
    }
    match pieces.as_slice() {
        [Piece::Any, middle @ .., Piece::Any] if plain(middle).is_some() => {
            with(Match::Contains, plain(middle).unwrap_or_default())
        }
        [start @ .., Piece::Any] if plain(start).is_some() => {
            with(Match::StartsWith, plain(start).unwrap_or_default())
        }
        [Piece::Any, end @ ..] if plain(end).is_some() => {
            with(Match::EndsWith, plain(end).unwrap_or_default())
        }
        whole => match plain(whole) {
            Some(text) => compare(CompareOp::Eq, operand.clone(), literal(text), expr),
            None => with(Match::Like, escaped(whole)),
        },
    }
}

/// A pattern that may differ from row to row.
fn pattern_of_rows(
    operand: Typed,
    pattern: &Typed,
    escape: Option<char>,
    ignore_case: bool,
    expr: &Expr,
) -> Result<Typed> {
    let kind = if ignore_case {
        Match::ILike
    } else {
        Match::Like
    };
    if pattern.data_type == DataType::Null {
        return Ok(null_boolean());
    }
    let pattern = convert(
        pattern.clone(),
        &unpacked_type(&pattern.data_type).clone(),
        expr,
    )?;
    let (data_type, nullable) = (pattern.data_type.clone(), pattern.nullable);
    let node = Bound::Pattern(Box::new(pattern), escape, shorten(expr));
    let pattern = Typed {
        node,
        data_type,
        nullable,
    };
    matches(kind, operand, pattern, expr)
}

fn literal(text: String) -> Typed {
    let array = std::sync::Arc::new(arrow_array::StringArray::from(vec![text.as_str()]));
    typed_literal(Scalar::String(text), array)
}

/// A match of two strings; the second takes the type of the first.
pub(super) fn matches(kind: Match, text: Typed, needle: Typed, expr: &Expr) -> Result<Typed> {
    if text.data_type == DataType::Null || needle.data_type == DataType::Null {
        return Ok(null_boolean());
    }
    let text_type = unpacked_type(&text.data_type).clone();
    let string = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    for data_type in [&text_type, unpacked_type(&needle.data_type)] {
        if !string(data_type) {
            return Err(Error::mismatch(data_type, &DataType::Utf8, expr));
        }
    }
    let nullable = text.nullable || needle.nullable;
    let (text, needle) = match needle.literal() {
        Some(scalar) => {
            let array = array_of(scalar, &text_type)
                .ok_or_else(|| Error::mismatch(&text_type, &needle.data_type, expr))?;
            (text, typed_literal(scalar.clone(), array))
        }
        // With a different needle in each row a dictionary cannot be matched once per value: use plain texts.
        None => (
            convert(text, &text_type, expr)?,
            convert(needle, &text_type, expr)?,
        ),
    };
    Ok(Typed::boolean(
        Bound::Match(kind, Box::new(text), Box::new(needle)),
        nullable,
    ))
}
