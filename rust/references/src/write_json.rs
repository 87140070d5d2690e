//! Sets as JSON documents of versions 0 and 1.

use std::io::Write;

use crate::error::{Error, Result};
use crate::json::write_text;
use crate::lang::append_int;
use crate::set::ReferenceSet;
use crate::value::{Reference, decoded, text_of};
use crate::write_gen::Generated;

/// The version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentVersion {
    /// Keys alone: the most portable form.
    Zero,
    /// With templates for the common beginnings of URLs, where they save space.
    One,
    /// As `One`, with `gen` for arrays whose chunks lie in their files at equal distances. Readers that know no `gen`, such as
    /// fsspec from 2026.6 on and GDAL, miss these chunks without a word.
    Generated,
}

/// Writes a set as one JSON document.
///
/// A set whose URLs or templates would be read differently, such as URLs with `{{`, is written without templates.
///
/// # Errors
/// `InvalidInput` when `out` fails; [`Error::Invalid`] for broken base64 in version 1, with which no reader opens the set.
pub fn write_document(
    set: &ReferenceSet,
    version: DocumentVersion,
    out: &mut impl Write,
) -> Result<()> {
    let templates = match version {
        DocumentVersion::Zero => Vec::new(),
        DocumentVersion::One | DocumentVersion::Generated => templates(set),
    };
    let failed =
        |error: std::io::Error| Error::invalid("output", format!("cannot be written: {error}"));
    // One text per URL, ready for the document: most sets have few.
    let urls: Vec<String> = set.urls().map(|url| url_text(url, &templates)).collect();
    let generated = match version {
        DocumentVersion::Generated if is_plain(set) => Generated::of(set, &urls),
        _ => Generated::default(),
    };
    let mut text = String::with_capacity(FLUSH + 4096);
    if version != DocumentVersion::Zero {
        text.push_str("{\"version\":1,");
        if !templates.is_empty() {
            text.push_str("\"templates\":{");
            for (at, (name, value)) in templates.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_text(&mut text, name);
                text.push(':');
                write_text(&mut text, value);
            }
            text.push_str("},");
        }
        if !generated.text.is_empty() {
            text.push_str("\"gen\":[");
            text.push_str(&generated.text);
            text.push_str("],");
        }
        text.push_str("\"refs\":");
    }
    text.push('{');
    let mut is_first = true;
    for number in set.numbers() {
        let Some((key, value)) = set.entry(number) else {
            continue;
        };
        if generated.is_made.get(number) == Some(&true) {
            continue;
        }
        if !is_first {
            text.push(',');
        }
        is_first = false;
        write_text(&mut text, key);
        text.push(':');
        let url = set.url_number(number).and_then(|it| urls.get(it));
        if let Reference::Inline(bytes) = &value
            && version != DocumentVersion::Zero
        {
            decoded(bytes).map_err(|fault| fault.at(key, "value"))?;
        }
        push_value(&mut text, &value, url.map_or("null", String::as_str));
        if text.len() >= FLUSH {
            out.write_all(text.as_bytes()).map_err(failed)?;
            text.clear();
        }
    }
    text.push('}');
    if version != DocumentVersion::Zero {
        text.push('}');
    }
    out.write_all(text.as_bytes()).map_err(failed)
}

const FLUSH: usize = 256 << 10;

fn push_value(text: &mut String, value: &Reference<'_>, url: &str) {
    match value {
        Reference::Inline(bytes) => write_text(text, &text_of(bytes)),
        Reference::Malformed { json } => text.push_str(json),
        Reference::File { .. } => {
            text.push('[');
            text.push_str(url);
            text.push(']');
        }
        Reference::Range { offset, size, .. } => {
            text.push('[');
            text.push_str(url);
            text.push(',');
            append_int(text, *offset);
            text.push(',');
            append_int(text, *size);
            text.push(']');
        }
    }
}

fn url_text(url: &str, templates: &[(String, String)]) -> String {
    let mut text = String::new();
    let longest = templates
        .iter()
        .filter(|(_, value)| url.starts_with(value.as_str()))
        .max_by_key(|(_, value)| value.len());
    match longest {
        Some((name, value)) => {
            let rest = url.get(value.len()..).unwrap_or_default();
            write_text(&mut text, &format!("{{{{{name}}}}}{rest}"));
        }
        None => write_text(&mut text, url),
    }
    text
}

/// Whether templates do not change what the set means. Any brace could be read as a part of a template by one reader or another,
/// and a value with an array that means nothing is refused when a set with templates is opened.
fn is_plain(set: &ReferenceSet) -> bool {
    let is_plain = |url: &str| !url.contains(['{', '}', '\n', '\r']);
    set.urls().all(is_plain) && set.malformed().next().is_none() && set.has_target().is_none()
}

/// Templates for folders and files that many references share. The key of a template saves space only if it is shorter.
fn templates(set: &ReferenceSet) -> Vec<(String, String)> {
    const MOST: usize = 16;
    if !is_plain(set) {
        return Vec::new();
    }
    let mut uses = vec![0_u64; set.urls().count()];
    for number in set.numbers() {
        if let Some(slot) = set.url_number(number).and_then(|it| uses.get_mut(it)) {
            *slot += 1;
        }
    }
    let mut saved: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for (url, uses) in set.urls().zip(&uses) {
        let folder = url
            .rfind('/')
            .map_or("", |at| url.get(..=at).unwrap_or_default());
        for prefix in [folder, url] {
            if prefix.len() > 8 && *uses > 0 {
                *saved.entry(prefix).or_default() += uses * prefix.len() as u64;
            }
        }
        // Sets of many files: folders are enough, and the map stays small.
        if saved.len() > 100_000 {
            return Vec::new();
        }
    }
    let mut best: Vec<(&str, u64)> = saved
        .into_iter()
        .filter(|(it, saved)| *saved > 4 * it.len() as u64)
        .collect();
    best.sort_by_key(|(prefix, saved)| (std::cmp::Reverse(*saved), *prefix));
    best.truncate(MOST);
    let named = best.into_iter().enumerate();
    named
        .map(|(at, (prefix, _))| (format!("t{at}"), prefix.to_owned()))
        .collect()
}
