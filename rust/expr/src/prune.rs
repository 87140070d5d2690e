//! What a predicate says about rows known only by their statistics.
//!
//! Each condition is given the set of answers it may have on these rows: true, false, null. Connectives combine sets by
//! Kleene's logic, so the result is as sound as its leaves, and a leaf that knows nothing allows all three. No row matches
//! if true is not among the answers; every row matches if nothing else is.

mod range;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray};

use crate::{
    BoundExpr, ColumnPath, CompareOp,
    bound::{Bound, Match, Typed},
    eval::{InSet, Value, compare},
};
use range::Range;

/// Statistics of a set of rows: a page, a fragment, a table.
///
/// Minimum and maximum need only be bounds (a truncated string, a value since deleted); nothing is concluded from a bound
/// being reached, so nothing asks whether they are exact. Whatever is not known is `None`, which is always right.
pub trait ColumnStatistics {
    /// How many rows there are.
    fn row_count(&self) -> u64;

    /// A value that no non-null value of the column is less than, as an array of one row of the column's type (of the
    /// value type for a dictionary). NaN is left out of account; -0.0 equals 0.0.
    fn min(&self, column: &ColumnPath) -> Option<ArrayRef>;

    /// A value that no non-null value of the column is greater than; else as [`ColumnStatistics::min`].
    fn max(&self, column: &ColumnPath) -> Option<ArrayRef>;

    /// How many rows of the column read as null; for a field of a struct this includes the rows whose struct is null.
    fn null_count(&self, column: &ColumnPath) -> Option<u64>;

    /// Whether a floating column may hold NaN. Lance statistics leave NaN out, so unless its absence is known this is
    /// `true`, as by default.
    fn nan_possible(&self, column: &ColumnPath) -> bool {
        let _ = column;
        true
    }
}

/// What is known of a predicate for all rows at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// No row matches; the rows need not be read.
    AlwaysFalse,
    /// Every row matches; the predicate need not be evaluated.
    AlwaysTrue,
    /// Rows must be looked at.
    Unknown,
}

/// Decides a predicate by statistics, if they suffice.
///
/// Conservative: [`Truth::Unknown`] whenever in doubt. Evaluation of rows that are dropped could have failed (an overflow
/// in another term); dropping them is an answer all the same.
pub fn prune(predicate: &BoundExpr, statistics: &dyn ColumnStatistics) -> Truth {
    let answers = answers(&predicate.root, statistics);
    if statistics.row_count() == 0 || !answers.can_be_true {
        Truth::AlwaysFalse
    } else if !answers.can_be_false && !answers.can_be_null {
        Truth::AlwaysTrue
    } else {
        Truth::Unknown
    }
}

/// The answers that rows may give.
#[derive(Debug, Clone, Copy)]
struct Answers {
    can_be_true: bool,
    can_be_false: bool,
    can_be_null: bool,
}

impl Answers {
    const UNKNOWN: Self = Self {
        can_be_true: true,
        can_be_false: true,
        can_be_null: true,
    };

    fn always(answer: Option<bool>) -> Self {
        Self {
            can_be_true: answer == Some(true),
            can_be_false: answer == Some(false),
            can_be_null: answer.is_none(),
        }
    }

    fn not(self) -> Self {
        Self {
            can_be_true: self.can_be_false,
            can_be_false: self.can_be_true,
            ..self
        }
    }

    /// `AND` of independent answers: false if any is, null if any is and none is false.
    fn and(self, other: Self) -> Self {
        let not_false = |one: Self| one.can_be_true || one.can_be_null;
        Self {
            can_be_true: self.can_be_true && other.can_be_true,
            can_be_false: self.can_be_false || other.can_be_false,
            can_be_null: (self.can_be_null && not_false(other))
                || (other.can_be_null && not_false(self)),
        }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    /// Answers about a value, given the answers about values that are not null.
    fn of(range: &Range, about_values: impl FnOnce() -> (bool, bool)) -> Self {
        let (can_be_true, can_be_false) = if range.can_be_valid {
            about_values()
        } else {
            (false, false)
        };
        Self {
            can_be_true,
            can_be_false,
            can_be_null: range.can_be_null,
        }
    }
}

fn answers(typed: &Typed, statistics: &dyn ColumnStatistics) -> Answers {
    match &typed.node {
        Bound::Literal(_, array) => match array.as_boolean_opt() {
            Some(value) if value.len() == 1 => {
                Answers::always(value.is_valid(0).then(|| value.value(0)))
            }
            _ if array.logical_null_count() == array.len() => Answers::always(None),
            _ => Answers::UNKNOWN,
        },
        Bound::And(terms) => terms
            .iter()
            .map(|term| answers(term, statistics))
            .fold(Answers::always(Some(true)), Answers::and),
        Bound::Or(terms) => terms
            .iter()
            .map(|term| answers(term, statistics))
            .fold(Answers::always(Some(false)), Answers::or),
        Bound::Not(inner) => answers(inner, statistics).not(),
        Bound::IsNull(operand) => {
            let range = Range::of(operand, statistics);
            Answers {
                can_be_true: range.can_be_null,
                can_be_false: range.can_be_valid,
                can_be_null: false,
            }
        }
        Bound::IfValid(truth, operand) => {
            let range = Range::of(operand, statistics);
            Answers::of(&range, || (*truth, !*truth))
        }
        Bound::Compare(op, left, right) => {
            let (left, right) = (Range::of(left, statistics), Range::of(right, statistics));
            let mut answers = compare_ranges(*op, &left, &right);
            let both_valid = left.can_be_valid && right.can_be_valid;
            answers.can_be_true &= both_valid;
            answers.can_be_false &= both_valid;
            answers.can_be_null = left.can_be_null || right.can_be_null;
            answers
        }
        Bound::In(operand, set) => {
            let range = Range::of(operand, statistics);
            let mut answers = Answers::of(&range, || in_set(&range, set));
            if set.has_null() {
                // What is not found is unknown.
                answers.can_be_null |= answers.can_be_false;
                answers.can_be_false = false;
            }
            answers
        }
        Bound::Match(kind, text, needle) => {
            let range = Range::of(text, statistics);
            match &needle.node {
                Bound::Literal(_, needle) => Answers::of(&range, || matches(*kind, &range, needle)),
                _ => Answers::UNKNOWN,
            }
        }
        // A boolean column is its own comparison with true.
        Bound::Column(_) => {
            let range = Range::of(typed, statistics);
            let bound = |bound: &Option<ArrayRef>| {
                bound
                    .as_ref()
                    .and_then(|one| one.as_boolean_opt().map(|one| one.value(0)))
            };
            Answers::of(&range, || {
                (
                    bound(&range.max) != Some(false),
                    bound(&range.min) != Some(true),
                )
            })
        }
        _ => Answers::UNKNOWN,
    }
}

/// Whether `left op right` holds for two single values; `None` if they cannot be compared.
fn holds(op: CompareOp, left: &ArrayRef, right: &ArrayRef) -> Option<bool> {
    if left.data_type() != right.data_type() {
        return None;
    }
    let answer = compare(
        op,
        &Value::array(Arc::clone(left)),
        &Value::scalar(Arc::clone(right)),
    )
    .ok()?;
    (answer.len() == 1 && answer.is_valid(0)).then(|| answer.value(0))
}

/// As [`holds`], of bounds that may be unknown.
fn known(op: CompareOp, left: &Option<ArrayRef>, right: &Option<ArrayRef>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => holds(op, left, right) == Some(true),
        _ => false,
    }
}

/// What a comparison of any value of one range with any of the other may answer; nulls aside.
fn compare_ranges(op: CompareOp, left: &Range, right: &Range) -> Answers {
    use CompareOp::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    // NaN is above every bound.
    let (upper_left, upper_right) = (left.upper(), right.upper());
    let below = known(Lt, &upper_left, &right.min); // every left value is less than every right one
    let above = known(Gt, &left.min, &upper_right);
    let at_most = known(LtEq, &upper_left, &right.min);
    // Apart: NaN on one side alone equals nothing of the other.
    let apart = (known(Lt, &left.max, &right.min) && !(left.can_be_nan && right.may_hold_nan()))
        || (known(Gt, &left.min, &right.max) && !(right.can_be_nan && left.may_hold_nan()));
    let at_least = known(GtEq, &left.min, &upper_right);
    let (never, always) = match op {
        Lt => (at_least, below),
        LtEq => (above, at_most),
        Gt => (at_most, above),
        GtEq => (below, at_least),
        Eq => (apart, at_most && at_least),
        NotEq => (at_most && at_least, apart),
    };
    Answers {
        can_be_true: !never,
        can_be_false: !always,
        can_be_null: true,
    }
}

/// Whether a value of the range may be in the set, and may be outside.
fn in_set(range: &Range, set: &InSet) -> (bool, bool) {
    let values = set.values();
    let upper = range.upper();
    let all = Value::array(Arc::clone(values));
    // Whether each value is on the inner side of a bound; an unknown bound lets all in.
    let inside = |op: CompareOp, bound: &Option<ArrayRef>| {
        let bound = bound
            .as_ref()
            .filter(|bound| bound.data_type() == values.data_type());
        bound.and_then(|bound| compare(op, &all, &Value::scalar(Arc::clone(bound))).ok())
    };
    let above = inside(CompareOp::GtEq, &range.min);
    let below = inside(CompareOp::LtEq, &range.max);
    let within = match (&above, &below) {
        (Some(above), Some(below)) => (above.values() & below.values()).count_set_bits() > 0,
        (Some(one), None) | (None, Some(one)) => one.true_count() > 0,
        (None, None) => !values.is_empty(),
    };
    // Arrow sorts NaN to either end.
    let ends = [0, values.len().saturating_sub(1)];
    let holds_nan =
        !values.is_empty() && ends.iter().any(|end| range::is_nan(&values.slice(*end, 1)));
    let can_be_in = within || (range.can_be_nan && holds_nan);
    // All rows hold one value, and that one is in the set.
    let single = match (&range.min, &upper) {
        (Some(min), Some(max)) => {
            holds(CompareOp::Eq, min, max) == Some(true)
                && set
                    .contains(min)
                    .is_ok_and(|found| found.len() == 1 && found.value(0))
        }
        _ => false,
    };
    (can_be_in, !single)
}

/// Whether a string of the range may match, and may not.
fn matches(kind: Match, range: &Range, needle: &ArrayRef) -> (bool, bool) {
    let Some(needle) = text(needle) else {
        return (true, true);
    };
    let prefix = match kind {
        Match::StartsWith => needle.clone(),
        Match::Like => literal_prefix(&needle),
        _ => return (true, true),
    };
    let min = range.min.as_ref().and_then(text);
    let max = range.max.as_ref().and_then(text);
    // Strings with the prefix are neighbours in byte order, the prefix itself first.
    let below = max.as_ref().is_some_and(|max| *max < prefix);
    let above = min
        .as_ref()
        .is_some_and(|min| *min > prefix && !min.starts_with(&prefix));
    let all = kind == Match::StartsWith
        && min.is_some_and(|min| min.starts_with(&prefix))
        && max.is_some_and(|max| max.starts_with(&prefix));
    (!below && !above, !all)
}

/// The characters of an escaped pattern before its first wild card.
fn literal_prefix(pattern: &str) -> String {
    let mut prefix = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' | '_' => break,
            '\\' => prefix.extend(chars.next()),
            c => prefix.push(c),
        }
    }
    prefix
}

fn text(array: &ArrayRef) -> Option<String> {
    match crate::bind::scalar_at(array)? {
        crate::Scalar::String(text) => Some(text),
        _ => None,
    }
}
