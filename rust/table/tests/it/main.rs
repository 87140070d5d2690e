//! Integration tests of the table.

mod commits;
mod edges;
mod golden;
mod protos;
mod support;
mod tables;
