//! One Lance v1 data file.
pub mod proto;
