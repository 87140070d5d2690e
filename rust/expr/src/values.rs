//! The values of a long `IN` list, as one Arrow array: a million values without a million nodes.

use std::sync::Arc;

use arrow_arith::boolean::is_not_null;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    LargeBinaryArray, LargeStringArray, TimestampNanosecondArray,
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::{concat::concat, filter::filter};
use pilum_common::type_name;

use crate::{
    error::{Error, Result},
    kernel::{value::internal, zone::relabel},
    place::scalar_at,
    scalar::Scalar,
    types::{UTC, unpacked_type},
};

/// Values that a column is compared with, all of one type.
#[derive(Debug, Clone)]
pub struct Values {
    /// Of one of the types that [`kept_type`] returns.
    array: ArrayRef,
    /// Floats that stand for the decimal numbers they are written as, like the literal `0.1`.
    written: bool,
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        let Self { array, written } = self;
        **array == *other.array && *written == other.written
    }
}

/// The type in which values are kept; `None` for types without literals.
fn kept_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Null => DataType::Int64,
        DataType::UInt64 => DataType::UInt64,
        integer if integer.is_integer() => DataType::Int64,
        float if float.is_floating() => DataType::Float64,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::LargeUtf8,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => DataType::LargeBinary,
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some(UTC.into())),
        DataType::Decimal128(_, scale) if *scale < 0 => return None,
        DataType::Boolean
        | DataType::Date32
        | DataType::Timestamp(_, None)
        | DataType::Decimal128(..) => data_type.clone(),
        _ => return None,
    })
}

impl Values {
    /// The values of arrays of one type. Floats keep their exact value.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a type that has no literals.
    pub fn new(arrays: &[ArrayRef]) -> Result<Self> {
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let array = match arrays.as_slice() {
            [] => Arc::new(Int64Array::from(Vec::<i64>::new())) as ArrayRef,
            arrays => concat(arrays).map_err(internal)?,
        };
        let found = unpacked_type(array.data_type()).clone();
        let Some(kept) = kept_type(&found) else {
            return Err(Error::unsupported(format!(
                "IN with an array of {}; pass a list of Python values",
                type_name(&found)
            )));
        };
        let array = cast(&array, &found).map_err(internal)?;
        let array = match (&found, &kept) {
            (DataType::Timestamp(..), _) => relabel(&array, &kept),
            (DataType::Date64, _) => relabel(&array, &kept),
            _ => cast(&array, &kept),
        };
        Ok(Self {
            array: array.map_err(internal)?,
            written: false,
        })
    }

    /// Of an array in one of the types that are kept.
    pub(crate) fn kept(array: ArrayRef, written: bool) -> Option<Self> {
        (kept_type(array.data_type()).as_ref() == Some(array.data_type()))
            .then_some(Self { array, written })
    }

    /// Literals of one kind as an array; `None` if they are of several kinds, or of one that has no array here.
    pub fn of_literals(literals: &[Scalar]) -> Option<Self> {
        fn each<'a, T>(
            literals: &'a [Scalar],
            pick: impl Fn(&'a Scalar) -> Option<T>,
        ) -> Option<Vec<Option<T>>> {
            let pick = |one: &'a Scalar| match one {
                Scalar::Null => Some(None),
                one => pick(one).map(Some),
            };
            literals.iter().map(pick).collect()
        }
        let instants = |wanted: bool| {
            let nanos = each(literals, |one| match one {
                Scalar::Timestamp { nanos, zoned } if *zoned == wanted => {
                    i64::try_from(*nanos).ok()
                }
                _ => None,
            })?;
            let array = TimestampNanosecondArray::from(nanos);
            Some(array.with_timezone_opt(wanted.then_some(UTC)))
        };
        let mut written = false;
        let array: ArrayRef = match literals.iter().find(|one| !matches!(one, Scalar::Null))? {
            Scalar::Boolean(_) => Arc::new(BooleanArray::from(each(literals, |one| match one {
                Scalar::Boolean(value) => Some(*value),
                _ => None,
            })?)),
            Scalar::String(_) => {
                Arc::new(LargeStringArray::from(each(literals, |one| match one {
                    Scalar::String(text) => Some(text.as_str()),
                    _ => None,
                })?))
            }
            Scalar::Binary(_) => {
                Arc::new(LargeBinaryArray::from(each(literals, |one| match one {
                    Scalar::Binary(bytes) => Some(bytes.as_slice()),
                    _ => None,
                })?))
            }
            Scalar::Date(_) => Arc::new(Date32Array::from(each(literals, |one| match one {
                Scalar::Date(days) => Some(*days),
                _ => None,
            })?)),
            Scalar::Timestamp { zoned, .. } => Arc::new(instants(*zoned)?),
            Scalar::Integer(_) | Scalar::Decimal { .. } | Scalar::Float(_) => {
                let integers = each(literals, |one| match one {
                    Scalar::Integer(value) => i64::try_from(*value).ok(),
                    _ => None,
                });
                match integers {
                    Some(integers) => Arc::new(Int64Array::from(integers)),
                    None if literals
                        .iter()
                        .all(|one| matches!(one, Scalar::Null | Scalar::Float(_))) =>
                    {
                        Arc::new(Float64Array::from(each(literals, |one| match one {
                            Scalar::Float(value) => Some(*value),
                            _ => None,
                        })?))
                    }
                    None => match each(literals, as_written) {
                        Some(floats) => {
                            written = true;
                            Arc::new(Float64Array::from(floats))
                        }
                        None => Arc::new(decimals(literals)?),
                    },
                }
            }
            _ => return None,
        };
        Some(Self { array, written })
    }

    pub(crate) fn array(&self) -> &ArrayRef {
        &self.array
    }

    pub(crate) fn is_written(&self) -> bool {
        self.written
    }

    pub(crate) fn len(&self) -> usize {
        self.array.len()
    }

    pub(crate) fn has_null(&self) -> bool {
        self.array.null_count() > 0
    }

    /// Whether the values are floats that mean their exact value.
    pub(crate) fn are_exact_floats(&self) -> bool {
        !self.written && *self.array.data_type() == DataType::Float64
    }

    /// One value as a literal.
    pub(crate) fn literal(&self, position: usize) -> Scalar {
        match scalar_at(&self.array.slice(position, 1)) {
            Some(Scalar::Float(value)) if self.written => {
                Scalar::written(value).unwrap_or(Scalar::Float(value))
            }
            Some(scalar) => scalar,
            None => Scalar::Null,
        }
    }

    /// The values without nulls in the type of a column; values that the type does not have are left out. `None` if that
    /// needs a look at every value.
    pub(crate) fn among(&self, data_type: &DataType) -> Result<Option<ArrayRef>> {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Timestamp, Utf8, Utf8View};
        let converted = match (self.array.data_type(), data_type) {
            (own, wanted) if own == wanted => Ok(Arc::clone(&self.array)),
            // The conversion makes null of a value that does not fit.
            (own, wanted) if own.is_integer() && wanted.is_integer() => cast(&self.array, wanted),
            (LargeUtf8, Utf8 | Utf8View) | (LargeBinary, Binary | BinaryView) => {
                cast(&self.array, data_type)
            }
            (Timestamp(own, Some(_)), Timestamp(unit, Some(_))) if own == unit => {
                relabel(&self.array, data_type)
            }
            _ => return Ok(None),
        };
        let valid = |array: ArrayRef| -> Result<ArrayRef, ArrowError> {
            filter(&array, &is_not_null(&array)?)
        };
        converted.and_then(valid).map_err(internal).map(Some)
    }
}

/// The float that is written like the number, if there is one.
pub(crate) fn as_written(number: &Scalar) -> Option<f64> {
    const WHOLE: i128 = 1 << 53;
    match number {
        #[expect(clippy::cast_precision_loss, reason = "integers up to 2^53 are floats")]
        Scalar::Integer(value) if value.abs() <= WHOLE => Some(*value as f64),
        Scalar::Decimal { .. } => {
            let value: f64 = number.to_string().parse().ok()?;
            (shortest(&Scalar::written(value)?) == shortest(number)).then_some(value)
        }
        Scalar::Float(value) if Scalar::written(*value).is_none() => Some(*value),
        _ => None,
    }
}

/// A decimal without zeros at its end.
fn shortest(number: &Scalar) -> Scalar {
    let Scalar::Decimal {
        mut unscaled,
        mut scale,
    } = *number
    else {
        return number.clone();
    };
    while scale > 0 && unscaled % 10 == 0 {
        (unscaled, scale) = (unscaled / 10, scale - 1);
    }
    Scalar::Decimal { unscaled, scale }
}

/// Numbers as decimals of one scale, if 38 digits hold all of them.
fn decimals(literals: &[Scalar]) -> Option<Decimal128Array> {
    let scale_of = |one: &Scalar| match one {
        Scalar::Decimal { scale, .. } => *scale,
        _ => 0,
    };
    let scale = literals.iter().map(scale_of).max()?;
    let unscaled = literals.iter().map(|one| {
        let (value, own) = match one {
            Scalar::Null => return Some(None),
            Scalar::Integer(value) => (*value, 0),
            Scalar::Decimal { unscaled, scale } => (*unscaled, *scale),
            _ => return None,
        };
        let step = 10_i128.checked_pow(u32::from(scale - own))?;
        let value = value.checked_mul(step)?;
        (value.unsigned_abs() < 10_u128.pow(38)).then_some(Some(value))
    });
    let array: Decimal128Array = unscaled.collect::<Option<Vec<Option<i128>>>>()?.into();
    let scale = i8::try_from(scale).ok()?;
    array.with_precision_and_scale(38, scale).ok()
}
