//! Literal values before they have a column's type.
//!
//! A literal keeps the exact value that was written: an integer has no width yet, and `2.5` is not a float yet. Binding gives
//! it a type, according to the column or operand beside it.

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
            Self::Decimal { .. } => "a decimal literal",
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
