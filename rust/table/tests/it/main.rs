//! Integration tests of the table.
#![expect(
    clippy::unwrap_used,
    reason = "a test speaks by panicking, its fixtures too"
)]

mod acts;
mod cleaned;
mod cleanups;
mod columns;
mod commits;
mod compactions;
mod configs;
mod conflict_document;
mod conflicts;
mod crashes;
mod deletes;
mod every_file;
mod expectations;
mod external;
mod fail_points;
mod flips;
mod forge;
mod fuzz;
mod golden;
mod hostile;
mod kills;
mod meanwhile;
mod merge_memory;
mod merges;
mod model;
mod paths;
mod pieces;
mod power;
mod pruning;
mod requests;
mod reuse;
mod rewrite_memory;
mod row_ids;
mod scan_memory;
mod schedules;
mod support;
mod tables;
mod updates;
mod verifies;
