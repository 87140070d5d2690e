//! Decides a predicate for a set of rows from their statistics alone.
//!
//! For each condition this module computes the set of answers that its rows may give: true, false, null. `AND`, `OR` and
//! `NOT` combine these sets by three-valued logic; a condition that statistics do not decide may give all three. No row
//! matches if true is not in the set; every row matches if true is the only member.

mod range;
mod statistics;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray};

use crate::{
    bound::{Bound, BoundExpr, Typed},
    expr::CompareOp,
    kernel::{compare::compare, in_set::InSet, pattern::Match, value::Value},
    place::scalar_at,
    scalar::Scalar,
};
use range::{Range, holds, is_nan};
pub use statistics::ColumnStatistics;

/// What statistics tell about a predicate for all rows of a set.
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
/// Conservative: [`Truth::Unknown`] unless the statistics prove more. Rows that are dropped are not evaluated, so an error
/// that their evaluation would have raised (an overflow in another term) is not raised.
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

/// The set of answers that rows may give.
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
                // With null in the list, a value that is not found gives null.
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
    // NaN is greater than every maximum, which leaves NaN out.
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
    let holds_nan = !values.is_empty() && ends.iter().any(|end| is_nan(&values.slice(*end, 1)));
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
    // In byte order all strings with the prefix are adjacent, and the prefix itself is the first.
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
    match scalar_at(array)? {
        Scalar::String(text) => Some(text),
        _ => None,
    }
}
