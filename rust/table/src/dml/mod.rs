//! Statements that change a table: delete, update, merge, columns, settings.

mod assigned_values;
mod assignments;
pub(crate) mod columns;
pub(crate) mod delete;
pub(crate) mod distributed;
mod event;
pub(crate) mod merge;
pub(crate) mod outcome;
mod removal;
mod rewritten_files;
pub(crate) mod row_set;
mod settings;
pub(crate) mod statement;
pub(crate) mod update;
