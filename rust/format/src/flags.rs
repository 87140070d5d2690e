//! Feature flags: the two words of a manifest that say what a reader and a writer must understand.

use crate::error::{Error, Result};

/// Some fragment has a deletion file. In both words.
pub const DELETION_FILES: u64 = 1;
/// Fragments carry stable row ids. In both words.
pub const STABLE_ROW_IDS: u64 = 1 << 1;
/// The table has data files of version 2. It counts only in a table without data format and fragments: where there are
/// fragments, they say themselves of which version their files are.
pub const V2_FILES: u64 = 1 << 2;
/// The table config is not empty. In the writer word only.
pub const TABLE_CONFIG: u64 = 1 << 3;
/// Transaction files are not written. In the writer word.
pub const NO_TRANSACTION_FILES: u64 = 1 << 5;
/// Indices cover further columns. pilum does not read indices.
const COVERING_INDICES: u64 = 1 << 7;
/// Some data of this version needs our extension: validity pages, encodings or types beyond version 1.
/// In both words.
pub const EXTENSION: u64 = 1 << 56;

const KNOWN: u64 = DELETION_FILES
    | STABLE_ROW_IDS
    | V2_FILES
    | TABLE_CONFIG
    | NO_TRANSACTION_FILES
    | COVERING_INDICES
    | EXTENSION;

/// Names of the bits that other writers use.
const NAMES: &[(u32, &str)] = &[
    (4, "several base paths"),
    (6, "overlay files"),
    (8, "mixed file versions"),
    (9, "reserved"),
    (10, "fragment reuse index"),
    (11, "semantic types"),
];

fn refuse(word: &str, flags: u64) -> Result<()> {
    let unknown = flags & !KNOWN;
    if unknown == 0 {
        return Ok(());
    }
    let bits: Vec<String> = (0..u64::BITS)
        .filter(|bit| unknown >> bit & 1 == 1)
        .map(|bit| match NAMES.iter().find(|(known, _)| *known == bit) {
            Some((_, name)) => format!("{bit} ({name})"),
            None => bit.to_string(),
        })
        .collect();
    Err(Error::unsupported(
        format!("{word} feature flag bit {}", bits.join(", ")),
        "a newer program wrote the table: use that one, or an older version of the table",
    ))
}

/// Refuses to read a table whose reader word has a bit that we do not know.
///
/// # Errors
/// `Unsupported` with the bits and their names.
pub fn check_reader(reader_flags: u64) -> Result<()> {
    refuse("reader", reader_flags)
}

/// Refuses to write over a table if either word has a bit that we do not know.
///
/// # Errors
/// `Unsupported` with the bits and their names.
pub fn check_writer(reader_flags: u64, writer_flags: u64) -> Result<()> {
    refuse("reader", reader_flags)?;
    refuse("writer", writer_flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_bits_are_refused_by_name() {
        check_reader(KNOWN).unwrap();
        check_writer(KNOWN, KNOWN).unwrap();
        let error = check_reader(1 << 6 | 1 << 12 | 1).unwrap_err();
        assert_eq!(error.kind(), "unsupported");
        assert!(
            error
                .to_string()
                .contains("reader feature flag bit 6 (overlay files), 12"),
            "{error}"
        );
        let error = check_writer(0, 1 << 63).unwrap_err();
        assert!(
            error.to_string().contains("writer feature flag bit 63"),
            "{error}"
        );
        assert!(check_writer(1 << 20, 0).is_err());
    }
}
