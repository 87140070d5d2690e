//! One way from a path found in a file to an object: [`resolve`]. Everything that could leave the folder
//! of the table is refused here, for every store alike.

use std::io;

use percent_encoding::percent_decode_str;
use rand::TryRngCore;
use rand::rngs::OsRng;

use crate::error::{Error, Result};

/// A relative path that was checked: `/`-separated, non-empty plain names.
///
/// The root itself is the empty path, which only listings accept.
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

/// Check the path of an object.
pub(crate) fn resolve(path: &str) -> Result<RelativePath> {
    check(path)?;
    Ok(RelativePath(path.to_owned()))
}

/// Check the path of a folder: the root is `""`, and one slash may end it.
pub(crate) fn resolve_folder(path: &str) -> Result<RelativePath> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(RelativePath(String::new()));
    }
    resolve(path)
}

/// A name that nobody else has, in other processes and forks neither: straight from the kernel, since generators in memory
/// are copied by a fork and would repeat themselves.
pub(crate) fn unique_name(prefix: &str) -> io::Result<String> {
    let word = || OsRng.try_next_u64().map_err(io::Error::other);
    Ok(format!("{prefix}{:016x}{:016x}", word()?, word()?))
}

fn check(path: &str) -> Result<()> {
    match path_fault(path) {
        None => Ok(()),
        Some(reason) => Err(Error::OutsideRoot {
            path: path.escape_debug().to_string(),
            reason,
        }),
    }
}

/// Why a path that a file names is refused, if it is: every store refuses it too, but later, when it is opened.
///
/// The path is looked at in the form given and in every form decoding percent signs can give it: a server or a reader
/// further down may decode once more than we think.
#[must_use]
pub fn path_fault(path: &str) -> Option<&'static str> {
    if path.len() > MOST_BYTES {
        return Some("it is longer than any store allows");
    }
    let mut form = path.to_owned();
    for _ in 0..MOST_DECODINGS {
        if let Some(reason) = fault(&form) {
            return Some(reason);
        }
        // Bytes that are no UTF-8 after decoding are no escape, but names we never write either.
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

/// What a path of this system may have at most; keys of object stores may have 1,024 or fewer. Looking for links takes a step
/// for each folder of a path.
const MOST_BYTES: usize = 4096;
/// Each decoding reads the whole path.
const MOST_DECODINGS: usize = 8;

/// The rule `path` breaks, if any.
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
