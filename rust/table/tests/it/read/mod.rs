//! Tests of the room `read` of the table: counts, row ids, errors, events, pruning, memory.

mod counts;
mod errors;
mod events;
mod pruning;
mod row_id_memory;
mod row_ids;
mod scan_memory;
