//! Transactions: what a commit does to the table, kept so that later commits can tell whether they conflict.

use std::collections::BTreeMap;
use std::fmt::Display;

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use crate::decode_budget::{DecodeBudget, TRANSACTION};
use crate::error::{Error, Result};
use crate::fragment;
use crate::fragment::{DataFile, Fragment};
use crate::message_size::count_fields;
use crate::proto::file::Field;
use crate::proto::table as proto;
use crate::proto::table::transaction as pb;
use crate::proto::table::transaction::Operation as Pb;
use crate::raw_fields::{RawFields, contents, without_fields};

/// Numbers of the operations in `Transaction.operation`.
const FIRST_OPERATION: u64 = 100;
const LAST_OPERATION: u64 = 111;
/// Number of `Rewrite.groups`.
const REWRITE_GROUPS: u64 = 3;
/// By operation, the numbers of the lists of fragments, which are decoded one by one.
const FRAGMENT_LISTS: &[(u64, &[u64])] = &[
    (100, &[1]),
    (101, &[1]),
    (102, &[1]),
    (104, &[1, 2, REWRITE_GROUPS]),
    (105, &[1]),
    (108, &[2, 3]),
];

/// One commit: an operation and the version that it was worked out on.
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    /// The version that the operation was worked out on; 0 = there was no table.
    pub read_version: u64,
    /// Identifies this commit when its response was lost: no two commits share it.
    pub uuid: String,
    /// A field of old writers.
    pub tag: String,
    /// Key-value pairs that the caller attached to the commit.
    pub properties: BTreeMap<String, String>,
    /// What to do.
    pub operation: Operation,
}

/// What a commit does. Fragments to be added carry id 0: the commit assigns it.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Adds fragments.
    Append {
        /// Fragments without an id yet.
        fragments: Vec<Fragment>,
    },
    /// Deletes rows.
    Delete {
        /// Fragments with a new deletion file.
        updated: Vec<Fragment>,
        /// Fragments that lost their last row.
        removed_ids: Vec<u64>,
        /// The predicate, for people.
        predicate: String,
    },
    /// Replaces rows and schema.
    Overwrite {
        /// Fragments without an id yet.
        fragments: Vec<Fragment>,
        /// The new schema.
        fields: Vec<Field>,
        /// Its metadata.
        schema_metadata: BTreeMap<String, Bytes>,
        /// Config keys to set; the others stay.
        config_upserts: BTreeMap<String, String>,
    },
    /// Changes the index section.
    CreateIndex {
        /// Indices to add.
        added: Vec<proto::IndexMetadata>,
        /// Indices to drop.
        removed: Vec<proto::IndexMetadata>,
    },
    /// Replaces fragments by others with the same rows: compaction.
    Rewrite {
        /// What was replaced by what.
        groups: Vec<RewriteGroup>,
        /// Indices that were remapped.
        rewritten_indices: Vec<pb::rewrite::RewrittenIndex>,
    },
    /// Replaces fragments and schema, rows unchanged: new columns.
    Merge {
        /// All fragments, with their ids.
        fragments: Vec<Fragment>,
        /// The new schema.
        fields: Vec<Field>,
        /// Its metadata.
        schema_metadata: BTreeMap<String, Bytes>,
        /// No column became non-nullable.
        preserves_nullability: bool,
    },
    /// Makes an old version the newest.
    Restore {
        /// The old version.
        version: u64,
    },
    /// Takes fragment ids for a later `Rewrite`.
    ReserveFragments {
        /// How many.
        num_fragments: u32,
    },
    /// Changes rows.
    Update {
        /// Fragments that lost their last row.
        removed_ids: Vec<u64>,
        /// Fragments with changed files.
        updated: Vec<Fragment>,
        /// Fragments with the rewritten rows, without an id yet.
        added: Vec<Fragment>,
        /// Ids of the changed fields.
        fields_modified: Vec<u32>,
        /// Fields whose indices stay right.
        fields_preserving_index: Vec<u32>,
        /// True if columns were replaced in place.
        rewrites_columns: bool,
    },
    /// Changes the schema only: dropped, renamed, made nullable.
    Project {
        /// The new schema.
        fields: Vec<Field>,
        /// No column became non-nullable.
        preserves_nullability: bool,
    },
    /// Edits config and metadata.
    UpdateConfig(ConfigUpdate),
    /// Swaps data files.
    DataReplacement {
        /// Fragment id and the file that takes over.
        replacements: Vec<(u64, DataFile)>,
    },
    /// An operation that this release does not know, by its number; 0 = none at all.
    Unknown(u64),
}

/// One step of a compaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RewriteGroup {
    /// The fragments that go.
    pub old: Vec<Fragment>,
    /// The fragments that come, with reserved ids.
    pub new: Vec<Fragment>,
}

/// Edits of the maps of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigUpdate {
    /// Edits of [`crate::Manifest::config`].
    pub config: MapUpdate,
    /// Edits of [`crate::Manifest::table_metadata`].
    pub table_metadata: MapUpdate,
    /// Edits of [`crate::Manifest::schema_metadata`].
    pub schema_metadata: MapUpdate,
    /// Edits of the metadata of single fields.
    pub field_metadata: BTreeMap<i32, MapUpdate>,
}

/// Edits of one map.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapUpdate {
    /// `Some` sets the key, `None` deletes it.
    pub entries: BTreeMap<String, Option<String>>,
    /// Clear the map first.
    pub replace: bool,
}

impl MapUpdate {
    /// True if it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.replace
    }

    /// Edits `map`.
    pub fn apply<V: From<String>>(&self, map: &mut BTreeMap<String, V>) {
        if self.replace {
            map.clear();
        }
        for (key, value) in &self.entries {
            match value {
                Some(value) => map.insert(key.clone(), value.clone().into()),
                None => map.remove(key),
            };
        }
    }
}

/// Which operation a transaction has, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    /// Adds fragments.
    Append,
    /// Replaces rows and schema.
    Overwrite,
    /// Deletes rows.
    Delete,
    /// Changes rows.
    Update,
    /// Adds or converts columns.
    Merge,
    /// Changes the schema only.
    Project,
    /// Makes an old version the newest.
    Restore,
    /// Replaces fragments by others with the same rows.
    Rewrite,
    /// Edits config and metadata.
    UpdateConfig,
    /// Replaces data files.
    DataReplacement,
    /// Changes the index section.
    CreateIndex,
    /// Takes fragment ids for a later rewrite.
    ReserveFragments,
}

impl OperationKind {
    /// All operations that this release knows, each at the position of its number (`kind as usize`).
    pub const ALL: [Self; 12] = [
        Self::Append,
        Self::Overwrite,
        Self::Delete,
        Self::Update,
        Self::Merge,
        Self::Project,
        Self::Restore,
        Self::Rewrite,
        Self::UpdateConfig,
        Self::DataReplacement,
        Self::CreateIndex,
        Self::ReserveFragments,
    ];

    /// The name of the operation, as messages and version lists show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "Append",
            Self::Overwrite => "Overwrite",
            Self::Delete => "Delete",
            Self::Update => "Update",
            Self::Merge => "Merge",
            Self::Project => "Project",
            Self::Restore => "Restore",
            Self::Rewrite => "Rewrite",
            Self::UpdateConfig => "UpdateConfig",
            Self::DataReplacement => "DataReplacement",
            Self::CreateIndex => "CreateIndex",
            Self::ReserveFragments => "ReserveFragments",
        }
    }
}

impl Operation {
    /// Which operation it is; `None` for one that this release does not know.
    #[must_use]
    pub fn kind(&self) -> Option<OperationKind> {
        Some(match self {
            Self::Append { .. } => OperationKind::Append,
            Self::Delete { .. } => OperationKind::Delete,
            Self::Overwrite { .. } => OperationKind::Overwrite,
            Self::CreateIndex { .. } => OperationKind::CreateIndex,
            Self::Rewrite { .. } => OperationKind::Rewrite,
            Self::Merge { .. } => OperationKind::Merge,
            Self::Restore { .. } => OperationKind::Restore,
            Self::ReserveFragments { .. } => OperationKind::ReserveFragments,
            Self::Update { .. } => OperationKind::Update,
            Self::Project { .. } => OperationKind::Project,
            Self::UpdateConfig(_) => OperationKind::UpdateConfig,
            Self::DataReplacement { .. } => OperationKind::DataReplacement,
            Self::Unknown(_) => return None,
        })
    }

    /// The name of the operation, as messages and version lists show it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind().map_or("unknown operation", OperationKind::name)
    }
}

impl Transaction {
    /// A transaction with a fresh id.
    #[must_use]
    pub fn new(read_version: u64, operation: Operation) -> Self {
        Self {
            read_version,
            uuid: Uuid::new_v4().to_string(),
            tag: String::new(),
            properties: BTreeMap::new(),
            operation,
        }
    }

    /// The bare name of its file in `_transactions/`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}-{}.txn", self.read_version, self.uuid)
    }

    /// The bare message: the content of its file.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        proto::Transaction {
            read_version: self.read_version,
            uuid: self.uuid.clone(),
            tag: self.tag.clone(),
            transaction_properties: self.properties.clone(),
            operation: self.operation.encode(),
        }
        .encode_to_vec()
        .into()
    }

    /// Reads the bare message.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no transaction, `Limit` when decoding would take too much memory. An operation that this
    /// release does not know is no error: it is [`Operation::Unknown`].
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        Self::decode_within(
            bytes,
            &mut DecodeBudget::new("the transaction", bytes.len()),
        )
    }

    /// As [`decode`](Self::decode), of a transaction that is a part of something larger.
    pub(crate) fn decode_within(bytes: &Bytes, budget: &mut DecodeBudget) -> Result<Self> {
        let mut head = Vec::new();
        let (mut operation, mut unknown) = (None, None);
        for field in RawFields::new(bytes) {
            let field = field.map_err(|error| damaged(&error))?;
            match field.number {
                0..FIRST_OPERATION => head.extend_from_slice(&bytes[field.whole]),
                FIRST_OPERATION..=LAST_OPERATION => {
                    operation = Some((field.number, bytes.slice(field.value)));
                }
                number => unknown = unknown.or(Some(number)),
            }
        }
        budget.take_message(&TRANSACTION, &head)?;
        let head = proto::Transaction::decode(head.as_slice()).map_err(|error| damaged(&error))?;
        let operation = match operation {
            Some((number, content)) => Operation::decode(number, &content, budget)?,
            None => Operation::Unknown(unknown.unwrap_or_default()),
        };
        Ok(Self {
            read_version: head.read_version,
            uuid: head.uuid,
            tag: head.tag,
            properties: head.transaction_properties,
            operation,
        })
    }
}

fn damaged(error: &dyn Display) -> Error {
    Error::corrupt(format!("the transaction message: {error}"))
}

fn message<M: Message + Default>(bytes: &[u8]) -> Result<M> {
    M::decode(bytes).map_err(|error| damaged(&error))
}

/// The steps of a compaction; old writers had one, at the top of the message.
fn groups(content: &Bytes, budget: &mut DecodeBudget) -> Result<Vec<RewriteGroup>> {
    let len = count_fields(content, REWRITE_GROUPS) + 1;
    budget.take_list(len, size_of::<RewriteGroup>())?;
    let mut groups = Vec::with_capacity(len);
    let mut group = |content: &Bytes| -> Result<RewriteGroup> {
        Ok(RewriteGroup {
            old: fragment::decode_list(budget, content, 1)?,
            new: fragment::decode_list(budget, content, 2)?,
        })
    };
    let top = group(content)?;
    if !top.old.is_empty() || !top.new.is_empty() {
        groups.push(top);
    }
    for range in contents(content, REWRITE_GROUPS) {
        groups.push(group(
            &content.slice(range.map_err(|error| damaged(&error))?),
        )?);
    }
    Ok(groups)
}

fn encoded(fragments: &[Fragment]) -> Vec<proto::DataFragment> {
    fragments.iter().map(Fragment::encode).collect()
}

fn encoded_rewrite(
    groups: &[RewriteGroup],
    indices: &[pb::rewrite::RewrittenIndex],
) -> pb::Rewrite {
    let groups = groups.iter().map(|group| pb::rewrite::RewriteGroup {
        old_fragments: encoded(&group.old),
        new_fragments: encoded(&group.new),
    });
    pb::Rewrite {
        groups: groups.collect(),
        rewritten_indices: indices.to_vec(),
        ..Default::default()
    }
}

fn encoded_replacement((fragment_id, file): &(u64, DataFile)) -> pb::data_replacement::Replacement {
    pb::data_replacement::Replacement {
        fragment_id: *fragment_id,
        new_file: Some(file.encode()),
    }
}

impl Operation {
    /// Decodes the message of an operation. An operation that uses an unsupported feature, such as a second base path, is
    /// [`Unknown`](Self::Unknown), as those of later releases are: a conflict check treats both alike.
    fn decode(number: u64, content: &Bytes, budget: &mut DecodeBudget) -> Result<Self> {
        match Self::try_decode(number, content, budget) {
            Err(Error::Unsupported { .. }) => Ok(Self::Unknown(number)),
            decoded => decoded,
        }
    }

    fn try_decode(number: u64, content: &Bytes, budget: &mut DecodeBudget) -> Result<Self> {
        let lists = FRAGMENT_LISTS.iter().find(|(it, _)| *it == number);
        let lists = lists.map_or(&[][..], |(_, lists)| lists);
        let rest = without_fields(content, lists).map_err(|error| damaged(&error))?;
        // Shapes begin at the transaction.
        let shape = TRANSACTION.below(number);
        shape.map_or(Ok(()), |shape| budget.take_message(shape, &rest))?;
        let mut fragments = |number| fragment::decode_list(budget, content, number);
        Ok(match number {
            100 => Self::Append {
                fragments: fragments(1)?,
            },
            101 => {
                let it: pb::Delete = message(&rest)?;
                Self::Delete {
                    updated: fragments(1)?,
                    removed_ids: it.deleted_fragment_ids,
                    predicate: it.predicate,
                }
            }
            102 => Self::overwrite(message(&rest)?, fragments(1)?)?,
            103 => {
                let it: pb::CreateIndex = message(&rest)?;
                Self::CreateIndex {
                    added: it.new_indices,
                    removed: it.removed_indices,
                }
            }
            104 => Self::Rewrite {
                groups: groups(content, budget)?,
                rewritten_indices: message::<pb::Rewrite>(&rest)?.rewritten_indices,
            },
            105 => {
                let it: pb::Merge = message(&rest)?;
                Self::Merge {
                    fragments: fragments(1)?,
                    fields: it.schema,
                    schema_metadata: it.schema_metadata,
                    preserves_nullability: it.preserves_nullability,
                }
            }
            106 => Self::Restore {
                version: message::<pb::Restore>(&rest)?.version,
            },
            107 => Self::ReserveFragments {
                num_fragments: message::<pb::ReserveFragments>(&rest)?.num_fragments,
            },
            108 => {
                let it: pb::Update = message(&rest)?;
                Self::Update {
                    removed_ids: it.removed_fragment_ids,
                    updated: fragments(2)?,
                    added: fragments(3)?,
                    fields_modified: it.fields_modified,
                    fields_preserving_index: it.fields_for_preserving_frag_bitmap,
                    rewrites_columns: it.update_mode == 1,
                }
            }
            109 => {
                let it: pb::Project = message(&rest)?;
                Self::Project {
                    fields: it.schema,
                    preserves_nullability: it.preserves_nullability,
                }
            }
            110 => Self::UpdateConfig(ConfigUpdate::decode(message(&rest)?)),
            111 => Self::data_replacement(message(&rest)?)?,
            _ => Self::Unknown(number),
        })
    }

    fn overwrite(message: pb::Overwrite, fragments: Vec<Fragment>) -> Result<Self> {
        if !message.initial_bases.is_empty() {
            return Err(Error::unsupported(
                "base paths",
                "copy the table into one folder",
            ));
        }
        Ok(Self::Overwrite {
            fragments,
            fields: message.schema,
            schema_metadata: message.schema_metadata,
            config_upserts: message.config_upsert_values,
        })
    }

    fn data_replacement(message: pb::DataReplacement) -> Result<Self> {
        let pairs = message.replacements.into_iter().map(|it| {
            let file = it.new_file.unwrap_or_default();
            Ok((it.fragment_id, DataFile::decode(file, it.fragment_id)?))
        });
        Ok(Self::DataReplacement {
            replacements: pairs.collect::<Result<_>>()?,
        })
    }

    fn encode(&self) -> Option<Pb> {
        Some(match self {
            Self::Append { fragments } => Pb::Append(pb::Append {
                fragments: encoded(fragments),
            }),
            Self::Delete {
                updated,
                removed_ids,
                predicate,
            } => Pb::Delete(pb::Delete {
                updated_fragments: encoded(updated),
                deleted_fragment_ids: removed_ids.clone(),
                predicate: predicate.clone(),
            }),
            Self::Overwrite {
                fragments,
                fields,
                schema_metadata,
                config_upserts,
            } => Pb::Overwrite(pb::Overwrite {
                fragments: encoded(fragments),
                schema: fields.clone(),
                schema_metadata: schema_metadata.clone(),
                config_upsert_values: config_upserts.clone(),
                initial_bases: Vec::new(),
            }),
            Self::CreateIndex { added, removed } => Pb::CreateIndex(pb::CreateIndex {
                new_indices: added.clone(),
                removed_indices: removed.clone(),
            }),
            Self::Rewrite {
                groups,
                rewritten_indices,
            } => Pb::Rewrite(encoded_rewrite(groups, rewritten_indices)),
            Self::Merge {
                fragments,
                fields,
                schema_metadata,
                preserves_nullability,
            } => Pb::Merge(pb::Merge {
                fragments: encoded(fragments),
                schema: fields.clone(),
                schema_metadata: schema_metadata.clone(),
                preserves_nullability: *preserves_nullability,
            }),
            Self::Restore { version } => Pb::Restore(pb::Restore { version: *version }),
            Self::ReserveFragments { num_fragments } => {
                Pb::ReserveFragments(pb::ReserveFragments {
                    num_fragments: *num_fragments,
                })
            }
            Self::Update {
                removed_ids,
                updated,
                added,
                fields_modified,
                fields_preserving_index,
                rewrites_columns,
            } => Pb::Update(pb::Update {
                removed_fragment_ids: removed_ids.clone(),
                updated_fragments: encoded(updated),
                new_fragments: encoded(added),
                fields_modified: fields_modified.clone(),
                fields_for_preserving_frag_bitmap: fields_preserving_index.clone(),
                update_mode: i32::from(*rewrites_columns),
            }),
            Self::Project {
                fields,
                preserves_nullability,
            } => Pb::Project(pb::Project {
                schema: fields.clone(),
                preserves_nullability: *preserves_nullability,
            }),
            Self::UpdateConfig(update) => Pb::UpdateConfig(update.encode()),
            Self::DataReplacement { replacements } => Pb::DataReplacement(pb::DataReplacement {
                replacements: replacements.iter().map(encoded_replacement).collect(),
            }),
            Self::Unknown(_) => return None,
        })
    }
}

impl MapUpdate {
    fn decode(update: Option<pb::UpdateMap>) -> Self {
        let update = update.unwrap_or_default();
        let entries = update
            .update_entries
            .into_iter()
            .map(|entry| (entry.key, entry.value));
        Self {
            entries: entries.collect(),
            replace: update.replace,
        }
    }

    /// Old writers listed keys to set; for schema and field metadata the list was the whole new map.
    fn upserts(values: BTreeMap<String, String>, replace: bool) -> Self {
        Self {
            entries: values.into_iter().map(|(k, v)| (k, Some(v))).collect(),
            replace,
        }
    }

    fn encode(&self) -> pb::UpdateMap {
        let entry = |(key, value): (&String, &Option<String>)| pb::UpdateMapEntry {
            key: key.clone(),
            value: value.clone(),
        };
        pb::UpdateMap {
            update_entries: self.entries.iter().map(entry).collect(),
            replace: self.replace,
        }
    }
}

impl ConfigUpdate {
    fn decode(update: pb::UpdateConfig) -> Self {
        let mut config = MapUpdate::decode(update.config_updates);
        config
            .entries
            .extend(update.upsert_values.into_iter().map(|(k, v)| (k, Some(v))));
        config
            .entries
            .extend(update.delete_keys.into_iter().map(|key| (key, None)));
        let mut schema_metadata = MapUpdate::decode(update.schema_metadata_updates);
        if !update.schema_metadata.is_empty() {
            schema_metadata = MapUpdate::upserts(update.schema_metadata, true);
        }
        let new = update.field_metadata_updates.into_iter();
        let mut field_metadata: BTreeMap<i32, MapUpdate> = new
            .map(|(id, update)| (id, MapUpdate::decode(Some(update))))
            .collect();
        for (id, old) in update.field_metadata {
            if let Ok(id) = i32::try_from(id) {
                field_metadata.insert(id, MapUpdate::upserts(old.metadata, true));
            }
        }
        Self {
            config,
            table_metadata: MapUpdate::decode(update.table_metadata_updates),
            schema_metadata,
            field_metadata,
        }
    }

    fn encode(&self) -> pb::UpdateConfig {
        let some = |update: &MapUpdate| (!update.is_empty()).then(|| update.encode());
        pb::UpdateConfig {
            config_updates: some(&self.config),
            table_metadata_updates: some(&self.table_metadata),
            schema_metadata_updates: some(&self.schema_metadata),
            field_metadata_updates: self
                .field_metadata
                .iter()
                .map(|(id, update)| (*id, update.encode()))
                .collect(),
            ..Default::default()
        }
    }
}
