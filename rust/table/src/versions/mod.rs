//! Which versions a table has, and how one is made visible.

pub(crate) mod backoff;
pub(crate) mod created_versions;
pub(crate) mod durable_put;
pub(crate) mod event;
pub(crate) mod external;
pub(crate) mod log;
pub(crate) mod tags;
pub(crate) mod timer;
