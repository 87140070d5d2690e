//! Every tree is written as text that reads back to the same tree.

use arrow_schema::{DataType, TimeUnit};
use pilum_expr::{
    ArithmeticOp, ColumnPath, CompareOp, Expr, Function, Scalar, bind, call, coalesce, evaluate,
    lit, parse_sql,
};
use proptest::prelude::*;

use crate::rows::{batch, row, schema};

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        Just(Scalar::Null),
        any::<bool>().prop_map(Scalar::Boolean),
        any::<i128>().prop_map(Scalar::Integer),
        (-20..20_i128).prop_map(Scalar::Integer),
        (any::<i64>(), 0..30_u8).prop_map(|(unscaled, scale)| Scalar::Decimal {
            unscaled: unscaled.into(),
            scale
        }),
        "-?[1-9][0-9]{38,60}(\\.[0-9]{1,15})?"
            .prop_map(|digits| Scalar::from_digits(&digits).unwrap()),
        any::<f64>().prop_map(Scalar::Float),
        prop::sample::select(vec![
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            5e-324
        ])
        .prop_map(Scalar::Float),
        any::<String>().prop_map(Scalar::String),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(Scalar::Binary),
        any::<i32>().prop_map(Scalar::Date),
        (0..86_400_000_000_000_i64).prop_map(Scalar::Time),
        (
            any::<i64>(),
            any::<bool>(),
            prop::sample::select(vec![1_i128, 1000, 1_000_000_000])
        )
            .prop_map(|(raw, zoned, step)| Scalar::Timestamp {
                nanos: i128::from(raw) * step,
                zoned
            }),
        (any::<i32>(), any::<i32>(), any::<i64>()).prop_map(|(months, days, nanos)| {
            Scalar::Interval {
                months,
                days,
                nanos,
            }
        }),
    ]
}

fn leaf() -> impl Strategy<Value = Expr> {
    prop_oneof![
        scalar().prop_map(lit),
        prop::collection::vec(
            prop_oneof![
                "[a-z_]{1,5}",
                prop::sample::select(vec![
                    "select", "date", "and", "a b", "q\"q", "ä", "", "x.y", "End", "null", "`"
                ])
                .prop_map(str::to_owned),
            ],
            1..3
        )
        .prop_map(|names| Expr::column(ColumnPath::new(names))),
    ]
}

/// Columns that exist, so that binding gets past the names.
fn known_leaf() -> impl Strategy<Value = Expr> {
    let names = vec![
        "a", "b", "u", "f", "g", "m", "x", "x.y", "s", "d", "k", "day", "ts",
    ];
    prop_oneof![
        2 => prop::sample::select(names).prop_map(pilum_expr::col),
        1 => scalar().prop_map(lit),
    ]
}

fn data_type() -> impl Strategy<Value = DataType> {
    use DataType::{
        Binary, Boolean, Date32, Date64, Decimal128, Float16, Float32, Float64, Int8, Int32, Int64,
        LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt16, UInt64, Utf8,
    };
    prop::sample::select(vec![
        Boolean,
        Int8,
        Int32,
        Int64,
        UInt16,
        UInt64,
        Float16,
        Float32,
        Float64,
        Decimal128(38, 2),
        Decimal128(5, 5),
        Utf8,
        LargeUtf8,
        Binary,
        LargeBinary,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
    ])
}

fn expr(leaf: impl Strategy<Value = Expr> + 'static) -> impl Strategy<Value = Expr> {
    leaf.prop_recursive(5, 40, 4, |inner| {
        let op = prop::sample::select(vec![
            CompareOp::Eq,
            CompareOp::NotEq,
            CompareOp::Lt,
            CompareOp::LtEq,
            CompareOp::Gt,
            CompareOp::GtEq,
        ]);
        let arithmetic = prop::sample::select(vec![
            ArithmeticOp::Add,
            ArithmeticOp::Subtract,
            ArithmeticOp::Multiply,
            ArithmeticOp::Divide,
            ArithmeticOp::IntegerDivide,
            ArithmeticOp::Modulo,
        ]);
        let function = prop::sample::select(vec![
            Function::Length,
            Function::Lower,
            Function::Upper,
            Function::Abs,
            Function::Year,
            Function::Month,
            Function::Day,
            Function::Hour,
            Function::Minute,
            Function::Second,
        ]);
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (op.clone(), two.clone()).prop_map(|(op, (l, r))| l.compare(op, r)),
            (op, two.clone()).prop_map(|(op, (l, r))| l.compare(op, r).ieee()),
            (arithmetic, two.clone()).prop_map(|(op, (l, r))| l.arithmetic(op, r)),
            two.clone()
                .prop_map(|(l, r)| call(Function::Divide, vec![l, r])),
            two.clone().prop_map(|(l, r)| l.and(r)),
            two.clone().prop_map(|(l, r)| l.or(r)),
            inner.clone().prop_map(Expr::not),
            inner.clone().prop_map(Expr::neg),
            inner.clone().prop_map(Expr::is_null),
            inner.clone().prop_map(Expr::is_not_null),
            (inner.clone(), prop::collection::vec(inner.clone(), 0..4))
                .prop_map(|(o, list)| o.is_in(list)),
            (inner.clone(), two.clone()).prop_map(|(o, (l, h))| o.between(l, h)),
            (two.clone(), any::<Option<char>>(), any::<bool>())
                .prop_map(|((l, p), escape, ignore_case)| l.like_with(p, escape, ignore_case)),
            (inner.clone(), data_type()).prop_map(|(o, data_type)| o.cast(data_type)),
            (
                prop::option::of(inner.clone()),
                prop::collection::vec(two.clone(), 1..3),
                prop::option::of(inner.clone())
            )
                .prop_map(|(operand, branches, otherwise)| Expr::case(
                    operand, branches, otherwise
                )),
            prop::collection::vec(inner.clone(), 1..4).prop_map(coalesce),
            two.clone().prop_map(|(l, r)| l.is_distinct_from(r)),
            (inner.clone(), data_type()).prop_map(|(o, data_type)| o.try_cast(data_type)),
            (inner.clone(), any::<bool>()).prop_map(|(o, truth)| o.is_truth(truth)),
            (function, inner.clone()).prop_map(|(function, one)| call(function, vec![one])),
            two.clone().prop_map(|(l, r)| l.contains(r)),
            (several(), prop::collection::vec(inner, 3)).prop_map(|(function, mut arguments)| {
                arguments.truncate(match function {
                    Function::Replace | Function::Concat => 3,
                    Function::Floor | Function::Ceil | Function::IsNan | Function::IsInf => 1,
                    _ => 2,
                });
                call(function, arguments)
            }),
        ]
    })
}

fn several() -> impl Strategy<Value = Function> {
    prop::sample::select(vec![
        Function::Append,
        Function::Concat,
        Function::Substring,
        Function::Trim,
        Function::LTrim,
        Function::RTrim,
        Function::Replace,
        Function::Position,
        Function::RegexpMatches,
        Function::SimilarTo,
        Function::Round,
        Function::Floor,
        Function::Ceil,
        Function::Trunc,
        Function::IsNan,
        Function::IsInf,
        Function::DateTrunc,
        Function::DatePart,
        Function::ListContains,
        Function::Element,
        Function::Item,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn text_reads_back_to_the_same_tree(expr in expr(leaf())) {
        let text = expr.to_string();
        let again = parse_sql(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(&again, &expr, "{}", text);
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn scalars_read_back(scalar in scalar()) {
        let text = scalar.to_string();
        prop_assert_eq!(parse_sql(&text).unwrap(), lit(scalar), "{}", text);
    }

    #[test]
    fn any_tree_binds_and_evaluates_without_panic(
        expr in expr(known_leaf()),
        rows in prop::collection::vec(row(), 0..5),
    ) {
        if let Ok(bound) = bind(&expr, &schema()) {
            let batch = batch(&rows);
            if let Ok(array) = evaluate(&bound, &batch) {
                prop_assert_eq!(array.len(), rows.len());
                prop_assert_eq!(array.data_type(), bound.data_type(), "{}", expr);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_message_reads_back_to_the_same_tree(expr in expr(leaf())) {
        if let Ok(message) = expr.to_message() {
            prop_assert_eq!(Expr::from_message(&message).unwrap(), expr);
        }
    }
}
