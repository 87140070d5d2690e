//! The table of conversions: for each pair of types, whether values are kept always, sometimes or never.

use arrow_schema::{DataType, IntervalUnit};

use super::{
    number::is_number,
    text::{is_binary, is_text},
};
use crate::{lists::item_of, types::digits_of};

/// What is known of a conversion before any value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Every value is kept.
    Exact,
    /// Each value is read: it is kept, or the conversion is refused.
    Checked,
    /// Refused whatever the values, because their meaning would change.
    Never,
}

/// One line of the documentation of the rules.
#[derive(Debug, Clone, Copy)]
pub struct RuleNote {
    /// Source types.
    pub from: &'static str,
    /// Target types.
    pub to: &'static str,
    /// What is checked of each value, or why every value fits or none does.
    pub note: &'static str,
}

/// The rules in words, for the documentation; [`rule`] decides.
pub const RULE_NOTES: &[RuleNote] = &[
    note(
        "integer",
        "integer",
        "exact if the target has the range, else each value must be in range",
    ),
    note(
        "integer",
        "float",
        "exact up to 11, 24, 53 bits for halffloat, float, double; else the float must be the integer",
    ),
    note(
        "float",
        "integer",
        "finite, whole and in range; `-0.0` becomes 0",
    ),
    note("float", "wider float", "exact; NaN stays NaN"),
    note(
        "float",
        "narrower float",
        "the narrower float must be the same number; NaN and the infinities pass",
    ),
    note(
        "integer",
        "decimal",
        "exact if all digits of the type fit, else each value must fit",
    ),
    note(
        "float",
        "decimal",
        "the decimal must convert back to the same float: 9.87 fits decimal128(10, 2), 9.87654321 does not",
    ),
    note(
        "decimal",
        "decimal",
        "exact if neither side of the point gets fewer digits, else each value must fit",
    ),
    note("decimal", "integer", "whole and in range"),
    note(
        "decimal",
        "float",
        "the float must convert back to the same decimal",
    ),
    note("bool", "integer, float, decimal", "0 and 1"),
    note("integer, float, decimal", "bool", "only 0 and 1"),
    note("date32", "date64", "exact"),
    note("date64", "date32", "whole days"),
    note(
        "date",
        "timestamp without zone",
        "midnight of the day, within the range of the unit",
    ),
    note("timestamp without zone", "date", "only midnight"),
    note(
        "timestamp with zone",
        "date, time",
        "never: the day depends on the zone",
    ),
    note(
        "timestamp",
        "timestamp of another unit",
        "no fraction of the unit, and in range",
    ),
    note(
        "timestamp with zone",
        "timestamp with another zone",
        "exact: the same instant",
    ),
    note(
        "timestamp with zone",
        "timestamp without zone, and back",
        "never",
    ),
    note(
        "time",
        "time of another unit",
        "no fraction of the unit, and within one day",
    ),
    note(
        "duration",
        "duration of another unit",
        "no fraction of the unit, and in range",
    ),
    note(
        "interval",
        "month_day_nano_interval",
        "exact; back only if the other parts are 0",
    ),
    note(
        "integer",
        "date, time, timestamp, duration, and back",
        "never",
    ),
    note(
        "text",
        "anything but text and bytes, and back",
        "never: parsing and formatting are asked for by CAST",
    ),
    note(
        "text",
        "text, bytes",
        "exact; 32 bit offsets reach 2 GiB per batch",
    ),
    note("bytes", "text", "UTF-8"),
    note(
        "bytes",
        "fixed_size_binary",
        "the size must be that of the type",
    ),
    note(
        "dictionary, run-end encoded",
        "any",
        "as the type of the values",
    ),
    note(
        "any",
        "dictionary",
        "as the type of the values; the keys must count all distinct values",
    ),
    note(
        "list",
        "list of any kind",
        "items by this table; null items only where the target declares them",
    ),
    note(
        "list",
        "fixed_size_list",
        "every list that is not null has the size of the type",
    ),
    note(
        "struct",
        "struct",
        "members by name, in any order; a missing member becomes null if it may be, others are refused",
    ),
    note(
        "map",
        "map",
        "keys and values by this table; sorted keys are checked",
    ),
    note(
        "list of struct<key, value>",
        "map",
        "no null entry, no null key",
    ),
    note("map", "list of struct<key, value>", "exact"),
    note("null", "any", "nulls, where the column may hold them"),
    note("any", "null", "only nulls"),
    note(
        "extension type",
        "the same extension type",
        "parameters must be equal",
    ),
    note(
        "extension type",
        "its storage type",
        "exact; the name is dropped",
    ),
    note(
        "storage type",
        "extension type",
        "as the storage; arrow.uuid has 16 bytes, arrow.json is valid JSON, also where the source says so",
    ),
    note("nullable", "not nullable", "no nulls"),
    note("union", "any", "never"),
];

const fn note(from: &'static str, to: &'static str, note: &'static str) -> RuleNote {
    RuleNote { from, to, note }
}

/// The rule for a pair of types; nested types are decided by their parts and are at best [`Rule::Checked`].
pub fn rule(from: &DataType, to: &DataType) -> Rule {
    use DataType::{Dictionary, Null, RunEndEncoded, Struct};
    match (from, to) {
        (from, to) if from == to => Rule::Exact,
        (DataType::Union(..), _) | (_, DataType::Union(..)) => Rule::Never,
        (Null, _) => Rule::Exact,
        (_, Null) => Rule::Checked,
        (Dictionary(_, values), to) => rule(values, to),
        (RunEndEncoded(_, values), to) => rule(values.data_type(), to),
        (from, Dictionary(_, values)) => rule(from, values).max(Rule::Checked),
        (Struct(_), Struct(_)) => Rule::Checked,
        (from, to) => match (item_of(from), item_of(to)) {
            (Some(a), Some(b)) => rule(a.data_type(), b.data_type()).max(Rule::Checked),
            (None, None) => leaf_rule(from, to),
            _ => Rule::Never,
        },
    }
}

impl Rule {
    /// The stricter of two rules.
    fn max(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) => Self::Never,
            (Self::Checked, _) | (_, Self::Checked) => Self::Checked,
            _ => Self::Exact,
        }
    }
}

/// The rule for types without parts.
pub(crate) fn leaf_rule(from: &DataType, to: &DataType) -> Rule {
    use DataType::{
        Date32, Date64, Duration, FixedSizeBinary, Interval, Time32, Time64, Timestamp,
    };
    match (from, to) {
        (from, to) if from == to => Rule::Exact,
        (from, to) if is_number(from) && is_number(to) => number_rule(from, to),
        (from, FixedSizeBinary(_)) if is_text(from) || is_binary(from) => Rule::Checked,
        (from, to) if is_text(from) && (is_text(to) || is_binary(to)) => Rule::Exact,
        (from, to) if is_binary(from) && is_binary(to) => Rule::Exact,
        (from, to) if is_binary(from) && is_text(to) => Rule::Checked,
        (Date32, Date64) => Rule::Exact,
        (Date64, Date32)
        | (Date32 | Date64, Timestamp(_, None))
        | (Timestamp(_, None), Date32 | Date64)
        | (Time32(_) | Time64(_), Time32(_) | Time64(_))
        | (Duration(_), Duration(_))
        | (Interval(IntervalUnit::MonthDayNano), Interval(_)) => Rule::Checked,
        (Interval(_), Interval(IntervalUnit::MonthDayNano)) => Rule::Exact,
        (Timestamp(a, zone), Timestamp(b, other)) if zone.is_some() == other.is_some() => {
            if a == b { Rule::Exact } else { Rule::Checked }
        }
        _ => Rule::Never,
    }
}

/// Digits of the widest value of an integer type, and bits of its magnitude.
fn integer_size(data_type: &DataType) -> Option<(i16, u32)> {
    Some(match data_type {
        DataType::Boolean => (1, 1),
        DataType::Int8 => (3, 8),
        DataType::UInt8 => (3, 8),
        DataType::Int16 | DataType::UInt16 => (5, 16),
        DataType::Int32 | DataType::UInt32 => (10, 32),
        DataType::Int64 => (19, 64),
        DataType::UInt64 => (20, 64),
        _ => return None,
    })
}

fn number_rule(from: &DataType, to: &DataType) -> Rule {
    let exact = |is_exact: bool| if is_exact { Rule::Exact } else { Rule::Checked };
    let mantissa = |float: &DataType| match float {
        DataType::Float16 => 11,
        DataType::Float32 => 24,
        _ => 53,
    };
    match (integer_size(from), integer_size(to)) {
        (_, _) if *to == DataType::Boolean => Rule::Checked,
        (Some((_, a)), Some((_, b))) => exact(
            *from == DataType::Boolean
                || match (from.is_signed_integer(), to.is_signed_integer()) {
                    (true, false) => false,
                    (false, true) => a < b,
                    _ => a <= b,
                },
        ),
        (Some((_, bits)), None) if to.is_floating() => exact(bits <= mantissa(to)),
        (Some((digits, _)), None) => match digits_of(to) {
            Some((p, s)) => exact(s >= 0 && i16::from(p) - i16::from(s) >= digits),
            None => Rule::Never,
        },
        (None, None) if from.is_floating() && to.is_floating() => {
            exact(mantissa(from) <= mantissa(to))
        }
        (None, None) => match (digits_of(from), digits_of(to)) {
            (Some((p, s)), Some((q, t))) => {
                let (p, s, q, t) = (i16::from(p), i16::from(s), i16::from(q), i16::from(t));
                exact(p - s <= q - t && s <= t)
            }
            _ => Rule::Checked,
        },
        (None, Some(_)) => Rule::Checked,
    }
}
