//! Local folders.

mod beneath;
mod failures;
mod folder;
mod read;
