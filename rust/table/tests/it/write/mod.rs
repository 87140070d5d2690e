//! Tests of the room `write` of the table.

mod staged;
mod tables;
