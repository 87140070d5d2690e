//! Values of partition keys as text in paths, and back by the type of the column.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    Date32Type, Float64Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, UInt64Array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use chrono::{NaiveDateTime, Timelike};
use pilum_common::type_name;

use crate::error::{Error, Result};
use crate::names::shortened;

/// Reads the values of a partition key in the type of its column. Each value is the decoded bytes of a path and the path
/// itself. The text alone decides nothing: `02` in a column of strings stays `02`.
///
/// # Errors
/// `CommonError::Corrupt` for a text that is no value of the type, with its path; `CommonError::Unsupported` for types that cannot be
/// partition keys.
pub fn parse_keys(
    column: &str,
    data_type: &DataType,
    values: &[(Vec<u8>, &str)],
) -> Result<ArrayRef> {
    let wrong = |(bytes, path): &(Vec<u8>, &str)| {
        Error::corrupt(
            *path,
            format!(
                "{:?} is no value of partition key `{column}`, whose type is {}",
                shortened(&String::from_utf8_lossy(bytes)),
                type_name(data_type)
            ),
        )
    };
    let text = |value| -> Result<&str> { as_text(value).ok_or_else(|| wrong(value)) };
    let parsed: ArrayRef = match data_type {
        DataType::Binary | DataType::LargeBinary => {
            let mut builder = BinaryBuilder::new();
            values
                .iter()
                .for_each(|(bytes, _)| builder.append_value(bytes));
            Arc::new(builder.finish())
        }
        DataType::Boolean => {
            let mut builder = BooleanBuilder::new();
            for value in values {
                let flag = match text(value)?.to_ascii_lowercase().as_str() {
                    "true" => true,
                    "false" => false,
                    _ => return Err(wrong(value)),
                };
                builder.append_value(flag);
            }
            Arc::new(builder.finish())
        }
        it if it.is_signed_integer() => {
            let parse = |value| text(value)?.parse::<i64>().map_err(|_| wrong(value));
            Arc::new(values.iter().map(parse).collect::<Result<Int64Array>>()?)
        }
        it if it.is_unsigned_integer() => {
            let parse = |value| text(value)?.parse::<u64>().map_err(|_| wrong(value));
            Arc::new(values.iter().map(parse).collect::<Result<UInt64Array>>()?)
        }
        it if it.is_floating() => {
            let parse = |value| text(value)?.parse::<f64>().map_err(|_| wrong(value));
            Arc::new(values.iter().map(parse).collect::<Result<Float64Array>>()?)
        }
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Date32
        | DataType::Timestamp(..)
        | DataType::Time32(_)
        | DataType::Time64(_) => {
            let mut builder = StringBuilder::new();
            for value in values {
                builder.append_value(text(value)?);
            }
            Arc::new(builder.finish())
        }
        other => {
            return Err(Error::unsupported(
                format!("partition key `{column}`"),
                format!("the type {}", type_name(other)),
                "Kartothek has no form for such values in paths",
            ));
        }
    };
    if parsed.data_type() == data_type {
        return Ok(parsed);
    }
    match exact(&parsed, data_type) {
        Ok(array) => Ok(array),
        // Find the value that the message has to name.
        Err(_) => Err(values
            .iter()
            .enumerate()
            .find(|(row, _)| exact(&parsed.slice(*row, 1), data_type).is_err())
            .map_or_else(
                || {
                    Error::bug(format!(
                        "partition key `{column}`: conversion of all values failed"
                    ))
                },
                |(_, value)| wrong(value),
            )),
    }
}

fn as_text<'a>(value: &'a (Vec<u8>, &str)) -> Option<&'a str> {
    std::str::from_utf8(&value.0).ok()
}

fn exact(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, data_type, &options)
}

/// The bytes of a value in a path, before percent-encoding.
///
/// # Errors
/// `CommonError::InvalidInput` for null, for a NUL byte, which ends the value when Kartothek reads it, and for timestamps finer than
/// microseconds; `CommonError::Unsupported` for types that Kartothek cannot read back.
pub fn key_text(column: &str, array: &dyn Array, row: usize) -> Result<Vec<u8>> {
    let what = || format!("partition key `{column}`");
    if row >= array.len() || array.is_null(row) {
        return Err(Error::invalid(
            what(),
            "a partition key cannot be null; fill it or leave out the row",
        ));
    }
    let widened = |wide: DataType| {
        exact(&array.slice(row, 1), &wide)
            .map_err(|error| Error::invalid(what(), error.to_string()))
    };
    let bytes = match array.data_type() {
        DataType::Boolean => match array.as_boolean().value(row) {
            true => b"True".to_vec(),
            false => b"False".to_vec(),
        },
        it if it.is_signed_integer() => {
            let value = widened(DataType::Int64)?;
            value
                .as_primitive::<Int64Type>()
                .value(0)
                .to_string()
                .into_bytes()
        }
        it if it.is_unsigned_integer() => {
            let value = widened(DataType::UInt64)?;
            value
                .as_primitive::<UInt64Type>()
                .value(0)
                .to_string()
                .into_bytes()
        }
        it if it.is_floating() => {
            let value = widened(DataType::Float64)?;
            float_text(value.as_primitive::<Float64Type>().value(0)).into_bytes()
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let value = widened(DataType::Utf8)?;
            value.as_string::<i32>().value(0).as_bytes().to_vec()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let value = widened(DataType::Binary)?;
            value.as_binary::<i32>().value(0).to_vec()
        }
        DataType::Dictionary(_, values) => {
            let value = widened(values.as_ref().clone())?;
            return key_text(column, &value, 0);
        }
        DataType::Date32 => {
            let date = array.as_primitive::<Date32Type>().value_as_date(row);
            let date = date.ok_or_else(|| Error::invalid(what(), "the date is out of range"))?;
            date.format("%Y-%m-%d").to_string().into_bytes()
        }
        DataType::Timestamp(unit, None) => {
            let time = time_at(array, *unit, row)
                .ok_or_else(|| Error::invalid(what(), "the timestamp is out of range"))?;
            timestamp_text(column, time)?.into_bytes()
        }
        other => {
            return Err(Error::unsupported(
                what(),
                format!("the type {}", type_name(other)),
                "Kartothek cannot read such values back from paths; use another column or another type",
            ));
        }
    };
    match bytes.contains(&0) {
        true => Err(Error::invalid(
            what(),
            "the value has a NUL byte, which ends it when Kartothek reads it",
        )),
        false => Ok(bytes),
    }
}

fn time_at(array: &dyn Array, unit: TimeUnit, row: usize) -> Option<NaiveDateTime> {
    match unit {
        TimeUnit::Second => as_datetime::<TimestampSecondType>(
            array.as_primitive::<TimestampSecondType>().value(row),
        ),
        TimeUnit::Millisecond => as_datetime::<TimestampMillisecondType>(
            array.as_primitive::<TimestampMillisecondType>().value(row),
        ),
        TimeUnit::Microsecond => as_datetime::<TimestampMicrosecondType>(
            array.as_primitive::<TimestampMicrosecondType>().value(row),
        ),
        TimeUnit::Nanosecond => as_datetime::<TimestampNanosecondType>(
            array.as_primitive::<TimestampNanosecondType>().value(row),
        ),
    }
}

fn timestamp_text(column: &str, time: NaiveDateTime) -> Result<String> {
    let nanos = time.nanosecond();
    if !nanos.is_multiple_of(1000) {
        return Err(Error::invalid(
            format!("partition key `{column}`"),
            format!("{time} is finer than microseconds, which Kartothek has no form for"),
        ));
    }
    Ok(match nanos {
        0 => time.format("%Y-%m-%d %H:%M:%S").to_string(),
        _ => time.format("%Y-%m-%d %H:%M:%S%.6f").to_string(),
    })
}

/// A float as Python's `repr` writes it: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || value == 0.0 {
        let plain = format!("{value}");
        return match plain.contains('.') {
            true => plain,
            false => format!("{plain}.0"),
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Float32Array, StringArray,
        TimestampMicrosecondArray, TimestampNanosecondArray,
    };

    fn round_trip(array: impl Array + 'static, texts: &[&str]) {
        let array: ArrayRef = Arc::new(array);
        let text = |row| String::from_utf8(key_text("c", &array, row).unwrap()).unwrap();
        let found: Vec<String> = (0..array.len()).map(text).collect();
        assert_eq!(found, texts);
        let values: Vec<_> = found
            .iter()
            .map(|it| (it.clone().into_bytes(), "p"))
            .collect();
        let read = parse_keys("c", array.data_type(), &values).unwrap();
        assert_eq!(&read, &array);
    }

    #[test]
    fn values_have_the_text_of_python_and_read_back() {
        round_trip(
            Float64Array::from(vec![
                0.1,
                1.0,
                1e22,
                1e-7,
                0.0001,
                0.00001234,
                1e16,
                123456789012345680.0,
                1e15,
                f64::INFINITY,
                -0.0,
                5e-324,
                -1.5,
            ]),
            &[
                "0.1",
                "1.0",
                "1e+22",
                "1e-07",
                "0.0001",
                "1.234e-05",
                "1e+16",
                "1.2345678901234568e+17",
                "1000000000000000.0",
                "inf",
                "-0.0",
                "5e-324",
                "-1.5",
            ],
        );
        round_trip(
            Int64Array::from(vec![-5, i64::MAX]),
            &["-5", "9223372036854775807"],
        );
        round_trip(UInt64Array::from(vec![u64::MAX]), &["18446744073709551615"]);
        round_trip(StringArray::from(vec!["02", "", "a/b"]), &["02", "", "a/b"]);
        round_trip(BooleanArray::from(vec![true, false]), &["True", "False"]);
        round_trip(
            Date32Array::from(vec![18321, -1]),
            &["2020-02-29", "1969-12-31"],
        );
        round_trip(BinaryArray::from(vec![b"ab".as_slice()]), &["ab"]);
        let micros = vec![1_577_934_245_123_456, 0, 1];
        let texts = [
            "2020-01-02 03:04:05.123456",
            "1970-01-01 00:00:00",
            "1970-01-01 00:00:00.000001",
        ];
        round_trip(TimestampMicrosecondArray::from(micros), &texts);
        let float = Float32Array::from(vec![0.1]);
        assert_eq!(key_text("c", &float, 0).unwrap(), b"0.10000000149011612");
    }

    #[test]
    fn wrong_texts_and_values_are_refused_with_their_place() {
        let parse = |text: &str, data_type: &DataType| {
            parse_keys(
                "c",
                data_type,
                &[(b"1".to_vec(), "good"), (text.into(), "d/t/c=x/L.parquet")],
            )
        };
        for (text, data_type) in [
            ("x", DataType::Int64),
            ("1.0", DataType::Int64),
            ("-1", DataType::UInt64),
            ("", DataType::Float64),
            ("300", DataType::Int8),
        ] {
            let error = parse(text, &data_type).unwrap_err();
            assert_eq!(error.kind(), "corrupt");
            assert!(error.to_string().contains("c=x/L.parquet"), "{error}");
        }
        let date = parse_keys("c", &DataType::Date32, &[(b"2020-02-30".to_vec(), "p")]);
        assert!(date.unwrap_err().to_string().contains("date32"));
        let flag = parse_keys("c", &DataType::Boolean, &[(b"1".to_vec(), "p")]);
        assert_eq!(flag.unwrap_err().kind(), "corrupt");
        assert!(parse_keys("c", &DataType::Utf8, &[(vec![0xFF], "p")]).is_err());
        let fine = TimestampNanosecondArray::from(vec![1]);
        assert_eq!(key_text("c", &fine, 0).unwrap_err().kind(), "invalid_input");
        let null = Int64Array::from(vec![None]);
        assert_eq!(key_text("c", &null, 0).unwrap_err().kind(), "invalid_input");
        let nul = StringArray::from(vec!["a\0b"]);
        assert_eq!(key_text("c", &nul, 0).unwrap_err().kind(), "invalid_input");
    }

    #[test]
    fn foreign_spellings_are_read() {
        let read = |text: &str, data_type: &DataType| {
            parse_keys("c", data_type, &[(text.into(), "p")]).unwrap()
        };
        let micro = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(
            &read("2020-01-02T03:04:05", &micro),
            &read("2020-01-02 03:04:05", &micro)
        );
        assert!(read("tRUE", &DataType::Boolean).as_boolean().value(0));
    }
}
