//! Conditions in the bytes that pyarrow makes of them.
//!
//! `tests/substrait/pyarrow.txt` holds, by turns, what pyarrow 26.0.1 serialised (in hexadecimal digits) and what it is
//! here: SQL text, or `!` and the reason why it is refused. The columns are those of [`schema`].

use std::path::Path;

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use pilum_expr::{Error, bind, from_substrait, parse_sql};
use pilum_testing::{Random, Target, damage_message, fuzz};

const MESSAGES: &str = include_str!("../substrait/pyarrow.txt");

fn schema() -> Schema {
    use DataType::{
        Binary, Boolean, Date32, Decimal128, Float32, Float64, Int8, Int32, Int64, LargeUtf8,
        Struct, Time64, Timestamp, UInt8, Utf8,
    };
    let inner = Struct(Fields::from(vec![Field::new("w", Int8, true)]));
    let outer = Struct(Fields::from(vec![
        Field::new("x", Int32, true),
        Field::new("y.z", inner, true),
    ]));
    let item = Struct(Fields::from(vec![Field::new("q", Int8, true)]));
    let list = DataType::new_list(item, true);
    let columns = [
        ("a", Int64),
        ("u", UInt8),
        ("f", Float64),
        ("g", Float32),
        ("s", Utf8),
        ("l", LargeUtf8),
        ("b", Binary),
        ("d", Date32),
        ("ts", Timestamp(TimeUnit::Microsecond, None)),
        ("tn", Timestamp(TimeUnit::Nanosecond, None)),
        (
            "tz",
            Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
        ),
        ("m", Decimal128(10, 2)),
        ("t", Time64(TimeUnit::Microsecond)),
        ("o", Boolean),
        ("n", DataType::Null),
        ("li", list),
        ("st", outer),
    ];
    let fields = columns.map(|(name, data_type)| Field::new(name, data_type, true));
    Schema::new(fields.to_vec())
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The messages of the file with what they mean.
fn messages() -> Vec<(Vec<u8>, &'static str)> {
    let lines: Vec<&str> = MESSAGES.lines().collect();
    lines
        .chunks_exact(2)
        .map(|pair| (bytes_of(pair[0]), pair[1]))
        .collect()
}

fn told(message: &[u8]) -> String {
    match from_substrait(message) {
        Ok(expr) => expr.to_string(),
        Err(Error::Unsupported { feature }) => format!("!{feature}"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_pyarrow_serialises_is_told_in_sql() {
    let messages = messages();
    assert!(messages.len() > 30);
    for (message, expected) in messages {
        let text = told(&message);
        assert_eq!(text, expected);
        if !text.starts_with('!') {
            let expr = parse_sql(&text).unwrap();
            bind(&expr, &schema()).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }
}

/// A field of a message that has a length: its number, the length, the bytes.
fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = match number {
        0..16 => vec![number << 3 | 2],
        // The number takes a second byte.
        _ => vec![(number & 15) << 3 | 2 | 128, number >> 4],
    };
    let mut length = body.len();
    while length >= 128 {
        bytes.push((length % 128) as u8 | 128);
        length /= 128;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(body);
    bytes
}

/// A message around an expression; function 0 has the name.
fn message(name: &str, expression: &[u8]) -> Vec<u8> {
    let function = field(3, &field(3, name.as_bytes()));
    let mut bytes = field(2, &function);
    bytes.extend(field(3, &field(1, expression)));
    bytes
}

/// Function 0 of some arguments.
fn call(arguments: &[&[u8]]) -> Vec<u8> {
    let arguments: Vec<u8> = arguments
        .iter()
        .flat_map(|argument| field(4, &field(3, argument)))
        .collect();
    field(3, &arguments)
}

#[test]
fn nesting_is_limited_and_chains_are_not() {
    let yes = field(1, &[1 << 3, 1]);
    let nested = |depth: usize| {
        let expression = (0..depth).fold(yes.clone(), |inner, _| call(&[&inner]));
        message("not", &expression)
    };
    assert_eq!(told(&nested(2)), "NOT NOT TRUE");
    assert!(from_substrait(&nested(90)).is_ok());
    for depth in [96, 97, 150, 5000] {
        let error = from_substrait(&nested(depth)).unwrap_err();
        assert!(matches!(error, Error::Limit { .. }), "{depth}: {error}");
    }
    // Pairs in pairs, as deep as the chain is long.
    let chain = (0..5000).fold(yes.clone(), |inner, _| call(&[&inner, &yes]));
    let expr = from_substrait(&message("or", &chain)).unwrap();
    assert_eq!(expr.to_string().matches("TRUE").count(), 5001);

    // A reference through structs that are not there, deeper than any message may be.
    let path = (0..5000).fold(field(2, &[]), |inner, _| field(2, &field(2, &inner)));
    let error = from_substrait(&message("not", &field(2, &field(1, &path))));
    assert!(
        matches!(error, Err(Error::InvalidInput { .. })),
        "{error:?}"
    );
}

#[test]
fn what_is_missing_or_too_large_is_named() {
    let error = |bytes: &[u8]| from_substrait(bytes).unwrap_err().to_string();
    assert!(error(&[]).contains("not one expression"));
    assert!(error(&vec![0; (16 << 20) + 1]).contains("exceeds the limit"));
    assert!(error(b"no message").contains("the bytes are none"));
    let undeclared = field(3, &[1 << 3, 7]);
    assert!(error(&message("not", &undeclared)).contains("function number 7 is not declared"));
    let beyond = field(2, &field(1, &field(2, &[1 << 3, 99])));
    assert!(error(&message("not", &beyond)).contains("no field number 99"));
    let unnamed = [
        message("not", &undeclared),
        field(4, &field(2, &field(1, &[]))),
    ]
    .concat();
    assert!(error(&unnamed).contains("not as many names"));
    assert!(error(&message("and", &call(&[]))).contains("a chain of no conditions"));
    assert!(error(&message("equal", &call(&[]))).contains("equal takes not 0 arguments"));
}

#[test]
fn names_inside_lists_may_be_told_or_left_out() {
    // Columns: a list of structs with one field, then `z`. Other writers name that field, pyarrow does not.
    let of_struct = field(25, &field(1, &field(7, &[])));
    let types = [
        field(1, &field(27, &field(1, &of_struct))),
        field(1, &field(7, &[])),
    ]
    .concat();
    let told = |names: &[&str]| {
        let names: Vec<u8> = names
            .iter()
            .flat_map(|it| field(1, it.as_bytes()))
            .collect();
        let second = field(2, &field(1, &field(2, &[1 << 3, 1])));
        let mut bytes = message("is_null", &call(&[&second]));
        bytes.extend(field(4, &[names, field(2, &types)].concat()));
        told(&bytes)
    };
    assert_eq!(told(&["l", "z"]), "z IS NULL");
    assert_eq!(told(&["l", "q", "z"]), "z IS NULL");
}

#[test]
fn a_decimal_has_at_most_38_digits() {
    let told_of = |unscaled: i128| {
        let decimal = [
            field(1, &unscaled.to_le_bytes()),
            vec![2 << 3, 38, 3 << 3, 2],
        ]
        .concat();
        let literal = field(1, &field(24, &decimal));
        told(&message("is_null", &call(&[&literal])))
    };
    let limit = 10_i128.pow(38);
    let nines = format!("{}.99", "9".repeat(36));
    assert_eq!(told_of(limit - 1), format!("{nines} IS NULL"));
    assert_eq!(told_of(1 - limit), format!("-{nines} IS NULL"));
    for wide in [limit, -limit, i128::MAX, i128::MIN] {
        assert!(told_of(wide).contains("more than 38 digits"), "{wide}");
    }
}

/// Some thousands of damaged messages; `make fuzz` feeds them for a minute.
#[test]
fn fuzz_substrait() {
    let damage = |bytes: &mut Vec<u8>, random: &mut Random| {
        for _ in 0..=random.below(2) {
            *bytes = damage_message(bytes, random);
        }
    };
    let decode = |bytes: &[u8], _: &mut Random| {
        let Ok(expr) = from_substrait(bytes) else {
            return false;
        };
        // Whatever it became can be handed on as text, and bound or refused.
        let text = expr.to_string();
        assert_eq!(parse_sql(&text).unwrap(), expr, "{text}");
        let _ = bind(&expr, &schema());
        true
    };
    let target = Target {
        name: "substrait",
        corpus: messages().into_iter().map(|(bytes, _)| bytes).collect(),
        damage: &damage,
        mend: &|_| {},
        decode: &decode,
    };
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/substrait");
    fuzz(&target, &kept, 4_000);
}
