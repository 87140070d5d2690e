//! The functions of the language: names and numbers of arguments.

use std::ops::RangeInclusive;

/// Functions, and operators that take their operands as functions do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Function {
    /// Characters of a string, bytes of a binary value, items of a list.
    Length,
    /// Lower case.
    Lower,
    /// Upper case.
    Upper,
    /// Absolute value.
    Abs,
    /// Year of a date or timestamp.
    Year,
    /// Month, 1 to 12.
    Month,
    /// Day of the month, from 1.
    Day,
    /// Hour, 0 to 23.
    Hour,
    /// Minute, 0 to 59.
    Minute,
    /// Whole second, 0 to 59.
    Second,
    /// The first number divided by the second, whole and cut off towards zero if both are integers, else a float64; an
    /// integer divided by zero is an error. The division of Arrow's kernels.
    Divide,
    /// A comparison by IEEE 754: NaN equals nothing, and is neither less nor greater. The comparison of Arrow's kernels.
    Ieee,
    /// Whether the first string starts with the second.
    StartsWith,
    /// Whether the first string ends with the second.
    EndsWith,
    /// Whether the first string contains the second.
    Contains,
    /// `a || b`: two strings, one after the other; null if one is null.
    Append,
    /// All strings, one after the other; nulls are left out.
    Concat,
    /// Characters of a string from a position, counted from 1, or from the end if it is negative; at most as many as the
    /// third argument says.
    Substring,
    /// Without spaces, or without the characters of the second string, at both ends.
    Trim,
    /// As [`Function::Trim`], at the start.
    LTrim,
    /// As [`Function::Trim`], at the end.
    RTrim,
    /// Every occurrence of the second string replaced by the third.
    Replace,
    /// Position of the second string in the first, counted in characters from 1; 0 if it is not there.
    Position,
    /// Whether a regular expression matches a part of the string.
    RegexpMatches,
    /// `a SIMILAR TO b`: whether a regular expression matches the whole string.
    SimilarTo,
    /// Rounded to a whole number, or to so many decimals; halves away from zero.
    Round,
    /// The greatest whole number that is not greater.
    Floor,
    /// The least whole number that is not less.
    Ceil,
    /// Without decimals, or with at most so many.
    Trunc,
    /// Whether a number is NaN.
    IsNan,
    /// Whether a number is neither NaN nor infinite.
    IsFinite,
    /// Whether a number is infinite.
    IsInf,
    /// The beginning of the unit of time (first argument) that a date or timestamp lies in.
    DateTrunc,
    /// A part (first argument) of a date or timestamp.
    DatePart,
    /// Whether a list holds a value.
    ListContains,
    /// `a[b]`: item of a list by its position from 1, from the end if negative; member of a struct; value of a map by its key.
    Element,
    /// As [`Function::Element`], with positions in lists counted from 0, as in Python.
    Item,
    /// `a IS DISTINCT FROM b`: as `<>`, with null as a value.
    Distinct,
}

/// Most arguments of a function that takes any number.
const MANY: usize = 64;

impl Function {
    pub(crate) const ALL: [Self; 38] = [
        Self::Length,
        Self::Lower,
        Self::Upper,
        Self::Abs,
        Self::Year,
        Self::Month,
        Self::Day,
        Self::Hour,
        Self::Minute,
        Self::Second,
        Self::Divide,
        Self::Ieee,
        Self::StartsWith,
        Self::EndsWith,
        Self::Contains,
        Self::Append,
        Self::Concat,
        Self::Substring,
        Self::Trim,
        Self::LTrim,
        Self::RTrim,
        Self::Replace,
        Self::Position,
        Self::RegexpMatches,
        Self::SimilarTo,
        Self::Round,
        Self::Floor,
        Self::Ceil,
        Self::Trunc,
        Self::IsNan,
        Self::IsFinite,
        Self::IsInf,
        Self::DateTrunc,
        Self::DatePart,
        Self::ListContains,
        Self::Element,
        Self::Item,
        Self::Distinct,
    ];

    /// The name in SQL text; those of operators are no words, so that no text calls them by name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Length => "LENGTH",
            Self::Lower => "LOWER",
            Self::Upper => "UPPER",
            Self::Abs => "ABS",
            Self::Year => "YEAR",
            Self::Month => "MONTH",
            Self::Day => "DAY",
            Self::Hour => "HOUR",
            Self::Minute => "MINUTE",
            Self::Second => "SECOND",
            Self::Divide => "DIVIDE",
            Self::Ieee => "IEEE",
            Self::StartsWith => "STARTS_WITH",
            Self::EndsWith => "ENDS_WITH",
            Self::Contains => "CONTAINS",
            Self::Append => "||",
            Self::Concat => "CONCAT",
            Self::Substring => "SUBSTRING",
            Self::Trim => "TRIM",
            Self::LTrim => "LTRIM",
            Self::RTrim => "RTRIM",
            Self::Replace => "REPLACE",
            Self::Position => "STRPOS",
            Self::RegexpMatches => "REGEXP_MATCHES",
            Self::SimilarTo => "SIMILAR TO",
            Self::Round => "ROUND",
            Self::Floor => "FLOOR",
            Self::Ceil => "CEIL",
            Self::Trunc => "TRUNC",
            Self::IsNan => "ISNAN",
            Self::IsFinite => "ISFINITE",
            Self::IsInf => "ISINF",
            Self::DateTrunc => "DATE_TRUNC",
            Self::DatePart => "DATE_PART",
            Self::ListContains => "LIST_CONTAINS",
            Self::Element => "[]",
            Self::Item => "ITEM",
            Self::Distinct => "IS DISTINCT FROM",
        }
    }

    /// The function of a name in SQL text, in upper case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = match name {
            "LEN" | "CHAR_LENGTH" | "CHARACTER_LENGTH" => "LENGTH",
            "STARTSWITH" => "STARTS_WITH",
            "ENDSWITH" => "ENDS_WITH",
            "SUBSTR" => "SUBSTRING",
            "INSTR" => "STRPOS",
            "CEILING" => "CEIL",
            "DATETRUNC" => "DATE_TRUNC",
            "DATEPART" => "DATE_PART",
            "LIST_HAS" | "ARRAY_CONTAINS" | "ARRAY_HAS" => "LIST_CONTAINS",
            name => name,
        };
        Self::ALL
            .into_iter()
            .find(|function| function.name() == name)
    }

    /// How many arguments it takes.
    pub(crate) fn arity(self) -> RangeInclusive<usize> {
        match self {
            Self::Divide
            | Self::StartsWith
            | Self::EndsWith
            | Self::Contains
            | Self::Append
            | Self::Position
            | Self::RegexpMatches
            | Self::SimilarTo
            | Self::DateTrunc
            | Self::DatePart
            | Self::ListContains
            | Self::Element
            | Self::Item
            | Self::Distinct => 2..=2,
            Self::Replace => 3..=3,
            Self::Substring => 2..=3,
            Self::Trim | Self::LTrim | Self::RTrim | Self::Round | Self::Trunc => 1..=2,
            Self::Concat => 1..=MANY,
            _ => 1..=1,
        }
    }

    /// Whether its arguments are evaluated one by one to arrays, whatever their number.
    pub(crate) fn is_general(self) -> bool {
        matches!(
            self,
            Self::Append
                | Self::Concat
                | Self::Substring
                | Self::Trim
                | Self::LTrim
                | Self::RTrim
                | Self::Replace
                | Self::Position
                | Self::RegexpMatches
                | Self::SimilarTo
                | Self::Round
                | Self::Floor
                | Self::Ceil
                | Self::Trunc
                | Self::IsNan
                | Self::IsFinite
                | Self::IsInf
                | Self::DateTrunc
                | Self::DatePart
                | Self::ListContains
                | Self::Element
                | Self::Item
        )
    }

    /// The number of arguments in words.
    pub(crate) fn arity_text(self) -> String {
        let arity = self.arity();
        match (*arity.start(), *arity.end()) {
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least} to {most}"),
        }
    }
}
