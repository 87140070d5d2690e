//! Tests of the room `read` of the table.

mod pruning;
mod row_ids;
mod scan_memory;
