//! Tests of the room `write` of the table.

mod first_writes;
mod staged;
mod staged_dictionaries;
mod tables;
