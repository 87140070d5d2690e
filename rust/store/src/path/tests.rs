//! Relative paths: hostile ones are refused, plain ones pass unchanged.

use percent_encoding::percent_decode_str;

use super::*;

/// Paths that a damaged or hostile manifest may contain. All are refused.
pub(crate) const HOSTILE: [&str; 78] = [
    "",
    "/",
    "//",
    ".",
    "..",
    "...",
    "./",
    "../",
    "/etc/passwd",
    "//etc/passwd",
    "///etc/passwd",
    "../x",
    "../../x",
    "../../../../../../../../etc/passwd",
    "data/..",
    "data/../..",
    "data/../../x",
    "data/./x",
    "./data/x",
    "data//x",
    "data/x/",
    "data/",
    "/data/x",
    "data/.../x",
    "data/.. /x",
    "data/ ../x",
    "data/. ./x",
    "data/ /x",
    " ",
    " /x",
    ".. ",
    ".. /x",
    "..\\x",
    "\\x",
    "\\\\server\\share",
    "data\\..\\x",
    "data/..\\..\\x",
    "a\\b",
    "C:",
    "C:x",
    "C:/x",
    "C:\\x",
    "c:/windows/win.ini",
    "z:..",
    "x\0",
    "\0",
    "data/x\0.lance",
    "data/\0/../x",
    "%2e%2e/x",
    "%2E%2E/x",
    "%2e./x",
    ".%2e/x",
    ".%2E",
    "..%2fx",
    "..%2Fx",
    "%2fetc%2fpasswd",
    "%2Fetc/passwd",
    "data/%2e%2e/%2e%2e/x",
    "data%2f..%2f..%2fx",
    "data%2F%2Fx",
    "data/%2e/x",
    "%5c..%5cx",
    "..%5cx",
    "%5C%5Cserver",
    "data/x%00",
    "%00",
    "%00/../x",
    "C%3A/x",
    "%43:/x",
    "%252e%252e/x",
    "%25252e%25252e/x",
    "..%252fx",
    "%252fetc",
    "%255c..",
    "%ff/%2e%2e/x",
    "file:///etc/passwd",
    "s3://other/bucket",
    "http%3a%2f%2f169.254.169.254/latest",
];

#[test]
fn hostile_paths_are_refused_as_objects() {
    for path in HOSTILE {
        match resolve(path, PathRule::Decoded) {
            Err(Error::OutsideRoot { path: shown, .. }) => {
                assert!(!shown.contains('\0'), "{path:?}")
            }
            other => panic!("{path:?} gave {other:?}"),
        }
    }
}

#[test]
fn hostile_paths_are_refused_as_folders() {
    // A folder may be the root, and may end in one slash.
    for path in HOSTILE
        .into_iter()
        .filter(|path| !["", "/", "data/"].contains(path))
    {
        if path == "data/x/" {
            continue;
        }
        assert!(
            matches!(
                resolve_folder(path, PathRule::Decoded),
                Err(Error::OutsideRoot { .. })
            ),
            "{path:?}"
        );
    }
}

#[test]
fn paths_that_were_encoded_many_times_are_refused_after_a_few_decodings() {
    let path = format!("data/%{}2e", "25".repeat(2000));
    assert_eq!(
        path_fault(&path),
        Some("it is percent-encoded again and again")
    );
    assert_eq!(path_fault("data/100%25.lance"), None);
    let long = "a/".repeat(2048);
    assert_eq!(path_fault(&long[..4095]), None);
    assert_eq!(
        path_fault(&format!("{long}a")),
        Some("it is longer than any store allows")
    );
}

#[test]
fn plain_names_are_allowed_unchanged() {
    for path in [
        "a",
        "data/a.lance",
        "_versions/18446744073709551614.manifest",
        "_deletions/0-1-2.arrow",
        "data/100%.lance",
        "data/50%25off",
        "data/a b",
        "data/ä/日本語.lance",
        "data/a#b?c",
        "data/..a",
        "data/a..",
        "data/.hidden",
        "data/a:b",
        "%zz",
        "%",
        "%2",
        "%ff",
    ] {
        assert_eq!(resolve(path, PathRule::Decoded).unwrap().as_str(), path);
    }
}

#[test]
fn the_root_is_the_empty_folder() {
    assert_eq!(
        resolve_folder("", PathRule::Decoded)
            .unwrap()
            .components()
            .count(),
        0
    );
    assert_eq!(
        resolve_folder("data/", PathRule::Decoded).unwrap().as_str(),
        "data"
    );
    let parts: Vec<_> = resolve_folder("a/b", PathRule::Decoded)
        .unwrap()
        .components()
        .map(str::to_owned)
        .collect();
    assert_eq!(parts, ["a", "b"]);
}

proptest::proptest! {
    /// An allowed path stays below the root, however often it is percent-decoded.
    #[test]
    fn an_allowed_path_cannot_leave_the_root(path in "([./%a2eEfF5cC\\\\: ]|%2e|%2f|%5c|%25){0,24}") {
        if resolve(&path, PathRule::Decoded).is_ok() {
            let mut form = path;
            for _ in 0..32 {
                proptest::prop_assert!(!form.starts_with('/') && !form.contains('\\'));
                proptest::prop_assert!(form.split('/').all(|part| part != ".." && !part.is_empty()));
                form = percent_decode_str(&form).decode_utf8_lossy().into_owned();
            }
        }
    }
}

#[test]
fn encoded_slashes_and_dots_are_plain_names_where_paths_are_literal() {
    for path in [
        "t/p=a%2F..%2Fb/x",
        "t/p=%5C/x",
        "t/url=https%3A%2F%2Fhost%2F/x",
        "t/p=%00/x",
    ] {
        assert!(resolve(path, PathRule::Decoded).is_err(), "{path}");
        assert_eq!(resolve(path, PathRule::Literal).unwrap().as_str(), path);
    }
    for path in [
        "", "..", "a/../b", "/a", "a//b", "a\\b", "a\0", "C:/x", "s3://b/x",
    ] {
        assert!(resolve(path, PathRule::Literal).is_err(), "{path}");
    }
    assert!(resolve(&"a".repeat(5000), PathRule::Literal).is_err());
}
