//! Tests of the room `versions` of the table.

mod external;
mod requests;
