//! What statements over the rows of a table share: their options, and doing them again.

use std::collections::BTreeMap;

use pilum_expr::Expr;
use pilum_format::{Operation, Transaction};
use pilum_store::Durability;

use crate::commit::precondition::Precondition;
use crate::commit::retry::Retries;
use crate::commit::{CommitOptions, Committed, DEFAULT_RETRIES, commit_id};
use crate::dataset::Dataset;
use crate::error::Result;
use crate::read::options::ScanOptions;
use crate::read::snapshot::Snapshot;
use crate::write::WriteOptions;

/// Of the memory limit of statements that rewrite what they read, one part in so many is for reading.
pub(crate) const REWRITE_SHARE: u64 = 2;
/// The smallest pages that a memory limit may force.
const MIN_PAGE_BYTES: u64 = 64 << 10;

/// How to execute a statement: delete, update, compact.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StatementOptions {
    /// How often the statement is executed again, on the newest version, when another commit changed the same rows.
    pub retries: u32,
    /// How often a commit is tried again that lost its race against others that it goes together with.
    pub commit_retries: u32,
    /// The caller's id for the commit: the same id commits once.
    pub commit_id: Option<String>,
    /// The caller's words about the commit.
    pub properties: BTreeMap<String, String>,
    /// What must hold of the version that the statement's follows.
    pub expect: Option<Precondition>,
    /// What an acknowledged commit promises.
    pub durability: Durability,
    /// Bytes that may be held at once, beside the addresses and ids of the rows that are changed. An update or compaction
    /// reads with half of them and fills pages of a sixteenth, or of one row.
    pub memory_limit: Option<u64>,
    /// Pieces read at once; the processors of this machine when not given.
    pub threads: Option<usize>,
    /// A data file that an update or merge writes is closed when it has so many rows.
    pub max_rows_per_file: u64,
}

impl Default for StatementOptions {
    fn default() -> Self {
        Self {
            retries: 10,
            commit_retries: DEFAULT_RETRIES,
            commit_id: None,
            properties: BTreeMap::new(),
            expect: None,
            durability: Durability::Full,
            memory_limit: None,
            threads: None,
            max_rows_per_file: 1 << 20,
        }
    }
}

impl StatementOptions {
    /// Executes a statement on the newest version, and again on the then newest one when another commit changed what it
    /// relied on. `once` is one execution, `ours` the operation that it commits, `before` what is said of a commit that an
    /// earlier call made.
    ///
    /// Every way out leads back to the caller, who removes what his executions wrote for each other.
    pub(crate) async fn execute<T, F>(
        &self,
        table: &Dataset,
        ours: &'static str,
        before: impl FnOnce(Committed) -> T,
        once: impl Fn(Snapshot) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let store = table.store().clone().with_durability(self.durability);
        let mut retries = Retries::new(&store, self.retries);
        loop {
            if let Some(done) = commit_id::of(&store, self.commit_id.as_deref()).await? {
                return Ok(before(Committed::before(done)));
            }
            let base = Snapshot::newest(&store).await?;
            let base = base.with_verification(table.snapshot().verifies_checksums());
            let known = base.version();
            let done = match self.check_expected(&base, ours).await {
                Ok(()) => once(base).await,
                Err(error) => Err(error),
            };
            let error = match done {
                Err(error) => retries.again(error).await,
                done => return done,
            };
            if let Err(error) = error {
                let id = self.commit_id.as_deref();
                let found = commit_id::instead_of(&store, id, known, error).await;
                return found.map(|found| before(Committed::before(found)));
            }
        }
    }

    pub(crate) fn commit(&self) -> CommitOptions {
        CommitOptions {
            retries: self.commit_retries,
            commit_id: self.commit_id.clone(),
            expect: self.expect.clone(),
            ..CommitOptions::default()
        }
    }

    /// Checks what the caller expects of the version that the statement is executed on.
    pub(crate) async fn check_expected(&self, base: &Snapshot, ours: &'static str) -> Result<()> {
        match &self.expect {
            Some(expected) => expected.check(base.store(), Some(base), ours).await,
            None => Ok(()),
        }
    }

    pub(crate) fn scan(&self, filter: Option<Expr>) -> ScanOptions {
        ScanOptions {
            filter,
            memory_limit: self.memory_limit,
            threads: self.threads,
            ..ScanOptions::default()
        }
    }

    /// As [`scan`](Self::scan), with one part of the memory limit in so many.
    pub(crate) fn scan_with(&self, share: u64, filter: Option<Expr>) -> ScanOptions {
        ScanOptions {
            memory_limit: self.memory_limit.map(|limit| limit / share),
            ..self.scan(filter)
        }
    }

    /// How an update or merge writes its files.
    pub(crate) fn files(&self) -> WriteOptions {
        self.layout(WriteOptions {
            max_rows_per_file: self.max_rows_per_file,
            ..WriteOptions::default()
        })
    }

    /// Layout of the files that are written. Pages wait in memory until they are full: under a low limit they are smaller than
    /// they might be.
    pub(crate) fn layout(&self, mut files: WriteOptions) -> WriteOptions {
        if let Some(limit) = self.memory_limit {
            let page_bytes = &mut files.layout.target_batch_bytes;
            *page_bytes = (*page_bytes).min((limit / 16).max(MIN_PAGE_BYTES));
        }
        files
    }

    pub(crate) fn transaction(&self, read_version: u64, operation: Operation) -> Transaction {
        Transaction {
            properties: self.properties.clone(),
            ..Transaction::new(read_version, operation)
        }
    }
}
