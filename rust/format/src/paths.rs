//! Where the files of a table lie below its root, and which paths a manifest may name.

use pilum_common::path_fault;

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

/// Checks the name of a file that lies directly in its folder; an empty name stands for no file.
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
    path_fault(name).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_stay_in_their_folder() {
        check_file_name("").unwrap();
        check_file_name("a.txn").unwrap();
        assert!(check_file_name("sub/a.txn").is_err());
        assert!(check_file_name("..").is_err());
    }
}
