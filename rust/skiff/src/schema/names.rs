//! Names of columns that have a meaning of their own.

pub(crate) const KEY_SWITCH: &str = "$key_switch";
pub(crate) const ROW_INDEX: &str = "$row_index";
pub(crate) const RANGE_INDEX: &str = "$range_index";
pub(crate) const REMAINING: &str = "$remaining_row_bytes";
pub(crate) const SPARSE: &str = "$sparse_columns";
pub(crate) const OTHER: &str = "$other_columns";
