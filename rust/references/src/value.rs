//! Values of keys: bytes held inline, a file, or a range of a file.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

use crate::error::Fault;

/// Text with this prefix is decoded when it is read.
pub(crate) const BASE64: &str = "base64:";

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference<'a> {
    /// Bytes as they are stored; those that begin with `base64:` are decoded when they are read.
    Inline(Cow<'a, [u8]>),
    /// A whole file.
    File {
        /// The URL; `None` stands for the target that the reader names.
        url: Option<Cow<'a, str>>,
    },
    /// A range of a file.
    Range {
        /// The URL; `None` stands for the target that the reader names.
        url: Option<Cow<'a, str>>,
        /// The first byte. A negative one cannot be read.
        offset: i64,
        /// The number of bytes. A negative one cannot be read.
        size: i64,
    },
    /// A malformed value: reading it fails.
    Malformed {
        /// The value as it stands in the document.
        json: Cow<'a, str>,
    },
}

impl Reference<'_> {
    /// Whether both give the same bytes: inline bytes may be stored as they are or in base64.
    #[must_use]
    pub fn means_same(&self, other: &Reference<'_>) -> bool {
        match (self, other) {
            (Self::Inline(a), Reference::Inline(b)) if a != b => {
                matches!((decoded(a), decoded(b)), (Ok(a), Ok(b)) if a == b)
            }
            _ => self == other,
        }
    }

    /// The same value without borrows.
    #[must_use]
    pub fn into_owned(self) -> Reference<'static> {
        let own = |url: Option<Cow<'_, str>>| url.map(|it| Cow::Owned(it.into_owned()));
        match self {
            Self::Inline(bytes) => Reference::Inline(Cow::Owned(bytes.into_owned())),
            Self::File { url } => Reference::File { url: own(url) },
            Self::Range { url, offset, size } => Reference::Range {
                url: own(url),
                offset,
                size,
            },
            Self::Malformed { json } => Reference::Malformed {
                json: Cow::Owned(json.into_owned()),
            },
        }
    }
}

/// The bytes that stored inline bytes stand for.
pub(crate) fn decoded(stored: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    let Some(text) = stored.strip_prefix(BASE64.as_bytes()) else {
        return Ok(Cow::Borrowed(stored));
    };
    // As Python does it: characters outside of the alphabet are dropped, padding is needed, and what follows it is ignored.
    let engine = GeneralPurpose::new(
        &ALPHABET,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
            .with_decode_allow_trailing_bits(true),
    );
    if let Ok(bytes) = engine.decode(text) {
        return Ok(Cow::Owned(bytes));
    }
    let mut kept = Vec::with_capacity(text.len());
    for &it in text {
        if it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/') {
            kept.push(it);
        } else if it == b'=' && kept.len() % 4 >= 2 {
            kept.push(it);
            if kept.len() % 4 == 0 {
                break;
            }
        }
    }
    engine
        .decode(&kept)
        .map(Cow::Owned)
        .map_err(|_| Fault::value("the base64 text is broken: its padding or its length is wrong"))
}

/// The stored form of bytes for the column `raw` of Parquet: those that begin with `base64:` are wrapped once more, because
/// readers decode them.
pub(crate) fn raw_of(stored: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    let bytes = decoded(stored)?;
    if bytes.starts_with(BASE64.as_bytes()) {
        return Ok(Cow::Owned(wrapped(&bytes).into_bytes()));
    }
    Ok(bytes)
}

/// The stored form of bytes for JSON: text as it is, other bytes in base64.
pub(crate) fn text_of(stored: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(stored) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(wrapped(stored)),
    }
}

pub(crate) fn wrapped(bytes: &[u8]) -> String {
    let mut text = BASE64.to_owned();
    STANDARD.encode_string(bytes, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_as_python_does() {
        let read = |text: &str| decoded(text.as_bytes()).map(Cow::into_owned);
        assert_eq!(read("base64:YWJj").unwrap(), b"abc");
        assert_eq!(read("base64:!!!").unwrap(), b"");
        assert_eq!(read("base64:YW\nJj").unwrap(), b"abc");
        assert_eq!(read("base64:").unwrap(), b"");
        assert_eq!(read("Base64:YQ==").unwrap(), b"Base64:YQ==");
        assert!(read("base64:YQ").is_err());
        assert!(read("base64:Y").is_err());
    }
}
