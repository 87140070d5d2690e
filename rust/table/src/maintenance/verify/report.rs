//! The report of a verification: what is wrong, what is uncovered, and what no version names.

use pilum_file::{FileCheck, FileProblem};
use serde::Serialize;

/// The result of a verification.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The version that was looked at; 0 = a data file on its own.
    pub version: u64,
    /// What is wrong; empty in a sound table.
    pub problems: Vec<Problem>,
    /// Files that no checksum covers, because another library wrote them or the manifest: damage there may be unnoticed.
    pub uncovered: Vec<Uncovered>,
    /// Files that no version names: a writer died, or a writer at work has not committed them yet.
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
    /// Decoded values obey Arrow (offsets, UTF-8, dictionary keys) and their own type (precision of decimals, times of a day).
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
    pub(super) fn problem(&mut self, check: Check, path: impl Into<String>, reason: impl ToString) {
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

    pub(super) fn uncovered(&mut self, path: impl Into<String>, reason: &str) {
        self.uncovered.push(Uncovered {
            path: path.into(),
            reason: reason.to_owned(),
        });
    }
}

/// Bad row ids of one fragment: the first is named and the others are counted, so that a report stays short.
#[derive(Default)]
pub(super) struct Repeated {
    first: Option<u64>,
    count: u64,
}

impl Repeated {
    pub(super) fn add(&mut self, id: u64) {
        self.first.get_or_insert(id);
        self.count += 1;
    }

    pub(super) fn reason(&self, what: &str) -> Option<String> {
        let first = self.first?;
        Some(match self.count - 1 {
            0 => format!("row id {first} {what}"),
            more => format!("row id {first} {what}, and {more} more"),
        })
    }
}
