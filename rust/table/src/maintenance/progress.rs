//! How maintenance tells its caller how far it is.

use std::sync::Arc;

/// Told after each batch: rows written so far, rows to write in all. Neither ever gets less, and in the end they are equal;
/// the second one grows when rows have to be written again because others changed them.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;
