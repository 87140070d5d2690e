//! Integration tests of the data file.

mod damage;
mod protos;
mod round_trip;
mod tables;
