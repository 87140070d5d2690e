//! Random rows, random conditions, and a row by row reading of both that shares no code with the crate.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray, UInt64Array, types::Int8Type,
};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use pilum_expr::{CompareOp, Expr, Function, Scalar, call, col, lit};
use proptest::prelude::*;

/// One row; every column may be null.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) a: Option<i32>,
    pub(crate) b: Option<i64>,
    pub(crate) u: Option<u64>,
    pub(crate) f: Option<f64>,
    pub(crate) g: Option<f32>,
    /// In hundredths.
    pub(crate) m: Option<i64>,
    /// A struct, null or with a field that may be.
    pub(crate) x: Option<Option<i64>>,
    pub(crate) s: Option<&'static str>,
    pub(crate) d: Option<&'static str>,
    pub(crate) k: Option<bool>,
    pub(crate) day: Option<i32>,
    pub(crate) ts: Option<i64>,
}

pub(crate) const TEXTS: [&str; 10] = ["", "a", "ab", "abc", "b", "a%b", "a_", "ä", "A\nb", "zzz"];
const DAY_MICROS: i64 = 86_400_000_000;

fn f64s() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-20..20_i32).prop_map(|quarters| f64::from(quarters) / 4.0),
        1 => prop::sample::select(vec![
            f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 9_007_199_254_740_992.0,
            9_007_199_254_740_994.0, 9_223_372_036_854_775_808.0, -9_223_372_036_854_775_808.0,
        ]),
    ]
}

fn i64s() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -6..6_i64,
        1 => prop::sample::select(vec![i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1, i64::MAX - 1]),
    ]
}

fn u64s() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..6_u64,
        1 => prop::sample::select(vec![u64::MAX, 1 << 63, (1 << 53) + 1, i64::MAX as u64]),
    ]
}

fn opt<T: Clone + std::fmt::Debug + 'static>(
    values: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Option<T>> {
    prop::option::weighted(0.8, values).boxed()
}

fn text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(TEXTS.to_vec())
}

pub(crate) fn row() -> impl Strategy<Value = Row> {
    let numbers = (
        opt(-6..6_i32),
        opt(i64s()),
        opt(u64s()),
        opt(f64s()),
        opt(f64s()),
        opt(-600..600_i64),
    );
    let others = (
        prop::option::weighted(0.8, opt(-6..6_i64)),
        opt(text()),
        opt(text()),
        opt(any::<bool>()),
        opt(-3..3_i32),
        opt((-3..3_i64, prop::sample::select(vec![0, 1, 3_600_000_000]))),
    );
    (numbers, others).prop_map(|((a, b, u, f, g, m), (x, s, d, k, day, ts))| Row {
        a,
        b,
        u,
        f,
        g: g.map(|g| g as f32),
        m: m.map(|m| m * 25),
        x,
        s,
        d,
        k,
        day,
        ts: ts.map(|(days, rest)| days * DAY_MICROS + rest),
    })
}

pub(crate) fn schema() -> Schema {
    let inner = Fields::from(vec![Field::new("y", DataType::Int64, true)]);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Int64, true),
        Field::new("u", DataType::UInt64, true),
        Field::new("f", DataType::Float64, true),
        Field::new("g", DataType::Float32, true),
        Field::new("m", DataType::Decimal128(12, 2), true),
        Field::new("x", DataType::Struct(inner), true),
        Field::new("s", DataType::Utf8, true),
        Field::new("d", dictionary, true),
        Field::new("k", DataType::Boolean, true),
        Field::new("day", DataType::Date32, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), true),
    ])
}

/// The rows as a batch that is a slice of a longer one, so that offsets are not zero.
pub(crate) fn batch(rows: &[Row]) -> RecordBatch {
    let spare = Row {
        a: Some(1),
        b: None,
        u: Some(7),
        f: Some(0.5),
        g: None,
        m: None,
        x: Some(Some(1)),
        s: Some("spare"),
        d: Some("other"),
        k: Some(true),
        day: None,
        ts: Some(5),
    };
    let rows: Vec<&Row> = std::iter::once(&spare).chain(rows).collect();
    fn each<'a, T, A: FromIterator<T> + Array + 'static>(
        rows: &[&'a Row],
        get: impl Fn(&'a Row) -> T,
    ) -> ArrayRef {
        Arc::new(rows.iter().map(|row| get(row)).collect::<A>())
    }
    let y: ArrayRef = each::<_, Int64Array>(&rows, |row| match row.x {
        // Under a null struct lies a value that must not be seen.
        None => Some(3),
        Some(y) => y,
    });
    let schema = Arc::new(schema());
    let DataType::Struct(inner) = schema.field(6).data_type().clone() else {
        unreachable!()
    };
    let valid = rows.iter().map(|row| row.x.is_some()).collect::<Vec<_>>();
    let m: Decimal128Array = rows.iter().map(|row| row.m.map(i128::from)).collect();
    let columns: Vec<ArrayRef> = vec![
        each::<_, Int32Array>(&rows, |row| row.a),
        each::<_, Int64Array>(&rows, |row| row.b),
        each::<_, UInt64Array>(&rows, |row| row.u),
        each::<_, Float64Array>(&rows, |row| row.f),
        each::<_, Float32Array>(&rows, |row| row.g),
        Arc::new(m.with_precision_and_scale(12, 2).unwrap()),
        Arc::new(StructArray::new(inner, vec![y], Some(valid.into()))),
        each::<_, StringArray>(&rows, |row| row.s),
        each::<_, DictionaryArray<Int8Type>>(&rows, |row| row.d),
        each::<_, BooleanArray>(&rows, |row| row.k),
        each::<_, Date32Array>(&rows, |row| row.day),
        each::<_, TimestampMicrosecondArray>(&rows, |row| row.ts),
    ];
    RecordBatch::try_new(schema, columns)
        .unwrap()
        .slice(1, rows.len() - 1)
}

/// A value of a row as the test sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Seen {
    /// In steps of 1/100, with NaN and the infinities around them.
    Number(f64, i128),
    Text(&'static str),
    Micros(i64),
}

/// Every finite number of these tests is a multiple of a hundredth.
fn float(value: f64) -> Seen {
    Seen::Number(
        value,
        if value.is_finite() {
            (value * 4.0) as i128 * 25
        } else {
            0
        },
    )
}

fn whole(value: i128) -> Seen {
    Seen::Number(0.0, value * 100)
}

fn order(left: Seen, right: Seen) -> Ordering {
    match (left, right) {
        (Seen::Number(l, left), Seen::Number(r, right)) => {
            let rank = |v: f64| match v {
                v if v.is_nan() => 3,
                f64::INFINITY => 2,
                f64::NEG_INFINITY => 0,
                _ => 1,
            };
            rank(l).cmp(&rank(r)).then(left.cmp(&right))
        }
        (Seen::Text(left), Seen::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Seen::Micros(left), Seen::Micros(right)) => left.cmp(&right),
        _ => panic!("the generator mixed kinds"),
    }
}

/// An operand: how it is written and how it is read.
#[derive(Debug, Clone)]
pub(crate) enum Operand {
    Column(&'static str),
    Integer(i128),
    /// In hundredths.
    Decimal(i128),
    Float(f64),
    Text(&'static str),
    Micros(i64),
    Day(i32),
    /// `a * factor + term`
    Linear(i64, i64),
    /// `-a`
    Negated,
    /// `ABS(a)`
    Absolute,
    /// `a % divisor`
    Modulo(i64),
    /// `COALESCE(b, a, 0)`
    Coalesced,
    /// `LENGTH(s)`
    Length,
    /// `CASE WHEN k THEN a ELSE m END`
    Chosen,
    /// `CAST(a AS BIGINT)`
    Wide,
    /// `DATE + INTERVAL`
    NextDay,
    /// `TRUNC(m)`
    Truncated,
    /// `FLOOR(f)`
    Floor,
    /// `DATE_TRUNC('day', ts)`
    StartOfDay,
    /// `DATE_PART('dow', ts)`
    Weekday,
    /// `STRPOS(s, 'b')`
    Position,
    /// `SUBSTRING(s, 1, 1)`
    First,
}

impl Operand {
    pub(crate) fn expr(&self) -> Expr {
        match self {
            Self::Column(name) => col(*name),
            Self::Integer(value) => lit(Scalar::Integer(*value)),
            Self::Decimal(hundredths) => lit(Scalar::Decimal {
                unscaled: *hundredths,
                scale: 2,
            }),
            Self::Float(value) => lit(*value),
            Self::Text(text) => lit(*text),
            Self::Micros(micros) => lit(Scalar::Timestamp {
                nanos: i128::from(*micros) * 1000,
                zoned: false,
            }),
            Self::Day(days) => lit(Scalar::Date(*days)),
            Self::Linear(factor, term) => col("a").mul(lit(*factor)).add(lit(*term)),
            Self::Negated => col("a").neg(),
            Self::Absolute => col("a").abs(),
            Self::Modulo(divisor) => col("a").rem(lit(*divisor)),
            Self::Coalesced => pilum_expr::coalesce(vec![col("b"), col("a"), lit(0)]),
            Self::Length => col("s").length(),
            Self::Chosen => pilum_expr::case_when(vec![(col("k"), col("a"))], Some(col("m"))),
            Self::Wide => col("a").cast(DataType::Int64),
            Self::NextDay => col("day").add(lit(Scalar::Interval {
                months: 0,
                days: 1,
                nanos: 0,
            })),
            Self::Truncated => call(Function::Trunc, vec![col("m")]),
            Self::Floor => call(Function::Floor, vec![col("f")]),
            Self::StartOfDay => call(Function::DateTrunc, vec![lit("day"), col("ts")]),
            Self::Weekday => call(Function::DatePart, vec![lit("dow"), col("ts")]),
            Self::Position => call(Function::Position, vec![col("s"), lit("b")]),
            Self::First => call(Function::Substring, vec![col("s"), lit(1), lit(1)]),
        }
    }

    fn read(&self, row: &Row) -> Option<Seen> {
        let a = row.a.map(i128::from);
        let hundredths = |value: i128| Seen::Number(0.0, value);
        Some(match self {
            Self::Column(name) => match *name {
                "a" => whole(a?),
                "b" => whole(row.b?.into()),
                "u" => whole(row.u?.into()),
                "f" => float(row.f?),
                "g" => float(row.g?.into()),
                "m" => hundredths(row.m?.into()),
                "x.y" => whole(row.x??.into()),
                "s" => Seen::Text(row.s?),
                "d" => Seen::Text(row.d?),
                "day" => Seen::Micros(i64::from(row.day?) * DAY_MICROS),
                "ts" => Seen::Micros(row.ts?),
                other => panic!("no column {other}"),
            },
            Self::Integer(value) => whole(*value),
            Self::Decimal(value) => hundredths(*value),
            Self::Float(value) => float(*value),
            Self::Text(text) => Seen::Text(text),
            Self::Micros(micros) => Seen::Micros(*micros),
            Self::Day(days) => Seen::Micros(i64::from(*days) * DAY_MICROS),
            Self::Linear(factor, term) => whole(a? * i128::from(*factor) + i128::from(*term)),
            Self::Negated => whole(-a?),
            Self::Absolute => whole(a?.abs()),
            Self::Modulo(0) => return None,
            Self::Modulo(divisor) => whole(a? % i128::from(*divisor)),
            Self::Coalesced => whole(row.b.map(i128::from).or(a).unwrap_or(0)),
            Self::Length => whole(row.s?.chars().count() as i128),
            Self::Chosen if row.k == Some(true) => whole(a?),
            Self::Chosen => hundredths(row.m?.into()),
            Self::Wide => whole(a?),
            Self::NextDay => Seen::Micros((i64::from(row.day?) + 1) * DAY_MICROS),
            Self::Truncated => hundredths(i128::from(row.m? / 100 * 100)),
            Self::Floor => float(row.f?.floor()),
            Self::StartOfDay => Seen::Micros(row.ts?.div_euclid(DAY_MICROS) * DAY_MICROS),
            Self::Weekday => whole((row.ts?.div_euclid(DAY_MICROS) + 4).rem_euclid(7).into()),
            Self::Position => {
                let at = row.s?.chars().position(|c| c == 'b');
                whole(at.map_or(0, |at| at as i128 + 1))
            }
            Self::First => {
                let text = row.s?;
                Seen::Text(text.chars().next().map_or("", |c| &text[..c.len_utf8()]))
            }
        })
    }
}

/// A condition: how it is written and how it is read.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    Literal(Option<bool>),
    Flag,
    Compare(CompareOp, Operand, Operand),
    In(Operand, Vec<Operand>, bool),
    Between(Operand, Operand, Operand),
    IsNull(Operand),
    Like(&'static str, String, bool),
    StartsWith(&'static str, &'static str),
    /// A regular expression that is found in the text, or (`SIMILAR TO`) is the whole text.
    Regular(&'static str, bool),
    /// `ISNAN(f)`
    IsNan,
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

impl Condition {
    pub(crate) fn expr(&self) -> Expr {
        match self {
            Self::Literal(value) => lit(*value),
            Self::Flag => col("k"),
            Self::Compare(op, left, right) => left.expr().compare(*op, right.expr()),
            Self::In(operand, items, has_null) => {
                let mut items: Vec<Expr> = items.iter().map(Operand::expr).collect();
                if *has_null {
                    items.push(lit(Scalar::Null));
                }
                operand.expr().is_in(items)
            }
            Self::Between(operand, low, high) => operand.expr().between(low.expr(), high.expr()),
            Self::IsNull(operand) => operand.expr().is_null(),
            Self::Like(column, pattern, ignore_case) => {
                col(*column).like_with(lit(pattern.as_str()), Some('!'), *ignore_case)
            }
            Self::StartsWith(column, prefix) => col(*column).starts_with(lit(*prefix)),
            Self::Regular(column, whole) => {
                let function = if *whole {
                    Function::SimilarTo
                } else {
                    Function::RegexpMatches
                };
                call(function, vec![col(*column), lit("a.?")])
            }
            Self::IsNan => call(Function::IsNan, vec![col("f")]),
            Self::Not(inner) => inner.expr().not(),
            Self::And(terms) => Expr::all(terms.iter().map(Self::expr)).unwrap(),
            Self::Or(terms) => Expr::any(terms.iter().map(Self::expr)).unwrap(),
        }
    }

    pub(crate) fn read(&self, row: &Row) -> Option<bool> {
        match self {
            Self::Literal(value) => *value,
            Self::Flag => row.k,
            Self::Compare(op, left, right) => compare(*op, left.read(row), right.read(row)),
            Self::In(operand, items, has_null) => {
                if items.is_empty() && !has_null {
                    return Some(false);
                }
                let operand = operand.read(row);
                let found = items
                    .iter()
                    .map(|item| compare(CompareOp::Eq, operand, item.read(row)));
                any_of(found.chain(has_null.then_some(None)))
            }
            Self::Between(operand, low, high) => {
                let value = operand.read(row);
                all_of(
                    [
                        compare(CompareOp::GtEq, value, low.read(row)),
                        compare(CompareOp::LtEq, value, high.read(row)),
                    ]
                    .into_iter(),
                )
            }
            Self::IsNull(operand) => Some(operand.read(row).is_none()),
            Self::Like(column, pattern, ignore_case) => {
                let text = if *column == "s" { row.s } else { row.d }?;
                let fold = |text: &str| {
                    if *ignore_case {
                        text.to_lowercase()
                    } else {
                        text.to_owned()
                    }
                };
                let text: Vec<char> = fold(text).chars().collect();
                let pattern: Vec<char> = fold(pattern).chars().collect();
                Some(like(&text, &pattern))
            }
            Self::StartsWith(column, prefix) => {
                Some(if *column == "s" { row.s } else { row.d }?.starts_with(prefix))
            }
            Self::Regular(column, whole) => {
                let text = if *column == "s" { row.s } else { row.d }?;
                let mut chars = text.chars();
                let is_whole = chars.next() == Some('a')
                    && chars.next().is_none_or(|second| second != '\n')
                    && chars.next().is_none();
                Some(if *whole { is_whole } else { text.contains('a') })
            }
            Self::IsNan => Some(row.f?.is_nan()),
            Self::Not(inner) => inner.read(row).map(|answer| !answer),
            Self::And(terms) => all_of(terms.iter().map(|term| term.read(row))),
            Self::Or(terms) => any_of(terms.iter().map(|term| term.read(row))),
        }
    }
}

fn any_of(mut answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    answers
        .try_fold(Some(false), |so_far, next| match next {
            Some(true) => Err(Some(true)),
            None => Ok(None),
            Some(false) => Ok(so_far),
        })
        .unwrap_or_else(|decided| decided)
}

fn all_of(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    any_of(answers.map(|answer| answer.map(|one| !one))).map(|one| !one)
}

fn compare(op: CompareOp, left: Option<Seen>, right: Option<Seen>) -> Option<bool> {
    let ordering = order(left?, right?);
    Some(match op {
        CompareOp::Eq => ordering.is_eq(),
        CompareOp::NotEq => ordering.is_ne(),
        CompareOp::Lt => ordering.is_lt(),
        CompareOp::LtEq => ordering.is_le(),
        CompareOp::Gt => ordering.is_gt(),
        CompareOp::GtEq => ordering.is_ge(),
    })
}

/// `!` escapes.
fn like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|skipped| like(&text[skipped..], rest)),
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest),
        ['!', c, rest @ ..] | [c, rest @ ..] => text.first() == Some(c) && like(&text[1..], rest),
    }
}

fn number() -> impl Strategy<Value = Operand> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "u", "f", "g", "m", "x.y"]).prop_map(Operand::Column),
        2 => number_literal(),
        1 => (-3..4_i64, -9..9_i64).prop_map(|(factor, term)| Operand::Linear(factor, term)),
        1 => (-3..4_i64).prop_map(Operand::Modulo),
        1 => prop::sample::select(vec![
            Operand::Negated, Operand::Absolute, Operand::Coalesced, Operand::Length, Operand::Chosen, Operand::Wide,
            Operand::Truncated, Operand::Floor, Operand::Weekday, Operand::Position,
        ]),
    ]
}

fn number_literal() -> impl Strategy<Value = Operand> {
    prop_oneof![
        (-7..7_i128).prop_map(Operand::Integer),
        prop::sample::select(vec![
            i128::from(i64::MAX),
            i128::from(i64::MIN),
            i128::from(u64::MAX),
            1 << 53,
            (1 << 53) + 1,
            1 << 64,
            1 << 80,
            -(1 << 80),
            i128::from(i32::MAX) + 1,
        ])
        .prop_map(Operand::Integer),
        (-25..25_i128).prop_map(|quarters| Operand::Decimal(quarters * 25)),
        f64s().prop_map(Operand::Float),
    ]
}

fn moment() -> impl Strategy<Value = Operand> {
    prop_oneof![
        Just(Operand::Column("day")),
        Just(Operand::Column("ts")),
        Just(Operand::NextDay),
        Just(Operand::StartOfDay),
        (-3..3_i32).prop_map(Operand::Day),
        (-3..3_i64, prop::sample::select(vec![0, 1, -1]))
            .prop_map(|(d, r)| Operand::Micros(d * DAY_MICROS + r)),
    ]
}

fn words() -> impl Strategy<Value = Operand> {
    prop_oneof![
        Just(Operand::Column("s")),
        Just(Operand::Column("d")),
        Just(Operand::First),
        text().prop_map(Operand::Text),
    ]
}

fn op() -> impl Strategy<Value = CompareOp> {
    use CompareOp::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    prop::sample::select(vec![Eq, NotEq, Lt, LtEq, Gt, GtEq])
}

fn like_pattern() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "%", "_", "!%", "!_", "ä", "%"]),
        0..4,
    )
    .prop_map(|pieces| pieces.concat())
}

pub(crate) fn condition() -> impl Strategy<Value = Condition> {
    let string_column = || prop::sample::select(vec!["s", "d"]);
    let leaf = prop_oneof![
        1 => any::<Option<bool>>().prop_map(Condition::Literal),
        1 => Just(Condition::Flag),
        6 => (op(), number(), number()).prop_map(|(op, l, r)| Condition::Compare(op, l, r)),
        2 => (op(), moment(), moment()).prop_map(|(op, l, r)| Condition::Compare(op, l, r)),
        2 => (op(), words(), words()).prop_map(|(op, l, r)| Condition::Compare(op, l, r)),
        2 => (number(), prop::collection::vec(number_literal(), 0..9), any::<bool>())
            .prop_map(|(o, items, null)| Condition::In(o, items, null)),
        1 => (number(), prop::collection::vec(number(), 0..3), any::<bool>())
            .prop_map(|(o, items, null)| Condition::In(o, items, null)),
        2 => (words(), prop::collection::vec(text().prop_map(Operand::Text), 0..9), any::<bool>())
            .prop_map(|(o, items, null)| Condition::In(o, items, null)),
        1 => (number(), number(), number()).prop_map(|(o, l, h)| Condition::Between(o, l, h)),
        1 => (moment(), moment(), moment()).prop_map(|(o, l, h)| Condition::Between(o, l, h)),
        1 => prop_oneof![number(), moment(), words()].prop_map(Condition::IsNull),
        2 => (string_column(), like_pattern(), any::<bool>())
            .prop_map(|(c, p, i)| Condition::Like(c, p, i)),
        1 => (string_column(), text()).prop_map(|(c, p)| Condition::StartsWith(c, p)),
        1 => (string_column(), any::<bool>()).prop_map(|(c, w)| Condition::Regular(c, w)),
        1 => Just(Condition::IsNan),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|one| Condition::Not(Box::new(one))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Condition::And),
            prop::collection::vec(inner, 1..4).prop_map(Condition::Or),
        ]
    })
}
