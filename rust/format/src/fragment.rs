//! Fragments: the horizontal slices of a table, and the files that make them up.

use bytes::Bytes;
use pilum_common::path_fault;
use prost::Message;

use crate::decode_budget::{DecodeBudget, FILE, malformed};
use crate::error::{Error, Result};
use crate::message_size::{Part, Shape, count_fields};
use crate::paths::{DATA, DELETIONS};
use crate::proto::table as proto;
use crate::proto::table::data_fragment::{
    CreatedAtVersionSequence, LastUpdatedAtVersionSequence, RowIdSequence as ProtoRowIds,
};
use crate::raw_fields::contents;
use crate::row_ids::RowIdSequence;
use crate::row_versions::RowVersions;

/// In [`DataFile::field_ids`]: a column that a later file replaced.
pub const REPLACED_FIELD: i32 = -2;

/// Rows of one fragment have 32 bit offsets: the lower half of a row's address.
const MAX_ROWS: u64 = 1 << 32;

/// A slice of the table: data files with the same rows, and which of the rows are deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fragment {
    /// The upper half of its rows' addresses; never used twice in a table.
    pub id: u64,
    /// The data files; each holds some of the columns.
    pub files: Vec<DataFile>,
    /// The deletion file, if rows are deleted.
    pub deletion: Option<DeletionFile>,
    /// Rows in the data files, deleted ones included; 0 = unknown, ask a data file.
    pub physical_rows: u64,
    /// Encoded [`RowIdSequence`], in tables with stable row ids.
    pub row_ids: Option<Bytes>,
    /// Encoded [`RowVersions`]: the version that last changed each row.
    pub last_updated_at: Option<Bytes>,
    /// Encoded [`RowVersions`]: the version that created each row.
    pub created_at: Option<Bytes>,
}

/// One `.lance` file of a fragment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataFile {
    /// Name below `data/`.
    pub path: String,
    /// All field ids of the file, ascending; [`REPLACED_FIELD`] where a later file took over.
    pub field_ids: Vec<i32>,
    /// Version numbers of the file format, major and minor.
    pub file_version: (u32, u32),
    /// Size of the file in bytes, a hint; 0 = unknown. Some writers store a wrong size.
    pub byte_len: u64,
    /// CRC-32C of the file's metadata block, when pilum wrote the manifest entry.
    pub metadata_crc32c: Option<u32>,
    /// True if a reader of plain version 1 files would read it wrongly.
    pub needs_extension: bool,
}

/// Which rows of a fragment are deleted: all of them, in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionFile {
    /// How the file is written.
    pub kind: DeletionFileKind,
    /// The version that the deletion was computed on.
    pub read_version: u64,
    /// A random number that makes the name unique.
    pub id: u64,
    /// How many rows; 0 = unknown.
    pub num_deleted_rows: u64,
    /// CRC-32C of the file, when pilum wrote the manifest entry.
    pub crc32c: Option<u32>,
}

/// The two ways to write down deleted rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeletionFileKind {
    /// An Arrow IPC file with one column of offsets.
    Arrow,
    /// A portable Roaring bitmap.
    Bitmap,
}

impl DeletionFile {
    /// Path below the table's root.
    #[must_use]
    pub fn path(&self, fragment_id: u64) -> String {
        let extension = match self.kind {
            DeletionFileKind::Arrow => "arrow",
            DeletionFileKind::Bitmap => "bin",
        };
        format!(
            "{DELETIONS}/{fragment_id}-{}-{}.{extension}",
            self.read_version, self.id
        )
    }
}

impl DataFile {
    /// Path below the table's root.
    #[must_use]
    pub fn full_path(&self) -> String {
        format!("{DATA}/{}", self.path)
    }

    /// True if the file holds a live column of the schema.
    #[must_use]
    pub fn has_any(&self, is_live: impl Fn(i32) -> bool) -> bool {
        self.field_ids.iter().any(|id| is_live(*id))
    }
}

impl Fragment {
    /// Rows that are not deleted; `None` while a count is unknown (very old tables): open the files.
    #[must_use]
    pub fn num_rows(&self) -> Option<u64> {
        if self.physical_rows == 0 {
            return None;
        }
        match &self.deletion {
            None => Some(self.physical_rows),
            Some(deletion) if deletion.num_deleted_rows == 0 => None,
            Some(deletion) => self.physical_rows.checked_sub(deletion.num_deleted_rows),
        }
    }

    /// The stable row ids, one per physical row.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no row ids, or not one for each physical row.
    pub fn row_ids(&self) -> Result<Option<RowIdSequence>> {
        let Some(encoded) = &self.row_ids else {
            return Ok(None);
        };
        let ids = RowIdSequence::decode(encoded)?;
        self.check_len("row ids", ids.len())?;
        Ok(Some(ids))
    }

    /// The version that last changed each row.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no row versions, or not one for each physical row.
    pub fn last_updated_at(&self) -> Result<Option<RowVersions>> {
        self.versions("last-updated versions", self.last_updated_at.as_ref())
    }

    /// The version that created each row.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no row versions, or not one for each physical row.
    pub fn created_at(&self) -> Result<Option<RowVersions>> {
        self.versions("created versions", self.created_at.as_ref())
    }

    fn versions(&self, what: &str, encoded: Option<&Bytes>) -> Result<Option<RowVersions>> {
        let Some(encoded) = encoded else {
            return Ok(None);
        };
        let versions = RowVersions::decode(encoded)?;
        self.check_len(what, versions.len())?;
        Ok(Some(versions))
    }

    fn check_len(&self, what: &str, len: u64) -> Result<()> {
        if self.physical_rows != 0 && len != self.physical_rows {
            return Err(Error::corrupt(format!(
                "fragment {} has {len} {what} for {} rows",
                self.id, self.physical_rows
            )));
        }
        Ok(())
    }

    /// True if a reader of plain version 1 files would read one of the data files wrongly.
    #[must_use]
    pub fn needs_extension(&self) -> bool {
        self.files.iter().any(|file| file.needs_extension)
    }

    /// Reads a fragment of a manifest or transaction; refuses what lies outside of version 1 tables.
    pub(crate) fn decode(message: proto::DataFragment) -> Result<Self> {
        let id = message.id;
        let refused = |feature: &str| {
            Error::unsupported(
                format!("{feature} in fragment {id}"),
                "rewrite the table with the program that wrote it",
            )
        };
        if !message.overlays.is_empty() {
            return Err(refused("an overlay file"));
        }
        if id > u64::from(u32::MAX) {
            return Err(Error::corrupt(format!("fragment id {id} exceeds 32 bits")));
        }
        if message.physical_rows > MAX_ROWS {
            let rows = message.physical_rows;
            return Err(Error::corrupt(format!(
                "fragment {id} claims {rows} rows, more than 2^32"
            )));
        }
        let row_ids = match message.row_id_sequence {
            None => None,
            Some(ProtoRowIds::InlineRowIds(bytes)) => Some(bytes),
            Some(ProtoRowIds::ExternalRowIds(_)) => return Err(refused("a file of row ids")),
        };
        let last_updated_at = match message.last_updated_at_version_sequence {
            None => None,
            Some(LastUpdatedAtVersionSequence::InlineLastUpdatedAtVersions(bytes)) => Some(bytes),
            Some(_) => return Err(refused("a file of row versions")),
        };
        let created_at = match message.created_at_version_sequence {
            None => None,
            Some(CreatedAtVersionSequence::InlineCreatedAtVersions(bytes)) => Some(bytes),
            Some(_) => return Err(refused("a file of row versions")),
        };
        let mut files = Vec::with_capacity(message.files.len());
        for file in message.files {
            files.push(DataFile::decode(file, id)?);
        }
        let deletion = message
            .deletion_file
            .map(|file| DeletionFile::decode(file, id));
        Ok(Self {
            id,
            files,
            deletion: deletion.transpose()?,
            physical_rows: message.physical_rows,
            row_ids,
            last_updated_at,
            created_at,
        })
    }

    /// Bytes of heap memory of the fragment. Row ids and versions are slices of the manifest and not counted.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let below = |file: &DataFile| {
            let ids = file.field_ids.capacity().saturating_mul(size_of::<i32>());
            file.path.capacity().saturating_add(ids)
        };
        let files = self.files.capacity().saturating_mul(size_of::<DataFile>());
        (files + self.files.iter().map(below).sum::<usize>()) as u64
    }

    pub(crate) fn encode(&self) -> proto::DataFragment {
        proto::DataFragment {
            id: self.id,
            files: self.files.iter().map(DataFile::encode).collect(),
            deletion_file: self.deletion.as_ref().map(DeletionFile::encode),
            physical_rows: self.physical_rows,
            row_id_sequence: self.row_ids.clone().map(ProtoRowIds::InlineRowIds),
            last_updated_at_version_sequence: self
                .last_updated_at
                .clone()
                .map(LastUpdatedAtVersionSequence::InlineLastUpdatedAtVersions),
            created_at_version_sequence: self
                .created_at
                .clone()
                .map(CreatedAtVersionSequence::InlineCreatedAtVersions),
            overlays: Vec::new(),
        }
    }
}

impl DataFile {
    pub(crate) fn decode(message: proto::DataFile, fragment_id: u64) -> Result<Self> {
        let proto::DataFile {
            path,
            fields: field_ids,
            file_size_bytes: byte_len,
            ..
        } = message;
        let place = || format!("data file {path:?} of fragment {fragment_id}");
        let file_version = (message.file_major_version, message.file_minor_version);
        if file_version.0 > 0 || file_version.1 > 2 {
            return Err(Error::unsupported(
                format!(
                    "{}: file version {}.{}",
                    place(),
                    file_version.0,
                    file_version.1
                ),
                "pilum reads tables of storage version 0.1 (\"legacy\")",
            ));
        }
        if message.base_id.is_some() {
            return Err(Error::unsupported(
                format!("{}: a second base path", place()),
                "copy the table into one folder",
            ));
        }
        if let Some(reason) = path_fault(&path) {
            return Err(Error::corrupt(format!("{}: {reason}", place())));
        }
        if let Some(bad) = field_ids
            .iter()
            .find(|id| **id < 0 && **id != REPLACED_FIELD)
        {
            return Err(Error::corrupt(format!("{}: field id {bad}", place())));
        }
        let extension = message.extension.unwrap_or_default();
        Ok(Self {
            path,
            field_ids,
            file_version,
            byte_len,
            metadata_crc32c: extension.metadata_crc32c,
            needs_extension: extension.needs_extension_reader,
        })
    }

    pub(crate) fn encode(&self) -> proto::DataFile {
        let extended = self.metadata_crc32c.is_some() || self.needs_extension;
        proto::DataFile {
            path: self.path.clone(),
            fields: self.field_ids.clone(),
            column_indices: Vec::new(),
            file_major_version: self.file_version.0,
            file_minor_version: self.file_version.1,
            file_size_bytes: self.byte_len,
            base_id: None,
            extension: extended.then_some(proto::DataFileExtension {
                metadata_crc32c: self.metadata_crc32c,
                needs_extension_reader: self.needs_extension,
            }),
        }
    }
}

impl DeletionFile {
    fn decode(message: proto::DeletionFile, fragment_id: u64) -> Result<Self> {
        let kind = match message.file_type {
            0 => DeletionFileKind::Arrow,
            1 => DeletionFileKind::Bitmap,
            other => {
                return Err(Error::unsupported(
                    format!("deletion file type {other} of fragment {fragment_id}"),
                    "rewrite the table with the program that wrote it",
                ));
            }
        };
        if message.base_id.is_some() {
            return Err(Error::unsupported(
                format!("a deletion file of fragment {fragment_id} on a second base path"),
                "copy the table into one folder",
            ));
        }
        Ok(Self {
            kind,
            read_version: message.read_version,
            id: message.id,
            num_deleted_rows: message.num_deleted_rows,
            crc32c: message.crc32c,
        })
    }

    fn encode(&self) -> proto::DeletionFile {
        proto::DeletionFile {
            file_type: match self.kind {
                DeletionFileKind::Arrow => 0,
                DeletionFileKind::Bitmap => 1,
            },
            read_version: self.read_version,
            id: self.id,
            num_deleted_rows: self.num_deleted_rows,
            base_id: None,
            crc32c: self.crc32c,
        }
    }
}

/// One fragment; its row ids and versions are slices of the message.
const FRAGMENT: Shape = Shape(&[
    (2, Part::Message(size_of::<proto::DataFile>(), &FILE)),
    (11, Part::Bytes(size_of::<Bytes>())),
]);

/// The fragments that a message lists under `number`, decoded one by one, so that the list is never in memory twice.
pub(crate) fn decode_list(
    budget: &mut DecodeBudget,
    message: &Bytes,
    number: u64,
) -> Result<Vec<Fragment>> {
    let len = count_fields(message, number);
    budget.take_list(len, size_of::<Fragment>())?;
    let mut fragments = Vec::with_capacity(len);
    for range in contents(message, number) {
        let content = message.slice(range.map_err(malformed(budget.what))?);
        budget.check(
            FRAGMENT
                .num_bytes(&content)
                .map_err(malformed(budget.what))?,
        )?;
        let decoded = proto::DataFragment::decode(content)
            .map_err(|error| Error::corrupt(format!("{}: a fragment: {error}", budget.what)))?;
        let fragment = Fragment::decode(decoded)?;
        budget.take(fragment.heap_bytes())?;
        fragments.push(fragment);
    }
    Ok(fragments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_version_one_is_refused_by_name() {
        let file = |change: fn(&mut proto::DataFile)| {
            let mut file = proto::DataFile {
                path: "a.lance".into(),
                ..Default::default()
            };
            change(&mut file);
            DataFile::decode(file, 7).unwrap_err().to_string()
        };
        assert!(file(|f| f.file_minor_version = 3).contains("file version 0.3"));
        assert!(file(|f| f.file_major_version = 2).contains("file version 2.0"));
        assert!(file(|f| f.base_id = Some(0)).contains("second base path"));
        assert!(file(|f| f.path = "../b".into()).contains("fragment 7"));
        assert!(file(|f| f.fields = vec![0, -1]).contains("field id -1"));
        let fragment = |message| Fragment::decode(message).unwrap_err();
        let overlay = proto::DataFragment {
            overlays: vec![Bytes::new()],
            ..Default::default()
        };
        assert_eq!(fragment(overlay).kind(), "unsupported");
        let rows = proto::DataFragment {
            physical_rows: (1 << 32) + 1,
            ..Default::default()
        };
        assert_eq!(fragment(rows).kind(), "corrupt");
        let id = proto::DataFragment {
            id: 1 << 32,
            ..Default::default()
        };
        assert_eq!(fragment(id).kind(), "corrupt");
    }

    #[test]
    fn row_ids_must_count_the_rows() {
        let ids = RowIdSequence::from_range(0..1 << 63).encode();
        let fragment = Fragment {
            physical_rows: 5,
            row_ids: Some(ids),
            ..Default::default()
        };
        assert_eq!(fragment.row_ids().unwrap_err().kind(), "corrupt");
    }

    #[test]
    fn honest_fragments_fit_and_tiny_ones_add_up() {
        let fragment = |id: u64| {
            let file = DataFile {
                path: format!("{id:036}.lance"),
                field_ids: vec![0, 1, 2],
                file_version: (0, 2),
                byte_len: 123_456,
                metadata_crc32c: Some(7),
                needs_extension: false,
            };
            Fragment {
                id,
                files: vec![file],
                physical_rows: 10_000,
                ..Fragment::default()
            }
        };
        let fragments: Vec<Fragment> = (0..100_000).map(fragment).collect();
        let message = proto::Manifest {
            fragments: fragments.iter().map(Fragment::encode).collect(),
            ..Default::default()
        };
        let message = Bytes::from(message.encode_to_vec());
        let mut budget = DecodeBudget::new("the manifest", message.len());
        assert_eq!(decode_list(&mut budget, &message, 2).unwrap(), fragments);
        let per_byte = budget.used as f64 / message.len() as f64;
        assert!(per_byte < 6.0, "{per_byte}");
        let tiny = Bytes::from([0x12, 0].repeat(1 << 20));
        let mut budget = DecodeBudget::new("the manifest", tiny.len());
        let refused = decode_list(&mut budget, &tiny, 2).unwrap_err();
        assert_eq!(refused.kind(), "limit");
        // Many files in one fragment.
        let fragment = proto::DataFragment {
            files: vec![proto::DataFile::default(); 1 << 20],
            ..Default::default()
        };
        let nested = [&[0x12][..], &pilum_testing::varint(2 << 20)].concat();
        let nested = Bytes::from([nested, fragment.encode_to_vec()].concat());
        let mut budget = DecodeBudget::new("the manifest", nested.len());
        let refused = decode_list(&mut budget, &nested, 2).unwrap_err();
        assert_eq!(refused.kind(), "limit");
    }
}
