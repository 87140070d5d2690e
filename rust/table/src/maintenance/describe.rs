//! Describing one version of a table, or one data file on its own, for people who look into it.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use chrono::SecondsFormat;
use pilum_common::{path_fault, type_name};
use pilum_file::{FileDescription, FileReader, OpenOptions};
use pilum_format::{DeletionFileKind, Field, Fragment, NamingScheme, flags};
use pilum_store::{StorageOptions, Store};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::maintenance::verify::{FragmentRows, Uncovered, VerifyReport};
use crate::read::snapshot::Snapshot;

/// One version of a table. Serialised, the names of the fields are those of the command line's JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TableDescription {
    /// The address, without secrets.
    pub uri: String,
    /// The number of the version.
    pub version: u64,
    /// When it was committed: RFC 3339, UTC.
    pub timestamp: String,
    /// Library and version of who wrote the manifest.
    pub writer: Option<(String, String)>,
    /// Version of the data files: "0.1".
    pub data_format: String,
    /// "lance" when every reader of Lance v1 can read the version, "lossless" when it takes our extension.
    pub compat: &'static str,
    /// How manifests are named: "V1" or "V2".
    pub naming_scheme: &'static str,
    /// Size of the manifest.
    pub num_manifest_bytes: u64,
    /// Names of the flags that a reader must know.
    pub reader_flags: Vec<String>,
    /// Names of the flags that a writer must know.
    pub writer_flags: Vec<String>,
    /// Whether rows carry ids that stay theirs.
    pub has_stable_row_ids: bool,
    /// Whether the table has secondary indices, of which pilum knows nothing more.
    pub has_indices: bool,
    /// Table configuration.
    pub config: BTreeMap<String, String>,
    /// Live rows.
    pub num_rows: u64,
    /// Rows that are deleted and still in the files.
    pub num_deleted_rows: u64,
    /// Data files.
    pub num_files: u64,
    /// Their bytes; absent while a writer did not say.
    pub num_bytes: Option<u64>,
    /// What checksums cover.
    pub checksums: ChecksumCoverage,
    /// Every node of the schema, depth first.
    pub columns: Vec<TableColumn>,
    /// The fragments, in row order.
    pub fragments: Vec<FragmentDescription>,
}

/// How much of a version checksums cover, as its manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChecksumCoverage {
    /// The manifest, with its transaction, dictionary values and row ids.
    pub manifest: bool,
    /// Data files whose metadata is covered.
    pub num_data_files: u64,
    /// Deletion files that are covered.
    pub num_deletion_files: u64,
}

/// One node of the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TableColumn {
    /// Field id.
    pub id: i32,
    /// Names from the top, joined by dots.
    pub name: String,
    /// The Arrow type.
    pub data_type: String,
    /// Whether nulls may be stored.
    pub nullable: bool,
}

/// One fragment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FragmentDescription {
    /// Its id.
    pub id: u64,
    /// Live rows.
    pub num_rows: u64,
    /// Rows in the files.
    pub physical_rows: u64,
    /// Its data files.
    pub files: Vec<DataFileDescription>,
    /// Its deletion file.
    pub deletion: Option<DeletionDescription>,
}

/// One data file, as the manifest knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DataFileDescription {
    /// Path below the table.
    pub path: String,
    /// Its size; absent where the writer did not say.
    pub num_bytes: Option<u64>,
    /// Field ids in it; -2 where a later file took over.
    pub field_ids: Vec<i32>,
    /// Whether the manifest covers its metadata by a checksum.
    pub is_covered: bool,
    /// Whether a reader of plain version 1 files would misread it.
    pub needs_extension: bool,
}

/// One deletion file, as the manifest knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeletionDescription {
    /// Path below the table.
    pub path: String,
    /// "arrow" or "bitmap".
    pub kind: &'static str,
    /// Rows that it names.
    pub num_rows: u64,
    /// Whether the manifest covers it by a checksum.
    pub is_covered: bool,
}

impl Snapshot {
    /// What the version consists of. Nothing is read: the manifest says it all.
    #[must_use]
    pub fn describe(&self) -> TableDescription {
        let manifest = self.manifest();
        let files = || self.fragments().iter().flat_map(|it| &it.files);
        let deletions = || {
            self.fragments()
                .iter()
                .filter_map(|it| it.deletion.as_ref())
        };
        let count = |count: usize| count as u64;
        let sizes = files().map(|file| Some(file.byte_len).filter(|&size| size > 0));
        TableDescription {
            uri: self.uri().to_owned(),
            version: self.version(),
            timestamp: manifest
                .timestamp
                .to_rfc3339_opts(SecondsFormat::Micros, true),
            writer: manifest.writer.clone(),
            data_format: manifest
                .data_format
                .clone()
                .unwrap_or_else(|| "0.1".to_owned()),
            compat: if manifest.needs_extension() {
                "lossless"
            } else {
                "lance"
            },
            naming_scheme: match self.naming_scheme() {
                NamingScheme::V1 => "V1",
                NamingScheme::V2 => "V2",
            },
            num_manifest_bytes: self.manifest_byte_len(),
            reader_flags: flag_names(manifest.reader_flags),
            writer_flags: flag_names(manifest.writer_flags),
            has_stable_row_ids: manifest.has_stable_row_ids(),
            has_indices: manifest.index_section.is_some(),
            config: manifest.config.clone(),
            num_rows: self.num_rows(),
            num_deleted_rows: deletions()
                .fold(0, |sum, it| sum.saturating_add(it.num_deleted_rows)),
            num_files: count(files().count()),
            num_bytes: sizes.sum(),
            checksums: ChecksumCoverage {
                manifest: manifest.is_checksummed,
                num_data_files: count(files().filter(|it| it.metadata_crc32c.is_some()).count()),
                num_deletion_files: count(deletions().filter(|it| it.crc32c.is_some()).count()),
            },
            columns: columns(&self.schema().fields),
            fragments: self.fragments().iter().map(describe_fragment).collect(),
        }
    }
}

fn describe_fragment(fragment: &Fragment) -> FragmentDescription {
    let deletion = fragment.deletion.as_ref().map(|it| DeletionDescription {
        path: it.path(fragment.id),
        kind: match it.kind {
            DeletionFileKind::Arrow => "arrow",
            DeletionFileKind::Bitmap => "bitmap",
        },
        num_rows: it.num_deleted_rows,
        is_covered: it.crc32c.is_some(),
    });
    let files = fragment.files.iter().map(|file| DataFileDescription {
        path: file.full_path(),
        num_bytes: Some(file.byte_len).filter(|&size| size > 0),
        field_ids: file.field_ids.clone(),
        is_covered: file.metadata_crc32c.is_some(),
        needs_extension: file.needs_extension,
    });
    FragmentDescription {
        id: fragment.id,
        num_rows: fragment.num_rows().unwrap_or_default(),
        physical_rows: fragment.physical_rows,
        files: files.collect(),
        deletion,
    }
}

fn columns(fields: &[Field]) -> Vec<TableColumn> {
    let mut columns = Vec::new();
    let mut stack: Vec<(String, &Field)> =
        fields.iter().rev().map(|it| (String::new(), it)).collect();
    while let Some((above, field)) = stack.pop() {
        let name = format!("{above}{}", field.name);
        let below = format!("{name}.");
        stack.extend(field.children.iter().rev().map(|it| (below.clone(), it)));
        columns.push(TableColumn {
            id: field.id,
            name,
            data_type: type_name(&field.data_type),
            nullable: field.nullable,
        });
    }
    columns
}

fn flag_names(word: u64) -> Vec<String> {
    const NAMES: [(u64, &str); 6] = [
        (flags::DELETION_FILES, "deletion files"),
        (flags::STABLE_ROW_IDS, "stable row ids"),
        (flags::V2_FILES, "version 2 files"),
        (flags::TABLE_CONFIG, "table config"),
        (flags::NO_TRANSACTION_FILES, "no transaction files"),
        (flags::EXTENSION, "pilum extension"),
    ];
    (0..u64::BITS)
        .map(|bit| 1 << bit)
        .filter(|flag| word & flag != 0)
        .map(
            |flag| match NAMES.iter().find(|(known, _)| *known == flag) {
                Some((_, name)) => (*name).to_owned(),
                None => format!("bit {}", flag.trailing_zeros()),
            },
        )
        .collect()
}

/// Opens one data file outside of its table.
async fn open_file(uri: &str, options: &StorageOptions) -> Result<FileReader> {
    let (folder, name) = match uri.rsplit_once('/') {
        Some((folder, name)) => (if folder.is_empty() { "/" } else { folder }, name),
        None => (".", uri),
    };
    if let Some(reason) = path_fault(name) {
        return Err(Error::invalid("the address of a file", reason));
    }
    let file = Store::open(folder, options)?.open_file(name, None).await?;
    Ok(FileReader::open(file, OpenOptions::default()).await?)
}

/// What lies where in one data file, looked at outside of its table.
///
/// # Errors
/// [`Error::NotFound`] or [`Error::Store`] without such a file, [`Error::File`] if it is damaged, of another format, or without the
/// schema of its own that describing takes.
pub async fn describe_file(uri: &str, options: &StorageOptions) -> Result<FileDescription> {
    Ok(open_file(uri, options).await?.describe().await?)
}

/// Reads and checks one data file outside of its table, by the schema and the dictionary values that are in it. The version of
/// the report is 0.
///
/// # Errors
/// As [`describe_file`]: damage that leaves the file open is in the report.
pub async fn verify_file(uri: &str, options: &StorageOptions) -> Result<VerifyReport> {
    let reader = open_file(uri, options).await?;
    let schema = reader.schema().await?;
    let dictionaries = reader.dictionaries(&schema).await?;
    let bad_values = |field: &Field, array: &ArrayRef, first_row: u64| {
        FragmentRows::default().bad_values(&field.name, array, first_row)
    };
    let found = reader.verify_with(&schema, &dictionaries, &bad_values);
    let found = found.await;
    let mut report = VerifyReport {
        num_files: 1,
        num_rows: found.num_rows,
        ..VerifyReport::default()
    };
    if !found.is_covered {
        report.uncovered.push(Uncovered {
            path: uri.to_owned(),
            reason: "no checksums: another library wrote the file".to_owned(),
        });
    }
    report.keep(uri, found.problems);
    Ok(report)
}
