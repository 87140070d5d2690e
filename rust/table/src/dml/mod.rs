//! Statements that change a table: delete, update, merge, columns, settings.

mod assignments;
pub(crate) mod columns;
pub(crate) mod delete;
pub(crate) mod merge;
mod removal;
mod rewritten_files;
mod settings;
pub(crate) mod statement;
pub(crate) mod update;
