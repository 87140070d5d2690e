//! Where the files of a table lie below its root, and which paths a manifest may name.

use percent_encoding::percent_decode_str;

use crate::naming::NamingScheme;

/// Folder of the manifests.
pub const VERSIONS: &str = "_versions";
/// Folder of the transaction files.
pub const TRANSACTIONS: &str = "_transactions";
/// Folder of the data files.
pub const DATA: &str = "data";
/// Folder of the deletion files.
pub const DELETIONS: &str = "_deletions";
/// Folder of the tags.
pub const TAGS: &str = "_refs/tags";
/// Folder of the commit markers.
pub const MARKERS: &str = "_refs/commits";

/// The path of a version's manifest.
#[must_use]
pub fn manifest_path(scheme: NamingScheme, version: u64) -> String {
    format!("{VERSIONS}/{}", scheme.name(version))
}

/// Checks a path in a manifest, which must stay below the folder that it is relative to.
///
/// The path is checked in the form given and in every form that decoding its percent signs can give: a server or a
/// reader further down may decode it once more. The store checks every path again before it opens a file.
///
/// # Errors
/// The rule that the path breaks.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    if path.len() > MAX_PATH_BYTES {
        return Err("it is longer than any store allows");
    }
    let mut form = path.to_owned();
    for _ in 0..MAX_DECODINGS {
        check_form(&form)?;
        // Bytes that are not UTF-8 after decoding are no escape, but no name that we write either.
        let decoded = match percent_decode_str(&form).decode_utf8() {
            Ok(decoded) => decoded.into_owned(),
            Err(_) => percent_decode_str(&form).decode_utf8_lossy().into_owned(),
        };
        if decoded == form || decoded.len() >= form.len() {
            return Ok(());
        }
        form = decoded;
    }
    Err("it is percent-encoded again and again")
}

/// As [`check_path`], for a file that lies directly in its folder; an empty name stands for no file.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_file_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Ok(());
    }
    if name.contains('/') {
        return Err("it names a folder");
    }
    check_path(name)
}

/// Longest path on Linux; keys of object stores may have 1,024 bytes or fewer.
const MAX_PATH_BYTES: usize = 4096;
/// Each decoding reads the whole path, so their number is bounded.
const MAX_DECODINGS: usize = 8;

fn check_form(path: &str) -> Result<(), &'static str> {
    let bytes = path.as_bytes();
    if bytes.is_empty() {
        return Err("it is empty");
    }
    if bytes.contains(&0) {
        return Err("it has a NUL byte");
    }
    if bytes.contains(&b'\\') {
        return Err("it has a backslash");
    }
    if bytes[0] == b'/' {
        return Err("it is absolute");
    }
    if bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' {
        return Err("it names a drive");
    }
    if path.contains("://") {
        return Err("it is a URL");
    }
    for part in path.split('/') {
        match part {
            "" => return Err("it has an empty component"),
            "." => return Err("it has a `.` component"),
            ".." => return Err("it has a `..` component"),
            _ => {}
        }
        // Some file systems drop trailing dots and blanks, which turns `.. ` into `..`.
        if part.trim_end_matches(['.', ' ']).is_empty() {
            return Err("it has a component of dots and blanks");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "c:a",
        ] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
        check_path("0101-ab.lance").unwrap();
        check_path("sub/..a.lance").unwrap();
        check_file_name("").unwrap();
        check_file_name("a.txn").unwrap();
        assert!(check_file_name("sub/a.txn").is_err());
    }
}
