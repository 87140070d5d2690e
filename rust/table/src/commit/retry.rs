//! Retries: how often a commit or a statement lost against other commits, and the pause before the next attempt.

use pilum_store::Store;

use crate::error::{Error, Result};
use crate::versions::backoff::Backoff;

/// Counts the lost attempts of one commit or statement.
#[derive(Debug)]
pub(crate) struct Retries {
    lost: u32,
    most: u32,
    backoff: Backoff,
}

impl Retries {
    /// At most `most` lost attempts are repeated.
    pub(crate) fn new(store: &Store, most: u32) -> Self {
        Self {
            lost: 0,
            most,
            backoff: Backoff::new(store),
        }
    }

    /// Counts an attempt that another commit made useless.
    pub(crate) fn lose(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// The number of lost attempts.
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    /// True after more lost attempts than may be repeated.
    pub(crate) fn are_used_up(&self) -> bool {
        self.lost > self.most
    }

    /// Pauses before the next attempt; `rivals` is the number of commits of others during the last one.
    pub(crate) async fn pause(&mut self, rivals: u64) {
        self.backoff.wait(rivals).await;
    }

    /// Pauses before a statement is executed again; the error itself, if another execution cannot help or was the last one
    /// allowed.
    pub(crate) async fn again(&mut self, error: Error) -> Result<()> {
        let is_retryable = matches!(
            error,
            Error::Conflict {
                retryable: true,
                ..
            }
        );
        if !is_retryable {
            return Err(error);
        }
        self.lose();
        if self.are_used_up() {
            return Err(error);
        }
        self.pause(1).await;
        Ok(())
    }
}
