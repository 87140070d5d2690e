//! Maintenance: work that keeps a table sound and fast and leaves its rows as they are.

pub(crate) mod auto_cleanup;
pub(crate) mod cleanup;
pub(crate) mod compact;
pub(crate) mod describe;
mod event;
pub(crate) mod progress;
pub(crate) mod verify;
