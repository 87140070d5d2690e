//! Types of functions of several arguments.

use arrow_schema::{DataType, TimeUnit};

use super::{
    common::common_type,
    convert::{convert, fold, known_zone, null_of, unpack, widened_decimal},
};
use crate::{
    bound::{Bound, Typed},
    error::{Error, Result, shorten},
    expr::Expr,
    function::Function,
    kernel::{
        text_function::compile,
        time_function::{PARTS, UNITS, canonical},
        zone::foreign_zone,
    },
    lists::item_of,
    path::similar,
    place::{Place, place},
    scalar::Scalar,
    types::unpacked_type,
};

/// Fixes the types of the arguments and of the result.
///
/// # Errors
/// [`Error::TypeMismatch`] for arguments of other types; [`Error::InvalidInput`] for an unknown unit of time.
pub(super) fn call(function: Function, arguments: Vec<Typed>, expr: &Expr) -> Result<Typed> {
    match function {
        Function::Append
        | Function::Concat
        | Function::Trim
        | Function::LTrim
        | Function::RTrim
        | Function::Replace => {
            let data_type = text_type(&arguments);
            texts(function, arguments, data_type, expr)
        }
        Function::Position => texts(function, arguments, DataType::Int64, expr),
        Function::RegexpMatches | Function::SimilarTo => {
            // A literal pattern that is broken is refused even where no row needs it.
            if let Some(Some(Scalar::String(pattern))) = arguments.get(1).map(Typed::literal) {
                compile(function, pattern, &shorten(expr))?;
            }
            texts(function, arguments, DataType::Boolean, expr)
        }
        Function::Substring => substring(arguments, expr),
        Function::Round | Function::Floor | Function::Ceil | Function::Trunc => {
            rounding(function, arguments, expr)
        }
        Function::IsNan | Function::IsFinite | Function::IsInf => {
            let arguments = arguments
                .into_iter()
                .map(|argument| number(argument, &DataType::Float64, expr))
                .collect::<Result<_>>()?;
            node(function, arguments, DataType::Boolean, expr)
        }
        Function::DateTrunc | Function::DatePart => time(function, arguments, expr),
        Function::ListContains => list_contains(arguments, expr),
        Function::Element | Function::Item => element(function, arguments, expr),
        _ => Err(Error::invalid(expr, "it takes another number of arguments")),
    }
}

/// The number of items of a list; `None` if the argument is no list.
pub(super) fn list_length(argument: &Typed, expr: &Expr) -> Option<Result<Typed>> {
    let data_type = unpacked_type(&argument.data_type);
    item_of(data_type)?;
    Some(node(
        Function::Length,
        vec![argument.clone()],
        DataType::Int64,
        expr,
    ))
}

fn node(
    function: Function,
    arguments: Vec<Typed>,
    data_type: DataType,
    expr: &Expr,
) -> Result<Typed> {
    let nullable = match function {
        Function::Concat => false,
        Function::Element | Function::Item | Function::DateTrunc | Function::DatePart => true,
        _ => arguments.iter().any(|argument| argument.nullable),
    };
    fold(Typed {
        node: Bound::Function(function, arguments, shorten(expr)),
        data_type,
        nullable,
    })
}

/// A string argument as `large_string`.
fn text(argument: Typed, expr: &Expr) -> Result<Typed> {
    if argument.data_type == DataType::Null {
        return Ok(null_of(&DataType::LargeUtf8));
    }
    let data_type = unpacked_type(&argument.data_type);
    if !matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    ) {
        return Err(Error::mismatch(data_type, &DataType::Utf8, expr));
    }
    convert(argument, &DataType::LargeUtf8, expr)
}

/// The type of text that is made of these arguments: `large_string` if one of them is, else `string`.
fn text_type(arguments: &[Typed]) -> DataType {
    let is_large = |one: &Typed| *unpacked_type(&one.data_type) == DataType::LargeUtf8;
    if arguments.iter().any(is_large) {
        DataType::LargeUtf8
    } else {
        DataType::Utf8
    }
}

fn number(argument: Typed, to: &DataType, expr: &Expr) -> Result<Typed> {
    if argument.data_type == DataType::Null {
        return Ok(null_of(to));
    }
    let argument = unpack(argument, expr)?;
    let fits = match to {
        DataType::Int64 => {
            argument.data_type.is_integer() && argument.data_type != DataType::UInt64
        }
        _ => argument.data_type.is_numeric(),
    };
    if !fits {
        return Err(Error::mismatch(&argument.data_type, to, expr));
    }
    convert(argument, to, expr)
}

fn texts(
    function: Function,
    arguments: Vec<Typed>,
    data_type: DataType,
    expr: &Expr,
) -> Result<Typed> {
    let arguments = arguments
        .into_iter()
        .map(|argument| text(argument, expr))
        .collect::<Result<_>>()?;
    node(function, arguments, data_type, expr)
}

fn substring(arguments: Vec<Typed>, expr: &Expr) -> Result<Typed> {
    let data_type = text_type(&arguments);
    let mut bound = Vec::with_capacity(arguments.len());
    for (position, argument) in arguments.into_iter().enumerate() {
        bound.push(match position {
            0 => text(argument, expr)?,
            _ => number(argument, &DataType::Int64, expr)?,
        });
    }
    node(Function::Substring, bound, data_type, expr)
}

fn rounding(function: Function, mut arguments: Vec<Typed>, expr: &Expr) -> Result<Typed> {
    let digits = if arguments.len() > 1 {
        arguments.pop()
    } else {
        None
    };
    let Some(argument) = arguments.pop() else {
        return Err(Error::invalid(expr, "it takes an argument"));
    };
    let argument = widened_decimal(unpack(argument, expr)?, expr)?;
    let found = argument.data_type.clone();
    let (argument, data_type) = match &found {
        DataType::Null => return Ok(null_of(&DataType::Float64)),
        // Integers are whole; only digits in front of the point change them.
        integer if integer.is_integer() && digits.is_none() => return Ok(argument),
        integer if integer.is_integer() => {
            let wide = convert(argument, &DataType::Decimal128(20, 0), expr)?;
            (wide, DataType::Decimal128(21, 0))
        }
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            let kept = match digits.as_ref().map(Typed::literal) {
                None => 0,
                Some(Some(Scalar::Integer(digits))) => {
                    i8::try_from((*digits).clamp(0, i128::from(*scale))).unwrap_or(*scale)
                }
                Some(_) => *scale,
            };
            // Rounding away from zero may add a digit.
            let whole = i16::from(*precision) - i16::from(*scale) + 1;
            let precision = u8::try_from((whole + i16::from(kept)).clamp(1, 38)).unwrap_or(38);
            (argument, DataType::Decimal128(precision, kept))
        }
        DataType::Float16 => {
            let single = convert(argument, &DataType::Float32, expr)?;
            (single, DataType::Float32)
        }
        float if float.is_floating() => (argument, found.clone()),
        other => return Err(Error::mismatch(other, &DataType::Float64, expr)),
    };
    let mut bound = vec![argument];
    if let Some(digits) = digits {
        bound.push(number(digits, &DataType::Int64, expr)?);
    }
    let rounded = node(function, bound, data_type, expr)?;
    match found {
        DataType::UInt64 => convert(rounded, &DataType::UInt64, expr),
        integer if integer.is_integer() => convert(rounded, &DataType::Int64, expr),
        _ => Ok(rounded),
    }
}

fn time(function: Function, mut arguments: Vec<Typed>, expr: &Expr) -> Result<Typed> {
    let (of, name) = match (arguments.pop(), arguments.pop()) {
        (Some(of), Some(name)) => (unpack(of, expr)?, name),
        _ => return Err(Error::invalid(expr, "it takes two arguments")),
    };
    let known = match name.literal() {
        Some(Scalar::String(name)) => canonical(name),
        _ => None,
    };
    let allowed = if function == Function::DateTrunc {
        UNITS
    } else {
        PARTS
    };
    let is_unit = |known: &&str| allowed.split(", ").any(|unit| unit == *known);
    let unit = known.filter(is_unit).ok_or_else(|| {
        Error::invalid(
            expr,
            format!("the first argument is one of these texts: {allowed}"),
        )
    })?;
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let data_type = match (function, &of.data_type) {
        (Function::DateTrunc, DataType::Null) => return Ok(null_of(&micros)),
        (_, DataType::Null) => return Ok(null_of(&DataType::Int64)),
        (Function::DateTrunc, DataType::Date32 | DataType::Date64) => micros,
        (Function::DateTrunc, timestamp @ DataType::Timestamp(..)) => {
            if let Some(zone) = foreign_zone(timestamp) {
                return Err(Error::unsupported(format!(
                    "truncation by the rules of zone {zone} in {}; use UTC or a fixed offset",
                    shorten(expr)
                )));
            }
            timestamp.clone()
        }
        (_, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)) if unit == "epoch" => {
            DataType::Float64
        }
        (_, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)) => DataType::Int64,
        (_, other) => return Err(Error::mismatch(other, &micros, expr)),
    };
    known_zone(&of.data_type, expr)?;
    let name = text(name, expr)?;
    node(function, vec![name, of], data_type, expr)
}

/// The items of a list beside a value, in types that compare.
fn list_contains(mut arguments: Vec<Typed>, expr: &Expr) -> Result<Typed> {
    let (value, list) = match (arguments.pop(), arguments.pop()) {
        (Some(value), Some(list)) => (value, unpack(list, expr)?),
        _ => return Err(Error::invalid(expr, "it takes two arguments")),
    };
    if list.data_type == DataType::Null || value.data_type == DataType::Null {
        return Ok(null_of(&DataType::Boolean));
    }
    let item = match (&list.data_type, item_of(&list.data_type)) {
        (DataType::Map(..), _) | (_, None) => {
            return Err(Error::mismatch(&list.data_type, &value.data_type, expr));
        }
        (_, Some(item)) => item.data_type().clone(),
    };
    match among(value, &item, expr)? {
        Some(value) => node(
            Function::ListContains,
            vec![list, value],
            DataType::Boolean,
            expr,
        ),
        // The value is none of the type of the items, so it is in no list.
        None => {
            let nullable = list.nullable;
            Ok(Typed::boolean(
                Bound::IfValid(false, Box::new(list)),
                nullable,
            ))
        }
    }
}

/// The value in the type of items or keys; `None` if it is no value of that type.
fn among(value: Typed, data_type: &DataType, expr: &Expr) -> Result<Option<Typed>> {
    let data_type = unpacked_type(data_type);
    let mismatch = || Error::mismatch(&value.data_type, data_type, expr);
    if data_type.is_nested()
        || matches!(data_type, DataType::Float16 | DataType::FixedSizeBinary(_))
    {
        return Err(Error::unsupported(format!(
            "items of type {} in {}",
            pilum_common::type_name(data_type),
            shorten(expr)
        )));
    }
    if let Some(scalar) = value.literal() {
        return Ok(match place(data_type, scalar).ok_or_else(mismatch)? {
            Place::At(array) => Some(super::convert::typed_literal(scalar.clone(), array)),
            _ => None,
        });
    }
    let value = unpack(value, expr)?;
    // A conversion of the value alone is exact if the items' type holds both.
    if common_type(&value.data_type, data_type).as_ref() == Some(data_type) {
        return convert(value, data_type, expr).map(Some);
    }
    Err(Error::mismatch(&value.data_type, data_type, expr))
}

/// Items of lists by position, values of maps by key, members of structs that are computed; the member of a struct column is
/// a column, which the caller resolves.
fn element(function: Function, mut arguments: Vec<Typed>, expr: &Expr) -> Result<Typed> {
    let (key, of) = match (arguments.pop(), arguments.pop()) {
        (Some(key), Some(of)) => (key, unpack(of, expr)?),
        _ => return Err(Error::invalid(expr, "it takes two arguments")),
    };
    if of.data_type == DataType::Null {
        return Ok(null_of(&DataType::Null));
    }
    let item = item_of(&of.data_type).map(|item| item.data_type().clone());
    match (&of.data_type, item) {
        (DataType::Struct(members), _) => {
            let Some(Scalar::String(name)) = key.literal() else {
                return Err(Error::mismatch(&of.data_type, &key.data_type, expr));
            };
            let member = members.iter().find(|member| member.name() == name);
            let member = member.ok_or_else(|| Error::UnknownColumn {
                name: shorten(expr),
                similar: similar(name, members.iter().map(|member| member.name().as_str())),
            })?;
            let data_type = member.data_type().clone();
            let key = text(key, expr)?;
            node(function, vec![of, key], data_type, expr)
        }
        (DataType::Map(..), Some(DataType::Struct(pair))) if pair.len() == 2 => {
            let (key_type, value_type) = (pair[0].data_type(), pair[1].data_type().clone());
            if key.data_type == DataType::Null {
                return Ok(null_of(&value_type));
            }
            match among(key, key_type, expr)? {
                Some(key) => node(function, vec![of, key], value_type, expr),
                None => Ok(null_of(&value_type)),
            }
        }
        (_, Some(item)) => {
            let key = number(key, &DataType::Int64, expr)?;
            node(function, vec![of, key], item, expr)
        }
        (other, None) => Err(Error::mismatch(other, &key.data_type, expr)),
    }
}
