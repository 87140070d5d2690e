//! Checks of relative paths: [`resolve`] refuses every path that could leave the folder of the table, for all stores alike.

use std::io;

use percent_encoding::percent_decode_str;
use rand::TryRngCore;
use rand::rngs::OsRng;

use crate::error::{Error, Result};

/// Names with this prefix are unfinished writes: listings do not show them, cleanup removes old ones.
pub(crate) const STAGED_PREFIX: &str = ".tmp-";

/// Which paths are refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PathRule {
    /// Those that leave the folder as they are or after percent-decoding, however often.
    #[default]
    Decoded,
    /// Those that leave the folder as they are: for formats whose names contain percent-encoded text.
    Literal,
}

/// A relative path that was checked: non-empty plain names, separated by `/`. The empty path is the root, which only
/// listings accept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RelativePath(String);

impl RelativePath {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }
}

/// Checks the path of an object.
pub(crate) fn resolve(path: &str, rule: PathRule) -> Result<RelativePath> {
    check(path, rule)?;
    Ok(RelativePath(path.to_owned()))
}

/// Checks the path of a folder: `""` is the root, and the path may end in one slash.
pub(crate) fn resolve_folder(path: &str, rule: PathRule) -> Result<RelativePath> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(RelativePath(String::new()));
    }
    resolve(path, rule)
}

/// A name that no other thread or process chooses. Its random numbers come from the kernel: a fork copies a generator in
/// memory, and both processes would then draw the same numbers.
pub(crate) fn unique_name(prefix: &str) -> io::Result<String> {
    let word = || OsRng.try_next_u64().map_err(io::Error::other);
    Ok(format!("{prefix}{:016x}{:016x}", word()?, word()?))
}

fn check(path: &str, rule: PathRule) -> Result<()> {
    let found = match rule {
        PathRule::Decoded => path_fault(path),
        PathRule::Literal if path.len() > MOST_BYTES => Some(TOO_LONG),
        PathRule::Literal => fault(path),
    };
    match found {
        None => Ok(()),
        Some(reason) => Err(Error::OutsideRoot {
            path: path.escape_debug().to_string(),
            reason,
        }),
    }
}

/// The reason why a path is refused, or `None` for an allowed path. Stores refuse such a path when it is opened; this check
/// refuses it when the file that names it is decoded.
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

/// The longest path of most systems; keys of object stores have at most 1,024 bytes. Opening takes a step for each folder of
/// a path.
const MOST_BYTES: usize = 4096;
const TOO_LONG: &str = "it is longer than any store allows";
/// Limits the work for a path that was encoded many times: each decoding reads all of it.
const MOST_DECODINGS: usize = 8;

/// The rule that `path` breaks, if any.
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
mod tests;
