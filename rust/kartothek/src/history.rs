//! Earlier metadata documents, under names that Kartothek ignores: a dataset is opened as of a time, and restored.
//!
//! ```text
//!   <UUID>/.pilum/history/<VERSION>-<TIME>-<OPERATION>.zst   a document as it was committed, after a line that describes it
//!   <UUID>/.pilum/schemas/<DIGEST>                           a schema file, for documents that have another one than today's
//!   <UUID>/.pilum/writing/<MARKER>                           a write is in progress: garbage collection keeps what is newer
//!   <UUID>/.pilum/lock                                       the lock of commits on a file system
//! ```
//!
//! A table cannot be called `.pilum`, no data file is below it, and Kartothek's garbage collection looks only below tables and
//! indices.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::io::{Read, Write};

use bytes::Bytes;
use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use pilum_store::Store;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hash::Fnv;
use crate::json_text::JsonText;
use crate::limits::Limits;
use crate::metadata::DatasetMetadata;
use crate::names::DocumentForm;

/// The member of the user metadata in which a commit describes itself.
pub const BOOKKEEPING: &str = "pilum";
/// The folder of the files that Kartothek does not know.
const PRIVATE: &str = ".pilum";
const TIME_FORM: &str = "%Y%m%dT%H%M%S%.6fZ";
const LEVEL: i32 = 3;

/// What a commit tells of itself, in the user metadata, which Kartothek's updates keep.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Bookkeeping {
    /// Counts the commits of the dataset.
    pub(crate) version: u64,
    /// Identifies the commit when its response was lost.
    pub(crate) commit: String,
    /// When the commit was made, in ISO 8601 with microseconds.
    pub(crate) time: String,
    /// What the commit did.
    pub(crate) operation: String,
    /// Digest of the schema file of each table.
    pub(crate) schemas: BTreeMap<String, String>,
    /// Digest of the document without this member: it differs if Kartothek changed the document since.
    pub(crate) document: String,
}

impl Bookkeeping {
    /// The description in a document. None if there is none, or none that this crate wrote.
    pub(crate) fn of(document: &DatasetMetadata) -> Option<Self> {
        serde_json::from_str(document.user.get(BOOKKEEPING)?.get()).ok()
    }

    /// Whether the document is still what the commit wrote.
    pub(crate) fn describes(&self, document: &DatasetMetadata) -> Result<bool> {
        Ok(self.document == fingerprint(document)?)
    }

    /// Puts the description into a document.
    pub(crate) fn put(mut self, document: &mut DatasetMetadata) -> Result<()> {
        self.document = fingerprint(document)?;
        let text = serde_json::to_string(&self).map_err(|error| Error::bug(error.to_string()))?;
        let text = JsonText::parse(&text).map_err(Error::bug)?;
        document.user.insert(BOOKKEEPING.to_owned(), text);
        Ok(())
    }

    pub(crate) fn time(&self) -> Option<DateTime<Utc>> {
        let time = DateTime::parse_from_rfc3339(&self.time).ok()?;
        Some(time.with_timezone(&Utc))
    }
}

/// A digest of a document without the description of its commit.
fn fingerprint(document: &DatasetMetadata) -> Result<String> {
    let mut user = document.user.clone();
    user.remove(BOOKKEEPING);
    // One text for one value: MessagePack keeps neither blanks nor the form of numbers.
    for text in user.values_mut() {
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(text.get()) {
            *text = JsonText::of_value(&value);
        }
    }
    Ok(digest(&document.to_bytes_with(&user, DocumentForm::Json)?))
}

/// A digest of some bytes: tells two files of one dataset apart.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut forward = Fnv::default();
    forward.write(bytes);
    format!("{:016x}{:08x}", forward.finish(), bytes.len())
}

pub(crate) fn now_text() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true)
}

pub(crate) fn private_folder(uuid: &str) -> String {
    format!("{uuid}/{PRIVATE}")
}

pub(crate) fn lock_key(uuid: &str) -> String {
    format!("{uuid}/{PRIVATE}/lock")
}

pub(crate) fn marker_folder(uuid: &str) -> String {
    format!("{uuid}/{PRIVATE}/writing")
}

pub(crate) fn marker_key(uuid: &str, marker: &str) -> String {
    format!("{}/{marker}", marker_folder(uuid))
}

pub(crate) fn schema_copy_key(uuid: &str, digest: &str) -> String {
    format!("{uuid}/{PRIVATE}/schemas/{digest}")
}

pub(crate) fn schema_copies_folder(uuid: &str) -> String {
    format!("{uuid}/{PRIVATE}/schemas")
}

fn history_folder(uuid: &str) -> String {
    format!("{uuid}/{PRIVATE}/history")
}

/// A committed state of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Counts the commits of the dataset.
    pub version: u64,
    /// When the state was committed.
    pub time: DateTime<Utc>,
    /// What the commit did: `create`, `overwrite`, `update`, `build_indices`, `restore`, or `foreign` for a state that another
    /// library wrote.
    pub operation: String,
    /// The key of the archived document.
    pub(crate) key: String,
}

impl Version {
    pub(crate) fn named(uuid: &str, version: u64, time: DateTime<Utc>, operation: &str) -> Self {
        let key = format!(
            "{}/{version:010}-{}-{operation}.zst",
            history_folder(uuid),
            time.format(TIME_FORM)
        );
        Self {
            version,
            time,
            operation: operation.to_owned(),
            key,
        }
    }

    fn of_key(key: &str) -> Option<Self> {
        let name = key.rsplit('/').next()?.strip_suffix(".zst")?;
        let mut parts = name.splitn(3, '-');
        let version = parts.next()?.parse().ok()?;
        let time = NaiveDateTime::parse_from_str(parts.next()?, TIME_FORM).ok()?;
        Some(Self {
            version,
            time: time.and_utc(),
            operation: parts.next()?.to_owned(),
            key: key.to_owned(),
        })
    }
}

/// The archived states, oldest first.
pub(crate) async fn archived(store: &Store, uuid: &str) -> Result<Vec<Version>> {
    let listed = store.list(&history_folder(uuid)).await?;
    let mut found: Vec<Version> = listed
        .iter()
        .filter_map(|it| Version::of_key(&it.path))
        .collect();
    found.sort_by_key(|it| (it.version, it.time));
    Ok(found)
}

/// A line before the bytes of an archived document.
#[derive(Serialize, Deserialize)]
struct Header {
    form: String,
}

/// Keeps a document under the name of its version. An archive with the same bytes is left as it is.
///
/// # Errors
/// [`Error::AlreadyExists`] if the name has other bytes.
pub(crate) async fn archive(
    store: &Store,
    version: &Version,
    bytes: &[u8],
    form: DocumentForm,
    limits: &Limits,
) -> Result<()> {
    let form = match form {
        DocumentForm::Json => "json",
        DocumentForm::MessagePack => "msgpack.zstd",
    };
    let header = Header {
        form: form.to_owned(),
    };
    let mut text = serde_json::to_vec(&header).map_err(|error| Error::bug(error.to_string()))?;
    text.push(b'\n');
    text.extend_from_slice(bytes);
    let packed = packed(&text).map_err(|error| Error::bug(error.to_string()))?;
    match store.create(&version.key, Bytes::from(packed)).await {
        Ok(()) => Ok(()),
        Err(pilum_store::Error::AlreadyExists { path }) => {
            match unpacked(store, &version.key, limits).await? == text {
                true => Ok(()),
                false => Err(Error::AlreadyExists {
                    path,
                    reason: "two states of the dataset have one version".to_owned(),
                }),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// The bytes of an archived document, and their form.
pub(crate) async fn read_archived(
    store: &Store,
    version: &Version,
    limits: &Limits,
) -> Result<(Bytes, DocumentForm)> {
    let damaged = |reason: &str| Error::corrupt(format!("{}/{}", store.uri(), version.key), reason);
    let text = unpacked(store, &version.key, limits).await?;
    let end = text.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| damaged("it has no first line"))?;
    let (header, rest) = text.split_at(end);
    let header: Header =
        serde_json::from_slice(header).map_err(|error| damaged(&error.to_string()))?;
    let form = match header.form.as_str() {
        "json" => DocumentForm::Json,
        "msgpack.zstd" => DocumentForm::MessagePack,
        _ => return Err(damaged("it names a form that does not exist")),
    };
    Ok((
        Bytes::copy_from_slice(rest.get(1..).unwrap_or_default()),
        form,
    ))
}

/// A frame with a checksum: a damaged archive is never taken for a state of the dataset.
fn packed(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.write_all(text)?;
    encoder.finish()
}

async fn unpacked(store: &Store, key: &str, limits: &Limits) -> Result<Vec<u8>> {
    let path = || format!("{}/{key}", store.uri());
    let bytes = store.read(key, limits.document_bytes).await?;
    let damaged = |error: std::io::Error| Error::corrupt(path(), error.to_string());
    let decoder = zstd::stream::read::Decoder::with_buffer(bytes.as_ref()).map_err(damaged)?;
    let mut text = Vec::new();
    let mut limited = decoder.take(limits.document_bytes.saturating_add(1));
    limited.read_to_end(&mut text).map_err(damaged)?;
    match text.len() as u64 > limits.document_bytes {
        true => Err(Error::limit(
            path(),
            format!("more than {} bytes", limits.document_bytes),
            format!("{} bytes", limits.document_bytes),
        )),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_versions_tell_what_they_are() {
        let time = DateTime::from_timestamp_micros(1_795_369_000_123_456).unwrap();
        let version = Version::named("sales", 7, time, "build_indices");
        assert!(
            version
                .key
                .starts_with("sales/.pilum/history/0000000007-2026")
        );
        assert_eq!(Version::of_key(&version.key), Some(version));
        for other in [
            "",
            "a.zst",
            "1-x-y.zst",
            "0000000001-20261122T000000.000000Z-a",
        ] {
            assert_eq!(Version::of_key(other), None, "{other}");
        }
    }

    #[test]
    fn a_document_that_another_library_changed_is_not_described() {
        let mut document = DatasetMetadata::new("sales").unwrap();
        let book = Bookkeeping {
            version: 3,
            commit: "c".to_owned(),
            time: now_text(),
            operation: "update".to_owned(),
            schemas: BTreeMap::new(),
            document: String::new(),
        };
        book.put(&mut document).unwrap();
        let found = Bookkeeping::of(&document).unwrap();
        assert_eq!(found.version, 3);
        assert!(found.time().is_some());
        assert!(found.describes(&document).unwrap());
        document.partition_keys = Some(vec!["p".to_owned()]);
        assert!(!found.describes(&document).unwrap());
    }
}
