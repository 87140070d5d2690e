//! The public face of the crate: text in, rows out.

mod answers;
mod bind;
mod evaluate;
mod parse;
mod prune;
mod round_trip;
mod rows;
