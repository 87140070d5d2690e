//! Options of a store: settings, and credentials that are never printed.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::{Error, Result};

/// The option that names a register of versions.
pub(crate) const MANIFEST_STORE: &str = "manifest_store";

/// The address of the DynamoDB service; means nothing to the store of the bytes.
#[cfg(feature = "cloud")]
pub(crate) const DYNAMODB_ENDPOINT: &str = "dynamodb_endpoint";

/// Printed in place of a secret.
const REDACTED: &str = "[redacted]";

/// The characters that clients percent-encode if they follow RFC 3986.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The value of a key that contains one of these words, in any case, is a secret.
const SECRET_WORDS: [&str; 8] = [
    "key",
    "secret",
    "token",
    "password",
    "passwd",
    "sas",
    "credential",
    "service_account",
];

/// The clients of remote stores read environment variables with these prefixes.
const CLIENT_PREFIXES: [&str; 4] = ["AWS_", "AZURE_", "GOOGLE_", "DYNAMODB_"];

/// Options of a store by name: `region`, `endpoint`, `aws_access_key_id`, `mmap`, ...
///
/// `Debug` shows every key, but no value whose key looks like a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StorageOptions(BTreeMap<String, String>);

impl StorageOptions {
    /// No options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an option; a later value replaces an earlier one.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(key.into(), value.into());
        self
    }

    /// The value of `key`, compared without regard to case.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(key))
            .map(|(_, value)| value.as_str())
    }

    /// All options in the order of their keys. Values are not redacted: do not print them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// True when there is no option.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a boolean option.
    pub(crate) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(key) else {
            return Ok(default);
        };
        match value.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(Error::invalid(
                format!("storage option {key:?}"),
                "write \"true\" or \"false\"",
            )),
        }
    }

    /// `text` with every secret in it replaced, plain or percent-encoded. Messages of other libraries are redacted before they
    /// become part of an error.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in self.secrets() {
            if secret.chars().nth(2).is_none() {
                clean = redact_word(&clean, &secret);
                continue;
            }
            clean = clean.replace(&secret, REDACTED);
            for escaped in [NON_ALPHANUMERIC, UNRESERVED] {
                let encoded = utf8_percent_encode(&secret, escaped).to_string();
                clean = clean.replace(&encoded, REDACTED);
                clean = clean.replace(&lower_hex(&encoded), REDACTED);
            }
        }
        clean
    }

    /// Every secret that the message of a store may repeat, the longest first: those of these options, and those of the
    /// environment variables that clients read.
    fn secrets(&self) -> Vec<String> {
        let own = self
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut secrets: Vec<String> = own.flat_map(|(key, value)| parts(&key, &value)).collect();
        for (key, value) in std::env::vars_os() {
            let (Some(key), Some(value)) = (key.to_str(), value.to_str()) else {
                continue;
            };
            let is_read = CLIENT_PREFIXES.iter().any(|it| key.starts_with(it));
            // Short values are settings, and replacing them would make messages unreadable.
            if is_read && value.len() >= 8 {
                secrets.extend(parts(key, value));
            }
        }
        secrets.retain(|secret| !secret.is_empty());
        secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for StorageOptions {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }
}

impl fmt::Debug for StorageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iter().map(|(key, value)| match is_secret(key) {
            true => (key, REDACTED.to_owned()),
            false => (key, without_user(value)),
        });
        f.debug_map().entries(shown).finish()
    }
}

/// The secret parts of one value. If the key marks the value as secret: the value, and the words of a document or query in
/// it, plain and decoded. Otherwise: the user and password of a URL.
fn parts(key: &str, value: &str) -> Vec<String> {
    if !is_secret(key) {
        let user = user_of(value).unwrap_or_default().to_owned();
        let login = percent_decode_str(&user).decode_utf8_lossy().into_owned();
        // As the header of basic authentication carries it.
        let sent = BASE64_STANDARD.encode(&login);
        return vec![user, login, sent];
    }
    let words = value.split(['"', '?', '&', '=']);
    let words = words.flat_map(|word| word.split("\\n"));
    let words = words.filter(|word| word.len() >= 8 && *word != value);
    let words = words.flat_map(|word| {
        let decoded = percent_decode_str(word).decode_utf8_lossy().into_owned();
        [word.to_owned(), decoded]
    });
    std::iter::once(value.to_owned()).chain(words).collect()
}

/// `text` with a secret of one or two characters replaced where it is a word of its own. Inside of words it is a coincidence:
/// replacing it there would make messages unreadable.
fn redact_word(text: &str, secret: &str) -> String {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(secret) {
        let continues = before.chars().next_back().or(clean.chars().next_back());
        let is_word = !continues.is_some_and(is_of_word) && !after.starts_with(is_of_word);
        clean.push_str(before);
        clean.push_str(if is_word { REDACTED } else { secret });
        rest = after;
    }
    clean.push_str(rest);
    clean
}

/// Percent-encoded text with its hexadecimal digits in lower case.
fn lower_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut lower = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        lower.push('%');
        lower.push_str(&digits.to_ascii_lowercase());
        lower.push_str(rest);
    }
    lower
}

/// The user and password in a URL: everything up to the last `@`, because a password may contain a slash that was not
/// escaped.
fn user_of(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    rest.rsplit_once('@').map(|(user, _)| user)
}

fn without_user(value: &str) -> String {
    match user_of(value) {
        Some(user) => value.replacen(user, REDACTED, 1),
        None => value.to_owned(),
    }
}

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &str = "c4n4ry/with+signs=";

    #[test]
    fn secrets_of_one_or_two_letters_are_replaced_as_words_only() {
        let options = StorageOptions::new()
            .with("aws_secret_access_key", "a")
            .with("token", "be");
        let clean = options.redact("a table cannot be read: token=be, key \"a\"; abe, be_a");
        let told = "[redacted] table cannot [redacted] read: token=[redacted], key \"[redacted]\"; abe, be_a";
        assert_eq!(clean, told);
    }

    #[test]
    fn secrets_never_print() {
        for key in [
            "aws_secret_access_key",
            "AWS_ACCESS_KEY_ID",
            "session_token",
            "azure_storage_sas_token",
            "password",
            "google_service_account",
            "account_key",
            "credential_file",
            "SAS",
        ] {
            let options = StorageOptions::new()
                .with(key, CANARY)
                .with("region", "eu-1");
            let shown = format!("{options:?} {options:#?}");
            assert!(!shown.contains("c4n4ry"), "{key}: {shown}");
            assert!(shown.contains(key) && shown.contains("eu-1"), "{shown}");
        }
    }

    #[test]
    fn foreign_text_is_cleaned_of_secrets_plain_and_encoded() {
        let options = StorageOptions::new()
            .with("sas_token", CANARY)
            .with("region", "eu-1");
        let clean = options.redact(&format!(
            "GET https://h/?sig={} failed in eu-1: {CANARY}",
            utf8_percent_encode(CANARY, NON_ALPHANUMERIC)
        ));
        assert!(!clean.contains("c4n4ry"), "{clean}");
        assert!(clean.contains("eu-1"), "{clean}");
        // Encoded by other clients, with other sets of characters.
        let options = StorageOptions::new().with("password", "c4n4ry-w/d é~");
        for echoed in [
            "c4n4ry-w/d é~",
            "c4n4ry-w%2Fd%20%C3%A9~",
            "c4n4ry-w%2fd%20%c3%a9~",
            "c4n4ry%2Dw%2Fd%20%C3%A9%7E",
            "c4n4ry%2dw%2fd%20%c3%a9%7e",
        ] {
            let clean = options.redact(&format!("/?p={echoed}&x"));
            assert_eq!(clean, "/?p=[redacted]&x");
        }
    }

    #[test]
    fn logins_are_cleaned_as_they_are_sent() {
        for (login, sent) in [
            ("Aladdin:open%20sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("a:b", "YTpi"),
            ("ab:c", "YWI6Yw=="),
            ("user:é", "dXNlcjrDqQ=="),
        ] {
            let options = StorageOptions::new().with("endpoint", format!("http://{login}@h/x"));
            let clean = options.redact(&format!("h: Basic {sent} is wrong"));
            assert_eq!(clean, "h: Basic [redacted] is wrong");
        }
    }

    #[test]
    fn passwords_in_addresses_and_documents_are_secrets() {
        let key = format!("{{\"private_key\": \"-----BEGIN-----\\n{CANARY}{CANARY}\\n\"}}");
        let options = StorageOptions::new()
            .with("endpoint", format!("http://user:{CANARY}@host/x"))
            .with("google_service_account_key", &key);
        let shown = format!("{options:?}");
        assert!(
            !shown.contains("c4n4ry") && shown.contains("host/x"),
            "{shown}"
        );
        let clean = options.redact(&format!(
            "user:{CANARY}@host: bad line {CANARY}{CANARY} in {key}"
        ));
        assert!(!clean.contains("c4n4ry"), "{clean}");
    }

    #[test]
    fn flags_are_strict() {
        let options: StorageOptions = [("MMAP", "False"), ("x", "maybe")].into_iter().collect();
        assert!(!options.flag("mmap", true).unwrap());
        assert!(options.flag("absent", true).unwrap());
        assert!(matches!(
            options.flag("x", true),
            Err(Error::InvalidInput { .. })
        ));
    }
}
