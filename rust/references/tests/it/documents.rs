//! Documents and expressions beside the results of fsspec 2026.9, in tests/fixtures/README.md.

use pilum_references::{
    DocumentOptions, DocumentVersion, Error, Mode, Reference, ReferenceSet, read_document,
    write_document,
};
use serde_json::{Value, json};

fn options(mode: Mode) -> DocumentOptions {
    let mut options = DocumentOptions::default();
    options.mode = mode;
    options
}

fn read(text: &str, mode: Mode) -> Result<ReferenceSet, Error> {
    read_document("set.json", || Ok(Box::new(text.as_bytes())), &options(mode))
}

fn expanded(set: &ReferenceSet) -> Value {
    let mut out = Vec::new();
    write_document(set, DocumentVersion::Zero, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// Texts that are JSON objects are compared as such.
fn comparable(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with('{') => {
            serde_json::from_str(text).unwrap_or_else(|_| value.clone())
        }
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), comparable(value)))
            .collect(),
        other => other.clone(),
    }
}

fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Invalid { peer, .. } => peer.name(),
        _ => "other",
    }
}

/// fsspec's class, with the classes of Jinja and of `binascii` by their meaning.
fn class_in_python(name: &str) -> &str {
    match name {
        "Error" | "TemplateSyntaxError" | "UndefinedError" => "ValueError",
        other => other,
    }
}

#[test]
fn documents_mean_what_they_mean_to_fsspec() {
    let documents: Value =
        serde_json::from_str(include_str!("../fixtures/documents.json")).unwrap();
    let expected: Value =
        serde_json::from_str(include_str!("../fixtures/documents_expected.json")).unwrap();
    for (name, document) in documents.as_object().unwrap() {
        for (mode, peer) in [
            (Mode::Simple, "simple"),
            (Mode::Full, "jinja"),
            (Mode::Union, "jinja"),
        ] {
            let wanted = &expected["documents"][name][peer];
            let read = read(&ordered(name, document), mode);
            match (&wanted["error"], read) {
                (Value::String(class), Err(error)) => {
                    assert_eq!(
                        class_of(&error),
                        class_in_python(class),
                        "{name} {mode:?}: {error}"
                    );
                }
                (Value::Null, Ok(set)) => {
                    assert_eq!(
                        comparable(&expanded(&set)),
                        comparable(wanted),
                        "{name} {mode:?}"
                    );
                }
                (wanted, read) => panic!("{name} {mode:?}: {wanted} is expected, not {read:?}"),
            }
        }
    }
}

/// The document as text. `serde_json` sorts members, which matters for none of these documents.
fn ordered(_name: &str, document: &Value) -> String {
    document.to_string()
}

#[test]
fn expressions_mean_what_they_mean_to_fsspec() {
    let table: Value = serde_json::from_str(include_str!("../fixtures/expressions.json")).unwrap();
    let mut failures = Vec::new();
    for case in table["expressions"].as_array().unwrap() {
        for (mode, peer) in [(Mode::Simple, "simple"), (Mode::Full, "jinja")] {
            let url = case["expr"].as_str().unwrap();
            let document =
                json!({"version": 1, "templates": table["templates"], "refs": {"k": [url]}});
            let got = match read(&document.to_string(), mode) {
                Ok(set) => expanded(&set)["k"][0].clone(),
                Err(error) => json!({"error": class_of(&error)}),
            };
            let wanted = match &case[peer]["error"] {
                Value::String(class) => json!({"error": class_in_python(class)}),
                _ => case[peer].clone(),
            };
            if got != wanted {
                failures.push(format!("{url:?} {mode:?}: {got} instead of {wanted}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_union_gives_what_one_of_the_modes_gives() {
    let table: Value = serde_json::from_str(include_str!("../fixtures/expressions.json")).unwrap();
    for case in table["expressions"].as_array().unwrap() {
        let url = case["expr"].as_str().unwrap();
        let document = json!({"version": 1, "templates": table["templates"], "refs": {"k": [url]}});
        let got =
            read(&document.to_string(), Mode::Union).map(|set| expanded(&set)["k"][0].clone());
        match got {
            Ok(got) => assert!(
                got == case["jinja"] || got == case["simple"],
                "{url:?}: {got}"
            ),
            Err(_) => assert!(case["jinja"]["error"].is_string(), "{url:?}"),
        }
    }
}

#[test]
fn the_example_of_the_public_document_is_complete() {
    let document = r#"{"version": 1, "templates": {"u": "server.domain/path", "f": "{{c}}"},
        "gen": [{"key": "gen_key{{i}}", "url": "http://{{u}}_{{i}}", "offset": "{{(i + 1) * 1000}}", "length": "1000",
                 "dimensions": {"i": {"stop": 5}}}],
        "refs": {"key0": "data", "key1": ["http://target_url", 10000, 100], "key2": ["http://{{u}}", 10000, 100],
                 "key3": ["http://{{f(c='text')}}", 10000, 100]}}"#;
    let wanted = json!({
        "key0": "data", "key1": ["http://target_url", 10000, 100], "key2": ["http://server.domain/path", 10000, 100],
        "key3": ["http://text", 10000, 100],
        "gen_key0": ["http://server.domain/path_0", 1000, 1000], "gen_key1": ["http://server.domain/path_1", 2000, 1000],
        "gen_key2": ["http://server.domain/path_2", 3000, 1000], "gen_key3": ["http://server.domain/path_3", 4000, 1000],
        "gen_key4": ["http://server.domain/path_4", 5000, 1000]
    });
    assert_eq!(expanded(&read(document, Mode::Union).unwrap()), wanted);
}

#[test]
fn the_last_dimension_varies_fastest() {
    let document = r#"{"version": 1, "gen": [{"key": "{{i}}.{{j}}", "url": "f{{j}}", "offset": "{{i * 10 + j}}", "length": "1",
        "dimensions": {"i": [0, 2], "j": {"start": 5, "stop": 0, "step": -2}}}]}"#;
    let set = read(document, Mode::Union).unwrap();
    let keys: Vec<_> = set.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["0.5", "0.3", "0.1", "2.5", "2.3", "2.1"]);
    assert_eq!(expanded(&set)["2.3"], json!(["f3", 23, 1]));
}

#[test]
fn a_version_that_stands_behind_the_references_counts() {
    let document = r#"{"refs": {"a": ["{{u}}", 1, 2]}, "templates": {"u": "x"}, "version": 1}"#;
    assert_eq!(
        expanded(&read(document, Mode::Union).unwrap()),
        json!({"a": ["x", 1, 2]})
    );
}

#[test]
fn documents_of_both_versions_come_back() {
    let mut entries = serde_json::Map::new();
    for it in 0..300 {
        entries.insert(
            format!("x/{it}"),
            json!([format!("s3://bucket/folder/file{}.nc", it / 100), it, 7]),
        );
    }
    for (key, value) in [
        ("whole", json!(["s3://bucket/folder/file0.nc"])),
        ("text", json!("{{u}} \"quoted\" \u{1F600}\n")),
        ("bytes", json!("base64:/wB7")),
        ("target", json!([null, 1, 2])),
        ("malformed", json!(["a", 1])),
    ] {
        entries.insert(key.to_owned(), value);
    }
    let set = read(&Value::Object(entries.clone()).to_string(), Mode::Union).unwrap();
    for version in [DocumentVersion::Zero, DocumentVersion::One] {
        let mut out = Vec::new();
        write_document(&set, version, &mut out).unwrap();
        let again = read(&String::from_utf8(out).unwrap(), Mode::Simple).unwrap();
        assert_eq!(expanded(&again), Value::Object(entries.clone()));
    }
    for key in ["target", "malformed"] {
        entries.remove(key);
    }
    let set = read(&Value::Object(entries.clone()).to_string(), Mode::Union).unwrap();
    let mut out = Vec::new();
    write_document(&set, DocumentVersion::One, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains("\"templates\"") && text.len() < 12_000,
        "{}",
        text.len()
    );
    assert_eq!(
        expanded(&read(&text, Mode::Simple).unwrap()),
        Value::Object(entries)
    );
}

#[test]
fn work_without_end_is_refused_at_once() {
    let of = |dimensions: Value, key: &str, url: &str| {
        json!({"version": 1, "templates": {"f": "{{c(c=c)}}"},
        "gen": [{"key": key, "url": url, "dimensions": dimensions}]})
    };
    let cases = [
        of(json!({"i": {"stop": 1_000_000_000}}), "{{i}}", "u"),
        of(
            json!({"i": {"stop": 1_000_000}, "j": {"stop": 1_000_000}, "k": {"stop": 1_000_000_000_000_i64}}),
            "{{i}}",
            "u",
        ),
        of(
            json!({"i": {"start": i64::MIN, "stop": i64::MAX}}),
            "{{i}}",
            "u",
        ),
        of(json!({"i": [1]}), "{{ 'x' * 10**12 }}", "u"),
        of(json!({"i": [1]}), "k", "{{ f(c=f) }}"),
        of(
            json!({"i": [1]}),
            "k",
            &format!("{{{{ {} }}}}", "[".repeat(100_000)),
        ),
        of(
            json!({"i": [1]}),
            "k",
            "{% for a in range(60000) %}{% for b in range(60000) %}{% endfor %}{% endfor %}",
        ),
        json!({"version": 1, "templates": {"u": "x"}, "refs": {"k": [format!("{{{{ {}u }}}}", "not ".repeat(10_000))]}}),
    ];
    for document in cases {
        let text = document.to_string();
        let begun = std::time::Instant::now();
        let error = read(&text, Mode::Union).unwrap_err();
        let took = begun.elapsed();
        assert!(
            matches!(error, Error::TooLarge { .. } | Error::Invalid { .. }),
            "{error:?}"
        );
        // The refusal takes milliseconds, or a second on a busy machine. Without a limit, the templates would take minutes.
        assert!(
            took.as_secs() < 5,
            "{took:?} for {}",
            text.chars().take(200).collect::<String>()
        );
    }
}

#[test]
fn broken_documents_say_where() {
    for text in [
        "",
        "[",
        "[]",
        "3",
        "{\"a\":",
        "{\"a\": [\"u\", 1, 2}",
        "{\"a\": \"\\x\"}",
        "{\"a\": nul}",
        "{} {}",
        "{\"a\": 01}",
    ] {
        assert!(read(text, Mode::Union).is_err(), "{text}");
    }
    let deep = format!("{{\"a\": {}", "[".repeat(100_000));
    assert_eq!(read(&deep, Mode::Union).unwrap_err().kind(), "corrupt");
}

#[test]
fn texts_across_the_buffer_of_the_reader_are_whole() {
    let long = "é\u{1F600}\\n".repeat(100_000);
    let document = format!("{{\"k\": \"{long}\", \"o\": {{\"a\" : [1, 2.50, \"{long}\"]}}}}");
    let set = read(&document, Mode::Union).unwrap();
    let wanted = "é\u{1F600}\n".repeat(100_000);
    assert!(matches!(set.get("k"), Some(Reference::Inline(bytes)) if *bytes == *wanted.as_bytes()));
    assert_eq!(
        expanded(&set)["o"].as_str().unwrap().get(..14),
        Some("{\"a\":[1,2.50,\"")
    );
}
