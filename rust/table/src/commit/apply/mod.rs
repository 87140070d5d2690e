//! What an operation makes of a manifest: a pure function from one version to the next.

mod next_version;
mod operations;
mod writable;

use next_version::NextVersion;
pub(crate) use next_version::Surroundings;
use pilum_format::{Manifest, Transaction};
pub(crate) use writable::check_writable;

use crate::commit::stream_batch::StreamBatch;
use crate::error::Result;

/// The version after `current` (`None`: the first one).
pub(crate) fn apply(
    transaction: &Transaction,
    current: Option<&Manifest>,
    around: &Surroundings<'_>,
) -> Result<Manifest> {
    if let Some(current) = current {
        check_writable(current)?;
    }
    let mut next = NextVersion::after(current, transaction, around)?;
    next.apply(&transaction.operation, around)?;
    next.recorded_compat = around.compat.or(next.recorded_compat);
    if let Some(batch) = StreamBatch::of(transaction)? {
        batch.record(current.map(|current| &current.config), &mut next.config)?;
    }
    Ok(next.finish())
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
