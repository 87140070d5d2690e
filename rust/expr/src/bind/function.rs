//! Types of functions of one argument.

use arrow_schema::{DataType, TimeUnit};

use super::convert::{convert, fold, known_zone, null_of, signed, unpack};
use crate::{
    bound::{Bound, Typed},
    error::{Error, Result, shorten},
    expr::Expr,
    function::Function,
};

pub(super) fn call(function: Function, argument: Typed, expr: &Expr) -> Result<Typed> {
    use DataType::{
        Binary, Date32, Date64, FixedSizeBinary, LargeBinary, LargeUtf8, Time32, Time64, Timestamp,
        Utf8, Utf8View,
    };
    let argument = match unpack(argument, expr)? {
        view if view.data_type == Utf8View => convert(view, &LargeUtf8, expr)?,
        view if view.data_type == DataType::BinaryView => convert(view, &LargeBinary, expr)?,
        fixed if matches!(fixed.data_type, FixedSizeBinary(_)) => convert(fixed, &Binary, expr)?,
        other => other,
    };
    let found = argument.data_type.clone();
    let (result, wanted) = match (function, &found) {
        (Function::Abs, DataType::Null) => return Ok(null_of(&DataType::Int64)),
        (Function::Lower | Function::Upper, DataType::Null) => return Ok(null_of(&Utf8)),
        (_, DataType::Null) => return Ok(null_of(&DataType::Int64)),
        (Function::Length, Utf8 | LargeUtf8 | Binary | LargeBinary) => {
            (Some(DataType::Int64), Utf8)
        }
        (Function::Lower | Function::Upper, Utf8 | LargeUtf8) => (Some(found.clone()), Utf8),
        (Function::Abs, number) if number.is_numeric() => {
            let argument = signed(argument, expr)?;
            let (data_type, nullable) = (argument.data_type.clone(), argument.nullable);
            let node = Bound::Call(function, Box::new(argument), shorten(expr));
            return fold(Typed {
                node,
                data_type,
                nullable,
            });
        }
        (Function::Abs, _) => (None, DataType::Int64),
        (Function::Year | Function::Month | Function::Day, Date32 | Date64 | Timestamp(..))
        | (
            Function::Hour | Function::Minute | Function::Second,
            Date32 | Date64 | Timestamp(..) | Time32(_) | Time64(_),
        ) => (Some(DataType::Int64), Date32),
        (Function::Length | Function::Lower | Function::Upper, _) => (None, Utf8),
        _ => (None, Timestamp(TimeUnit::Microsecond, None)),
    };
    let Some(data_type) = result else {
        return Err(Error::mismatch(&found, &wanted, expr));
    };
    known_zone(&found, expr)?;
    // Dates outside of the range of the calendar library have null parts.
    let nullable = argument.nullable || found.is_temporal();
    let node = Bound::Call(function, Box::new(argument), shorten(expr));
    fold(Typed {
        node,
        data_type,
        nullable,
    })
}
