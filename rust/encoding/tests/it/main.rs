//! The public surface: pages written, planned, fetched and decoded.

mod arrays;
mod hostile;
mod round_trip;
mod statistics;
mod tree;
