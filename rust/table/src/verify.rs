//! Looking at every file of a version: checksums, counts, offsets, row ids, statistics; and at what no version names.

use std::collections::{BTreeMap, BTreeSet};

use pilum_file::{Field, FileReader, Schema};
use roaring::RoaringTreemap;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::fragment::{DataFile, Fragment};
use crate::snapshot::Snapshot;
use crate::tags::{TAGS, read_tag, tag_name};
use crate::versions;

/// What verification found.
#[derive(Debug, Default, Clone, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The version that was looked at.
    pub version: u64,
    /// What is wrong; empty in a sound table.
    pub problems: Vec<Problem>,
    /// Files that no checksum covers, because another library wrote them or the manifest: no problem, but no proof either.
    pub uncovered: Vec<String>,
    /// Files that no version names: left by writers that died, or about to be named by one at work.
    pub orphans: Vec<String>,
    /// Data files read.
    pub num_files: u64,
    /// Live rows counted.
    pub num_rows: u64,
}

/// One thing that is wrong.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

impl VerifyReport {
    /// True if nothing is wrong.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "errors and texts alike are given away here"
    )]
    fn problem(&mut self, path: impl Into<String>, reason: impl ToString) {
        self.problems.push(Problem {
            path: path.into(),
            reason: reason.to_string(),
        });
    }
}

impl Snapshot {
    /// Reads and checks everything that this version consists of, and lists the files that no version names.
    ///
    /// # Errors
    /// Only when the table cannot be listed or its history not be read: damage is in the report.
    pub async fn verify(&self) -> Result<VerifyReport> {
        let mut report = VerifyReport {
            version: self.version(),
            ..VerifyReport::default()
        };
        let manifest = self.manifest();
        let manifest_path = versions::manifest_path(self.naming_scheme(), self.version());
        if !manifest.is_checksummed {
            report.uncovered.push(manifest_path.clone());
        }
        self.verify_transaction(&mut report).await;
        self.verify_tags(&mut report).await?;
        self.verify_fragment_ids(&manifest_path, &mut report);
        let mut row_ids = RoaringTreemap::new();
        for fragment in self.fragments() {
            self.verify_fragment(fragment, &mut row_ids, &mut report)
                .await;
        }
        report.orphans = self.orphans(&mut report).await?;
        Ok(report)
    }

    /// Reads take the copy in the manifest, which its checksum covers: the file has to say the same.
    async fn verify_transaction(&self, report: &mut VerifyReport) {
        let name = &self.manifest().transaction_file;
        if name.is_empty() {
            return;
        }
        let path = format!("{}/{name}", versions::TRANSACTIONS);
        let file = versions::read_transaction(self.store(), name).await;
        let copy = self.inline_transaction();
        match (file, copy) {
            (Err(error), _) => report.problem(path, error),
            (Ok(Some(file)), Some(copy)) if file != **copy => {
                report.problem(path, "is not the transaction that the manifest holds");
            }
            (Ok(Some(_)), None) => report.uncovered.push(path),
            (Ok(_), _) => {}
        }
    }

    async fn verify_tags(&self, report: &mut VerifyReport) -> Result<()> {
        for listed in self.store().list_recursive(TAGS).await? {
            if let Some(name) = tag_name(&listed.path)
                && let Err(error) = read_tag(self.store(), name).await
            {
                report.problem(listed.path.clone(), error);
            }
        }
        Ok(())
    }

    fn verify_fragment_ids(&self, manifest_path: &str, report: &mut VerifyReport) {
        let ids: Vec<u64> = self
            .fragments()
            .iter()
            .map(|fragment| fragment.id)
            .collect();
        if !ids.is_sorted_by(|a, b| a < b) {
            report.problem(manifest_path, "fragment ids do not ascend");
        }
        let highest = self.manifest().max_fragment_id.map(u64::from);
        if let (Some(last), Some(highest)) = (ids.last(), highest)
            && *last > highest
        {
            let reason = format!("fragment {last} lies above the highest id ever used, {highest}");
            report.problem(manifest_path, reason);
        }
    }

    async fn verify_fragment(
        &self,
        fragment: &Fragment,
        row_ids: &mut RoaringTreemap,
        report: &mut VerifyReport,
    ) {
        for file in &fragment.files {
            report.num_files += 1;
            if let Err(error) = self.verify_file(fragment, file, report).await {
                report.problem(file.full_path(), error);
            }
        }
        let deleted = match self.read_context().deleted(fragment).await {
            Ok(deleted) => deleted,
            Err(error) => {
                let path = fragment
                    .deletion
                    .as_ref()
                    .map(|file| file.path(fragment.id));
                report.problem(path.unwrap_or_default(), error);
                None
            }
        };
        if let (Some(file), Some(deleted)) = (&fragment.deletion, &deleted) {
            if file.crc32c.is_none() {
                report.uncovered.push(file.path(fragment.id));
            }
            if file.num_deleted_rows != deleted.len() {
                let reason = format!(
                    "the manifest says that {} rows are deleted, the file names {}",
                    file.num_deleted_rows,
                    deleted.len()
                );
                report.problem(file.path(fragment.id), reason);
            }
        }
        let gone = deleted.as_ref().map_or(0, |deleted| deleted.len());
        report.num_rows += fragment.physical_rows.saturating_sub(gone);
        if self.manifest().has_stable_row_ids() {
            let place = format!("fragment {}", fragment.id);
            match fragment.row_ids() {
                Ok(Some(ids)) => {
                    for (row, id) in (0_u32..).zip(ids.iter()) {
                        let is_live = deleted
                            .as_ref()
                            .is_none_or(|deleted| !deleted.contains(row));
                        if is_live && !row_ids.insert(id) {
                            report.problem(
                                place.clone(),
                                format!("row id {id} stands twice in the table"),
                            );
                        }
                        if id >= self.manifest().next_row_id {
                            report
                                .problem(place.clone(), format!("row id {id} was never given out"));
                            break;
                        }
                    }
                }
                Ok(None) => report.problem(place, "has no row ids in a table with stable ones"),
                Err(error) => report.problem(place, error),
            }
        }
    }

    async fn verify_file(
        &self,
        fragment: &Fragment,
        file: &DataFile,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let reader: std::sync::Arc<FileReader> = self.read_context().open(file).await?;
        if reader.num_rows() != fragment.physical_rows {
            return Err(Error::corrupt(format!(
                "holds {} rows, fragment {} has {}",
                reader.num_rows(),
                fragment.id,
                fragment.physical_rows
            )));
        }
        let live: Vec<Field> = self
            .schema()
            .fields
            .iter()
            .filter_map(|field| held(field, &file.field_ids))
            .collect();
        let schema = Schema {
            fields: live,
            metadata: BTreeMap::new(),
        };
        let found = reader.verify(&schema, self.dictionaries()).await;
        if !found.is_covered || file.metadata_crc32c.is_none() {
            report.uncovered.push(file.full_path());
        }
        for problem in found.problems {
            report.problem(file.full_path(), problem);
        }
        if reader.needs_extension() && !file.needs_extension {
            let reason = "holds what Lance v1 cannot, and the manifest does not say so: a peer would misread it";
            report.problem(file.full_path(), reason);
        }
        Ok(())
    }

    /// Files in the folders of the table that no version names.
    async fn orphans(&self, report: &mut VerifyReport) -> Result<Vec<String>> {
        let mut named = BTreeSet::new();
        if let Some((scheme, versions)) = versions::all(self.store()).await? {
            for version in versions {
                let manifest = match versions::read_manifest(self.store(), scheme, version).await {
                    Ok(Some((file, _))) => file.manifest,
                    // Cleaned up while we look.
                    Ok(None) => continue,
                    Err(error) => {
                        report.problem(versions::manifest_path(scheme, version), error);
                        continue;
                    }
                };
                named.insert(format!(
                    "{}/{}",
                    versions::TRANSACTIONS,
                    manifest.transaction_file
                ));
                for fragment in &manifest.fragments {
                    named.extend(fragment.files.iter().map(DataFile::full_path));
                    named.extend(
                        fragment
                            .deletion
                            .as_ref()
                            .map(|file| file.path(fragment.id)),
                    );
                }
            }
        }
        let mut orphans = Vec::new();
        for folder in [
            "data",
            "_deletions",
            versions::TRANSACTIONS,
            versions::VERSIONS,
        ] {
            for listed in self.store().list_recursive(folder).await? {
                let is_temporary = listed.name().starts_with(".tmp");
                let is_ours = match folder {
                    "data" => listed.path.ends_with(".lance"),
                    "_deletions" => {
                        listed.path.ends_with(".arrow") || listed.path.ends_with(".bin")
                    }
                    versions::TRANSACTIONS => listed.path.ends_with(".txn"),
                    _ => false,
                };
                if is_temporary || (is_ours && !named.contains(&listed.path)) {
                    orphans.push(listed.path);
                }
            }
        }
        Ok(orphans)
    }
}

/// The part of a field that a file holds.
fn held(field: &Field, ids: &[i32]) -> Option<Field> {
    if !ids.contains(&field.id) {
        return None;
    }
    if !matches!(field.data_type, arrow_schema::DataType::Struct(_)) {
        return Some(field.clone());
    }
    let members: Vec<Field> = field
        .children
        .iter()
        .filter_map(|child| held(child, ids))
        .collect();
    (!members.is_empty()).then(|| field.with_children(members))
}
