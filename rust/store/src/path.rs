//! Checks of relative paths: [`resolve`] refuses every path that could leave the folder of the table, for all stores alike.

use std::io;

use pilum_common::{literal_path_fault, path_fault};
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
        PathRule::Literal => literal_path_fault(path),
    };
    match found {
        None => Ok(()),
        Some(reason) => Err(Error::OutsideRoot {
            path: path.escape_debug().to_string(),
            reason,
        }),
    }
}

#[cfg(test)]
mod tests;
