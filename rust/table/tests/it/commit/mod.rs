//! Tests of the room `commit` of the table.

mod commits;
mod compat;
mod conflict_document;
mod conflicts;
mod crashes;
pub(crate) mod fail_points;
mod kills;
mod power;
mod preconditions;
pub(crate) mod schedules;
mod stream_batches;
