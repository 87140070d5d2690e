//! Keys in the store: how a dataset, its tables, partitions and indices are named, and what a data key tells.
//!
//! ```text
//!   <UUID>.by-dataset-metadata.json | .msgpack.zstd          metadata document
//!   <UUID>/<TABLE>/_common_metadata                          schema of a table
//!   <UUID>/<TABLE>/[<COLUMN>=<VALUE>/ ...]<STEM>.parquet     data; label = the part after the table, without suffix
//!   <UUID>/indices/<COLUMN>/<TIME>.by-dataset-index.parquet  secondary index
//! ```

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use pilum_store::Store;

use crate::error::{Error, Result};

/// The suffix of data files.
pub const DATA_SUFFIX: &str = ".parquet";
/// The suffix of index files.
pub const INDEX_SUFFIX: &str = ".by-dataset-index.parquet";
/// The name of the schema file in the folder of a table.
pub const SCHEMA_NAME: &str = "_common_metadata";
/// The folder of index files, which is therefore no name of a table.
pub const INDICES: &str = "indices";
/// The longest key that every store takes.
pub const MAX_KEY_BYTES: usize = 1024;

/// What Kartothek's `quote` encodes: all but letters, digits and `- . _ ~ /`.
const KARTOTHEK: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');
/// As [`KARTOTHEK`], and the slash.
const COMPONENT: AsciiSet = KARTOTHEK.add(b'/');

/// The two forms of the metadata document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentForm {
    /// JSON text. If both forms exist, this one counts.
    Json,
    /// MessagePack in a zstd frame.
    MessagePack,
}

impl DocumentForm {
    /// The end of the key, from the dot after the UUID.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Json => ".by-dataset-metadata.json",
            Self::MessagePack => ".by-dataset-metadata.msgpack.zstd",
        }
    }

    /// The other form.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Json => Self::MessagePack,
            Self::MessagePack => Self::Json,
        }
    }
}

/// Refuses a name that is no UUID of a dataset: one or more of `a-z A-Z 0-9 + - _`.
///
/// # Errors
/// `CommonError::InvalidInput`.
pub fn check_uuid(uuid: &str) -> Result<()> {
    match is_plain(uuid) {
        true => Ok(()),
        false => Err(Error::invalid(
            format!("dataset uuid {:?}", shortened(uuid)),
            "it must consist of letters A-Z, digits, `+`, `-` and `_`",
        )),
    }
}

/// Refuses a name that a table of a new dataset cannot have: the characters are those of UUIDs, and `indices` is the folder
/// of the indices.
///
/// # Errors
/// `CommonError::InvalidInput`.
pub fn check_table(table: &str) -> Result<()> {
    let what = || format!("table {:?}", shortened(table));
    if table == INDICES {
        return Err(Error::invalid(
            what(),
            "this name is the folder of the indices",
        ));
    }
    match is_plain(table) {
        true => Ok(()),
        false => Err(Error::invalid(
            what(),
            "it must consist of letters A-Z, digits, `+`, `-` and `_`",
        )),
    }
}

fn is_plain(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-_".contains(&byte);
    !text.is_empty() && text.len() <= 250 && text.bytes().all(is_allowed)
}

/// Refuses a key that the stores of Kartothek refuse.
///
/// # Errors
/// `CommonError::InvalidInput` with the first such character.
pub fn check_key(key: &str) -> Result<()> {
    let is_allowed =
        |it: char| it.is_ascii_alphanumeric() || "`!\"#$%&'()+,-.<=>?@[]^_{}~/ ".contains(it);
    if let Some(bad) = key.chars().find(|it| !is_allowed(*it)) {
        return Err(Error::invalid(
            format!("key {:?}", shortened(key)),
            format!("Kartothek's stores refuse the character {bad:?}"),
        ));
    }
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(Error::invalid(
            format!("key {:?}", shortened(key)),
            format!(
                "it has {} bytes; 1 to {MAX_KEY_BYTES} are possible",
                key.len()
            ),
        ));
    }
    Ok(())
}

/// The key of the metadata document.
#[must_use]
pub fn metadata_key(uuid: &str, form: DocumentForm) -> String {
    format!("{uuid}{}", form.suffix())
}

/// The key of the schema of a table.
#[must_use]
pub fn schema_key(uuid: &str, table: &str) -> String {
    format!("{uuid}/{table}/{SCHEMA_NAME}")
}

/// The key of the data file of a partition.
#[must_use]
pub fn data_key(uuid: &str, table: &str, label: &str) -> String {
    format!("{uuid}/{table}/{label}{DATA_SUFFIX}")
}

/// The key of an index file; `time` is its creation time in ISO 8601, which only has to be unique.
#[must_use]
pub fn index_key(uuid: &str, column: &str, time: &str) -> String {
    format!(
        "{uuid}/{INDICES}/{}/{}{INDEX_SUFFIX}",
        quote_component(column.as_bytes()),
        quote(time.as_bytes())
    )
}

/// Percent-encodes bytes as Kartothek does. It does not encode `/`.
#[must_use]
pub fn quote(bytes: &[u8]) -> String {
    percent_encode(bytes, &KARTOTHEK).to_string()
}

/// As [`quote`], with `/` as `%2F`: the text stays one component of the path, and Kartothek reads the right value.
#[must_use]
pub fn quote_component(bytes: &[u8]) -> String {
    percent_encode(bytes, &COMPONENT).to_string()
}

/// The folders of partition keys, `COLUMN=VALUE` joined by `/`, from columns and the texts of their values.
#[must_use]
pub fn partition_path<'a>(keys: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let part = |(column, value): (&str, &[u8])| {
        format!(
            "{}={}",
            quote_component(column.as_bytes()),
            quote_component(value)
        )
    };
    keys.into_iter().map(part).collect::<Vec<_>>().join("/")
}

/// A name that no other partition has: 32 hexadecimal digits.
#[must_use]
pub fn new_label() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Decodes `%XX`; an incomplete escape stays as it is.
#[must_use]
pub fn unquote_bytes(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// As [`unquote_bytes`], for text.
///
/// # Errors
/// `CommonError::Corrupt` if the result is not UTF-8; `path` is the key in which the text is.
pub fn unquote(text: &str, path: &str) -> Result<String> {
    String::from_utf8(unquote_bytes(text)).map_err(|_| {
        Error::corrupt(
            path,
            format!("the component {text:?} is no UTF-8 text after percent-decoding"),
        )
    })
}

/// How components without `=` between partition keys and file name are read. Kartothek does not encode `/` in values, so
/// `p=a/b/L.parquet` may be the value `a/b` and the label `L`, or the value `a` and the label `b/L` of a caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum StrayComponents {
    /// They belong to the value before them, if the column is of texts or bytes: what was written.
    #[default]
    Join,
    /// They are ignored, as Kartothek 5.3.0 does.
    Ignore,
}

/// What a data key tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyParts {
    /// Columns, decoded, and values as in the path, encoded.
    pub keys: Vec<(String, String)>,
    /// Components without `=` that follow each of the `keys`, encoded.
    pub stray: Vec<Vec<String>>,
}

impl KeyParts {
    /// Reads the partition keys of a data key `<UUID>/<TABLE>/.../<STEM>.parquet`.
    ///
    /// # Errors
    /// `CommonError::Corrupt` for a name of a column that is not UTF-8.
    pub fn of(key: &str) -> Result<Self> {
        let mut parts: Vec<&str> = key.split('/').collect();
        parts.pop();
        let mut found = Self {
            keys: Vec::new(),
            stray: Vec::new(),
        };
        for part in parts.iter().skip(2) {
            match part.split_once('=') {
                Some((column, value)) if !value.contains('=') => {
                    found
                        .keys
                        .push((unquote(column, key)?, (*value).to_owned()));
                    found.stray.push(Vec::new());
                }
                _ => {
                    if let Some(last) = found.stray.last_mut() {
                        last.push((*part).to_owned());
                    }
                }
            }
        }
        Ok(found)
    }

    /// The bytes of the value at `place`.
    #[must_use]
    pub fn value(&self, place: usize, stray: StrayComponents) -> Option<Vec<u8>> {
        let (_, value) = self.keys.get(place)?;
        let mut bytes = unquote_bytes(value);
        if stray == StrayComponents::Join {
            for part in self.stray.get(place).into_iter().flatten() {
                bytes.push(b'/');
                bytes.extend(unquote_bytes(part));
            }
        }
        Some(bytes)
    }

    /// Whether a component without `=` follows a partition key.
    #[must_use]
    pub fn has_stray(&self) -> bool {
        self.stray.iter().any(|parts| !parts.is_empty())
    }
}

/// The label in a data key: the part after the table, without suffix; `None` for other keys.
#[must_use]
pub fn label_of_key<'a>(uuid: &str, key: &'a str) -> Option<(&'a str, &'a str)> {
    let rest = key.strip_prefix(uuid)?.strip_prefix('/')?;
    let (table, rest) = rest.split_once('/')?;
    Some((table, rest.strip_suffix(DATA_SUFFIX)?))
}

/// Where a store has the object of a key. A file system takes several slashes for one, and Kartothek, which does not encode
/// slashes, writes several for values that have them.
pub(crate) fn stored_key<'a>(store: &Store, key: &'a str) -> Cow<'a, str> {
    match store.is_local() {
        true => single_slashes(key),
        false => Cow::Borrowed(key),
    }
}

/// A path with one slash wherever it has several.
pub(crate) fn single_slashes(path: &str) -> Cow<'_, str> {
    if !path.contains("//") {
        return Cow::Borrowed(path);
    }
    let mut single = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter != '/' || !single.ends_with('/') {
            single.push(letter);
        }
    }
    Cow::Owned(single)
}

/// A text for messages, cut after 80 characters.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_as_kartothek_quotes_them() {
        assert_eq!(quote("São Paulo".as_bytes()), "S%C3%A3o%20Paulo");
        assert_eq!(quote(b"a=%+:&~-._/x"), "a%3D%25%2B%3A%26~-._/x");
        assert_eq!(quote_component(b"a/b"), "a%2Fb");
        assert_eq!(unquote("a%2fb+%zz%4", "k").unwrap(), "a/b+%zz%4");
        assert!(unquote("%FF", "k").is_err());
        assert_eq!(
            index_key("sales", "idx name=%", "2021-12-10T08:30:00.25"),
            "sales/indices/idx%20name%3D%25/2021-12-10T08%3A30%3A00.25.by-dataset-index.parquet"
        );
        assert_eq!(
            partition_path([("city", "São Paulo".as_bytes()), ("day", b"2020-02-29")]),
            "city=S%C3%A3o%20Paulo/day=2020-02-29"
        );
    }

    #[test]
    fn a_data_key_tells_its_partition_keys() {
        let parts = KeyParts::of("d/t/s=x/y%3Dz/k=1/L.parquet").unwrap();
        assert_eq!(
            parts.keys,
            [("s".into(), "x".into()), ("k".into(), "1".into())]
        );
        assert_eq!(parts.value(0, StrayComponents::Join).unwrap(), b"x/y=z");
        assert_eq!(parts.value(0, StrayComponents::Ignore).unwrap(), b"x");
        assert_eq!(parts.value(1, StrayComponents::Join).unwrap(), b"1");
        assert!(parts.has_stray());
        // Two `=` are no key, and what stands before the first key belongs to none.
        let parts = KeyParts::of("d/t/a/b==c/p=/L.parquet").unwrap();
        assert_eq!(parts.keys, [("p".into(), String::new())]);
        assert!(!parts.has_stray());
        assert_eq!(label_of_key("d", "d/t/s=x/L.parquet"), Some(("t", "s=x/L")));
        assert_eq!(label_of_key("d", "dd/t/L.parquet"), None);
    }

    #[test]
    fn a_file_system_takes_several_slashes_for_one() {
        assert_eq!(single_slashes("u/t/p=a//b///L"), "u/t/p=a/b/L");
        assert_eq!(single_slashes("u/t/p=https://h//L"), "u/t/p=https:/h/L");
        assert!(matches!(single_slashes("u/t/L"), Cow::Borrowed("u/t/L")));
    }

    #[test]
    fn uuids_tables_and_keys_are_checked() {
        for good in ["a", "my_cube++seed", "A-1"] {
            check_uuid(good).unwrap();
        }
        for bad in ["", "a.b", "a/b", "a b", "ä", "a\n"] {
            assert_eq!(
                check_uuid(bad).unwrap_err().kind(),
                "invalid_input",
                "{bad:?}"
            );
        }
        assert!(check_table("indices").is_err());
        check_key("u/t/p=a%20b (1)~/L.parquet").unwrap();
        for bad in ["", "a:b", "a*b", "ü", "a\\b"] {
            assert!(check_key(bad).is_err(), "{bad:?}");
        }
        assert_eq!(new_label().len(), 32);
    }
}
