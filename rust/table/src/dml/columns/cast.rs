//! Converts arrays to another type, or names the first value that does not fit.
//!
//! A conversion keeps every value. Two kinds differ: a conversion to a shorter binary float rounds, as the caller asked for, and
//! text is parsed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeListArray, GenericListArray,
    OffsetSizeTrait, StructArray, make_array, new_null_array,
};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, FieldRef};
use arrow_select::take::take;

/// Longest value that a message shows.
const SHOWN_CHARS: usize = 60;

/// A value that the new type cannot hold.
#[derive(Debug, PartialEq)]
pub(super) struct Misfit {
    /// Its row in the array.
    pub(super) row: usize,
    /// The value, as a message shows it.
    pub(super) value: String,
}

/// Why an array cannot be converted.
#[derive(Debug)]
pub(super) enum CastError {
    Misfit(Misfit),
    Arrow(ArrowError),
}

impl From<ArrowError> for CastError {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

/// Whether values of one type can be converted to another.
pub(super) fn can_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Struct};
    match (from, to) {
        (Struct(from), Struct(to)) => {
            let same = |(from, to): (&FieldRef, &FieldRef)| {
                from.name() == to.name() && can_cast(from.data_type(), to.data_type())
            };
            from.len() == to.len() && from.iter().zip(to).all(same)
        }
        (Struct(_), _) | (_, Struct(_)) => false,
        (List(from), List(to)) | (LargeList(from), LargeList(to)) => {
            can_cast(from.data_type(), to.data_type())
        }
        (FixedSizeList(from, size), FixedSizeList(to, other)) => {
            size == other && can_cast(from.data_type(), to.data_type())
        }
        // Arrow would wrap a value into a list, and print a list as text.
        (from, to) if from == to => true,
        // A conversion is checked by converting back, so both directions must exist: a time of day has lost its date.
        (from, to) => {
            from.is_nested() == to.is_nested()
                && can_cast_types(from, to)
                && (is_text(from) || can_cast_types(to, from))
        }
    }
}

/// `array` as `to`, null where it is null.
pub(super) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, CastError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (DataType::Struct(_), DataType::Struct(members)) => {
            let array = array.as_struct();
            let columns = array.columns().iter().zip(members);
            let columns = columns.map(|(column, member)| {
                // Slots under a null struct may hold anything: null them before they are converted.
                let column = with_nulls(column, array.nulls())?;
                convert(&column, member.data_type())
            });
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let nulls = array.nulls().cloned();
            let built =
                StructArray::try_new_with_length(members.clone(), columns, nulls, array.len())?;
            Ok(Arc::new(built))
        }
        (DataType::List(_), DataType::List(item)) => convert_list::<i32>(array, item),
        (DataType::LargeList(_), DataType::LargeList(item)) => convert_list::<i64>(array, item),
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, size)) => {
            convert_fixed(array, item, *size)
        }
        _ => convert_leaf(array, to),
    }
}

/// The array with more of its slots null.
pub(super) fn with_nulls(
    array: &ArrayRef,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return Ok(Arc::clone(array));
    };
    if *array.data_type() == DataType::Null {
        return Ok(Arc::clone(array));
    }
    let union = NullBuffer::union(array.nulls(), Some(nulls));
    let data = array.to_data().into_builder().nulls(union).build()?;
    Ok(make_array(data))
}

fn convert_list<O: OffsetSizeTrait>(
    array: &ArrayRef,
    item: &FieldRef,
) -> Result<ArrayRef, CastError> {
    let lists = array.as_list::<O>();
    // Items that no list refers to, or that lie under a null list, may hold anything: `take` leaves them out.
    let rows: arrow_array::UInt64Array = (0..array.len() as u64).collect();
    let compact = take(array, &rows, None)?;
    let compact = compact.as_list_opt::<O>().unwrap_or(lists);
    let values = match convert(compact.values(), item.data_type()) {
        Err(CastError::Misfit(misfit)) => {
            let ends = &compact.offsets()[1..];
            let row = ends.partition_point(|end| end.as_usize() <= misfit.row);
            return Err(CastError::Misfit(Misfit { row, ..misfit }));
        }
        values => values?,
    };
    let offsets = compact.offsets().clone();
    let built = GenericListArray::<O>::try_new(
        Arc::clone(item),
        offsets,
        values,
        compact.nulls().cloned(),
    )?;
    Ok(Arc::new(built))
}

fn convert_fixed(array: &ArrayRef, item: &FieldRef, size: i32) -> Result<ArrayRef, CastError> {
    let lists = array.as_fixed_size_list();
    let width = usize::try_from(size).unwrap_or_default();
    // Slots under a null list may hold anything: null them before they are converted.
    let hidden = lists.nulls().map(|nulls| nulls.expand(width));
    let values = with_nulls(lists.values(), hidden.as_ref())?;
    let values = match convert(&values, item.data_type()) {
        Err(CastError::Misfit(misfit)) => {
            let row = misfit.row / width.max(1);
            return Err(CastError::Misfit(Misfit { row, ..misfit }));
        }
        values => values?,
    };
    let nulls = lists.nulls().cloned();
    let built = FixedSizeListArray::try_new_with_length(
        Arc::clone(item),
        size,
        values,
        nulls,
        lists.len(),
    )?;
    Ok(Arc::new(built))
}

fn convert_leaf(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, CastError> {
    if array.logical_null_count() == array.len() {
        return Ok(new_null_array(to, array.len()));
    }
    let lenient = CastOptions {
        safe: true,
        format_options: FormatOptions::default(),
    };
    let converted = cast_with_options(array.as_ref(), to, &lenient)?;
    let before = array.logical_nulls();
    let after = converted.logical_nulls();
    let is_null =
        |nulls: &Option<NullBuffer>, row| nulls.as_ref().is_some_and(|it| it.is_null(row));
    let lost = (0..array.len()).find(|row| is_null(&after, *row) && !is_null(&before, *row));
    let changed = match same_after(array, &converted, &lenient)? {
        None => None,
        Some(same) => {
            let mut rows = 0..array.len();
            rows.find(|row| !(is_null(&before, *row) || same.is_valid(*row) && same.value(*row)))
        }
    };
    match lost.into_iter().chain(changed).min() {
        None => Ok(converted),
        Some(row) => Err(CastError::Misfit(Misfit {
            row,
            value: shown(array, row),
        })),
    }
}

fn is_text(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let values = match data_type {
        Dictionary(_, values) => values,
        plain => plain,
    };
    matches!(
        values,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView
    )
}

/// Which values come back as they were; none where that is not asked for.
fn same_after(
    array: &ArrayRef,
    converted: &ArrayRef,
    options: &CastOptions<'_>,
) -> Result<Option<BooleanArray>, ArrowError> {
    let (from, to) = (array.data_type(), converted.data_type());
    if is_text(from) {
        return Ok(None);
    }
    if !can_cast_types(to, from) {
        return Ok(None);
    }
    if from.is_floating() && to.is_floating() {
        return Ok(Some(stays_finite(array, converted)));
    }
    let back = cast_with_options(converted.as_ref(), from, options)?;
    if from.is_floating() {
        // NaN equals NaN here, and 0.0 and -0.0 differ.
        return Ok(Some(same_floats(array, &back)));
    }
    if from.is_nested() {
        let same = (0..array.len()).map(|row| Some(array.slice(row, 1) == back.slice(row, 1)));
        return Ok(Some(same.collect()));
    }
    let distinct = arrow_ord::cmp::not_distinct(array, &back)?;
    Ok(Some(distinct))
}

fn floats(array: &ArrayRef) -> Option<Vec<f64>> {
    fn all<T: ArrowPrimitiveType>(array: &ArrayRef, to: impl Fn(T::Native) -> f64) -> Vec<f64> {
        let values = array.as_primitive::<T>().values().iter();
        values.map(|value| to(*value)).collect()
    }
    match array.data_type() {
        DataType::Float16 => Some(all::<Float16Type>(array, f64::from)),
        DataType::Float32 => Some(all::<Float32Type>(array, f64::from)),
        DataType::Float64 => Some(all::<Float64Type>(array, |value| value)),
        _ => None,
    }
}

/// Rounding to a shorter float was asked for; an infinite result of a finite value is refused.
fn stays_finite(array: &ArrayRef, converted: &ArrayRef) -> BooleanArray {
    let (before, after) = (floats(array), floats(converted));
    let pairs = before
        .into_iter()
        .flatten()
        .zip(after.into_iter().flatten());
    pairs
        .map(|(before, after)| Some(before.is_finite() == after.is_finite()))
        .collect()
}

fn same_floats(array: &ArrayRef, back: &ArrayRef) -> BooleanArray {
    let (before, after) = (floats(array), floats(back));
    let pairs = before
        .into_iter()
        .flatten()
        .zip(after.into_iter().flatten());
    pairs
        .map(|(before, after)| Some(before == after || before.is_nan() && after.is_nan()))
        .collect()
}

/// A value as a message shows it.
fn shown(array: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default();
    let text = ArrayFormatter::try_new(array.as_ref(), &options)
        .map(|it| it.value(row).to_string())
        .unwrap_or_default();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{
        Float32Array, Float64Array, Int32Array, Int64Array, ListArray, StringArray,
        TimestampMicrosecondArray,
    };
    use arrow_schema::{Field, Fields, TimeUnit};
    use proptest::prelude::*;

    fn misfit(array: impl Array + 'static, to: &DataType) -> Option<(usize, String)> {
        let array: ArrayRef = Arc::new(array);
        assert!(can_cast(array.data_type(), to));
        match convert(&array, to) {
            Ok(converted) => {
                assert_eq!(converted.data_type(), to);
                None
            }
            Err(CastError::Misfit(misfit)) => Some((misfit.row, misfit.value)),
            Err(CastError::Arrow(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn conversions_that_cannot_be_reversed_are_refused() {
        let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert!(!can_cast(&moment, &DataType::Time64(TimeUnit::Microsecond)));
        assert!(can_cast(&moment, &DataType::Date32));
        assert!(can_cast(&DataType::Utf8, &moment));
    }

    #[test]
    fn the_first_value_that_does_not_fit_is_named() {
        let found = |row, value: &str| Some((row, value.to_owned()));
        let longs = Int64Array::from(vec![Some(1), None, Some(1 << 40), Some(-1)]);
        assert_eq!(
            misfit(longs.clone(), &DataType::Int32),
            found(2, "1099511627776")
        );
        assert_eq!(misfit(longs.slice(3, 1), &DataType::UInt8), found(0, "-1"));
        assert_eq!(misfit(longs.clone(), &DataType::Utf8), None);
        assert_eq!(
            misfit(longs.clone(), &DataType::Boolean),
            found(2, "1099511627776")
        );
        let far = Int64Array::from(vec![1 << 53, (1 << 53) + 1]);
        assert_eq!(
            misfit(far, &DataType::Float64),
            found(1, "9007199254740993")
        );
        let floats = Float64Array::from(vec![-0.0, 2.0, 2.5]);
        assert_eq!(misfit(floats.slice(0, 2), &DataType::Int8), None);
        assert_eq!(misfit(floats, &DataType::Int8), found(2, "2.5"));
        let odd = Float64Array::from(vec![f64::NAN, f64::INFINITY, 0.1, 1e300]);
        assert_eq!(misfit(odd.slice(0, 3), &DataType::Float32), None);
        assert_eq!(misfit(odd.clone(), &DataType::Float32), found(3, "1e300"));
        assert_eq!(misfit(odd, &DataType::Int64), found(0, "NaN"));
        let texts = StringArray::from(vec![Some("05"), None, Some("x")]);
        assert_eq!(misfit(texts.clone(), &DataType::Int16), found(2, "x"));
        assert_eq!(misfit(texts.slice(0, 2), &DataType::Int16), None);
        let micros = TimestampMicrosecondArray::from(vec![5_000, 5_001]);
        let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
        assert_eq!(
            misfit(micros, &millis),
            found(1, "1970-01-01T00:00:00.005001")
        );
        let long = StringArray::from(vec!["é".repeat(100)]);
        let (_, value) = misfit(long, &DataType::Int16).unwrap();
        assert_eq!(value.chars().count(), SHOWN_CHARS + 1);
    }

    #[test]
    fn nested_values_are_found_by_their_row_and_hidden_ones_are_none() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
            Some(vec![Some(2), Some(300)]),
        ]);
        let to = DataType::List(Arc::new(Field::new_list_field(DataType::Int8, true)));
        assert_eq!(misfit(lists.clone(), &to), Some((3, "300".to_owned())));
        assert_eq!(misfit(lists.slice(0, 3), &to), None);
        let member = Field::new("m", DataType::Int32, false);
        let hidden = StructArray::new(
            Fields::from(vec![member]),
            vec![Arc::new(Int32Array::from(vec![300, 7]))],
            Some(vec![false, true].into()),
        );
        let member = Field::new("m", DataType::Int8, false);
        assert_eq!(misfit(hidden, &DataType::Struct(vec![member].into())), None);
        let lists = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
        assert!(!can_cast(&lists, &DataType::Struct(Fields::empty())));
    }

    #[test]
    fn vectors_are_rounded_like_numbers_and_hidden_ones_are_none() {
        let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
        let values = Float32Array::from(vec![9e9, 0.1, 1.0, 2.0, 7e9, -7e9, 3.0, 7e9]);
        let nulls = Some(vec![true, true, false, true].into());
        let vectors = FixedSizeListArray::new(item(DataType::Float32), 2, Arc::new(values), nulls);
        let halves = DataType::FixedSizeList(item(DataType::Float16), 2);
        assert_eq!(misfit(vectors.slice(1, 2), &halves), None);
        assert_eq!(
            misfit(vectors.slice(1, 3), &halves),
            Some((2, "7000000000.0".to_owned()))
        );
        assert_eq!(misfit(vectors.clone(), &halves).map(|it| it.0), Some(0));
        let whole = DataType::FixedSizeList(item(DataType::Int64), 2);
        assert_eq!(misfit(vectors, &whole).map(|it| it.0), Some(0), "0.1");
        let longer = DataType::FixedSizeList(item(DataType::Float16), 3);
        assert!(!can_cast(&halves, &longer));
    }

    proptest! {
        #[test]
        fn what_is_converted_says_the_same(values in proptest::collection::vec(any::<Option<i64>>(), 0..20)) {
            let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
            for to in [DataType::Int32, DataType::UInt64, DataType::Float64, DataType::Utf8, DataType::Decimal128(20, 1)] {
                match convert(&array, &to) {
                    Ok(converted) => {
                        let back = arrow_cast::cast(&converted, &DataType::Int64).unwrap();
                        prop_assert_eq!(&back, &array);
                    }
                    Err(CastError::Misfit(misfit)) => {
                        prop_assert_eq!(misfit.value, values[misfit.row].unwrap().to_string());
                        prop_assert!(convert(&array.slice(0, misfit.row), &to).is_ok());
                    }
                    Err(CastError::Arrow(error)) => panic!("{error}"),
                }
            }
        }
    }
}
