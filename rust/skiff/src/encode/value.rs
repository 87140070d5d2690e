//! Values of one row: their checks, why they are refused, and their bytes.

use arrow_buffer::i256;

use crate::decode::fits;
use crate::error::{Error, ValueFault};
use crate::yson::{self, Limits};

/// Why a value is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The schema does not hold the value.
    Value { fault: ValueFault, reason: String },
    /// A YSON node is beyond its limits.
    Limit { what: String, remedy: &'static str },
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Limit { what, remedy } => Self::Limit { what, remedy },
            error => Self::Value {
                fault: ValueFault::BadYson,
                reason: error.to_string(),
            },
        }
    }
}

/// The name of a column and why it is refused.
pub(crate) type RowRefusal = (String, Box<Refusal>);

#[cold]
pub(crate) fn refuse<T>(fault: ValueFault, reason: impl Into<String>) -> Result<T, Box<Refusal>> {
    Err(Box::new(Refusal::Value {
        fault,
        reason: reason.into(),
    }))
}

/// What the bytes of a string must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Nothing,
    Yson(Limits),
    Utf8,
    /// So many bytes.
    Length(usize),
}

pub(super) fn write_decimal(
    value: i256,
    precision: u8,
    wire_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), Box<Refusal>> {
    // More digits than the precision could reach the values that stand for NaN and infinities.
    if !fits(value, precision) {
        let reason = format!(
            "the unscaled value {value} has more than the {precision} digits of the format"
        );
        return refuse(ValueFault::OutOfRange, reason);
    }
    out.extend_from_slice(value.to_le_bytes().get(..wire_bytes).unwrap_or_default());
    Ok(())
}

pub(super) fn push_tag(tag: u16, is_wide: bool, out: &mut Vec<u8>) {
    let bytes = tag.to_le_bytes();
    out.extend_from_slice(bytes.get(..if is_wide { 2 } else { 1 }).unwrap_or_default());
}

#[inline]
pub(super) fn write_string(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Box<Refusal>> {
    let Ok(length) = u32::try_from(bytes.len()) else {
        return refuse(
            ValueFault::OutOfRange,
            "a string of 4 GiB or more, which has no length on the wire",
        );
    };
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

pub(super) fn check_bytes(check: Check, bytes: &[u8]) -> Result<(), Box<Refusal>> {
    match check {
        Check::Nothing => Ok(()),
        Check::Yson(limits) => Ok(yson::validate(bytes, limits).map_err(Refusal::from)?),
        Check::Utf8 => match std::str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(error) => {
                let place = error.valid_up_to();
                let reason = format!(
                    "byte {place} of the value is not UTF-8, and the format has string; give it binary"
                );
                refuse(ValueFault::BadUtf8, reason)
            }
        },
        Check::Length(length) if bytes.len() == length => Ok(()),
        Check::Length(length) => {
            let found = bytes.len();
            let reason =
                format!("the value has {found} bytes, and the format fixed_size_binary[{length}]");
            refuse(ValueFault::OutOfRange, reason)
        }
    }
}
