//! Commit markers: small files that record commit ids (`docs/format.md`, section 12.2).

use std::fmt::Write as _;

use pilum_encoding::crc32c;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::paths::MARKERS;

/// Transaction property that holds the id.
pub const COMMIT_ID: &str = "pilum.commit_id";

/// Longest id: its marker's name has twice as many characters.
const MAX_ID_BYTES: usize = 100;

/// Says that a caller's commit id may have been committed, and as which version once that is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitMarker {
    /// The caller's id.
    pub commit_id: String,
    /// The newest version when the marker was made.
    pub after_version: u64,
    /// The version that has the id, once it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// CRC-32C of the marker as it is written without this key: a wrong version would commit twice, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crc32c: Option<u32>,
}

impl CommitMarker {
    /// A marker made before the id is published, or once the version is known.
    #[must_use]
    pub fn new(commit_id: &str, after_version: u64, version: Option<u64>) -> Self {
        Self {
            commit_id: commit_id.to_owned(),
            after_version,
            version,
            crc32c: None,
        }
    }

    /// Decodes the marker of `commit_id`.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no marker, fail their checksum or belong to another id.
    pub fn decode(bytes: &[u8], commit_id: &str) -> Result<Self> {
        let mut marker: Self = serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt(format!("no commit marker: {error}")))?;
        let stored = marker.crc32c.take();
        let computed = crc32c(&marker.to_json()?);
        if stored.is_some_and(|stored| stored != computed) {
            return Err(Error::corrupt("the commit marker fails its checksum"));
        }
        if marker.commit_id != commit_id {
            let other = &marker.commit_id;
            return Err(Error::corrupt(format!(
                "the commit marker is that of {other:?}"
            )));
        }
        Ok(marker)
    }

    /// The marker file, with its checksum.
    ///
    /// # Errors
    /// `InvalidInput` when the id has no JSON form.
    pub fn encode(mut self) -> Result<Vec<u8>> {
        self.crc32c = None;
        self.crc32c = Some(crc32c(&self.to_json()?));
        self.to_json()
    }

    fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::invalid("commit_id", error.to_string()))
    }
}

/// The path of the marker of a commit id.
///
/// # Errors
/// `InvalidInput` when the id is empty or too long.
pub fn marker_path(commit_id: &str) -> Result<String> {
    if commit_id.is_empty() || commit_id.len() > MAX_ID_BYTES {
        let reason = format!(
            "must have 1 to {MAX_ID_BYTES} bytes, this one has {}",
            commit_id.len()
        );
        return Err(Error::invalid("commit_id", reason));
    }
    let mut path = format!("{MARKERS}/");
    for byte in commit_id.bytes() {
        // Writing to a String cannot fail.
        let _ = write!(path, "{byte:02x}");
    }
    path.push_str(".json");
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_never_names_another_version() {
        for version in [None, Some(41)] {
            let sound = CommitMarker::new("load-7", 40, version).encode().unwrap();
            let mine = CommitMarker::decode(&sound, "load-7").unwrap();
            assert_eq!((mine.after_version, mine.version), (40, version));
            for bit in 0..sound.len() * 8 {
                let mut bytes = sound.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                match CommitMarker::decode(&bytes, "load-7") {
                    Ok(it) => assert_eq!((it.after_version, it.version), (40, version), "{bit}"),
                    Err(error) => assert_eq!(error.kind(), "corrupt", "bit {bit}"),
                }
            }
            assert!(CommitMarker::decode(&sound, "load-8").is_err());
        }
    }
}
