//! Encoding the end of a data file: checksum arrays, page table, statistics, dictionary values, embedded manifest, extension block,
//! Metadata, footer (`docs/format.md`, sections 2 and 6).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use arrow_array::Array;
use arrow_schema::{DataType, Field as ArrowField, Fields, Schema as ArrowSchema};
use pilum_encoding::{StatisticsBuilder, block_checksums, crc32c, encode_page};
use pilum_format::proto::{file as proto, pilum};
use pilum_format::{Dictionaries, FieldId, Schema, encode_dictionary, set_dictionary};
use prost::Message;

use super::record::{PageRecord, ValidityRecord, Written};
use crate::error::{Error, Result};
use crate::footer::{DIRECTORY_ENTRY, EXTENSION_VERSION, FOOTER_VERSION, MAGIC};
use crate::options::WriteOptions;

/// The encoded end of a file.
#[derive(Debug)]
pub(super) struct Trailer {
    pub(super) bytes: Vec<u8>,
    pub(super) metadata_crc32c: u32,
    pub(super) needs_extension: bool,
}

/// Bytes that follow the first `base` bytes of a file.
struct Tail {
    base: u64,
    bytes: Vec<u8>,
}

impl Tail {
    fn position(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Appends a u32 length and the message; returns the position of the length.
    fn push_message(&mut self, message: &[u8]) -> Result<u64> {
        let position = self.position();
        let length = u32::try_from(message.len()).map_err(|_| too_large("a metadata message"))?;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(message);
        Ok(position)
    }

    /// Appends a page without extension; returns its pair for the page table.
    fn push_page(&mut self, array: &dyn Array, nullable: bool) -> Result<(u64, u64)> {
        let position = self.position();
        let page = encode_page(array, nullable, None, position)
            .map_err(|error| Error::page("the data to write", "statistics", error))?;
        for buffer in &page.buffers {
            self.bytes.extend_from_slice(buffer.as_slice());
        }
        Ok((position + page.pointer, page.length))
    }

    /// The extent from `position` to the end of what was appended, with its checksums.
    fn extent(&self, position: u64, block: Option<NonZeroUsize>) -> Option<pilum::Extent> {
        let start = usize::try_from(position - self.base).ok()?;
        let bytes = self.bytes.get(start..)?;
        let block_crc32c = block
            .map(|block| block_checksums([bytes], block))
            .unwrap_or_default();
        Some(pilum::Extent {
            position,
            length: bytes.len() as u64,
            block_crc32c,
        })
    }
}

fn too_large(what: &str) -> Error {
    Error::InvalidInput {
        message: format!(
            "{what} is too large for the format; write fewer columns or smaller files"
        ),
    }
}

/// Encodes all that follows the pages of a file.
pub(super) fn encode(
    schema: &Schema,
    written: &Written,
    statistics: BTreeMap<FieldId, StatisticsBuilder>,
    dictionaries: &Dictionaries,
    options: &WriteOptions,
) -> Result<Trailer> {
    let block = options.checksum_block;
    let statistics_cover_nan = options.extended_statistics
        && statistics.keys().any(|id| {
            let field = schema.field_by_id(*id);
            field.is_some_and(|field| field.data_type.is_floating())
        });
    let mut tail = Tail {
        base: written.position,
        bytes: Vec::new(),
    };
    let records = push_checksum_arrays(&mut tail, written);
    let page_table_position = push_page_table(&mut tail, written);
    let page_table = tail.extent(page_table_position, block);

    let start = tail.position();
    let statistics_proto = push_statistics(&mut tail, statistics)?;
    let statistics = statistics_proto
        .as_ref()
        .and_then(|_| tail.extent(start, block));

    let start = tail.position();
    let mut described = schema.clone();
    let dictionary_has_empty = push_dictionaries(&mut tail, &mut described, dictionaries)?;
    let required = written.needs_extension || dictionary_has_empty;
    let dictionaries = match dictionaries.is_empty() {
        true => None,
        false => tail.extent(start, block),
    };

    let manifest_position = push_manifest(&mut tail, &described)?;
    let manifest = tail.extent(manifest_position, block);

    let extension = if block.is_some() || required {
        let directory_position = push_columns(&mut tail, &records)?;
        let extension = pilum::Extension {
            version: EXTENSION_VERSION,
            block_size: block
                .and_then(|block| u32::try_from(block.get()).ok())
                .unwrap_or(0),
            directory: tail.extent(directory_position, block),
            page_table,
            statistics,
            dictionaries,
            manifest,
            required,
            dictionary_has_empty,
            statistics_cover_nan,
        };
        Some(push_extension(&mut tail, &extension)?)
    } else {
        None
    };
    let metadata = proto::Metadata {
        manifest_position,
        batch_offsets: written.batch_offsets.clone(),
        page_table_position,
        statistics: statistics_proto,
        extension,
    };
    let metadata_crc32c = push_metadata(&mut tail, &metadata)?;
    Ok(Trailer {
        bytes: tail.bytes,
        metadata_crc32c,
        needs_extension: required,
    })
}

/// Appends the embedded manifest of a schema whose dictionary positions are known; returns its position.
fn push_manifest(tail: &mut Tail, schema: &Schema) -> Result<u64> {
    let manifest = proto::EmbeddedManifest {
        fields: schema.to_protos()?,
        version: 1,
        schema_metadata: schema.metadata_protos(),
        writer_version: Some(proto::WriterVersion {
            library: "pilum".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        }),
        data_format: Some(proto::DataStorageFormat {
            file_format: "lance".to_owned(),
            version: "0.1".to_owned(),
        }),
    };
    tail.push_message(&manifest.encode_to_vec())
}

/// Appends the extension block; returns the pointer to it.
fn push_extension(
    tail: &mut Tail,
    extension: &pilum::Extension,
) -> Result<pilum::ExtensionPointer> {
    let message = extension.encode_to_vec();
    let position = tail.push_message(&message)?;
    Ok(pilum::ExtensionPointer {
        position,
        length: message.len() as u64,
        crc32c: crc32c(&message),
    })
}

/// Appends Metadata and the footer; returns the CRC-32C of Metadata.
fn push_metadata(tail: &mut Tail, metadata: &proto::Metadata) -> Result<u32> {
    let message = metadata.encode_to_vec();
    let position = tail.push_message(&message)?;
    tail.bytes.extend_from_slice(&position.to_le_bytes());
    let (major, minor) = FOOTER_VERSION;
    tail.bytes.extend_from_slice(&major.to_le_bytes());
    tail.bytes.extend_from_slice(&minor.to_le_bytes());
    tail.bytes.extend_from_slice(MAGIC);
    Ok(crc32c(&message))
}

/// Appends the page table: pairs of position and length, up to the largest id that owns a page.
fn push_page_table(tail: &mut Tail, written: &Written) -> u64 {
    let position = tail.position();
    let num_batches = written.batch_offsets.len() - 1;
    let owns = |column: &Vec<PageRecord>| column.iter().any(|page| page.in_table);
    let rows = written
        .columns
        .iter()
        .rposition(owns)
        .map_or(0, |last| last + 1);
    for column in &written.columns[..rows] {
        if owns(column) {
            for page in column {
                tail.bytes.extend_from_slice(&page.pointer.to_le_bytes());
                tail.bytes.extend_from_slice(&page.length.to_le_bytes());
            }
        } else {
            tail.bytes.resize(tail.bytes.len() + 16 * num_batches, 0);
        }
    }
    position
}

/// Appends the statistics: for each column that has them a struct of null count, minimum and maximum, one row per batch.
fn push_statistics(
    tail: &mut Tail,
    statistics: BTreeMap<FieldId, StatisticsBuilder>,
) -> Result<Option<proto::StatisticsMetadata>> {
    if statistics.is_empty() {
        return Ok(None);
    }
    let mut fields = Vec::new();
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    for (id, builder) in statistics {
        let (null_count, min, max) = builder.finish();
        let leaves: [(&str, &dyn Array, bool); 3] = [
            ("null_count", &null_count, false),
            ("min_value", min.as_ref(), true),
            ("max_value", max.as_ref(), true),
        ];
        pairs.push((0, 0));
        for (_, array, nullable) in leaves {
            pairs.push(tail.push_page(array, nullable)?);
        }
        let members: Fields = leaves
            .iter()
            .map(|(name, array, nullable)| {
                ArrowField::new(*name, array.data_type().clone(), *nullable)
            })
            .collect();
        fields.push(ArrowField::new(
            id.to_string(),
            DataType::Struct(members),
            false,
        ));
    }
    let page_table_position = tail.position();
    for (position, length) in pairs {
        tail.bytes.extend_from_slice(&position.to_le_bytes());
        tail.bytes.extend_from_slice(&length.to_le_bytes());
    }
    let schema = Schema::from_arrow(&ArrowSchema::new(fields), 0)?;
    Ok(Some(proto::StatisticsMetadata {
        schema: schema.to_protos()?,
        fields: schema.ids(),
        page_table_position,
    }))
}

/// Appends dictionary values by ascending field id and notes their positions in `schema`. True if one of the values is empty.
fn push_dictionaries(
    tail: &mut Tail,
    schema: &mut Schema,
    dictionaries: &Dictionaries,
) -> Result<bool> {
    let mut has_empty = false;
    for (&id, values) in dictionaries {
        let encoded = encode_dictionary(values, tail.position())?;
        if encoded.validity.is_some() && !encoded.has_empty {
            let message = "dictionary values hold nulls; put the nulls into the keys".to_owned();
            return Err(Error::InvalidInput { message });
        }
        tail.bytes.extend_from_slice(&encoded.bytes);
        set_dictionary(&mut schema.fields, id, encoded.position);
        has_empty |= encoded.has_empty;
    }
    Ok(has_empty)
}

/// Appends the checksum arrays of all pages; returns the column records, which hold their positions.
///
/// They come first, because they are the largest block and a reader needs few of them. The blocks that it needs first are then
/// near the end of the file, and a reader gets them together with the footer.
fn push_checksum_arrays(tail: &mut Tail, written: &Written) -> Vec<pilum::ColumnExtension> {
    let mut records = Vec::with_capacity(written.columns.len());
    for column in &written.columns {
        let mut record = pilum::ColumnExtension::default();
        for page in column {
            record.pages.push(push_checksums(tail, page));
        }
        records.push(record);
    }
    records
}

/// Appends the column records and the directory; returns the position of the directory.
fn push_columns(tail: &mut Tail, records: &[pilum::ColumnExtension]) -> Result<u64> {
    let mut directory = Vec::with_capacity(records.len() * DIRECTORY_ENTRY);
    for record in records {
        let is_needed = record
            .pages
            .iter()
            .any(|page| page.length > 0 || !page.validity.is_empty());
        let record = if is_needed {
            record.encode_to_vec()
        } else {
            Vec::new()
        };
        let position = if record.is_empty() {
            0
        } else {
            tail.position()
        };
        let length = u32::try_from(record.len()).map_err(|_| too_large("a column directory"))?;
        let checksum = if record.is_empty() {
            0
        } else {
            crc32c(&record)
        };
        directory.extend_from_slice(&position.to_le_bytes());
        directory.extend_from_slice(&length.to_le_bytes());
        directory.extend_from_slice(&checksum.to_le_bytes());
        tail.bytes.extend_from_slice(&record);
    }
    let position = tail.position();
    tail.bytes.extend_from_slice(&directory);
    Ok(position)
}

fn push_checksums(tail: &mut Tail, page: &PageRecord) -> pilum::PageExtension {
    let checksums: Vec<u8> = page
        .checksums
        .iter()
        .flat_map(|checksum| checksum.to_le_bytes())
        .collect();
    let checksums_position = if checksums.is_empty() {
        0
    } else {
        tail.position()
    };
    let checksums_crc32c = if checksums.is_empty() {
        0
    } else {
        crc32c(&checksums)
    };
    tail.bytes.extend_from_slice(&checksums);
    let mut validity: Vec<pilum::Validity> = page.validity.iter().map(validity_proto).collect();
    while validity
        .last()
        .is_some_and(|level| level.kind() == pilum::validity::Kind::V1)
    {
        validity.pop();
    }
    pilum::PageExtension {
        position: page.position,
        length: page.num_bytes,
        checksums_position,
        checksums_crc32c,
        validity,
        encoding: 0,
    }
}

fn validity_proto(level: &ValidityRecord) -> pilum::Validity {
    use pilum::validity::Kind;
    let (kind, bitmap) = match level {
        ValidityRecord::V1 => (Kind::V1, None),
        ValidityRecord::AllValid => (Kind::AllValid, None),
        ValidityRecord::AllNull => (Kind::AllNull, None),
        ValidityRecord::Bitmap {
            position,
            num_bytes,
            checksums,
        } => {
            let extent = pilum::Extent {
                position: *position,
                length: *num_bytes,
                block_crc32c: checksums.clone(),
            };
            (Kind::Bitmap, Some(extent))
        }
    };
    pilum::Validity {
        kind: kind.into(),
        bitmap,
    }
}
