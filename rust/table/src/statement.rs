//! What statements over the rows of a table share: their options, and doing them again.

use std::collections::BTreeMap;

use pilum_expr::Expr;
use pilum_store::Durability;

use crate::backoff::Backoff;
use crate::commit::{CommitOptions, DEFAULT_RETRIES};
use crate::error::{Error, Result};
use crate::expect::Expectation;
use crate::scan::ScanOptions;
use crate::snapshot::Snapshot;
use crate::transaction::{Operation, Transaction};

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
    pub expect: Option<Expectation>,
    /// What an acknowledged commit promises.
    pub durability: Durability,
    /// Bytes that reading may hold at once.
    pub memory_limit: Option<u64>,
    /// Pieces read at once; the processors of this machine when not given.
    pub threads: Option<usize>,
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
        }
    }
}

impl StatementOptions {
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

    pub(crate) fn transaction(&self, read_version: u64, operation: Operation) -> Transaction {
        Transaction {
            properties: self.properties.clone(),
            ..Transaction::new(read_version, operation)
        }
    }
}

/// Counts how often a statement was executed.
#[derive(Debug)]
pub(crate) struct Turns {
    taken: u32,
    most: u32,
    backoff: Backoff,
}

impl Turns {
    pub(crate) fn new(retries: u32) -> Self {
        Self {
            taken: 1,
            most: retries.saturating_add(1),
            backoff: Backoff::new(),
        }
    }

    /// Executions so far, this one included.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Pauses before the next turn; the error itself, if another turn cannot help or was the last one.
    pub(crate) async fn again(&mut self, error: Error) -> Result<()> {
        let is_retryable = matches!(
            error,
            Error::Conflict {
                retryable: true,
                ..
            }
        );
        if !is_retryable || self.taken >= self.most {
            return Err(error);
        }
        self.taken += 1;
        self.backoff.wait(1).await;
        Ok(())
    }
}
