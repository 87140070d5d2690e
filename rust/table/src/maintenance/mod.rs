//! Maintenance: work that keeps a table sound and fast and leaves its rows as they are.

mod cleanup;
pub(crate) mod compact;
pub(crate) mod describe;
pub(crate) mod progress;
pub(crate) mod verify;
