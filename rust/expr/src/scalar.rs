//! Literal values before they have a column's type.
//!
//! A literal keeps the exact value that was written: an integer has no width yet, and `2.5` is not a float yet. Binding gives
//! it a type, according to the column or operand beside it.

use arrow_buffer::i256;

/// Digits of the widest decimal type.
const MAX_DIGITS: u8 = 76;

/// A literal value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Scalar {
    /// SQL `NULL`.
    Null,
    /// `TRUE` or `FALSE`.
    Boolean(bool),
    /// A whole number; wide enough for every integer type, signed or not.
    Integer(i128),
    /// A number written with a decimal point: `unscaled / 10^scale`, exactly. Beside a floating column it means the
    /// nearest value of the column's type, as in DuckDB.
    Decimal {
        /// The digits without the point.
        unscaled: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// A number that needs more than 38 digits, of at most 76: `unscaled / 10^scale`, exactly. Without digits after the point
    /// it means the same as an [`Integer`](Self::Integer), otherwise the same as a [`Decimal`](Self::Decimal).
    WideDecimal {
        /// The digits without the point.
        unscaled: i256,
        /// Digits after the point.
        scale: u8,
    },
    /// A float64, from code or from a number with an exponent. It compares by its exact value with integers and floats;
    /// beside a decimal column it means the digits it is written with.
    Float(f64),
    /// Text.
    String(String),
    /// Bytes, `X'0a0b'`.
    Binary(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Nanoseconds since 1970-01-01 00:00:00, wide enough for every Arrow timestamp.
    Timestamp {
        /// The instant, or the wall clock.
        nanos: i128,
        /// Whether it is an instant (UTC) rather than a wall clock.
        zoned: bool,
    },
    /// A span of time; months and days have no fixed length.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanos: i64,
    },
}

impl PartialEq for Scalar {
    /// Floats by their bits: a tree that holds NaN equals its copy, and 0.0 is written unlike -0.0.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Boolean(a), Self::Boolean(b)) => a == b,
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (
                Self::Decimal {
                    unscaled: a,
                    scale: s,
                },
                Self::Decimal {
                    unscaled: b,
                    scale: t,
                },
            ) => a == b && s == t,
            (
                Self::WideDecimal {
                    unscaled: a,
                    scale: s,
                },
                Self::WideDecimal {
                    unscaled: b,
                    scale: t,
                },
            ) => a == b && s == t,
            (Self::Float(a), Self::Float(b)) => {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            }
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Binary(a), Self::Binary(b)) => a == b,
            (Self::Date(a), Self::Date(b)) => a == b,
            (Self::Time(a), Self::Time(b)) => a == b,
            (Self::Timestamp { nanos: a, zoned: y }, Self::Timestamp { nanos: b, zoned: z }) => {
                a == b && y == z
            }
            (
                Self::Interval {
                    months,
                    days,
                    nanos,
                },
                Self::Interval {
                    months: m,
                    days: d,
                    nanos: n,
                },
            ) => months == m && days == d && nanos == n,
            _ => false,
        }
    }
}

impl Scalar {
    /// The decimal number that a float is written as, so that 0.1 means one tenth as in SQL text; `None` for NaN, infinite
    /// values, negative zero, which no decimal is, and numbers of more than 38 digits.
    pub fn written(value: f64) -> Option<Self> {
        if Self::Float(value).is_negative_zero() {
            return None;
        }
        // Rust writes the shortest digits that read back to the same float, without an exponent.
        let text = value.is_finite().then(|| value.to_string())?;
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, "0"));
        let digits = format!("{whole}{fraction}");
        let unscaled: i128 = digits.parse().ok()?;
        let scale = u8::try_from(fraction.len()).ok()?;
        (unscaled.unsigned_abs() < 10_u128.pow(38) && scale <= 38)
            .then_some(Self::Decimal { unscaled, scale })
    }

    /// The number `unscaled / 10^scale` as the narrowest literal that holds it: an integer, or a decimal of 38 digits or more.
    /// `None` for more than 76 digits.
    pub(crate) fn number(unscaled: i256, scale: u8) -> Option<Self> {
        let limit = i256::from_i128(10).checked_pow(u32::from(MAX_DIGITS))?;
        if scale > MAX_DIGITS || unscaled >= limit || unscaled <= limit.wrapping_neg() {
            return None;
        }
        Some(match unscaled.to_i128() {
            Some(value) if scale == 0 => Self::Integer(value),
            Some(value) if scale <= 38 && value.unsigned_abs() < 10_u128.pow(38) => Self::Decimal {
                unscaled: value,
                scale,
            },
            _ => Self::WideDecimal { unscaled, scale },
        })
    }

    /// The number that digits with or without a point and a sign write, `-12.50`; `None` for other texts and for more than 76
    /// digits.
    pub fn from_digits(text: &str) -> Option<Self> {
        let (sign, number) = match text.strip_prefix('-') {
            Some(number) => ("-", number),
            None => ("", text),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_start_matches('0');
        let most = usize::from(MAX_DIGITS);
        if digits.is_empty() || significant.len() > most || fraction.len() > most {
            return None;
        }
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let has_point = number.contains('.');
        if significant.is_empty() && has_point && sign == "-" {
            return Some(Self::Float(-0.0)); // decimals have no negative zero
        }
        let unscaled: i256 = format!("{sign}0{significant}").parse().ok()?;
        let scale = u8::try_from(fraction.len()).ok()?;
        Some(match Self::number(unscaled, scale)? {
            Self::Integer(unscaled) if has_point => Self::Decimal { unscaled, scale: 0 },
            other => other,
        })
    }

    /// The value of a whole number of any width.
    pub(crate) fn whole(&self) -> Option<i256> {
        match self {
            Self::Integer(value) => Some(i256::from_i128(*value)),
            Self::WideDecimal { unscaled, scale: 0 } => Some(*unscaled),
            _ => None,
        }
    }

    /// True for the float -0.0. It equals 0.0 in comparisons; its sign counts only where it is stored as a float.
    pub(crate) fn is_negative_zero(&self) -> bool {
        matches!(self, Self::Float(value) if *value == 0.0 && value.is_sign_negative())
    }

    /// Names the kind of value in messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Boolean(_) => "a boolean literal",
            Self::Integer(_) => "an integer literal",
            Self::WideDecimal { scale: 0, .. } => "an integer literal",
            Self::Decimal { .. } | Self::WideDecimal { .. } => "a decimal literal",
            Self::Float(_) => "a float literal",
            Self::String(_) => "a string literal",
            Self::Binary(_) => "a binary literal",
            Self::Date(_) => "a date literal",
            Self::Time(_) => "a time literal",
            Self::Timestamp { zoned: false, .. } => "a timestamp literal without zone",
            Self::Timestamp { zoned: true, .. } => "a timestamp literal with zone",
            Self::Interval { .. } => "an interval literal",
        }
    }
}

macro_rules! scalar_from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Scalar {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
scalar_from! {
    bool => Boolean, i8 => Integer, i16 => Integer, i32 => Integer, i64 => Integer, u8 => Integer, u16 => Integer,
    u32 => Integer, u64 => Integer, f32 => Float, f64 => Float, &str => String, String => String, Vec<u8> => Binary,
    &[u8] => Binary,
}

impl<T: Into<Self>> From<Option<T>> for Scalar {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
