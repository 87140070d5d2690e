//! Retries of a statement: it is executed again after another commit changed what it relied on.

use pilum_store::Store;

use crate::error::{Error, Result};
use crate::versions::backoff::Backoff;

/// Counts how often a statement was executed.
#[derive(Debug)]
pub(crate) struct Retries {
    taken: u32,
    most: u32,
    backoff: Backoff,
}

impl Retries {
    pub(crate) fn new(store: &Store, retries: u32) -> Self {
        Self {
            taken: 1,
            most: retries.saturating_add(1),
            backoff: Backoff::new(store),
        }
    }

    /// Pauses before the next execution; the error itself, if another execution cannot help or was the last one allowed.
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
