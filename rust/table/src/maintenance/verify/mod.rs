//! Verification of a version: checksums, counts, offsets, row ids and statistics of every file, and files that no version names.
//!
//! `pilum_file` checks each data file by itself; this module checks that files agree with each other and with the manifest.
//! [`VerifyReport`] serialises to the JSON that the command line prints.

mod report;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::ArrayRef;
use pilum_file::FileReader;
use pilum_format::paths::TAGS;
use pilum_format::{DataFile, Field, Fragment, REPLACED_FIELD, flags, tag_name};
use roaring::{RoaringBitmap, RoaringTreemap};

use self::report::Repeated;
pub use self::report::{Check, Problem, Uncovered, VerifyReport};
pub(crate) use self::values::FragmentRows;
use crate::error::Result;
use crate::maintenance::progress::Progress;
use crate::read::snapshot::Snapshot;
use crate::versions::log as versions;
use crate::versions::tags::read_tag;

impl Snapshot {
    /// Reads and checks everything that this version consists of, and lists the files that no version names.
    ///
    /// # Errors
    /// Only when the table cannot be listed: damage is in the report.
    pub async fn verify(&self) -> Result<VerifyReport> {
        let silent: Progress = Arc::new(|_, _| {});
        self.verify_with(&silent).await
    }

    /// As [`Snapshot::verify`]; `progress` is told the physical rows of the fragments that are done, and of all.
    ///
    /// # Errors
    /// As [`Snapshot::verify`].
    pub async fn verify_with(&self, progress: &Progress) -> Result<VerifyReport> {
        let mut report = VerifyReport {
            version: self.version(),
            ..VerifyReport::default()
        };
        let manifest_path = versions::manifest_path(self.naming_scheme(), self.version());
        if !self.manifest().is_checksummed {
            let reason =
                "no checksum, so neither the manifest, its transaction nor row ids are covered";
            report.uncovered(&manifest_path, reason);
        }
        self.verify_transaction(&mut report).await;
        self.verify_flags(&manifest_path, &mut report);
        self.verify_ids(&manifest_path, &mut report);
        let total = self
            .fragments()
            .iter()
            .fold(0_u64, |sum, it| sum.saturating_add(it.physical_rows));
        let mut done = 0_u64;
        progress(0, total);
        let mut row_ids = RoaringTreemap::new();
        for fragment in self.fragments() {
            self.verify_fragment(fragment, &mut row_ids, &mut report)
                .await;
            done = done.saturating_add(fragment.physical_rows);
            progress(done, total);
        }
        self.verify_history(&mut report).await?;
        Ok(report)
    }

    /// Checks that every copy of the transaction can be read. A missing one is no damage: only conflict checks read it.
    async fn verify_transaction(&self, report: &mut VerifyReport) {
        let name = &self.manifest().transaction_file;
        let path = format!("{}/{name}", versions::TRANSACTIONS);
        match versions::read_transaction(self.store(), name).await {
            Err(error) => report.problem(Check::Transaction, path, error),
            Ok(None) => {}
            Ok(Some(file)) => match self.inline_transaction() {
                Some(inline) if **inline != file => {
                    let reason = "is not the transaction that the manifest holds a copy of";
                    report.problem(Check::Transaction, path, reason);
                }
                Some(_) if self.manifest().is_checksummed => {}
                _ => report.uncovered(path, "no checksum"),
            },
        }
    }

    /// Checks the flags: a reader that does not see a needed flag misreads the version, and one that sees a flag without need
    /// may refuse it.
    fn verify_flags(&self, manifest_path: &str, report: &mut VerifyReport) {
        let manifest = self.manifest();
        let has = |flag: u64| manifest.reader_flags & flag != 0;
        let has_deletions = manifest.fragments.iter().any(|it| it.deletion.is_some());
        let has_row_ids = manifest.fragments.iter().any(|it| it.row_ids.is_some());
        let needs_extension = manifest.needs_extension();
        for (is_wrong, reason) in [
            (
                has_deletions && !has(flags::DELETION_FILES),
                "rows are deleted and no flag says so: a reader may show them",
            ),
            (
                has_row_ids && !has(flags::STABLE_ROW_IDS),
                "fragments have row ids and no flag says so",
            ),
            (
                needs_extension && !has(flags::EXTENSION),
                "the version holds what Lance v1 cannot and no flag says so: a peer would misread it",
            ),
            (
                !needs_extension && has(flags::EXTENSION),
                "the flag of the extension is set without need: peers refuse the version",
            ),
        ] {
            if is_wrong {
                report.problem(Check::Flags, manifest_path, reason);
            }
        }
    }

    fn verify_ids(&self, manifest_path: &str, report: &mut VerifyReport) {
        let highest = self.manifest().max_fragment_id.map(u64::from);
        if let (Some(last), Some(highest)) = (self.fragments().last(), highest)
            && last.id > highest
        {
            let last = last.id;
            let reason = format!("fragment {last} lies above the highest id ever used, {highest}");
            report.problem(Check::Ids, manifest_path, reason);
        }
        let mut fields = BTreeSet::new();
        for field in self.schema().walk() {
            if !fields.insert(field.id) {
                let reason = format!("two columns have field id {}", field.id);
                report.problem(Check::Ids, manifest_path, reason);
            }
        }
        let mut owners: BTreeMap<&str, u64> = BTreeMap::new();
        for fragment in self.fragments() {
            let mut held = BTreeSet::new();
            for file in &fragment.files {
                if let Some(owner) = owners.insert(&file.path, fragment.id) {
                    let other = fragment.id;
                    let reason = format!("belongs to fragment {owner} and to fragment {other}");
                    report.problem(Check::Ids, file.full_path(), reason);
                }
                let live = file.field_ids.iter().filter(|id| **id != REPLACED_FIELD);
                if !live.clone().is_sorted_by(|a, b| a < b) {
                    let reason =
                        "its field ids do not ascend: pages would be looked for in wrong places";
                    report.problem(Check::Ids, file.full_path(), reason);
                }
                for id in live.filter(|id| fields.contains(id)) {
                    // A struct may be spread over files; its own entry is in each of them.
                    if !held.insert(*id) && !self.is_struct(*id) {
                        let reason = format!("field {id} is held by two files of a fragment");
                        report.problem(Check::Ids, file.full_path(), reason);
                    }
                }
            }
        }
    }

    fn is_struct(&self, id: i32) -> bool {
        let field = self.schema().walk().find(|field| field.id == id);
        field.is_some_and(|field| matches!(field.data_type, arrow_schema::DataType::Struct(_)))
    }

    async fn verify_fragment(
        &self,
        fragment: &Fragment,
        row_ids: &mut RoaringTreemap,
        report: &mut VerifyReport,
    ) {
        let deleted = self.verify_deletions(fragment, report).await;
        let rows = FragmentRows {
            deleted: deleted.as_deref(),
            rows_before: report.num_rows,
        };
        for file in &fragment.files {
            report.num_files += 1;
            if let Err(error) = self.verify_file(fragment, file, rows, report).await {
                report.problem(Check::Pages, file.full_path(), error);
            }
        }
        let gone = deleted.as_ref().map_or(0, |deleted| deleted.len());
        report.num_rows += fragment.physical_rows.saturating_sub(gone);
        self.verify_row_ids(fragment, deleted.as_deref(), row_ids, report);
    }

    async fn verify_deletions(
        &self,
        fragment: &Fragment,
        report: &mut VerifyReport,
    ) -> Option<Arc<RoaringBitmap>> {
        let file = fragment.deletion.as_ref()?;
        let path = file.path(fragment.id);
        let deleted = match self.read_context().named_as_deleted(fragment).await {
            Ok(deleted) => deleted?,
            Err(error) => {
                report.problem(Check::Deletions, path, error);
                return None;
            }
        };
        if file.crc32c.is_none() {
            report.uncovered(&path, "no checksum in the manifest");
        }
        // 0 means that the number is unknown.
        if file.num_deleted_rows != 0 && file.num_deleted_rows != deleted.len() {
            let reason = format!(
                "the manifest says that {} rows are deleted, the file names {}",
                file.num_deleted_rows,
                deleted.len()
            );
            report.problem(Check::Counts, path, reason);
        }
        Some(deleted)
    }

    /// Checks that row ids of live rows are unique in the table. Those of deleted rows may occur again in the fragment that the
    /// row was rewritten to.
    fn verify_row_ids(
        &self,
        fragment: &Fragment,
        deleted: Option<&RoaringBitmap>,
        row_ids: &mut RoaringTreemap,
        report: &mut VerifyReport,
    ) {
        if !self.manifest().has_stable_row_ids() {
            return;
        }
        let place = format!("fragment {}", fragment.id);
        match fragment.row_ids() {
            Ok(Some(ids)) => {
                let mut repeated = Repeated::default();
                let mut unknown = Repeated::default();
                for (row, id) in (0_u32..).zip(ids.iter()) {
                    let is_live = deleted.is_none_or(|deleted| !deleted.contains(row));
                    if is_live && !row_ids.insert(id) {
                        repeated.add(id);
                    }
                    if id >= self.manifest().next_row_id {
                        unknown.add(id);
                    }
                }
                for (found, what) in [
                    (repeated, "stands twice in the table"),
                    (unknown, "was never given out"),
                ] {
                    if let Some(reason) = found.reason(what) {
                        report.problem(Check::RowIds, &place, reason);
                    }
                }
            }
            Ok(None) => {
                let reason = "has no row ids in a table with stable ones";
                report.problem(Check::RowIds, &place, reason);
            }
            Err(error) => report.problem(Check::RowIds, &place, error),
        }
        for versions in [fragment.created_at(), fragment.last_updated_at()] {
            match versions {
                Ok(Some(versions)) => {
                    let newest = versions.runs().map(|(_, version)| version).max();
                    if let Some(newest) = newest.filter(|newest| *newest > self.version()) {
                        let reason = format!(
                            "has rows of version {newest}, later than version {}",
                            self.version()
                        );
                        report.problem(Check::RowIds, &place, reason);
                    }
                }
                Ok(None) => {}
                Err(error) => report.problem(Check::RowIds, &place, error),
            }
        }
    }

    async fn verify_file(
        &self,
        fragment: &Fragment,
        file: &DataFile,
        rows: FragmentRows<'_>,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let reader: Arc<FileReader> = self.read_context().open(file).await?;
        let path = file.full_path();
        if reader.num_rows() != fragment.physical_rows {
            let reason = format!(
                "holds {} rows, the manifest says that fragment {} has {}",
                reader.num_rows(),
                fragment.id,
                fragment.physical_rows
            );
            report.problem(Check::Counts, &path, reason);
        }
        // Some releases of other writers recorded a wrong size; a writer that records the checksum too knows the size.
        let is_ours = file.metadata_crc32c.is_some();
        if is_ours && file.byte_len != 0 && file.byte_len != reader.num_bytes() {
            let reason = format!(
                "has {} bytes, the manifest says {}",
                reader.num_bytes(),
                file.byte_len
            );
            report.problem(Check::Counts, &path, reason);
        }
        let schema = self.schema().held_by(&file.field_ids);
        let bad_values = |field: &Field, array: &ArrayRef, first_row: u64| {
            rows.bad_values(&field.name, array, first_row)
        };
        let found = reader.verify_with(&schema, self.dictionaries(), &bad_values);
        let found = found.await;
        if !found.is_covered {
            report.uncovered(&path, "no checksums: another library wrote the file");
        } else if !is_ours {
            let reason = "has checksums, but the manifest does not cover its metadata: another library rewrote the manifest";
            report.uncovered(&path, reason);
        }
        report.keep(&path, found.problems);
        if !file.needs_extension && reader.columns_need_extension(&schema).await? {
            let reason = "holds what Lance v1 cannot, and the manifest does not say so: a peer would misread it";
            report.problem(Check::Flags, path, reason);
        }
        Ok(())
    }

    /// Every version's manifest can be read, every tag names one of them, and what no version names is listed.
    async fn verify_history(&self, report: &mut VerifyReport) -> Result<()> {
        let mut named = BTreeSet::new();
        let mut numbers = BTreeSet::new();
        if let Some((scheme, versions)) = versions::all(self.store()).await? {
            for version in versions {
                numbers.insert(version);
                match versions::read_manifest(self.store(), scheme, version).await {
                    Ok(Some((file, _))) => named.extend(file.manifest.files()),
                    // Removed by a cleanup since it was listed.
                    Ok(None) => {}
                    Err(error) => {
                        let path = versions::manifest_path(scheme, version);
                        report.problem(Check::Manifest, path, error);
                    }
                }
            }
        }
        self.verify_tags(&numbers, report).await?;
        for folder in [
            "data",
            "_deletions",
            versions::TRANSACTIONS,
            versions::VERSIONS,
        ] {
            for listed in self.store().list_recursive(folder).await? {
                let is_temporary = listed.name().starts_with(".tmp");
                let extensions: &[&str] = match folder {
                    "data" => &[".lance"],
                    "_deletions" => &[".arrow", ".bin"],
                    versions::TRANSACTIONS => &[".txn"],
                    _ => &[],
                };
                let is_ours = extensions.iter().any(|it| listed.path.ends_with(it));
                if is_temporary || (is_ours && !named.contains(&listed.path)) {
                    report.orphans.push(listed.path);
                }
            }
        }
        Ok(())
    }

    async fn verify_tags(&self, versions: &BTreeSet<u64>, report: &mut VerifyReport) -> Result<()> {
        for listed in self.store().list_recursive(TAGS).await? {
            let Some(name) = tag_name(&listed.path) else {
                continue;
            };
            let tag = match read_tag(self.store(), name).await {
                Ok(Some(tag)) => Ok(tag),
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            match tag {
                Ok(tag) if tag.branch.is_none() && !versions.contains(&tag.version) => {
                    let reason = format!(
                        "tag {name:?} names version {}, which does not exist",
                        tag.version
                    );
                    report.problem(Check::Tags, listed.path, reason);
                }
                Ok(_) => {}
                Err(error) => report.problem(Check::Tags, listed.path, error),
            }
        }
        Ok(())
    }
}
