//! Object stores, remote and in memory.

#[cfg(feature = "cloud")]
mod cloud;
mod memory;
