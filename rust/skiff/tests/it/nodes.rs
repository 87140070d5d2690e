//! YSON nodes: what the client of YTsaurus reads, in the form that it reads it.

use pilum_skiff::Error;
use pilum_skiff::yson::{Limits, Style, Value, json_to_yson, parse, write_node, yson_to_json};

/// The text form of a node, or none when it is refused.
fn read(node: &[u8]) -> Option<Vec<u8>> {
    let node = parse(node, Limits::default()).ok()?;
    let mut out = Vec::new();
    write_node(&node, Style::Text, true, &mut out);
    Some(out)
}

#[test]
fn text_and_binary_tokens_are_read_as_the_client_reads_them() {
    let cases: &[(&[u8], &[u8])] = &[
        (b" \x0b#\x0c", b"#"),
        (b"007", b"7"),
        (b"+5u", b"5u"),
        (b"-9223372036854775808", b"-9223372036854775808"),
        (b"18446744073709551615u", b"18446744073709551615u"),
        (b"1.e5", b"100000.0"),
        (b"-.5", b"-0.5"),
        (b"1e400", b"%inf"),
        (b"[%nan;%+inf;%-inf;]", b"[%nan;%inf;%-inf]"),
        (b"{b=1;a=2;b=3;}", b"{\"a\"=2;\"b\"=3}"),
        (b"<>5", b"5"),
        (b"<a=#>{}", b"<\"a\"=#>{}"),
        (b"a.b%c-d", b"\"a.b%c-d\""),
        (b"\"\\x4q\\377\\400\\q\"", b"\"\\x04q\\xff 0q\""),
        (b"\x01\x06abc", b"\"abc\""),
        (b"\x02\x09", b"-5"),
        (b"\x06\x80\x01", b"128u"),
    ];
    for (node, expected) in cases {
        let found = read(node).unwrap_or_else(|| panic!("{}", node.escape_ascii()));
        assert_eq!(found, *expected, "{}", found.escape_ascii());
    }
}

#[test]
fn escapes_of_code_points_give_the_bytes_that_the_client_gives() {
    let cases: &[(&[u8], &[u8])] = &[
        (b"\"\\u00e9\"", b"\xc3\xa9"),
        (b"\"\\ud83d\\ude00\"", b"\xf0\x9f\x98\x80"),
        (b"\"\\ud83d\\ufe00x\"", b"\xef\xbf\xbdx"),
        (b"\"\\ud83dab\"", b"\xed\xa0\xbdab"),
        (b"\"\\ude00\"", b"\xed\xb8\x80"),
        (b"\"\\u12\"", b"u12"),
        (b"\"\\U0001F600\"", b"\xf0\x9f\x98\x80"),
        (b"\"\\U00110000\"", b"\xf4\x90\x80\x80"),
        (b"\"\\UFFFFFFFF\"", b"\xf7\xbf\xbf\xbf"),
    ];
    for (node, expected) in cases {
        let node = parse(node, Limits::default()).unwrap();
        assert_eq!(node.value, Value::String(expected.to_vec()));
    }
}

#[test]
fn what_is_not_one_node_is_refused_with_its_place() {
    let cases: &[(&[u8], usize)] = &[
        (b"", 0),
        (b"1;2", 1),
        (b"[1 2]", 3),
        (b"[;]", 1),
        (b"{a=}", 3),
        (b"{1=2}", 1),
        (b"%truex", 5),
        (b"5a", 1),
        (b"-1u", 0),
        (b"9223372036854775808", 0),
        (b".5", 0),
        (b"5\0", 1),
        (b"\"abc", 0),
        (b"\x01\x07abc", 0),
        (b"\x01\x0aabc", 0),
        (b"\x03abc", 4),
        (b"<a=1><b=2>3", 5),
    ];
    for (node, place) in cases {
        match parse(node, Limits::default()) {
            Err(Error::Yson { offset, .. }) => {
                assert_eq!(offset, *place, "{}", node.escape_ascii());
            }
            other => panic!("{}: {other:?}", node.escape_ascii()),
        }
    }
}

#[test]
fn depth_and_size_have_limits() {
    let deep = |levels| [vec![b'['; levels], vec![b']'; levels]].concat();
    let limits = Limits::default();
    assert!(parse(&deep(255), limits).is_ok());
    assert_eq!(parse(&deep(256), limits).unwrap_err().class(), "Limit");
    let error = parse(&deep(1_000_000), limits.with_max_depth(usize::MAX)).unwrap_err();
    assert!(error.to_string().contains("YSON, byte 1000: "), "{error}");
    let error = parse(b"[1;2;3]", limits.with_max_bytes(6)).unwrap_err();
    assert_eq!(error.class(), "Limit");
}

#[test]
fn json_views_read_back_as_the_same_node() {
    let node = b"<u=5u>{a=[1;2u;-0.;%nan;%-inf;\"\\xff\"];\"$k\"=#;\"\\xfe\"=%true}";
    let json = yson_to_json(
        node,
        pilum_skiff::yson::JsonOptions::exact(),
        Limits::default(),
    );
    let again = json_to_yson(&json.unwrap(), Style::Binary, Limits::default()).unwrap();
    assert_eq!(read(&again), read(node));
    for text in [
        "{\"$type\": \"date\", \"$value\": 1}",
        "[1,",
        "",
        "1 2",
        "[1] x",
    ] {
        assert_eq!(from_json(text).unwrap_err().class(), "BadJson", "{text}");
    }
}

fn from_json(text: &str) -> Result<Vec<u8>, Error> {
    json_to_yson(text, Style::Text, Limits::default())
}

/// A reader of JSON without exact doubles changed the last bit of one in about ten of them.
#[test]
fn doubles_keep_every_bit_in_json() {
    let mut random = pilum_testing::Random(18);
    for _ in 0..20_000 {
        let value = f64::from_bits(random.any());
        if !value.is_finite() {
            continue;
        }
        let mut node = vec![3];
        node.extend_from_slice(&value.to_le_bytes());
        let json = yson_to_json(&node, Default::default(), Limits::default()).unwrap();
        let again = json_to_yson(&json, Style::Binary, Limits::default()).unwrap();
        assert_eq!(again, node, "{json}");
    }
}

#[test]
fn keys_beside_a_tagged_value_are_refused() {
    for text in [
        r#"{"$value": 1, "$attributes": {"a": 2}, "more": 3}"#,
        r#"{"$value": 1, "more": 3}"#,
        r#"{"$type": "uint64", "$value": 1, "more": 3}"#,
        r#"{"$attributes": {"a": 2}}"#,
        r#"{"$type": "uint64"}"#,
        r#"{"$value": 1, "$attributes": [2]}"#,
        r#"{"$value": 1, "$type": 2}"#,
        r#"{"$value": {"$value": 1, "$attributes": {"a": 2}}, "$attributes": {"b": 2}}"#,
    ] {
        let error = from_json(text).unwrap_err();
        assert_eq!(error.class(), "BadJson", "{text}: {error}");
    }
    let cases: [(&str, &[u8]); 4] = [
        (r#"{"$value": 1}"#, b"1"),
        (
            r#"{"$value": 5, "$type": "uint64", "$attributes": {"a": 2}}"#,
            b"<\"a\"=2>5u",
        ),
        (r#"{"$$value": 1, "more": 3}"#, b"{\"$value\"=1;\"more\"=3}"),
        (r#"{"$price": 1}"#, b"{\"$price\"=1}"),
    ];
    for (text, node) in cases {
        assert_eq!(from_json(text).unwrap(), node, "{text}");
    }
}

#[test]
fn json_is_read_as_deep_as_yson_and_no_deeper() {
    let deep = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
    assert_eq!(from_json(&deep(255)).unwrap(), deep(255).as_bytes());
    for levels in [256, 100_000] {
        let error = from_json(&deep(levels)).unwrap_err();
        assert_eq!(error.class(), "Limit", "{levels}: {error}");
    }
    // Attributes are a level too, and have a level of their own in JSON.
    let mut node = b"1".to_vec();
    for _ in 0..255 {
        node = [b"[<a=1>".as_slice(), &node, b"]"].concat();
    }
    let node = node.split_at(6).1.split_last().unwrap().1.to_vec();
    let limits = Limits::default();
    parse(&node, limits).unwrap();
    let json = yson_to_json(&node, Default::default(), limits).unwrap();
    let again = json_to_yson(&json, Style::Binary, limits).unwrap();
    assert_eq!(read(&again), read(&node));
    // Brackets in strings are text.
    let text = format!("\"\\\"{}\"", "[".repeat(1_000));
    assert!(from_json(&text).is_ok());
}
