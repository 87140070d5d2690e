//! Checks of values, and the options that they follow.

use super::cursor::{Excess, Stop, bad};
use crate::error::{Error, Result, StreamFault};
use crate::yson::{self, Limits};

/// What the bytes of a string must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Nothing,
    Utf8,
    Yson,
}

/// Options that columns read by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadRules {
    pub(crate) validates_yson: bool,
    /// Whether NaN and infinities of decimals become nulls where the Arrow field is nullable.
    pub(crate) special_as_null: bool,
    pub(crate) limits: Limits,
}

/// The double as a `float`, when it is exact there; NaN stays NaN.
pub(crate) fn exact_float(value: f64) -> Option<f32> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "compared with the original below"
    )]
    let narrow = value as f32;
    (f64::from(narrow) == value || value.is_nan()).then_some(narrow)
}

/// A double as a `float`, which the server made it from.
pub(super) fn narrow(value: f64, at: usize) -> Result<f32, Stop> {
    match exact_float(value) {
        Some(narrow) => Ok(narrow),
        None => bad(
            StreamFault::OutOfRange,
            at,
            format!("{value:?} is not exact as a float; read it as double"),
        ),
    }
}

/// Stops at the byte of a `yson32`, whose length is at `at`, that is no YSON.
#[cold]
pub(super) fn bad_yson<T>(error: Error, at: usize) -> Result<T, Stop> {
    match error {
        Error::Yson { offset, .. } => bad(StreamFault::BadYson, at + 4 + offset, error.to_string()),
        Error::Limit { what, remedy } => Err(Stop::Limit(Box::new(Excess { at, what, remedy }))),
        _ => bad(StreamFault::BadYson, at, error.to_string()),
    }
}

pub(super) fn check_bytes(
    check: Check,
    bytes: &[u8],
    at: usize,
    rules: ReadRules,
) -> Result<(), Stop> {
    match check {
        Check::Nothing => Ok(()),
        Check::Utf8 => match std::str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(error) => {
                let at = at + 4 + error.valid_up_to();
                bad(
                    StreamFault::BadUtf8,
                    at,
                    "a string that is not UTF-8; read it as binary",
                )
            }
        },
        Check::Yson => {
            if let Err(error) = yson::validate(bytes, rules.limits) {
                return bad_yson(error, at);
            }
            Ok(())
        }
    }
}
