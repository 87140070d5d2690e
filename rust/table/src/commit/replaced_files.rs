//! Staged data files that a commit wrote again under other names, because their dictionary keys had to change.
//!
//! After such a commit the old files are removed. A second commit of the same staged fragments would name files that are
//! gone, and it may have found them there a moment before. So the first commit lists the files that it replaced in its
//! transaction, which is published before the files are removed, and every later commit compares the list with its own
//! files before it publishes.

use std::collections::BTreeMap;

use pilum_format::Operation;

/// Transaction property with the paths below the table's root, one per line.
pub(crate) const REPLACED_FILES: &str = "pilum.replaced_files";

/// Adds the list to the properties of a transaction; nothing when no file was replaced.
pub(crate) fn list(properties: &mut BTreeMap<String, String>, replaced: &[String]) {
    if !replaced.is_empty() {
        properties.insert(REPLACED_FILES.to_owned(), replaced.join("\n"));
    }
}

/// The first file of the new fragments of `ours` that another commit, with these properties, replaced.
pub(crate) fn named_again(theirs: &BTreeMap<String, String>, ours: &Operation) -> Option<String> {
    let replaced = theirs.get(REPLACED_FILES)?;
    let (Operation::Append { fragments } | Operation::Overwrite { fragments, .. }) = ours else {
        return None;
    };
    let files = fragments.iter().flat_map(|fragment| &fragment.files);
    let mut paths = files.map(|file| file.full_path());
    paths.find(|path| replaced.lines().any(|line| line == path))
}
