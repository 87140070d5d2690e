//! Tests of the room `maintenance` of the table.

mod cleaned;
mod cleanups;
mod compactions;
mod stored_values;
mod verifies;
