//! Integration tests of the table.

mod edges;
mod protos;
