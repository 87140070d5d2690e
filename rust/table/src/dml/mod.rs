//! Statements that change a table: delete, update, merge, columns, settings.

mod assigned_values;
mod assignments;
pub(crate) mod columns;
pub(crate) mod delete;
mod event;
pub(crate) mod merge;
pub(crate) mod outcome;
mod removal;
mod rewritten_files;
mod settings;
pub(crate) mod statement;
pub(crate) mod update;
