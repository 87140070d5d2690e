//! What statements over the rows of a table share: their options, and retrying them on a newer version.

use std::collections::BTreeMap;

use pilum_expr::Expr;
use pilum_format::{Compat, Operation, Transaction};
use pilum_store::Durability;

use crate::commit::precondition::Precondition;
use crate::commit::retry::Retries;
use crate::commit::{CommitOptions, Committed, DEFAULT_RETRIES, commit_id};
use crate::dataset::Dataset;
use crate::dml::event;
use crate::dml::outcome::StatementOutcome;
use crate::error::Result;
use crate::read::options::ScanOptions;
use crate::read::snapshot::Snapshot;
use crate::write::WriteOptions;

/// A statement that rewrites what it reads divides its memory limit by this number: so much is for reading.
pub(crate) const REWRITE_SHARE: u64 = 2;
/// Pages are not made smaller than this, however low the memory limit is.
const MIN_PAGE_BYTES: u64 = 64 << 10;

/// How to execute a statement: delete, update, compact.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StatementOptions {
    /// How often the statement is retried, on the newest version, when another commit changed the same rows.
    pub retries: u32,
    /// How often a commit is retried that lost its race against other commits that it does not conflict with.
    pub commit_retries: u32,
    /// The caller's id for the commit: the same id commits once.
    pub commit_id: Option<String>,
    /// Properties of the commit, of the caller's choice.
    pub properties: BTreeMap<String, String>,
    /// What must hold of the version that precedes the statement's version.
    pub expect: Option<Precondition>,
    /// Whether values that Lance v1 cannot hold are stored or refused; `None`: as the table has it. A table is lossless once a
    /// statement was committed with [`Compat::Lossless`].
    pub compat: Option<Compat>,
    /// What an acknowledged commit promises.
    pub durability: Durability,
    /// Bytes that may be held at once, beside the addresses and ids of the rows that are changed. An update or compaction
    /// reads with half of them and fills pages of a sixteenth, or of one row.
    pub memory_limit: Option<u64>,
    /// Scan tasks that run at once; as many as this machine has processors when not given.
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
            compat: None,
            durability: Durability::Full,
            memory_limit: None,
            threads: None,
            max_rows_per_file: 1 << 20,
        }
    }
}

impl StatementOptions {
    /// Executes a statement on the newest version, and retries it on the then newest one when another commit changed what it
    /// relied on. `once` is one execution, `operation` the operation that it commits.
    ///
    /// Every result goes back to the caller, which removes the files that its executions wrote and no version names.
    pub(crate) async fn execute<T, F>(
        &self,
        table: &Dataset,
        operation: &'static str,
        once: impl Fn(Snapshot) -> F,
    ) -> Result<T>
    where
        T: StatementOutcome,
        F: Future<Output = Result<T>>,
    {
        let result = self.execute_until_done(table, operation, once).await;
        event::statement(table.store(), operation, &result);
        result
    }

    async fn execute_until_done<T, F>(
        &self,
        table: &Dataset,
        operation: &'static str,
        once: impl Fn(Snapshot) -> F,
    ) -> Result<T>
    where
        T: StatementOutcome,
        F: Future<Output = Result<T>>,
    {
        let store = table.store().clone().with_durability(self.durability);
        let mut retries = Retries::new(&store, self.retries);
        loop {
            if let Some(done) = commit_id::of(&store, self.commit_id.as_deref()).await? {
                return Ok(T::without_rows(Committed::before(done)));
            }
            let base = Snapshot::newest(&store).await?;
            let base = base.with_verification(table.snapshot().verifies_checksums());
            let known = base.version();
            let done = match self.check_expected(&base, operation).await {
                Ok(()) => once(base).await,
                Err(error) => Err(error),
            };
            let Err(error) = done else {
                return done;
            };
            event::execution_failed(&store, operation, known, &error);
            if let Err(error) = retries.again(error).await {
                let id = self.commit_id.as_deref();
                let found = commit_id::instead_of(&store, id, known, error).await;
                return found.map(|found| T::without_rows(Committed::before(found)));
            }
        }
    }

    pub(crate) fn commit(&self) -> CommitOptions {
        CommitOptions {
            retries: self.commit_retries,
            commit_id: self.commit_id.clone(),
            expect: self.expect.clone(),
            compat: self.compat.filter(|it| *it == Compat::Lossless),
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

    /// As [`scan`](Self::scan), with the memory limit divided by `share`.
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
            compat: self.compat,
            ..WriteOptions::default()
        })
    }

    /// Layout of the files that are written. Pages wait in memory until they are full: a low memory limit makes them smaller.
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
