//! Looking at every file of a version: checksums, counts, offsets, row ids, statistics; and at what no version names.
//!
//! What one data file says of itself is looked at by `pilum_file`; here are the claims that several files make together. The
//! report is data: [`VerifyReport`] serialises to the JSON that the command line prints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilum_file::{FileCheck, FileProblem, FileReader};
use pilum_format::paths::TAGS;
use pilum_format::{DataFile, Field, Fragment, REPLACED_FIELD, Schema, flags, tag_name};
use roaring::{RoaringBitmap, RoaringTreemap};
use serde::Serialize;

use crate::error::Result;
use crate::maintenance::progress::Progress;
use crate::read::snapshot::Snapshot;
use crate::versions::log as versions;
use crate::versions::tags::read_tag;

/// What verification found.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The version that was looked at; 0 = a data file on its own.
    pub version: u64,
    /// What is wrong; empty in a sound table.
    pub problems: Vec<Problem>,
    /// What no checksum covers, because another library wrote it, or the manifest: no problem, but no proof either.
    pub uncovered: Vec<Uncovered>,
    /// Files that no version names: left by writers that died, or about to be named by one at work.
    pub orphans: Vec<String>,
    /// Data files read.
    pub num_files: u64,
    /// Live rows counted.
    pub num_rows: u64,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The file, or the part of the table.
    pub path: String,
    /// What was looked at when it was found.
    pub check: Check,
    /// What is wrong with it.
    pub reason: String,
}

/// A file that cannot be proved to be as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Uncovered {
    /// The file.
    pub path: String,
    /// Which checksum it lacks.
    pub reason: String,
}

/// What verification looks at. In a report each is written as the words of [`Check::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Check {
    /// Manifests of this and of other versions can be read.
    Manifest,
    /// The transaction can be read, and its copies are equal.
    Transaction,
    /// The flags of the manifest say what its fragments hold.
    Flags,
    /// Fragments, field ids and data files fit each other.
    Ids,
    /// Counts of the manifest are those of the files.
    Counts,
    /// Data files are there, and all their bytes are as written and point where they may.
    Pages,
    /// Decoded values obey Arrow: offsets, UTF-8, dictionary keys.
    Values,
    /// Statistics bound the values and count their nulls.
    Statistics,
    /// Deletion files are as written and name rows that exist.
    Deletions,
    /// Row ids are there, unique and given out, and so are row versions.
    RowIds,
    /// Tags name versions that exist.
    Tags,
}

impl Check {
    /// The word for it in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Transaction => "transaction",
            Self::Flags => "flags",
            Self::Ids => "ids",
            Self::Counts => "counts",
            Self::Pages => "pages",
            Self::Values => "values",
            Self::Statistics => "statistics",
            Self::Deletions => "deletions",
            Self::RowIds => "row_ids",
            Self::Tags => "tags",
        }
    }
}

impl From<FileCheck> for Check {
    fn from(check: FileCheck) -> Self {
        match check {
            FileCheck::Schema => Self::Ids,
            FileCheck::Values => Self::Values,
            FileCheck::Statistics => Self::Statistics,
            _ => Self::Pages,
        }
    }
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
    fn problem(&mut self, check: Check, path: impl Into<String>, reason: impl ToString) {
        self.problems.push(Problem {
            path: path.into(),
            check,
            reason: reason.to_string(),
        });
    }

    /// Keeps what was found in one data file.
    pub(crate) fn keep(&mut self, path: &str, problems: Vec<FileProblem>) {
        for problem in problems {
            self.problem(problem.check.into(), path, problem.error);
        }
    }

    fn uncovered(&mut self, path: impl Into<String>, reason: &str) {
        self.uncovered.push(Uncovered {
            path: path.into(),
            reason: reason.to_owned(),
        });
    }
}

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

    /// The transaction can be read wherever it stands. A missing one is no damage: only conflict checks want it.
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

    /// A reader goes by the flags: what they leave out is misread, or refused for no reason.
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
        for file in &fragment.files {
            report.num_files += 1;
            if let Err(error) = self.verify_file(fragment, file, report).await {
                report.problem(Check::Pages, file.full_path(), error);
            }
        }
        let deleted = self.verify_deletions(fragment, report).await;
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
        let deleted = match self.read_context().deleted(fragment).await {
            Ok(deleted) => deleted?,
            Err(error) => {
                report.problem(Check::Deletions, path, error);
                return None;
            }
        };
        if file.crc32c.is_none() {
            report.uncovered(&path, "no checksum in the manifest");
        }
        if file.num_deleted_rows != deleted.len() {
            let reason = format!(
                "the manifest says that {} rows are deleted, the file names {}",
                file.num_deleted_rows,
                deleted.len()
            );
            report.problem(Check::Counts, path, reason);
        }
        Some(deleted)
    }

    /// Ids of live rows are unique in the table; those of deleted ones may live on in the fragment that took the row over.
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
        // Peers got the size wrong in some releases; whoever writes the checksum beside it knows it.
        let is_ours = file.metadata_crc32c.is_some();
        if is_ours && file.byte_len != 0 && file.byte_len != reader.num_bytes() {
            let reason = format!(
                "has {} bytes, the manifest says {}",
                reader.num_bytes(),
                file.byte_len
            );
            report.problem(Check::Counts, &path, reason);
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
        if !found.is_covered {
            report.uncovered(&path, "no checksums: another library wrote the file");
        } else if !is_ours {
            let reason = "has checksums, but the manifest does not cover its metadata: another library rewrote the manifest";
            report.uncovered(&path, reason);
        }
        report.keep(&path, found.problems);
        if reader.needs_extension() && !file.needs_extension {
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
                    // Cleaned up while we look.
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

/// Bad ids of one fragment: the first is named, the others are counted, so that a report stays short.
#[derive(Default)]
struct Repeated {
    first: Option<u64>,
    count: u64,
}

impl Repeated {
    fn add(&mut self, id: u64) {
        self.first.get_or_insert(id);
        self.count += 1;
    }

    fn reason(&self, what: &str) -> Option<String> {
        let first = self.first?;
        Some(match self.count - 1 {
            0 => format!("row id {first} {what}"),
            more => format!("row id {first} {what}, and {more} more"),
        })
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
