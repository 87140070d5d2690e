//! Integration tests of the data file.

mod protos;
