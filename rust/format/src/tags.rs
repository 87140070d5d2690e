//! Tags: names for versions, one small JSON file each. They are not versioned themselves.

use std::collections::BTreeMap;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use pilum_encoding::crc32c;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::paths::TAGS;

/// A name for a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The version that it names.
    pub version: u64,
    /// The branch that the version lives on; pilum knows only the main line.
    pub branch: Option<String>,
    /// When it was made; old writers did not say.
    pub created_at: Option<DateTime<Utc>>,
    /// Size of the version's manifest, a hint.
    pub manifest_byte_len: u64,
}

/// The file: other writers' further keys are ignored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TagFile {
    #[serde(default)]
    branch: Option<String>,
    version: u64,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    updated_at: Option<String>,
    #[serde(default)]
    manifest_size: u64,
    #[serde(default)]
    metadata: BTreeMap<String, serde_json::Value>,
    /// CRC-32C of this file as it is written without this key. Ours: a peer that moves the tag drops it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crc32c: Option<u32>,
}

impl TagFile {
    fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::invalid("tag", format!("cannot be written: {error}")))
    }

    /// Of everything but itself, written again: the keys of other writers that we do not know are not covered.
    fn checksum(&mut self) -> Result<u32> {
        self.crc32c = None;
        Ok(crc32c(&self.to_json()?))
    }
}

impl Tag {
    /// A tag made now.
    #[must_use]
    pub fn new(version: u64, manifest_byte_len: u64) -> Self {
        Self {
            version,
            branch: None,
            created_at: Some(Utc::now()),
            manifest_byte_len,
        }
    }

    /// Decodes a tag file.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no tag or fail their checksum.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut file: TagFile = serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt(format!("no tag: {error}")))?;
        if let Some(stored) = file.crc32c {
            let computed = file.checksum()?;
            if computed != stored {
                return Err(Error::corrupt(format!(
                    "the tag: checksum {computed:08x}, stored {stored:08x}"
                )));
            }
        }
        let time = |text: String| {
            DateTime::parse_from_rfc3339(&text)
                .ok()
                .map(|it| it.to_utc())
        };
        Ok(Self {
            version: file.version,
            branch: file.branch,
            created_at: file.created_at.and_then(time),
            manifest_byte_len: file.manifest_size,
        })
    }

    /// The tag file, with its checksum.
    ///
    /// # Errors
    /// `InvalidInput` when the tag has no JSON form.
    pub fn encode(&self) -> Result<Bytes> {
        let time = self
            .created_at
            .map(|it| it.to_rfc3339_opts(SecondsFormat::Nanos, true));
        let mut file = TagFile {
            branch: self.branch.clone(),
            version: self.version,
            created_at: time.clone(),
            updated_at: time,
            manifest_size: self.manifest_byte_len,
            metadata: BTreeMap::new(),
            crc32c: None,
        };
        file.crc32c = Some(file.checksum()?);
        Ok(file.to_json()?.into())
    }
}

/// The path of a tag's file.
///
/// # Errors
/// `InvalidInput` when the name is none that a tag can have.
pub fn tag_path(name: &str) -> Result<String> {
    let refuse = |reason: &str| Err(Error::invalid(format!("tag name {name:?}"), reason));
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    if name.is_empty() || !name.chars().all(is_legal) {
        return refuse("use letters, digits, \".\", \"-\" and \"_\"");
    }
    if name
        .split('/')
        .any(|part| part.is_empty() || part.starts_with('.') || part.ends_with('.'))
    {
        return refuse("no part may be empty, or begin or end with \".\"");
    }
    Ok(format!("{TAGS}/{name}.json"))
}

/// The tag that a file below the tags' folder holds; `None` for anything else that lies there.
#[must_use]
pub fn tag_name(path: &str) -> Option<&str> {
    let name = path
        .strip_prefix(TAGS)?
        .strip_prefix('/')?
        .strip_suffix(".json")?;
    tag_path(name).is_ok().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_every_writer_are_read() {
        let old = Tag::decode(br#"{"version":3,"manifestSize":1527}"#).unwrap();
        assert_eq!(
            (old.version, old.manifest_byte_len, old.created_at),
            (3, 1527, None)
        );
        let new =
            br#"{"branch":null,"version":4,"createdAt":"2026-07-01T10:00:00.5Z","updatedAt":null,
            "manifestSize":9,"metadata":{"a":1},"later":true}"#;
        let new = Tag::decode(new).unwrap();
        assert_eq!(new.created_at.unwrap().timestamp_millis() % 1000, 500);
        for bad in [
            &b"{}"[..],
            b"",
            b"[1]",
            br#"{"version":-1}"#,
            b"{\"version\":",
        ] {
            assert_eq!(Tag::decode(bad).unwrap_err().kind(), "corrupt");
        }
        let mine = Tag::new(7, 99);
        assert_eq!(Tag::decode(&mine.encode().unwrap()).unwrap(), mine);
    }

    #[test]
    fn a_flipped_bit_never_names_another_version() {
        let mine = Tag::new(12_345, 678);
        let sound = mine.encode().unwrap().to_vec();
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match Tag::decode(&bytes) {
                Ok(tag) => assert_eq!(tag, mine, "bit {bit}"),
                Err(error) => assert_eq!(error.kind(), "corrupt", "bit {bit}"),
            }
        }
    }

    #[test]
    fn names_stay_inside_their_folder() {
        for bad in [
            "", "..", "a/../b", ".a", "a.", "/a", "a/", "a b", "ä", "a\\b",
        ] {
            assert_eq!(
                tag_path(bad).unwrap_err().kind(),
                "invalid_input",
                "{bad:?}"
            );
        }
        let path = tag_path("v1.0/release_2-x").unwrap();
        assert_eq!(tag_name(&path), Some("v1.0/release_2-x"));
        assert_eq!(tag_name("_refs/tags/junk.txt"), None);
    }
}
