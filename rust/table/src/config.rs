//! Config and metadata of a table: small maps in the manifest, edited by key.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::auto_cleanup;
use crate::commit::{Committed, Work, commit_work};
use crate::commit_id;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::snapshot::Snapshot;
use crate::statement::{StatementOptions, Turns};
use crate::transaction::{ConfigUpdate, MapUpdate, Operation};

impl Dataset {
    /// Edits the config of the table, its metadata, and that of its schema and fields, in one version. Edits that change
    /// nothing make none.
    ///
    /// Others may edit other keys at the same time; of two that edit one key the later fails.
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
            if let Some(value) = value {
                auto_cleanup::check_setting(key, value)?;
            }
        }
        let store = self.store().clone().with_durability(options.durability);
        let mut turns = Turns::new(options.retries);
        loop {
            if let Some(id) = &options.commit_id
                && let Some(snapshot) = commit_id::find(&store, id).await?
            {
                return Ok(Committed::before(snapshot));
            }
            let base = Snapshot::newest(&store).await?;
            options.check_expected(&base, "UpdateConfig").await?;
            if !changes(update, base.manifest())? {
                return Ok(Committed::nothing(base));
            }
            let operation = Operation::UpdateConfig(update.clone());
            let work = Work {
                transaction: options.transaction(base.version(), operation),
                removed: None,
                premise: None,
                dictionaries: BTreeMap::new(),
                files: Vec::new(),
            };
            match commit_work(&store, Some(&base), work, &options.commit()).await {
                Err(error) => turns.again(error).await?,
                done => return done,
            }
        }
    }
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
