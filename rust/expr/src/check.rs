//! Finds values that their own type cannot hold, such as a decimal beyond its precision.
//!
//! Arrow's constructors do not look at values, and foreign memory is taken as it is; whatever is found here would be stored
//! and then read differently by different readers.

use std::{fmt, ops::Range};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, OffsetSizeTrait, PrimitiveArray, RunArray, cast::AsArray,
    types::*,
};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DataType, TimeUnit};
use pilum_common::type_name;

use crate::{
    convert::show,
    lists::{Lists, item_of},
};

/// A value that its type cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct InvalidValue {
    /// Path of the column.
    pub path: String,
    /// The first row with such a value; `None` for a value of a dictionary that no row has.
    pub row: Option<usize>,
    /// The value as text, at most 80 characters; empty if it cannot be read.
    pub value: String,
    /// Arrow's name of the type.
    pub data_type: String,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column `{}`", self.path)?;
        if let Some(row) = self.row {
            write!(f, ", row {row}")?;
        }
        let (value, data_type) = (&self.value, &self.data_type);
        let space = if value.is_empty() { "" } else { " " };
        write!(
            f,
            ": {value}{space}is no {data_type}: {}; correct the value, or write a type that holds it",
            self.reason
        )
    }
}

/// Checks every value of an array that is not null, at every level, against its own type.
///
/// Decimals within their precision, times within one day, date64 without a remainder, UTF-8, keys of dictionaries within the
/// dictionary, offsets that ascend within their buffer.
///
/// # Errors
/// The first value that its type cannot hold.
pub fn check_values(array: &ArrayRef, path: &str) -> Result<(), InvalidValue> {
    check(array, path, None, Scope::All)
}

/// As [`check_values`], for an array whose texts, offsets and keys are known to be sound: looks at decimals, times and date64
/// alone. Columns without such a type at any level cost nothing.
///
/// # Errors
/// The first value that its type cannot hold.
pub fn check_ranges(array: &ArrayRef, path: &str) -> Result<(), InvalidValue> {
    check(array, path, None, Scope::Ranges)
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// Stored numbers that may be out of the range of their type.
    Ranges,
}

/// True if a type, or a part of it, can store numbers outside of its range.
fn has_ranges(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(members) => members.iter().any(|it| has_ranges(it.data_type())),
        DataType::Dictionary(_, values) => has_ranges(values),
        DataType::RunEndEncoded(_, values) => has_ranges(values.data_type()),
        DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => true,
        other => other.is_decimal() || item_of(other).is_some_and(|it| has_ranges(it.data_type())),
    }
}

type Check = Result<(), InvalidValue>;

fn invalid(array: &dyn Array, path: &str, row: usize, reason: impl Into<String>) -> InvalidValue {
    InvalidValue {
        path: path.to_owned(),
        row: Some(row),
        value: String::new(),
        data_type: type_name(array.data_type()),
        reason: reason.into(),
    }
}

fn shown(array: &dyn Array, path: &str, row: usize, reason: impl Into<String>) -> InvalidValue {
    InvalidValue {
        value: show(array, row),
        ..invalid(array, path, row, reason)
    }
}

/// Only rows that are valid in `mask` count.
fn check(array: &ArrayRef, path: &str, mask: Option<&NullBuffer>, scope: Scope) -> Check {
    if scope == Scope::Ranges && !has_ranges(array.data_type()) {
        return Ok(());
    }
    let valid = NullBuffer::union(array.nulls(), mask).filter(|nulls| nulls.null_count() > 0);
    let valid = valid.as_ref();
    match array.data_type() {
        DataType::Decimal32(p, _) => {
            let limit = 10_i128.checked_pow(u32::from(*p)).unwrap_or(i128::MAX);
            decimals::<Decimal32Type>(array, path, valid, |v| i128::from(v).abs() < limit)
        }
        DataType::Decimal64(p, _) => {
            let limit = 10_i128.checked_pow(u32::from(*p)).unwrap_or(i128::MAX);
            decimals::<Decimal64Type>(array, path, valid, |v| i128::from(v).abs() < limit)
        }
        DataType::Decimal128(p, _) => {
            let limit = 10_u128.checked_pow(u32::from(*p)).unwrap_or(u128::MAX);
            decimals::<Decimal128Type>(array, path, valid, |v| v.unsigned_abs() < limit)
        }
        DataType::Decimal256(p, _) => {
            let limit = i256::from_i128(10)
                .checked_pow(u32::from(*p))
                .unwrap_or(i256::MAX);
            let lowest = limit.checked_neg().unwrap_or(i256::MIN);
            decimals::<Decimal256Type>(array, path, valid, |v| v > lowest && v < limit)
        }
        DataType::Time32(TimeUnit::Second) => times::<Time32SecondType>(array, path, valid, 86_400),
        DataType::Time32(_) => times::<Time32MillisecondType>(array, path, valid, 86_400_000),
        DataType::Time64(TimeUnit::Microsecond) => {
            times::<Time64MicrosecondType>(array, path, valid, 86_400_000_000)
        }
        DataType::Time64(_) => {
            times::<Time64NanosecondType>(array, path, valid, 86_400_000_000_000)
        }
        DataType::Date64 => each::<Date64Type>(
            array,
            path,
            valid,
            |millis| millis % 86_400_000 == 0,
            "it is not midnight, and a date has no time",
        ),
        DataType::Utf8 => texts::<i32>(array, path, valid),
        DataType::LargeUtf8 => texts::<i64>(array, path, valid),
        DataType::Binary => bytes::<i32>(array, path),
        DataType::LargeBinary => bytes::<i64>(array, path),
        DataType::Utf8View | DataType::BinaryView => views(array, path, valid),
        DataType::Dictionary(..) => dictionary(array, path, valid, scope),
        DataType::RunEndEncoded(..) => runs(array, path, scope),
        DataType::Struct(_) => match array.as_struct_opt() {
            Some(parent) => {
                parent
                    .columns()
                    .iter()
                    .zip(parent.fields())
                    .try_for_each(|(column, field)| {
                        check(column, &format!("{path}.{}", field.name()), valid, scope)
                    })
            }
            None => Ok(()),
        },
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..)
        | DataType::Map(..) => lists(array, path, valid, scope),
        _ => Ok(()),
    }
}

/// Tests every value that counts.
fn each<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    path: &str,
    valid: Option<&NullBuffer>,
    is_good: impl Fn(T::Native) -> bool,
    reason: &str,
) -> Check {
    let Some(values) = array.as_primitive_opt::<T>().map(PrimitiveArray::values) else {
        return Ok(());
    };
    // Without a branch per row; rows are looked for only if there is a bad value, which may be under a null.
    if values
        .iter()
        .fold(true, |good, value| good & is_good(*value))
    {
        return Ok(());
    }
    let is_bad = |row: &usize| {
        valid.is_none_or(|valid| valid.is_valid(*row))
            && values.get(*row).is_some_and(|value| !is_good(*value))
    };
    match (0..values.len()).find(is_bad) {
        Some(row) => Err(shown(array, path, row, reason)),
        None => Ok(()),
    }
}

fn decimals<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    path: &str,
    valid: Option<&NullBuffer>,
    is_good: impl Fn(T::Native) -> bool,
) -> Check {
    each::<T>(
        array,
        path,
        valid,
        is_good,
        "it has more digits than its precision",
    )
}

fn times<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    path: &str,
    valid: Option<&NullBuffer>,
    steps_of_day: i64,
) -> Check
where
    T::Native: Into<i64>,
{
    let is_good = |value: T::Native| (0..steps_of_day).contains(&value.into());
    each::<T>(
        array,
        path,
        valid,
        is_good,
        "a time of day is less than 24 hours and not negative",
    )
}

/// The range of a value in its buffer; an error if the offsets fall or leave the buffer.
fn range<O: OffsetSizeTrait>(offsets: &[O], row: usize, len: usize) -> Option<Range<usize>> {
    let (start, end) = (
        offsets.get(row)?.to_usize()?,
        offsets.get(row + 1)?.to_usize()?,
    );
    (start <= end && end <= len).then_some(start..end)
}

fn offsets<O: OffsetSizeTrait>(array: &dyn Array, path: &str, offsets: &[O], len: usize) -> Check {
    let broken = (0..array.len()).find(|row| range(offsets, *row, len).is_none());
    match broken {
        Some(row) => Err(invalid(
            array,
            path,
            row,
            "its offsets leave the buffer or fall",
        )),
        None => Ok(()),
    }
}

fn bytes<O: OffsetSizeTrait>(array: &ArrayRef, path: &str) -> Check {
    match array.as_binary_opt::<O>() {
        Some(values) => offsets(
            array,
            path,
            values.value_offsets(),
            values.value_data().len(),
        ),
        None => Ok(()),
    }
}

fn texts<O: OffsetSizeTrait>(array: &ArrayRef, path: &str, valid: Option<&NullBuffer>) -> Check {
    let Some(values) = array.as_string_opt::<O>() else {
        return Ok(());
    };
    let (positions, data) = (values.value_offsets(), values.value_data());
    offsets(array, path, positions, data.len())?;
    let whole = match (positions.first(), positions.last()) {
        (Some(start), Some(end)) => data
            .get(start.as_usize()..end.as_usize())
            .unwrap_or_default(),
        _ => return Ok(()),
    };
    let start = positions.first().map_or(0, |start| start.as_usize());
    // One pass over all bytes, then only the borders between values.
    if let Ok(text) = std::str::from_utf8(whole)
        && positions
            .iter()
            .all(|at| text.is_char_boundary(at.as_usize() - start))
    {
        return Ok(());
    }
    let is_bad = |row: &usize| {
        let value = range(positions, *row, data.len()).and_then(|range| data.get(range));
        valid.is_none_or(|valid| valid.is_valid(*row))
            && value.is_some_and(|value| std::str::from_utf8(value).is_err())
    };
    match (0..array.len()).find(is_bad) {
        Some(row) => Err(invalid(array, path, row, "its bytes are not UTF-8")),
        None => Ok(()),
    }
}

fn views(array: &ArrayRef, path: &str, valid: Option<&NullBuffer>) -> Check {
    let (is_text, views, buffers) = match (array.as_string_view_opt(), array.as_binary_view_opt()) {
        (Some(texts), _) => (true, texts.views(), texts.data_buffers()),
        (_, Some(bytes)) => (false, bytes.views(), bytes.data_buffers()),
        _ => return Ok(()),
    };
    for (row, view) in views.iter().enumerate() {
        if valid.is_some_and(|valid| valid.is_null(row)) {
            continue;
        }
        let raw = view.to_le_bytes();
        let word = |at: usize| {
            let bytes = raw.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            usize::try_from(bytes.map_or(0, u32::from_le_bytes)).unwrap_or(usize::MAX)
        };
        let len = word(0);
        let value = if len <= 12 {
            raw.get(4..4 + len)
        } else {
            let (buffer, start) = (word(8), word(12));
            buffers
                .get(buffer)
                .and_then(|buffer| buffer.get(start..start.checked_add(len)?))
        };
        let Some(value) = value else {
            return Err(invalid(array, path, row, "its view leaves the buffers"));
        };
        if is_text && std::str::from_utf8(value).is_err() {
            return Err(invalid(array, path, row, "its bytes are not UTF-8"));
        }
    }
    Ok(())
}

fn dictionary(array: &ArrayRef, path: &str, valid: Option<&NullBuffer>, scope: Scope) -> Check {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return Ok(());
    };
    let values = dictionary.values();
    let keys = keys(dictionary.keys());
    let counts = |row: usize| valid.is_none_or(|valid| valid.is_valid(row));
    let is_bad = |row: &usize| counts(*row) && keys(*row).is_none_or(|key| key >= values.len());
    if let Some(row) = (0..array.len()).find(is_bad) {
        return Err(invalid(
            array,
            path,
            row,
            "its key is not in the dictionary",
        ));
    }
    check(values, path, None, scope).map_err(|mut error| {
        let key = error.row;
        error.row = (0..array.len()).find(|row| counts(*row) && keys(*row) == key);
        error
    })
}

/// The value of each run. Every run is at least one row long.
fn runs(array: &ArrayRef, path: &str, scope: Scope) -> Check {
    fn of<R: RunEndIndexType>(array: &ArrayRef, path: &str, scope: Scope) -> Option<Check> {
        let runs = array.as_any().downcast_ref::<RunArray<R>>()?;
        Some(
            check(runs.values(), path, None, scope).map_err(|mut error| {
                let run = error.row;
                error.row = (0..runs.len()).find(|row| Some(runs.get_physical_index(*row)) == run);
                error
            }),
        )
    }
    of::<Int16Type>(array, path, scope)
        .or_else(|| of::<Int32Type>(array, path, scope))
        .or_else(|| of::<Int64Type>(array, path, scope))
        .unwrap_or(Ok(()))
}

/// Reads keys of any integer type; `None` for a negative one.
fn keys(keys: &dyn Array) -> Box<dyn Fn(usize) -> Option<usize> + '_> {
    macro_rules! read {
        ($type:ty) => {
            match keys.as_primitive_opt::<$type>() {
                Some(keys) => {
                    let keys = keys.values();
                    Box::new(move |row| usize::try_from(*keys.get(row)?).ok())
                }
                None => Box::new(|_| None),
            }
        };
    }
    match keys.data_type() {
        DataType::Int8 => read!(Int8Type),
        DataType::Int16 => read!(Int16Type),
        DataType::Int32 => read!(Int32Type),
        DataType::Int64 => read!(Int64Type),
        DataType::UInt8 => read!(UInt8Type),
        DataType::UInt16 => read!(UInt16Type),
        DataType::UInt32 => read!(UInt32Type),
        DataType::UInt64 => read!(UInt64Type),
        _ => Box::new(|_| None),
    }
}

/// Offsets of lists, then the items of the rows that count.
fn lists(array: &ArrayRef, path: &str, valid: Option<&NullBuffer>, scope: Scope) -> Check {
    fn of_view<O: OffsetSizeTrait>(starts: &[O], sizes: &[O], len: usize) -> Option<usize> {
        starts.iter().zip(sizes).position(|(start, size)| {
            let end = start
                .to_usize()
                .zip(size.to_usize())
                .and_then(|(a, b)| a.checked_add(b));
            end.is_none_or(|end| end > len)
        })
    }
    let broken_view = match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            offsets(array, path, lists.value_offsets(), lists.values().len())?;
            None
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            offsets(array, path, lists.value_offsets(), lists.values().len())?;
            None
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            offsets(array, path, maps.value_offsets(), maps.entries().len())?;
            None
        }
        DataType::ListView(_) => {
            let lists = array.as_list_view::<i32>();
            of_view(lists.offsets(), lists.sizes(), lists.values().len())
        }
        DataType::LargeListView(_) => {
            let lists = array.as_list_view::<i64>();
            of_view(lists.offsets(), lists.sizes(), lists.values().len())
        }
        _ => None,
    };
    if let Some(row) = broken_view {
        return Err(invalid(
            array,
            path,
            row,
            "its offset and size leave the items",
        ));
    }
    let name = item_of(array.data_type()).map_or("item", |item| item.name());
    let lists = Lists::read(array, valid.cloned())
        .map_err(|error| invalid(array, path, 0, error.to_string()))?;
    check(&lists.items, &format!("{path}.{name}"), None, scope).map_err(|mut error| {
        error.row = error.row.map(|item| lists.place_of(item).0);
        error
    })
}
