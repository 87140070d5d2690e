//! Values of Python as literals of expressions.

use arrow_schema::DataType;
use pilum_table::expr::{Expr, Scalar, lit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use crate::errors::Failure;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i128 = 86_400;
/// The ordinal of 1970-01-01 in Python's calendar.
const EPOCH_ORDINAL: i32 = 719_163;

/// Returns a value as a literal expression. Scalars of float16 and float32 keep their type.
pub(crate) fn literal_expression(value: &Bound<'_, PyAny>) -> PyResult<Expr> {
    let literal = lit(literal(value)?);
    Ok(match narrow_float(value)? {
        Some(data_type) => literal.cast(data_type),
        None => literal,
    })
}

/// The type of a scalar of numpy or pyarrow that is a float of less than 64 bits.
fn narrow_float(value: &Bound<'_, PyAny>) -> PyResult<Option<DataType>> {
    let class = value.get_type().name()?;
    Ok(match class.to_str()? {
        "float16" | "HalfFloatScalar" => Some(DataType::Float16),
        "float32" | "FloatScalar" => Some(DataType::Float32),
        _ => None,
    })
}

/// A value of Python, numpy, pandas or pyarrow as a literal.
pub(crate) fn literal(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if value.is_none() {
        return Ok(Scalar::Null);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Scalar::String(text.to_str()?.to_owned()));
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Scalar::Boolean(truth.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i128>() {
            Ok(value) => Ok(Scalar::Integer(value)),
            Err(_) => wide_number(value),
        };
    }
    if value.is_instance_of::<PyFloat>() {
        let float = value.extract::<f64>()?;
        // As in SQL text, 0.1 is the decimal number: beside a float32 it means the nearest one.
        return Ok(Scalar::written(float).unwrap_or(Scalar::Float(float)));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Scalar::Binary(bytes.as_bytes().to_vec()));
    }
    other(value)
}

/// Values whose classes are known by name; their modules need not be loaded.
fn other(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let py = value.py();
    if let Some(scalar) = missing(value)? {
        return Ok(scalar);
    }
    // Timestamps of pyarrow and numpy reach further and are finer than those of Python.
    if value.hasattr(intern!(py, "as_py"))? {
        return of_pyarrow(value);
    }
    if value.hasattr(intern!(py, "dtype"))? && value.hasattr(intern!(py, "item"))? {
        return of_numpy(value);
    }
    let module: String = value.get_type().module()?.extract()?;
    if module == "decimal" && value.hasattr(intern!(py, "as_tuple"))? {
        return decimal(value);
    }
    if value.hasattr(intern!(py, "total_seconds"))? && value.hasattr(intern!(py, "microseconds"))? {
        return timedelta(value);
    }
    if value.hasattr(intern!(py, "toordinal"))? {
        let days = value
            .call_method0(intern!(py, "toordinal"))?
            .extract::<i32>()?
            - EPOCH_ORDINAL;
        if !value.hasattr(intern!(py, "hour"))? {
            return Ok(Scalar::Date(days));
        }
        let mut nanos = i128::from(days) * SECONDS_PER_DAY * NANOS_PER_SECOND + in_day(value)?;
        let offset = value.call_method0(intern!(py, "utcoffset"))?;
        let zoned = !offset.is_none();
        if zoned {
            nanos -= span(&offset)?;
        }
        return Ok(Scalar::Timestamp { nanos, zoned });
    }
    if value.hasattr(intern!(py, "hour"))? && value.hasattr(intern!(py, "tzinfo"))? {
        if !value.getattr(intern!(py, "tzinfo"))?.is_none() {
            return Err(refused(value, "a time of day has no zone here"));
        }
        let nanos = i64::try_from(in_day(value)?).map_err(|_| refused(value, "it is no time"))?;
        return Ok(Scalar::Time(nanos));
    }
    if let "bytearray" | "memoryview" = value.get_type().name()?.to_str()? {
        let bytes = py.get_type::<PyBytes>().call1((value,))?;
        return literal(&bytes);
    }
    Err(refused(value, "values of this class have no literal"))
}

/// Null for `pandas.NaT` and `pandas.NA`.
fn missing(value: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    let class = value.get_type().name()?;
    let class = class.to_str()?;
    Ok(matches!(class, "NaTType" | "NAType").then_some(Scalar::Null))
}

fn refused(value: &Bound<'_, PyAny>, why: &str) -> PyErr {
    let class = value.get_type().fully_qualified_name();
    let class = class.map_or_else(|_| "value".to_owned(), |name| name.to_string());
    let shown = value
        .repr()
        .map_or_else(|_| String::new(), |repr| repr.to_string());
    let shown: String = shown.chars().take(80).collect();
    Failure::invalid(format!(
        "a {class} cannot be compared with a column: {shown}: {why}"
    ))
    .into()
}

/// Nanoseconds since midnight of a time or datetime.
fn in_day(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    let part = |name: &str| -> PyResult<i128> { value.getattr(name)?.extract() };
    let seconds = (part("hour")? * 60 + part("minute")?) * 60 + part("second")?;
    // Timestamps of pandas have nanoseconds too.
    let nanos = match value.getattr_opt(intern!(value.py(), "nanosecond"))? {
        Some(nanos) => nanos.extract::<i128>()?,
        None => 0,
    };
    Ok(seconds * NANOS_PER_SECOND + part("microsecond")? * 1000 + nanos)
}

/// A timedelta in nanoseconds.
fn span(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    let part = |name: &str| -> PyResult<i128> { value.getattr(name)?.extract() };
    let nanos = match value.getattr_opt(intern!(value.py(), "nanoseconds"))? {
        Some(nanos) => nanos.extract::<i128>()?,
        None => 0,
    };
    let seconds = part("days")? * SECONDS_PER_DAY + part("seconds")?;
    Ok(seconds * NANOS_PER_SECOND + part("microseconds")? * 1000 + nanos)
}

fn timedelta(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let too_long = |_| refused(value, "it is longer than 292 years");
    Ok(Scalar::Interval {
        months: 0,
        days: 0,
        nanos: i64::try_from(span(value)?).map_err(too_long)?,
    })
}

/// A number of more than 38 digits, an `int` or a `decimal.Decimal` whose exponent is small.
fn wide_number(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let long = || refused(value, "it has more than 76 digits");
    // The text of an `int` is as long as its bits make it, and Python writes none of more than 4,300 digits.
    if value.is_instance_of::<PyInt>()
        && value
            .call_method0(intern!(value.py(), "bit_length"))?
            .extract::<usize>()?
            > 256
    {
        return Err(long());
    }
    let form = if value.is_instance_of::<PyInt>() {
        "d"
    } else {
        "f"
    };
    let text = value.call_method1(intern!(value.py(), "__format__"), (form,))?;
    Scalar::from_digits(text.extract::<&str>()?).ok_or_else(long)
}

/// Digits and exponent of a `decimal.Decimal`.
fn decimal(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let (negative, digits, exponent): (u8, Vec<u8>, Bound<'_, PyAny>) = value
        .call_method0(intern!(value.py(), "as_tuple"))?
        .extract()?;
    let Ok(exponent) = exponent.extract::<i32>() else {
        // NaN and infinity.
        let text = value.str()?;
        let float = text.to_str()?.parse::<f64>();
        return Ok(Scalar::Float(
            float.map_err(|_| refused(value, "a signalling NaN is no number"))?,
        ));
    };
    let mut unscaled = digits.iter().try_fold(0_i128, |so_far, digit| {
        so_far.checked_mul(10)?.checked_add(i128::from(*digit))
    });
    if exponent > 0 {
        let step = 10_i128.checked_pow(exponent.unsigned_abs());
        unscaled = unscaled
            .zip(step)
            .and_then(|(value, step)| value.checked_mul(step));
    }
    let unscaled = unscaled.filter(|value| value.unsigned_abs() < 10_u128.pow(38));
    let scale = u8::try_from(exponent.min(0).unsigned_abs()).ok();
    let (Some(unscaled), Some(scale)) = (unscaled, scale.filter(|scale| *scale <= 38)) else {
        let is_short = digits.len() <= 76 && exponent.unsigned_abs() <= 76;
        return match is_short {
            true => wide_number(value),
            false => Err(refused(value, "it has more than 76 digits")),
        };
    };
    let unscaled = if negative == 1 { -unscaled } else { unscaled };
    if exponent >= 0 {
        return Ok(Scalar::Integer(unscaled));
    }
    Ok(Scalar::Decimal { unscaled, scale })
}

/// Nanoseconds in one step of a unit.
fn step(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" => 1000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3600 * NANOS_PER_SECOND,
        "D" => SECONDS_PER_DAY * NANOS_PER_SECOND,
        "W" => 7 * SECONDS_PER_DAY * NANOS_PER_SECOND,
        _ => return None,
    })
}

fn of_pyarrow(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let py = value.py();
    let class = value.get_type().name()?;
    let class = class.to_str()?;
    // Python's own classes have no nanoseconds.
    if let "TimestampScalar" | "Time32Scalar" | "Time64Scalar" | "DurationScalar" = class {
        let raw = value.getattr(intern!(py, "value"))?;
        if raw.is_none() {
            return Ok(Scalar::Null);
        }
        let of = value.getattr(intern!(py, "type"))?;
        let unit: String = of.getattr(intern!(py, "unit"))?.extract()?;
        if let Some(step) = step(&unit) {
            let nanos = i128::from(raw.extract::<i64>()?) * step;
            let short = |why| i64::try_from(nanos).map_err(|_| refused(value, why));
            return Ok(match class {
                "TimestampScalar" => Scalar::Timestamp {
                    nanos,
                    zoned: !of.getattr(intern!(py, "tz"))?.is_none(),
                },
                "DurationScalar" => Scalar::Interval {
                    months: 0,
                    days: 0,
                    nanos: short("it is longer than 292 years")?,
                },
                _ if (0..SECONDS_PER_DAY * NANOS_PER_SECOND).contains(&nanos) => {
                    Scalar::Time(short("it is no time")?)
                }
                _ => return Err(refused(value, "it is no time of a day")),
            });
        }
    }
    let plain = value.call_method0(intern!(py, "as_py"))?;
    if plain.hasattr(intern!(py, "as_py"))? {
        return Err(refused(value, "values of this class have no literal"));
    }
    plain_literal(value, &plain)
}

/// The value that a scalar of another library holds. A float of less than 64 bits means its exact value, since it has fewer
/// digits than the float of Python that stands for it.
fn plain_literal(value: &Bound<'_, PyAny>, plain: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if !plain.is_none() && narrow_float(value)?.is_some() {
        return Ok(Scalar::Float(plain.extract::<f64>()?));
    }
    literal(plain)
}

fn of_numpy(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let py = value.py();
    let class = value.get_type().name()?;
    let class = class.to_str()?;
    if let "datetime64" | "timedelta64" = class {
        let name: String = value.getattr(intern!(py, "dtype"))?.str()?.extract()?;
        let unit = name
            .split_once('[')
            .map_or("", |(_, unit)| unit.trim_end_matches(']'));
        let raw = value
            .call_method1(intern!(py, "astype"), ("int64",))?
            .call_method0(intern!(py, "item"))?
            .extract::<i64>()?;
        if raw == i64::MIN {
            return Ok(Scalar::Null); // NaT
        }
        let nanos = step(unit).map(|step| i128::from(raw) * step);
        let nanos = nanos.ok_or_else(|| refused(value, "its unit has no fixed length"))?;
        return match class {
            "datetime64" => Ok(Scalar::Timestamp {
                nanos,
                zoned: false,
            }),
            _ => Ok(Scalar::Interval {
                months: 0,
                days: 0,
                nanos: i64::try_from(nanos)
                    .map_err(|_| refused(value, "it is longer than 292 years"))?,
            }),
        };
    }
    if value.hasattr(intern!(py, "ndim"))? && value.getattr(intern!(py, "ndim"))?.is_truthy()? {
        return Err(refused(value, "an array is no single value; use isin(..)"));
    }
    let plain = value.call_method0(intern!(py, "item"))?;
    if plain.hasattr(intern!(py, "dtype"))? {
        return Err(refused(value, "values of this class have no literal"));
    }
    plain_literal(value, &plain)
}
