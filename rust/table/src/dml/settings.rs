//! Config and metadata of a table: small maps in the manifest, edited by key.

use std::collections::BTreeMap;

use bytes::Bytes;
use pilum_format::{COMPAT_KEY, ConfigUpdate, Manifest, MapUpdate, Operation};

use crate::commit::{Committed, Work, commit_work};
use crate::dataset::Dataset;
use crate::dml::statement::StatementOptions;
use crate::error::{Error, Result};
use crate::read::snapshot::Snapshot;

impl Dataset {
    /// Edits the config of the table, its metadata, and that of its schema and fields, in one version. Edits that change
    /// nothing make none.
    ///
    /// Concurrent calls may edit different keys; of two that edit the same key the later one fails.
    ///
    /// # Errors
    /// `InvalidInput` for a field that is not there, or a key of pilum's whose value says nothing; `Conflict` when another
    /// commit forbids this one; see [`commit`](crate::commit()).
    pub async fn update_config(
        &self,
        update: &ConfigUpdate,
        options: &StatementOptions,
    ) -> Result<Committed> {
        for (key, value) in &update.config.entries {
            if key == COMPAT_KEY {
                return Err(Error::invalid(
                    format!("config key {key:?}"),
                    "is set by writes: pass compat=\"lossless\" to the write that needs it, or overwrite the table with \
                     compat=\"lance\"",
                ));
            }
            if let Some(value) = value {
                pilum_format::auto_cleanup::check_setting(key, value)?;
            }
        }
        let once = |base| async move { update_once(&base, update, options).await };
        options.execute(self, "UpdateConfig", once).await
    }
}

/// One execution of the statement.
async fn update_once(
    base: &Snapshot,
    update: &ConfigUpdate,
    options: &StatementOptions,
) -> Result<Committed> {
    if !changes(update, base.manifest())? {
        return Ok(Committed::nothing(base.clone()));
    }
    let operation = Operation::UpdateConfig(update.clone());
    let work = Work::of(options.transaction(base.version(), operation));
    commit_work(base.store(), Some(base), work, &options.commit()).await
}

/// Whether an update leaves any map different.
fn changes(update: &ConfigUpdate, manifest: &Manifest) -> Result<bool> {
    let mut changed = edited(&update.config, &manifest.config);
    changed |= edited(&update.table_metadata, &manifest.table_metadata);
    changed |= edited::<Bytes>(&update.schema_metadata, &manifest.schema_metadata);
    for (id, edit) in &update.field_metadata {
        let field = manifest.fields.iter().find(|field| field.id == *id);
        let field = field.ok_or_else(|| {
            Error::invalid(format!("field {id}"), "is not in the schema of the table")
        })?;
        changed |= edited(edit, &field.metadata);
    }
    Ok(changed)
}

fn edited<V: From<String> + Clone + PartialEq>(
    update: &MapUpdate,
    map: &BTreeMap<String, V>,
) -> bool {
    let mut after = map.clone();
    update.apply(&mut after);
    after != *map
}
