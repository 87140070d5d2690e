//! Checks of relative paths: [`path_fault`] refuses every path that could leave the folder that it is relative to.

use percent_encoding::percent_decode_str;

/// The reason why a path is refused, or `None` for an allowed path. Decoders refuse such a path when they read the bytes that
/// name it; stores refuse it again when it is opened.
///
/// The path is checked as it is and after each percent-decoding: a server may decode it more often than this crate knows.
#[must_use]
pub fn path_fault(path: &str) -> Option<&'static str> {
    if path.len() > MOST_BYTES {
        return Some(TOO_LONG);
    }
    let mut form = path.to_owned();
    for _ in 0..MOST_DECODINGS {
        if let Some(reason) = fault(&form) {
            return Some(reason);
        }
        // Bytes that are no UTF-8 after decoding cannot leave the folder; their lossy form is checked nevertheless.
        let decoded = match percent_decode_str(&form).decode_utf8() {
            Ok(decoded) => decoded.into_owned(),
            Err(_) => percent_decode_str(&form).decode_utf8_lossy().into_owned(),
        };
        if decoded == form || decoded.len() >= form.len() {
            return None;
        }
        form = decoded;
    }
    Some("it is percent-encoded again and again")
}

/// Like [`path_fault`], for formats whose names contain percent-encoded text: checks the path without decoding it.
#[must_use]
pub fn literal_path_fault(path: &str) -> Option<&'static str> {
    if path.len() > MOST_BYTES {
        return Some(TOO_LONG);
    }
    fault(path)
}

/// The most bytes of a path: the limit of most operating systems (object stores allow 1,024). This limit also bounds
/// the work of opening a path, which takes one step per folder.
const MOST_BYTES: usize = 4096;
const TOO_LONG: &str = "it is longer than any store allows";
/// The most percent-decodings of one path. The limit bounds the work, because each decoding reads the whole path.
const MOST_DECODINGS: usize = 8;

/// Returns the reason why `path`, without percent-decoding, is refused, or `None` for an allowed path.
fn fault(path: &str) -> Option<&'static str> {
    let bytes = path.as_bytes();
    if bytes.is_empty() {
        return Some("it is empty");
    }
    if bytes.contains(&0) {
        return Some("it has a NUL byte");
    }
    if bytes.contains(&b'\\') {
        return Some("it has a backslash");
    }
    if bytes[0] == b'/' {
        return Some("it is absolute");
    }
    if bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' {
        return Some("it names a drive");
    }
    if path.contains("://") {
        return Some("it is a URL");
    }
    for part in path.split('/') {
        match part {
            "" => return Some("it has an empty component"),
            "." => return Some("it has a `.` component"),
            ".." => return Some("it has a `..` component"),
            _ => {}
        }
        // Some file systems drop trailing dots and blanks, which turns `.. ` into `..`.
        if part.trim_end_matches(['.', ' ']).is_empty() {
            return Some("it has a component of dots and blanks");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{MOST_BYTES, MOST_DECODINGS, path_fault};

    #[test]
    fn paths_stay_inside() {
        for bad in [
            "",
            "/etc/passwd",
            "../x.lance",
            "a/../../x",
            "a//b",
            "./a",
            "a\\b",
            "a\0",
            "%2e%2e/a",
            "%252e%252e/a",
            "c:a",
        ] {
            assert!(path_fault(bad).is_some(), "{bad:?}");
        }
        assert_eq!(path_fault("0101-ab.lance"), None);
        assert_eq!(path_fault("sub/..a.lance"), None);
        assert_eq!(path_fault("data/100%25.lance"), None);
    }

    #[test]
    fn length_and_decodings_are_limited() {
        assert_eq!(path_fault(&"a".repeat(MOST_BYTES)), None);
        assert!(path_fault(&"a".repeat(MOST_BYTES + 1)).is_some());
        let encoded = format!("%{}2e", "25".repeat(MOST_DECODINGS));
        let fault = path_fault(&encoded);
        assert_eq!(fault, Some("it is percent-encoded again and again"));
    }
}
