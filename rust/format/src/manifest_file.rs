//! A manifest file, byte by byte.
//!
//! ```text
//! dictionary values | index section | transaction | manifest | u64 position | u16 0 | u16 2 | "LANC"
//!                     \______________ each with a u32 length ____________/     of the manifest
//! ```
//!
//! All parts are found from the footer. Manifests of pilum have checksums of all parts (`docs/format.md`, section 7);
//! those of other writers have none, and are read without.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use arrow_array::Array;
use bytes::Bytes;
use pilum_encoding::crc32c;
use prost::Message;

use crate::decode_budget::{DecodeBudget, MANIFEST};
use crate::dictionary_values::{Dictionaries, decode_dictionary, encode_dictionary};
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Sections};
use crate::message_size::count_fields;
use crate::proto::file::Field;
use crate::proto::table as proto;
use crate::raw_fields::{contents, without_fields};
use crate::schema::{FieldId, Schema};
use crate::transaction::Transaction;
use crate::type_declarations::{TYPE, declared_type};
use crate::{fragment, length_prefixed as wire};

const MAGIC: &[u8; 4] = b"LANC";
const FOOTER_LEN: usize = 16;
/// Numbers of `Manifest.fields`, `fragments` and `crc32c`.
const FIELDS: u64 = 1;
const FRAGMENTS: u64 = 2;
const CRC_FIELD: u64 = 1000;

/// A decoded manifest file.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestFile {
    /// The manifest.
    pub manifest: Manifest,
    /// The transaction that made the version, when the file holds a copy.
    pub transaction: Option<Transaction>,
}

impl ManifestFile {
    /// Reads a whole manifest file; `path` goes into errors.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no manifest or fail a checksum, `Unsupported` for features that this release does not know,
    /// `Limit` when decoding would take too much memory.
    pub fn decode(bytes: &Bytes, path: &str) -> Result<Self> {
        decode(bytes).map_err(|error| error.at(path))
    }

    /// The bytes of a manifest file.
    ///
    /// # Errors
    /// `Unsupported` for dictionary values without a form, `Limit` for a message of 4 GiB or more.
    pub fn encode(&self) -> Result<Bytes> {
        encode(&self.manifest, self.transaction.as_ref())
    }
}

fn decode(bytes: &Bytes) -> Result<ManifestFile> {
    let damaged = |error: &dyn Display| Error::corrupt(format!("the manifest message: {error}"));
    let range = message_range(bytes)?;
    let encoded = bytes.slice(range);
    let is_checksummed = check_crc(&encoded)?;
    let mut budget = DecodeBudget::new("the manifest", bytes.len());
    let rest = without_fields(&encoded, &[FRAGMENTS]).map_err(|error| damaged(&error))?;
    budget.take_schema(&rest)?;
    budget.take_message(&MANIFEST, &rest)?;
    let mut message = proto::Manifest {
        fields: Vec::with_capacity(count_fields(&rest, FIELDS)),
        ..Default::default()
    };
    message
        .merge(rest.as_slice())
        .map_err(|error| damaged(&error))?;
    let has_fragments = count_fields(&encoded, FRAGMENTS) > 0;
    Manifest::check_readable(&message, has_fragments)?;
    let fragments = fragment::decode_list(&mut budget, &encoded, FRAGMENTS)?;
    if message.extension.is_some() && !is_checksummed {
        // A writer stores both checksums or none, so damage changed the tag of this one.
        return Err(Error::corrupt("the manifest message lost its checksum"));
    }
    let extension = message.extension.clone().unwrap_or_default();

    if let Some(crc) = extension.dictionary_crc32c {
        let section = wire::slice(
            bytes,
            0,
            extension.dictionary_length,
            "the dictionary values",
        )?;
        compare("the dictionary values", crc, section)?;
    }
    let index_section = message.index_section.map(|position| -> Result<Bytes> {
        let range = wire::prefixed(bytes, position, "the index section")?;
        if let Some(crc) = extension.index_crc32c {
            compare("the index section", crc, &bytes[range.start - 4..range.end])?;
        }
        Ok(bytes.slice(range))
    });
    let index_section = index_section
        .transpose()?
        .filter(|section| !section.is_empty());
    let transaction_section = message
        .transaction_section
        .or(message.transaction_section_old);
    let transaction = transaction_section.map(|position| {
        let range = wire::prefixed(bytes, position, "the transaction")?;
        if let Some(crc) = extension.transaction_crc32c {
            compare("the transaction", crc, &bytes[range.start - 4..range.end])?;
        }
        Transaction::decode_within(&bytes.slice(range), &mut budget)
    });
    let transaction = transaction.transpose()?;

    let dictionaries = dictionaries(&message.fields, &extension, bytes, &mut budget)?;
    let sections = Sections {
        fragments,
        dictionaries,
        index_section,
        is_checksummed,
    };
    let manifest = Manifest::from_message(message, sections)?;
    Ok(ManifestFile {
        manifest,
        transaction,
    })
}

/// The dictionaries of all fields of a schema, by field id.
fn dictionaries(
    fields: &[Field],
    extension: &proto::ManifestExtension,
    bytes: &Bytes,
    budget: &mut DecodeBudget,
) -> Result<Dictionaries> {
    let declared = declared_dictionaries(fields);
    let mut dictionaries = Dictionaries::new();
    for field in fields {
        if field.dictionary.is_none() || !field.logical_type.starts_with("dict:") {
            continue;
        }
        let validity = extension
            .dictionaries
            .iter()
            .find(|it| it.field_id == field.id);
        let validity = validity.map(|it| it.validity.as_ref());
        let values = match declared.get(&field.id) {
            None => decode_dictionary("the manifest", field, bytes, validity)?,
            Some(name) => {
                let mut field = field.clone();
                field.metadata.insert(TYPE.to_owned(), name.clone().into());
                decode_dictionary("the manifest", &field, bytes, validity)?
            }
        };
        // Dictionaries of different fields may name the same bytes.
        budget.take(values.get_array_memory_size() as u64)?;
        dictionaries.insert(field.id, values);
    }
    Ok(dictionaries)
}

/// The declared types of dictionaries that are items of lists, by field id: the list declares them. A schema that cannot be
/// read is refused elsewhere.
fn declared_dictionaries(fields: &[Field]) -> BTreeMap<FieldId, String> {
    let is_dictionary = |field: &Field| field.logical_type.starts_with("dict:");
    let is_item = |field: &&Field| is_dictionary(field) && field.parent_id != -1;
    let mut items: BTreeMap<FieldId, String> = BTreeMap::new();
    if !fields.iter().any(|field| is_item(&field)) {
        return items;
    }
    let Ok(schema) = Schema::from_protos("the manifest", fields, &BTreeMap::new()) else {
        return items;
    };
    for field in fields.iter().filter(is_item) {
        let declared = schema.field_by_id(field.id);
        let name = declared.and_then(|it| declared_type(&it.to_arrow()));
        items.extend(name.map(|name| (field.id, name)));
    }
    items
}

/// Where the manifest message lies, from the footer.
fn message_range(bytes: &[u8]) -> Result<Range<usize>> {
    let footer = bytes
        .len()
        .checked_sub(FOOTER_LEN)
        .and_then(|start| bytes.get(start..));
    let footer = footer.ok_or_else(|| {
        Error::corrupt(format!("{} bytes are too few for a manifest", bytes.len()))
    })?;
    if &footer[12..] != MAGIC {
        return Err(Error::corrupt(
            "the last four bytes are not \"LANC\": truncated, or no manifest",
        ));
    }
    let position = footer[..8]
        .try_into()
        .map(u64::from_le_bytes)
        .unwrap_or(u64::MAX);
    let range = wire::prefixed(bytes, position, "the manifest message")?;
    if range.end != bytes.len() - FOOTER_LEN {
        return Err(Error::corrupt(format!(
            "the manifest message ends at byte {}, the footer begins at {}",
            range.end,
            bytes.len() - FOOTER_LEN
        )));
    }
    Ok(range)
}

/// True if the message carries a checksum of itself and it is right.
fn check_crc(message: &[u8]) -> Result<bool> {
    let Some(at) = crc_range(message)? else {
        return Ok(false);
    };
    let stored = message[at.clone()]
        .try_into()
        .map(u32::from_le_bytes)
        .unwrap_or_default();
    let mut zeroed = message.to_vec();
    zeroed[at].fill(0);
    compare("the manifest message", stored, &zeroed)?;
    Ok(true)
}

fn crc_range(message: &[u8]) -> Result<Option<Range<usize>>> {
    let crc = contents(message, CRC_FIELD).last().transpose();
    let crc = crc.map_err(|error| Error::corrupt(format!("the manifest message: {error}")))?;
    Ok(crc.filter(|range| range.len() == 4))
}

fn compare(what: &str, stored: u32, bytes: &[u8]) -> Result<()> {
    let computed = crc32c(bytes);
    if computed == stored {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{what}: checksum {computed:08x}, stored {stored:08x}"
    )))
}

fn encode(manifest: &Manifest, transaction: Option<&Transaction>) -> Result<Bytes> {
    let mut out = Vec::new();
    let mut message = manifest.to_message();
    let mut extension = proto::ManifestExtension::default();

    for field in &mut message.fields {
        let Some(values) = manifest.dictionaries.get(&field.id) else {
            continue;
        };
        let encoded = encode_dictionary(values.as_ref(), out.len() as u64)?;
        out.extend_from_slice(&encoded.bytes);
        field.dictionary = Some(encoded.position.into());
        if let Some(validity) = encoded.validity {
            extension.dictionaries.push(proto::DictionaryValidity {
                field_id: field.id,
                validity: validity.into(),
            });
        }
    }
    if !out.is_empty() {
        extension.dictionary_length = out.len() as u64;
        extension.dictionary_crc32c = Some(crc32c(&out));
    }
    if let Some(section) = &manifest.index_section {
        let position = wire::put_prefixed(&mut out, section, "the index section")?;
        message.index_section = Some(position);
        extension.index_crc32c = Some(tail_crc(&out, section.len()));
    }
    if let Some(transaction) = transaction {
        let encoded = transaction.encode();
        let position = wire::put_prefixed(&mut out, &encoded, "the transaction")?;
        message.transaction_section = Some(position);
        extension.transaction_crc32c = Some(tail_crc(&out, encoded.len()));
    }
    message.crc32c = Some(0);
    message.extension = Some(extension);

    let mut encoded = message.encode_to_vec();
    if let Some(at) = crc_range(&encoded)? {
        let crc = crc32c(&encoded);
        encoded[at].copy_from_slice(&crc.to_le_bytes());
    }
    let position = wire::put_prefixed(&mut out, &encoded, "the manifest message")?;
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(&[0, 0, 2, 0]);
    out.extend_from_slice(MAGIC);
    Ok(out.into())
}

/// Checksum of the message of `len` bytes that was appended last, with its prefix.
fn tail_crc(out: &[u8], len: usize) -> u32 {
    let start = out.len().saturating_sub(len.saturating_add(4));
    crc32c(&out[start..])
}

#[cfg(test)]
mod tests;
