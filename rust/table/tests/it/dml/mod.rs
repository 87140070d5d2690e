//! Tests of the room `dml` of the table.

mod altered_columns;
mod assigned_values;
mod columns;
mod deletes;
mod meanwhile;
mod merge_memory;
mod merges;
mod rewrite_memory;
mod rewritten_files;
pub(crate) mod settings;
mod updates;
