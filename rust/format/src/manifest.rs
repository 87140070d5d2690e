//! The manifest: everything that one version of a table consists of.
//!
//! This module is the typed form; `manifest_file` is its bytes.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::ArrayRef;
use bytes::Bytes;
use chrono::{DateTime, SubsecRound, Utc};
use prost::Message;

use crate::compat::{COMPAT_KEY, Compat};
use crate::decode_budget::{DecodeBudget, INDEX_SECTION};
use crate::dictionary_values::dictionary_validity;
use crate::error::{Error, Result};
use crate::flags;
use crate::fragment::{DataFile, Fragment};
use crate::paths::{TRANSACTIONS, check_file_name};
use crate::proto::file::Field;
use crate::proto::table as proto;
use crate::schema::Schema;

/// The library name in manifests and data files that pilum writes.
pub const WRITER_LIBRARY: &str = "pilum";

/// One version of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Counts from 1.
    pub version: u64,
    /// The time of the commit; never before that of the previous version.
    pub timestamp: DateTime<Utc>,
    /// The schema, depth first, as the format holds it. Dictionary positions are filled in when the
    /// manifest is written.
    pub fields: Vec<Field>,
    /// Metadata of the schema.
    pub schema_metadata: BTreeMap<String, Bytes>,
    /// Dictionary values by field id: one dictionary per field for the whole table.
    pub dictionaries: BTreeMap<i32, ArrayRef>,
    /// Ascending by id.
    pub fragments: Vec<Fragment>,
    /// The highest fragment id ever used; `None` in a table that never had a fragment.
    pub max_fragment_id: Option<u32>,
    /// The next stable row id to give out.
    pub next_row_id: u64,
    /// The reader feature flags as read; recomputed by every commit.
    pub reader_flags: u64,
    /// The writer feature flags as read; recomputed by every commit.
    pub writer_flags: u64,
    /// The compat of the table, if it is recorded. In the file it is an entry of the config.
    pub recorded_compat: Option<Compat>,
    /// Table configuration, without the recorded compat.
    pub config: BTreeMap<String, String>,
    /// Free metadata of the table.
    pub table_metadata: BTreeMap<String, String>,
    /// Bare name of the transaction file; empty without one.
    pub transaction_file: String,
    /// The library that wrote the manifest, and its version. Without them, row counts cannot be trusted.
    pub writer: Option<(String, String)>,
    /// The storage version of the data files, if the manifest says: "0.1" or "legacy".
    pub data_format: Option<String>,
    /// An encoded `IndexSection`: secondary indices, carried over as they are.
    pub index_section: Option<Bytes>,
    /// A field of old writers, carried over.
    pub tag: String,
    /// The branch that the version belongs to, carried over.
    pub branch: Option<String>,
    /// True if the file has a checksum of itself, which was verified.
    pub is_checksummed: bool,
}

/// What a manifest file holds beside the rest of its message.
#[derive(Debug)]
pub(crate) struct Sections {
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) dictionaries: BTreeMap<i32, ArrayRef>,
    pub(crate) index_section: Option<Bytes>,
    pub(crate) is_checksummed: bool,
}

impl Manifest {
    /// The first version of a table that does not exist yet.
    #[must_use]
    pub fn empty(timestamp: DateTime<Utc>) -> Self {
        Self {
            version: 0,
            timestamp,
            fields: Vec::new(),
            schema_metadata: BTreeMap::new(),
            dictionaries: BTreeMap::new(),
            fragments: Vec::new(),
            max_fragment_id: None,
            next_row_id: 0,
            reader_flags: 0,
            writer_flags: 0,
            recorded_compat: None,
            config: BTreeMap::new(),
            table_metadata: BTreeMap::new(),
            transaction_file: String::new(),
            writer: None,
            data_format: Some("0.1".to_owned()),
            index_section: None,
            tag: String::new(),
            branch: None,
            is_checksummed: false,
        }
    }

    /// True if rows carry stable ids.
    #[must_use]
    pub fn has_stable_row_ids(&self) -> bool {
        self.reader_flags & flags::STABLE_ROW_IDS != 0
    }

    /// The compat of the table. Where none is recorded, another writer or an early release of ours made the table: it is
    /// lossless if this version needs the extension, and otherwise stays readable for other readers.
    #[must_use]
    pub fn compat(&self) -> Compat {
        let is_extended = self.reader_flags & flags::EXTENSION != 0;
        self.recorded_compat.unwrap_or(match is_extended {
            true => Compat::Lossless,
            false => Compat::Lance,
        })
    }

    /// True if a reader of plain version 1 tables would give wrong answers.
    #[must_use]
    pub fn needs_extension(&self) -> bool {
        self.fragments.iter().any(Fragment::needs_extension)
            || self
                .dictionaries
                .values()
                .any(|values| dictionary_validity(values).is_some())
            || self.has_types_beyond_v1()
    }

    /// True if a column has a type that version 1 has no name for. A schema that cannot be read is refused elsewhere.
    fn has_types_beyond_v1(&self) -> bool {
        // Early releases of ours gave views a name of their own.
        let is_named_view = |field: &Field| {
            let name = &field.logical_type;
            let name = name.strip_prefix("dict:").unwrap_or(name);
            let (value, _) = name.split_once(':').unwrap_or((name, ""));
            matches!(value, "string_view" | "binary_view")
        };
        if self.fields.iter().any(is_named_view) {
            return true;
        }
        Schema::from_protos("the manifest", &self.fields, &BTreeMap::new())
            .is_ok_and(|schema| schema.is_beyond_v1())
    }

    /// Paths of the files that the version consists of: data, deletions and its transaction.
    #[must_use]
    pub fn files(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        if !self.transaction_file.is_empty() {
            files.insert(format!("{TRANSACTIONS}/{}", self.transaction_file));
        }
        for fragment in &self.fragments {
            files.extend(fragment.files.iter().map(DataFile::full_path));
            files.extend(fragment.deletion.as_ref().map(|it| it.path(fragment.id)));
        }
        files
    }

    /// Live rows of all fragments; `None` while a count is unknown: open the files.
    #[must_use]
    pub fn num_rows(&self) -> Option<u64> {
        self.fragments
            .iter()
            .try_fold(0u64, |sum, fragment| sum.checked_add(fragment.num_rows()?))
    }

    /// The fragment with this id.
    #[must_use]
    pub fn fragment(&self, id: u64) -> Option<&Fragment> {
        let index = self
            .fragments
            .binary_search_by_key(&id, |fragment| fragment.id)
            .ok()?;
        self.fragments.get(index)
    }

    /// The highest fragment id ever used, also where an old writer did not say.
    #[must_use]
    pub fn highest_fragment_id(&self) -> Option<u64> {
        let in_use = self.fragments.iter().map(|fragment| fragment.id).max();
        in_use.max(self.max_fragment_id.map(u64::from))
    }

    /// The id that a new column gets: above every id of the schema and of any data file.
    #[must_use]
    pub fn next_field_id(&self) -> i32 {
        let files = self.fragments.iter().flat_map(|fragment| &fragment.files);
        let in_files = files.flat_map(|file| file.field_ids.iter().copied());
        let in_schema = self.fields.iter().map(|field| field.id);
        in_schema
            .chain(in_files)
            .max()
            .map_or(0, |max| max.max(-1).saturating_add(1))
    }

    /// Sets both flag words from the content; the last step of a commit.
    pub fn recompute_flags(&mut self, stable_row_ids: bool) {
        let mut both = 0;
        if self
            .fragments
            .iter()
            .any(|fragment| fragment.deletion.is_some())
        {
            both |= flags::DELETION_FILES;
        }
        if stable_row_ids {
            both |= flags::STABLE_ROW_IDS;
        }
        if self.needs_extension() {
            both |= flags::EXTENSION;
        }
        // Bits about what the table is, and not what this version holds, stay.
        let kept = self.writer_flags & flags::NO_TRANSACTION_FILES;
        self.reader_flags = both;
        self.writer_flags = both | kept;
        if !self.config.is_empty() || self.recorded_compat.is_some() {
            self.writer_flags |= flags::TABLE_CONFIG;
        }
    }

    /// Refuses a manifest that pilum cannot read correctly.
    pub(crate) fn check_readable(message: &proto::Manifest, has_fragments: bool) -> Result<()> {
        flags::check_reader(message.reader_feature_flags)?;
        let format = message.data_format.as_ref();
        if let Some(format) = format.filter(|f| !matches!(f.version.as_str(), "0.1" | "legacy")) {
            return Err(Error::unsupported(
                format!(
                    "storage version {:?} of {:?} files",
                    format.version, format.file_format
                ),
                "pilum reads tables of storage version 0.1 (\"legacy\"); rewrite it with \
                 data_storage_version=\"legacy\"",
            ));
        }
        // Without data format and fragments, only the flag says of which version the data files will be.
        let writes_v2 =
            (message.reader_feature_flags | message.writer_feature_flags) & flags::V2_FILES != 0;
        if format.is_none() && !has_fragments && writes_v2 {
            return Err(Error::unsupported(
                "storage version 2",
                "pilum reads tables of storage version 0.1 (\"legacy\")",
            ));
        }
        if !message.base_paths.is_empty() {
            return Err(Error::unsupported(
                "several base paths",
                "copy the table into one folder",
            ));
        }
        if !message.fragment_tree.is_empty() {
            return Err(Error::unsupported(
                "a fragment list in other files",
                "rewrite the table with the program that wrote it",
            ));
        }
        Ok(())
    }

    /// From the message, which [`check_readable`](Self::check_readable) accepts, and the sections around it.
    pub(crate) fn from_message(message: proto::Manifest, sections: Sections) -> Result<Self> {
        let Sections {
            mut fragments,
            dictionaries,
            index_section,
            is_checksummed,
        } = sections;
        check_file_name(&message.transaction_file).map_err(|reason| {
            let name = &message.transaction_file;
            Error::corrupt(format!("transaction file {name:?}: {reason}"))
        })?;
        fragments.sort_by_key(|fragment| fragment.id);
        if let Some(pair) = fragments.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(Error::corrupt(format!(
                "fragment {} is listed twice",
                pair[0].id
            )));
        }
        let stable = message.reader_feature_flags & flags::STABLE_ROW_IDS != 0;
        if let Some(bare) = fragments
            .iter()
            .find(|fragment| stable && fragment.row_ids.is_none())
        {
            return Err(Error::corrupt(format!(
                "fragment {} of a table with stable row ids has none",
                bare.id
            )));
        }
        let timestamp = message.timestamp.unwrap_or_default();
        let timestamp = u32::try_from(timestamp.nanos)
            .ok()
            .and_then(|nanos| DateTime::from_timestamp(timestamp.seconds, nanos))
            .ok_or_else(|| Error::corrupt("a timestamp beyond the calendar"))?;
        if message.version == 0 || message.version >= 1 << 63 {
            return Err(Error::corrupt(format!("version {}", message.version)));
        }
        let mut config = message.config;
        // A word of a later release stays in the config: this one then decides by the flags.
        let recorded_compat = config.get(COMPAT_KEY).and_then(|it| Compat::from_word(it));
        if recorded_compat.is_some() {
            config.remove(COMPAT_KEY);
        }
        let mut fields = message.fields;
        fields.iter_mut().for_each(|field| field.dictionary = None);
        Ok(Self {
            version: message.version,
            timestamp,
            fields,
            schema_metadata: message.schema_metadata,
            dictionaries,
            fragments,
            max_fragment_id: message.max_fragment_id,
            next_row_id: message.next_row_id,
            reader_flags: message.reader_feature_flags,
            writer_flags: message.writer_feature_flags,
            recorded_compat,
            config,
            table_metadata: message.table_metadata,
            transaction_file: message.transaction_file,
            writer: message
                .writer_version
                .map(|writer| (writer.library, writer.version)),
            data_format: message.data_format.map(|format| format.version),
            index_section,
            tag: message.tag,
            branch: message.branch,
            is_checksummed,
        })
    }

    /// The message, without the positions of the sections around it.
    pub(crate) fn to_message(&self) -> proto::Manifest {
        let mut config = self.config.clone();
        if let Some(compat) = self.recorded_compat {
            config.insert(COMPAT_KEY.to_owned(), compat.word().to_owned());
        }
        proto::Manifest {
            fields: self.fields.clone(),
            fragments: self.fragments.iter().map(Fragment::encode).collect(),
            version: self.version,
            version_aux_data: 0,
            schema_metadata: self.schema_metadata.clone(),
            index_section: None,
            timestamp: Some(proto::Timestamp {
                seconds: self.timestamp.timestamp(),
                nanos: i32::try_from(self.timestamp.timestamp_subsec_nanos()).unwrap_or_default(),
            }),
            tag: self.tag.clone(),
            reader_feature_flags: self.reader_flags,
            writer_feature_flags: self.writer_flags,
            max_fragment_id: self.max_fragment_id,
            transaction_file: self.transaction_file.clone(),
            writer_version: self.writer.clone().map(|(library, version)| {
                proto::manifest::WriterVersion {
                    library,
                    version,
                    prerelease: None,
                    build_metadata: None,
                }
            }),
            next_row_id: self.next_row_id,
            data_format: self.data_format.clone().map(|version| {
                proto::manifest::DataStorageFormat {
                    file_format: "lance".to_owned(),
                    version,
                }
            }),
            config,
            base_paths: Vec::new(),
            table_metadata: self.table_metadata.clone(),
            branch: self.branch.clone(),
            transaction_section_old: None,
            fragment_tree: Bytes::new(),
            transaction_section: None,
            crc32c: None,
            extension: None,
        }
    }

    /// The time of a commit over this version: now, but never before it, whatever the clock says.
    #[must_use]
    pub fn time_after(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(9).max(self.timestamp)
    }

    /// The indices of this version.
    ///
    /// # Errors
    /// `Corrupt` when the index section is no list of indices, `Limit` when it would take too much memory.
    pub fn indices(&self) -> Result<Vec<proto::IndexMetadata>> {
        let Some(section) = &self.index_section else {
            return Ok(Vec::new());
        };
        let mut budget = DecodeBudget::new("the index section", section.len());
        budget.take_message(&INDEX_SECTION, section)?;
        let section = proto::IndexSection::decode(section.clone())
            .map_err(|error| Error::corrupt(format!("the index section: {error}")))?;
        Ok(section.indices)
    }

    /// Replaces the indices of this version.
    pub fn set_indices(&mut self, indices: Vec<proto::IndexMetadata>) {
        let section = proto::IndexSection { indices };
        self.index_section =
            (!section.indices.is_empty()).then(|| Bytes::from(section.encode_to_vec()));
    }
}
